"""A run's record as it goes into the log: its trials, weighed in the light of what the log knows already."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from .besides import comparisons
from .judged import judge_error
from .log import count_looks
from .record import build_record


def run_record(
    header: Mapping[str, Any], lines: Iterable[Mapping[str, Any]], log: Path, **known: Any
) -> dict[str, Any]:
    """`build_record` with the number of this look, the judge's error where the log tells it, and other conditions."""
    record = build_record(header, lines, look=look_of(header, log), **known)
    cases = record.pop("cases")  # they stand last: readers of the head stop there
    record["judgeError"] = judge_error(header, cases, log)
    if others := comparisons(cases, record["conditions"]):
        record["comparisons"] = others
    record["cases"] = cases
    return record


def look_of(header: Mapping[str, Any], log: Path) -> int:
    """The number of this look: the runs alike (set, model, judge, delivery) since one was confirmed, and this."""
    if not log.exists():
        return 1
    return 1 + count_looks(
        log,
        set_hash=header["setHash"],
        model=header["model"],
        judge_model=header["judgeModel"],
        delivery=header["delivery"],
        but=header["runId"],
    )
