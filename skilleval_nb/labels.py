"""Human labels beside a run: what people say of its answers, one line each in `labels.jsonl`, never rewritten.

The newest line of a trial and check counts; one with `passed` null takes the label back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from .errors import InputError, Problem, RunNotFound
from .folder import HEADER, RunFolder
from .log import Losses, append_record, parse_line
from .values import utc_now

if TYPE_CHECKING:
    import polars as pl

LABELS = "labels.jsonl"
NOTE_LIMIT = 10_000
Key = tuple[str, str, int, int | None]
"""Case, condition, trial and check; check None is the whole trial."""


class HasFolder(Protocol):
    """What is needed of a `Run`."""

    @property
    def folder(self) -> Path | None:
        """Where its trials are; None where only the log knows it."""


@dataclass(frozen=True, slots=True)
class Label:
    """A person's verdict on one trial, or on one check of it.

    `check` counts from 1; None: the whole trial. `by` names the person where that is known.
    """

    case_id: str
    condition: str
    trial: int
    check: int | None
    passed: bool
    note: str
    ts: str
    by: str | None = None


def add_label(
    run: HasFolder | str | Path,
    case: str,
    condition: str,
    trial: int,
    passed: bool | None,  # noqa: FBT001 - a verdict, as the columns have it
    *,
    check: int | None = None,
    note: str = "",
    by: str | None = None,
) -> None:
    """Writes a person's verdict on a trial of a run (or its folder) down at once; None takes an earlier one back.

    `check` is the number of one check, from 1; None: the trial as a whole.
    Raises RunNotFound where the run has no folder or no such trial, InputError where the trial has no answer or
    the label cannot be, SkillevalError where it could not be written.
    """
    folder = folder_of(run)
    header = RunFolder(folder).read_header()
    checks = {str(item.get("id")): len(item.get("checks") or ()) for item in header["cases"]}
    problems = _problems(passed, note, by)
    if check is not None and case in checks and not _is_number(check, checks[case]):
        what = f"is {check!r}: the case {case!r} has checks 1 to {checks[case]}"
        problems.append(Problem("check", what, "give one, or None for the whole trial"))
    if problems:
        raise InputError(problems)
    _refuse_if_absent(folder, case, condition, trial)
    line = {
        "ts": utc_now(),
        "caseId": case,
        "condition": condition,
        "trial": trial,
        "check": check,
        "passed": passed,
        "note": note,
    }
    append_record(
        folder / LABELS, line if by is None else {**line, "by": by}, named="the label", then="label again"
    )


def read_labels(run: HasFolder | str | Path) -> list[Label]:
    """The labels that stand, in the order in which their newest lines were written; none where nobody labelled.

    Lines that cannot be read are left out and counted in one LogWarning. Raises RunNotFound where there is no
    folder.
    """
    return [label for label, _ in newest(run).values() if label is not None]


def newest(run: HasFolder | str | Path) -> dict[Key, tuple[Label | None, str]]:
    """What the newest line of each trial and check says, its label and its note; None is a label taken back.

    Reads and raises as `read_labels`.
    """
    path = folder_of(run) / LABELS
    losses = Losses(path)
    standing: dict[Key, tuple[Label | None, str]] = {}
    if path.exists():
        with path.open("rb") as file:
            for number, raw in enumerate(file, 1):
                line, remark = parse_line(raw)
                if line is None:
                    if remark:
                        losses.left_out[number] = remark
                    continue
                found = _label(line)
                if found is None:
                    losses.left_out[number] = "no label"
                    continue
                key, label = found
                note = line.get("note")
                standing.pop(key, None)
                standing[key] = (label, note if isinstance(note, str) else "")
    losses.warn()
    return standing


def labels_frame(run: HasFolder | str | Path) -> pl.DataFrame:
    """The labels that stand as a frame, one row each; columns as the fields of `Label`, `ts` in UTC."""
    import polars as pl

    types: dict[str, Any] = {"trial": pl.Int64, "check": pl.Int64, "passed": pl.Boolean}
    schema = {field.name: types.get(field.name, pl.String) for field in fields(Label)}
    frame = pl.DataFrame([asdict(label) for label in read_labels(run)], schema=schema)
    return frame.with_columns(
        pl.col("ts").str.to_datetime(strict=False, time_zone="UTC").cast(pl.Datetime("ms", "UTC"))
    )


def folder_of(run: HasFolder | str | Path) -> Path:
    """The folder of a run; raises RunNotFound where there is none."""
    folder = Path(run) if isinstance(run, str | Path) else run.folder
    if folder is None or not (folder / HEADER).is_file():
        where = str(folder) if folder else "the run"
        what = "there is no run's folder here, so there is nothing to label"
        raise RunNotFound(Problem(where, what, "give a run, or the folder that holds its run.json"))
    return folder


def _problems(passed: Any, note: Any, by: Any) -> list[Problem]:
    problems = []
    if passed is not None and not isinstance(passed, bool):
        problems.append(Problem("passed", f"is {passed!r}: it is True, False, or None to take a label back"))
    if not isinstance(note, str) or len(note) > NOTE_LIMIT:
        problems.append(Problem("note", f"must be a text of at most {NOTE_LIMIT:,} characters"))
    if by is not None and not (isinstance(by, str) and by.strip()):
        problems.append(Problem("by", f"is {by!r}: it is a name, or None"))
    return problems


def _label(line: Mapping[str, Any]) -> tuple[Key, Label | None] | None:
    """What a line says, with the trial and check it says it of; None where it is no label."""
    names = ("caseId", "condition", "trial", "check", "passed", "note", "by")
    case, condition, trial, check, passed, note, by = (line.get(name) for name in names)
    if not isinstance(case, str) or not isinstance(condition, str) or not isinstance(trial, int):
        return None
    if not _is_number(trial) or not (check is None or _is_number(check)):
        return None
    if not (passed is None or isinstance(passed, bool)):
        return None
    key = (case, condition, trial, check)
    if passed is None:
        return key, None
    name = by if isinstance(by, str) else None
    return key, Label(*key, passed, note if isinstance(note, str) else "", str(line.get("ts", "")), name)


def _is_number(value: Any, most: int | None = None) -> bool:
    """A whole number from 1."""
    whole = isinstance(value, int) and not isinstance(value, bool) and value >= 1
    return whole and (most is None or value <= most)


def _refuse_if_absent(folder: Path, case: str, condition: str, trial: int) -> None:
    key = (case, condition, trial)
    found = False
    for line in RunFolder(folder).lines():
        if (line.get("caseId"), line.get("condition"), line.get("trial")) == key:
            found = True
            if "text" in line:
                return
    if found:
        what = "has no answer, so there is nothing to label"
        raise InputError(Problem(f"{case}.{condition}.{trial}", what))
    raise RunNotFound(Problem(folder.name, f"there is no trial {case}.{condition}.{trial}"))
