"""What the log knows of judges: their calibrations as frames, and the error that was measured last."""

from __future__ import annotations

import mmap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .agreement import Measure, agreement_of, error_rates, share_words, verdict_of
from .errors import InputError, Problem
from .log import Losses, existing_log, parse_line
from .stats import Corrected, rogan_gladen

if TYPE_CHECKING:
    import polars as pl

KIND = "calibration"
FROM_LABELS = "labels"
"""The `source` of a calibration by human labels of a run's answers; that of a calibration file is `file`."""

_MARK = b'"kind":"calibration"'
_JUDGE = {
    "ts": "ts", "judge_model": "judgeModel", "resolved_judge_model": "resolvedJudgeModel",
    "judge_runner": "judgeRunner", "judge_hash": "judgeHash", "calibration": "calibration",
    "calibration_hash": "calibrationHash",
}  # fmt: skip
_MEASURES = ("accuracy", "sensitivity", "specificity", "kappa", "ac1")
_COUNTS = ("items", "judged", "abstained", "tp", "fn", "tn", "fp")
_DRIFT: Mapping[str, tuple[str, str]] = {
    "drift": ("verdict", "String"), "drift_items": ("n", "Int64"), "drift_up": ("up", "Int64"),
    "drift_down": ("down", "Int64"), "drift_flip_rate": ("flipRate", "Float64"),
    "drift_flip_low": ("flipLow", "Float64"), "drift_flip_high": ("flipHigh", "Float64"),
    "drift_p": ("p", "Float64"), "drift_check": ("check", "Int64"), "drift_p_checks": ("pChecks", "Float64"),
    "drift_could_miss": ("couldMiss", "Float64"), "drift_since": ("since", "Datetime"),
    "drift_since_judge": ("sinceJudge", "String"), "drift_same_judge": ("sameJudge", "Boolean"),
}  # fmt: skip


def calibration_records(log: str | Path) -> list[dict[str, Any]]:
    """The calibrations of a log, oldest first; whatever else it holds is skipped unread.

    Items that cannot be read are left out of their record. Lines that cannot are counted in one LogWarning.
    """
    path = Path(log)
    losses = Losses(path)
    found = []
    if path.exists() and path.stat().st_size:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as text:
            for start, line in _lines_with(text, _MARK):
                record, remark = parse_line(line)
                if record is None:
                    losses.left_out[1 + text[:start].count(b"\n")] = remark
                elif record.get("kind") == KIND:
                    found.append({**record, "items": _sound(record.get("items"))})
    losses.warn()
    return found


def _lines_with(text: mmap.mmap, mark: bytes) -> Iterator[tuple[int, bytes]]:
    """The lines that hold `mark`, each with its offset."""
    at = text.find(mark)
    while at >= 0:
        start, end = text.rfind(b"\n", 0, at) + 1, text.find(b"\n", at)
        end = len(text) if end < 0 else end
        yield start, text[start:end]
        at = text.find(mark, end)


def _sound(items: Any) -> list[dict[str, Any]]:
    return [
        item
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict)
        and isinstance(item.get("id"), str)
        and isinstance(item.get("label"), bool)
        and isinstance(item.get("verdicts"), list)
        and all(verdict is None or isinstance(verdict, bool) for verdict in item["verdicts"])
    ]


def load_calibrations(log: str | Path = "runs/log.jsonl", level: str = KIND) -> pl.DataFrame:
    """The calibrations of a log, oldest first: one row each, or with `level="item"` one row an item of each.

    `items` were to be judged, `judged` have a verdict; `tp`, `fn`, `tn`, `fp` count them with a human pass as
    the positive. A rate is null where nothing could be counted, its `_low` and `_high` (95 %) also where the
    formula gives no width. The columns `drift…` compare with the calibration of `drift_since`; null for a
    first one. At the item level `verdict` is the majority of the repeats that were decided, null for none.
    Raises InputError where there is no log, or no such level.
    """
    import polars as pl

    if level not in (KIND, "item"):
        raise InputError(Problem("level", f"there is no level {level!r}", f"one of {KIND}, item"))
    records = calibration_records(existing_log(log))
    made = _item_rows(records) if level == "item" else [_row(record) for record in records]
    types = _ITEM_COLUMNS if level == "item" else _columns()
    moment = pl.Datetime("ms", "UTC")
    raw = {name: pl.String if kind == "Datetime" else getattr(pl, kind) for name, kind in types.items()}
    rows = [{name: _fit(row.get(name), kind) for name, kind in types.items()} for row in made]
    times = [name for name, kind in types.items() if kind == "Datetime"]
    frame = pl.DataFrame(rows, schema=raw)
    return frame.with_columns(pl.col(times).str.to_datetime(strict=False, time_zone="UTC").cast(moment))


def _columns() -> dict[str, str]:
    measured = [f"{name}{end}" for name in _MEASURES for end in ("", "_low", "_high")]
    return {
        "ts": "Datetime",
        **dict.fromkeys([*_JUDGE, "source"][1:], "String"),
        "judge_n": "Int64",
        "repeats": "Int64",
        **dict.fromkeys(_COUNTS, "Int64"),
        **dict.fromkeys([*measured, "self_consistency", "self_ac1"], "Float64"),
        **{name: kind for name, (_, kind) in _DRIFT.items()},
        "partial": "String",
    }


