"""Human labels of a run's answers as a calibration of the judge that graded them; no call is made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from . import __version__
from .calibration_result import REASONING_LIMIT, Calibration, calibration_record
from .errors import InputError, Problem, RunNotFound
from .finder import LOG, find_folder, resolve_runs_dir
from .folder import HEADER, RunFolder, make_runs_dir
from .gate import counted
from .judge_log import FROM_LABELS
from .labels import HasFolder, folder_of, newest
from .log import append_record
from .record import clip, latest
from .values import Outcome, TrialKey, utc_now

JUDGE = ("judgeModel", "resolvedJudgeModel", "judgeRunner", "judgeHash", "judgeN")
Runs = HasFolder | str | Path | Sequence[HasFolder | str | Path]


def agreement_with_labels(runs: Runs, *, runs_dir: str | Path = "runs") -> Calibration:
    """Holds the stored judge grades of labelled checks against the labels; nothing is judged anew.

    `runs` is a run, its id or its folder, or several of them, all graded by one judge and prompt. A label on a
    judge check counts for that check. A label on a whole trial counts where the case has a judge check and
    nothing else. The labels of a run count for its regrades too, which have the same answers, so that another
    judge can be held against them. A grade that was not decided is an abstention. One item a labelled check;
    its id is `run/case.condition.trial#check`.
    Raises RunNotFound where a run is not here, InputError where no label is on a judge check, or where
    the runs were graded by several judges.
    """
    folders = _folders(runs, runs_dir)
    items: list[dict[str, Any]] = []
    judges: dict[tuple[Any, ...], str] = {}
    for folder in folders:
        header = RunFolder(folder).read_header()
        for judge_hash, item in _items(folder, header):
            values = {**{key: header.get(key) for key in JUDGE}, "judgeHash": judge_hash}
            judges.setdefault(tuple(values.values()), folder.name)
            items.append(item)
    if not items:
        what = f"no label on a judge check in {counted(len(folders), 'run')}"
        fix = 'label some, such as run.label("case", "skill", 1, True, check=1)'
        raise InputError(Problem("labels", what, fix))
    if len(judges) > 1:
        named = ", ".join(
            f"{judge[2]} {judge[0]}, prompt {judge[3]} ({run})" for judge, run in judges.items()
        )
        raise InputError(
            Problem("labels", f"the labelled answers have several judges: {named}", "give runs of one")
        )
    head = {
        "ts": utc_now(),
        "source": FROM_LABELS,
        "calibration": FROM_LABELS,
        "calibrationHash": None,
        **dict(zip(JUDGE, next(iter(judges)), strict=True)),
        "repeats": 1,
        "partial": None,
        "runs": [folder.name for folder in folders],
        "usage": None,
        "durationS": None,
        "version": __version__,
    }
    return Calibration(calibration_record(head, items, ()))


def record_labels(runs: Runs, *, runs_dir: str | Path = "runs") -> Calibration:
    """`agreement_with_labels`, and its record goes into the log in `runs_dir`.

    Record them again when labels were added: of each run the newest record counts. Raises as
    `agreement_with_labels`, and InputError where the log's folder cannot be written.
    """
    result = agreement_with_labels(runs, runs_dir=runs_dir)
    home = resolve_runs_dir(runs_dir)
    make_runs_dir(home)
    append_record(home / LOG, result.record, named="the calibration's record", then="record the labels again")
    return result


def _folders(runs: Runs, runs_dir: str | Path) -> list[Path]:
    given = [runs] if isinstance(runs, str | Path) or not isinstance(runs, Sequence) else list(runs)
    home = resolve_runs_dir(runs_dir)
    found: dict[Path, None] = {}
    for run in given:
        folder = find_folder(run, home) if isinstance(run, str | Path) else folder_of(run)
        if folder is None:
            raise RunNotFound(Problem(str(run), f"no such run in {runs_dir}", "see `skilleval log`"))
        found[folder.resolve()] = None
    return list(found)


def _items(folder: Path, header: Mapping[str, Any]) -> Iterator[tuple[Any, dict[str, Any]]]:
    """The labelled judge checks of a run, each with the hash of the prompt that graded it."""
    labelled = _labelled(folder, header)
    if not labelled:
        return
    trials = latest(RunFolder(folder).lines())
    for (key, check), passed in labelled.items():
        grades = trials.get(key, {}).get("checks") or []
        grade = grades[check - 1] if check <= len(grades) else {}
        verdict = grade.get("passed")
        outcome = grade.get("outcome") or Outcome.GRADER_FAILED
        reason = grade.get("reason") or "the trial has no grade"
        yield (
            grade.get("judgeHash", header.get("judgeHash")),
            {
                "id": f"{folder.name}/{key}#{check}",
                "run": folder.name,
                "rubric": f"{key.case_id}#{check}",
                "label": passed,
                "verdicts": [verdict],
                "quoted": [grade.get("quoted")],
                "undecided": []
                if verdict is not None
                else [{"repeat": 1, "outcome": outcome, "reason": clip(reason)}],
                "reasoning": clip(grade["reasoning"], REASONING_LIMIT) if grade.get("reasoning") else None,
            },
        )


def _labelled(folder: Path, header: Mapping[str, Any]) -> dict[tuple[TrialKey, int], bool]:
    """The judge checks that people have labelled; of a regrade those of its run too, where the check is the same."""
    checks = _checks(header)
    found: dict[tuple[TrialKey, int], bool] = {}
    source = header.get("regradeOf")
    before = folder.parent / Path(source).name if isinstance(source, str) and source else None
    if before is not None and (before / HEADER).is_file():
        old = RunFolder(before).read_header()
        earlier = _checks(old)
        found = {
            (key, check): passed
            for (key, check), passed in _labelled(before, old).items()
            if earlier[key.case_id][check - 1] in checks.get(key.case_id, [])[check - 1 : check]
        }
    said = sorted(newest(folder).items(), key=lambda one: one[0][3] is not None)  # one on the check goes last
    for (case_id, condition, trial, check), (label, _) in said:
        of_case = [check.get("kind") for check in checks.get(case_id, [])]
        number = check or (1 if of_case == ["judge"] else 0)
        if 0 < number <= len(of_case) and of_case[number - 1] == "judge":
            key = (TrialKey(case_id, condition, trial), number)
            found.pop(key, None)  # one taken back takes back what was said of the run before it too
            if label is not None:
                found[key] = label.passed
    return found


def _checks(header: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {str(case["id"]): list(case["checks"]) for case in header["cases"]}
