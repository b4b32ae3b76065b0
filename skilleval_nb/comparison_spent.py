"""What a trial took on each side of a comparison: tokens in and out, latency, cost; each apart, absence kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from .comparison_sides import Side
from .gate import counted
from .stats import Ratio, ratio_ci

FEWEST = 3
"""Pairs of cases below which a ratio has no interval."""
_WORDS = {
    "input": ("tokens in", "{:,.0f}"),
    "output": ("tokens out", "{:,.0f}"),
    "latencyS": ("latency", "{:,.2f} s"),
    "costUsd": ("cost", "${:,.4f}"),
}
"""What a measure is called, and how it is written."""


@dataclass(frozen=True, slots=True)
class Spent:
    """What a trial took on each side, the executor's part only.

    `measure` is `input` (cached or not), `output`, `latencyS` or `costUsd`. `a` and `b` are means over the `pairs`
    cases that report it on both sides, of each case's mean over its measured trials; None where no case does.
    `ratio` is B / A, as `stats.ratio_ci` has it; where it or its interval is missing, `reason` says why.
    """

    measure: str
    pairs: int
    a: float | None
    b: float | None
    ratio: Ratio
    reason: str | None

    def on_disk(self) -> dict[str, Any]:
        """As plain values; None where nothing was reported."""
        low, high = self.ratio.ci or (None, None)
        return {
            "measure": self.measure,
            "pairs": self.pairs,
            "aMean": self.a,
            "bMean": self.b,
            "ratio": self.ratio.ratio,
            "ratioLow": low,
            "ratioHigh": high,
            "p": self.ratio.p,
            "reason": self.reason,
        }


def spent_between(a: Side, b: Side, case_ids: Iterable[str]) -> tuple[Spent, ...]:
    """Every measure, paired over the cases."""
    names = list(case_ids)
    return tuple(
        _spent(measure, [(a.mean(name, measure), b.mean(name, measure)) for name in names])
        for measure in _WORDS
    )


def _spent(measure: str, means: Iterable[tuple[float | None, float | None]]) -> Spent:
    pairs = [(x, y) for x, y in means if x is not None and y is not None]
    if not pairs:
        return Spent(measure, 0, None, None, Ratio(None, None, None, 0), "not reported on both sides")
    of_a, of_b = zip(*pairs, strict=True)
    if measure == "costUsd":  # tokens times a price: no uncertainty of its own
        ratio = Ratio(None, None, None, 0)
        return Spent(measure, len(pairs), fmean(of_a), fmean(of_b), ratio, "a price has no interval")
    ratio = ratio_ci(of_a, of_b)
    return Spent(measure, len(pairs), fmean(of_a), fmean(of_b), ratio, None if ratio.ci else _why(ratio))


def _why(ratio: Ratio) -> str:
    if ratio.n < FEWEST:
        return f"no interval from fewer than {FEWEST} cases with a value above 0"
    return "no interval: the same ratio in every case"


def spent_lines(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """The measures as a comparison's record holds them, in words; a cost only where there is one."""
    return [_line(row) for row in rows if row["measure"] != "costUsd" or row["aMean"] or row["bMean"]]


def _line(row: Mapping[str, Any]) -> str:
    name, form = _WORDS[row["measure"]]
    if not row["pairs"]:
        return f"{name}: {row['reason']}"
    line = f"{name} a trial: A {form.format(row['aMean'])}, B {form.format(row['bMean'])}"
    cases = counted(row["pairs"], "case")
    if row["ratio"] is None:
        return f"{line} ({cases})"
    interval = f"95% CI ×{row['ratioLow']:.2f}…{row['ratioHigh']:.2f}" if row["ratioLow"] else row["reason"]
    return f"{line}, ×{row['ratio']:.2f} ({interval}; {cases})"