_ITEM_COLUMNS: Mapping[str, str] = {
    "ts": "Datetime",
    **dict.fromkeys([*_JUDGE][1:], "String"),
    "item": "String",
    "rubric": "String",
    "label": "Boolean",
    "verdict": "Boolean",
    "decided": "Int64",
    "repeats": "Int64",
}
_PYTHON: Mapping[str, type | tuple[type, ...]] = {
    "String": str, "Datetime": str, "Int64": int, "Float64": (int, float), "Boolean": bool,
}  # fmt: skip


def _fit(value: Any, kind: str) -> Any:
    """`value` where it is of the column's type; what stands there otherwise reads as null."""
    fits = isinstance(value, _PYTHON[kind]) and (kind == "Boolean" or not isinstance(value, bool))
    return value if fits else None


def _row(record: Mapping[str, Any]) -> dict[str, Any]:
    agreement = agreement_of(record["items"])
    row = {name: record.get(key) for name, key in _JUDGE.items()}
    row |= {"judge_n": record.get("judgeN")} | {k: record.get(k) for k in ("source", "repeats", "partial")}
    row |= {name: getattr(agreement, name) for name in _COUNTS}
    for name in _MEASURES:
        measure: Measure = getattr(agreement, name)
        row[name] = measure.value
        row[f"{name}_low"], row[f"{name}_high"] = measure.ci or (None, None)
    row["self_consistency"], row["self_ac1"] = agreement.self_consistency.value, agreement.self_ac1.value
    drift = record.get("drift")
    if isinstance(drift, dict):
        row |= {name: drift.get(key) for name, (key, _) in _DRIFT.items()}
    return row


def _item_rows(records: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {name: record.get(key) for name, key in _JUDGE.items()}
        | {
            "item": item["id"],
            "rubric": item.get("rubric"),
            "label": item["label"],
            "verdict": verdict_of(item["verdicts"]),
            "decided": sum(verdict is not None for verdict in item["verdicts"]),
            "repeats": len(item["verdicts"]),
        }
        for record in records
        for item in record["items"]
    ]


@dataclass(frozen=True, slots=True)
class JudgeError:
    """The error of one judge and prompt as it was measured; counts as `JudgeAgreement` has them.

    `ts` is when it was measured last, `calibrations` are the names of what it was measured on.
    """

    tp: int
    fn: int
    tn: int
    fp: int
    ts: str
    calibrations: tuple[str, ...]

    @property
    def n(self) -> int:
        """Items with a person's verdict and the judge's."""
        return self.tp + self.fn + self.tn + self.fp

    @property
    def sensitivity(self) -> Measure:
        """The share of human passes that the judge passes."""
        return error_rates(self.tp, self.fn, self.tn, self.fp)["sensitivity"]

    @property
    def specificity(self) -> Measure:
        """The share of human fails that the judge fails."""
        return error_rates(self.tp, self.fn, self.tn, self.fp)["specificity"]

    def __str__(self) -> str:
        """Both rates with denominators and intervals, where they are from and of when."""
        passes = share_words(self.tp, self.tp + self.fn, self.sensitivity.ci)
        fails = share_words(self.tn, self.tn + self.fp, self.specificity.ci)
        where = f"{', '.join(self.calibrations)}, {self.ts[:10]}"
        return f"passes {passes} of what people pass, fails {fails} of what people fail ({where})"


def known_error(
    log: str | Path, *, judge_model: str, judge_runner: str, judge_hash: str, judge_n: int = 1
) -> JudgeError | None:
    """What calibrations say of exactly this judge (its resolved model, its votes) and prompt; None where none was made.

    Counts the newest whole calibration of each calibration file, and the human labels of each run as they were
    recorded last. None too where there is no log.
    """
    wanted = (judge_model, judge_runner, judge_hash, judge_n)
    newest: dict[str, Mapping[str, Any]] = {}
    labelled: dict[str, list[Mapping[str, Any]]] = {}
    last = ""
    for record in calibration_records(log):
        judge = tuple(record.get(key) for key in ("resolvedJudgeModel", "judgeRunner", "judgeHash"))
        if (*judge, record.get("judgeN") or 1) != wanted or record.get("partial"):
            continue
        name, last = str(record.get("calibration")), str(record.get("ts") or last)
        newest[name] = record
        if record.get("source") == FROM_LABELS:
            for run in record.get("runs") or ():
                labelled[str(run)] = [item for item in record["items"] if item.get("run") == run]
    if not newest:
        return None
    files = [record["items"] for record in newest.values() if record.get("source") != FROM_LABELS]
    found = agreement_of(chain.from_iterable([*files, *labelled.values()]))
    return JudgeError(found.tp, found.fn, found.tn, found.fp, last, tuple(newest))


def corrected(error: JudgeError, passed: int, judged: int) -> Corrected | None:
    """A judged pass rate without the judge's known error (`stats.rogan_gladen`).

    None where nothing was judged, or where the error is known for one kind of label only.
    """
    if not judged or error.sensitivity.value is None or error.specificity.value is None:
        return None
    return rogan_gladen(passed / judged, judged, error.tp, error.fn, error.tn, error.fp)
