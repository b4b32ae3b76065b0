"""What trials took, counted before it is drawn: by condition and role, with how many report it, and as ratios."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from .charts_data import BASELINE, SKILL, Source, conditions_of, take
from .gate import counted
from .record import CANDIDATE, REFERENCE
from .runs import Run
from .stats import ratio_ci

KINDS = {
    "input_tokens": "input", "cache_read_tokens": "cache read", "cache_write_tokens": "cache write",
    "output_tokens": "output",
}  # fmt: skip
SENT = ("input_tokens", "cache_read_tokens", "cache_write_tokens")
NO_TRIAL = "no trial is recorded in this log"
_KEY = ("run_id", "case_id", "condition", "trial")
_CONTEXT = ("set", "delivery", "n", "resolved_model", "reused")


@dataclass(frozen=True)
class Spent:
    """What one role spent under one condition.

    `asked` counts the trials (of a judge: those that it judged), `reported` those whose numbers are known;
    `sums` and `known` are each column's sum, and how many trials know it.
    """

    role: str
    condition: str
    asked: int
    reported: int
    sums: Mapping[str, float]
    known: Mapping[str, int]

    def mean(self, column: str) -> float | None:
        """A trial's mean of a column, over the trials that know it; None where none does."""
        return self.sums[column] / self.known[column] if self.known[column] else None

    @property
    def name(self) -> str:
        """Who spent it."""
        return f"{self.role} · {self.condition}"

    @property
    def counts(self) -> str:
        """How many trials report it."""
        return f"{self.reported:,}/{self.asked:,} trials"


@dataclass(frozen=True)
class Ledger:
    """Trials, and one row a judged trial with what its judge took; None where no checks were given."""

    trials: pl.DataFrame
    judged: pl.DataFrame | None
    columns: tuple[str, ...]

    def spent(self, chart: str) -> list[Spent]:
        """One entry a role and condition."""
        return [
            entry
            for role, frame in (("executor", self.trials), ("judge", self.judged))
            if frame is not None and frame.height
            for entry in _spent(role, frame, self.columns, chart)
        ]

    def notes(self) -> list[str]:
        """What a reader has to know beside the numbers."""
        notes = []
        if self.judged is None:
            notes.append("the judge is not counted: give its checks too (checks=…)")
        elif self.judged.is_empty():
            notes.append("no judge check is in these trials")
        reused = self.trials["reused"].sum() if "reused" in self.trials.columns else 0
        if reused:
            notes.append(
                f"{reused:,} of {counted(self.trials.height, 'trial')} taken from earlier runs, and paid then"
            )
        return notes


def ledger(source: Source, checks: Any, chart: str, columns: tuple[str, ...]) -> Ledger:
    """Reads the trials' columns, and the judge's of the same name with `judge_` before it."""
    trials = take(source, chart, "trial", (*_KEY, *columns), _CONTEXT)
    if checks is None and not isinstance(source, Run):
        return Ledger(trials, None, columns)
    names = tuple(f"judge_{name}" for name in columns)
    found = take(source if checks is None else checks, chart, "check", (*_KEY, "judge_model", *names))
    complete = pl.any_horizontal(pl.col(*names).is_not_null()).all()
    sums = (
        pl.when(complete & pl.col(name).is_not_null().any()).then(pl.col(name).sum()).alias(column)
        for name, column in zip(names, columns, strict=True)
    )
    judgements = found.filter(pl.col("judge_model").is_not_null())
    return Ledger(trials, judgements.group_by(_KEY, maintain_order=True).agg(*sums), columns)


def _spent(role: str, frame: pl.DataFrame, columns: Sequence[str], chart: str) -> list[Spent]:
    groups = frame.group_by("condition").agg(
        pl.len().alias("asked"),
        pl.any_horizontal(pl.col(*columns).is_not_null()).sum().alias("reported"),
        pl.col(*columns).sum().name.prefix("sum_"),
        pl.col(*columns).is_not_null().sum().name.prefix("known_"),
    )
    found = {row["condition"]: row for row in groups.iter_rows(named=True)}
    return [
        Spent(
            role,
            label,
            found[name]["asked"],
            found[name]["reported"],
            {column: found[name][f"sum_{column}"] for column in columns},
            {column: found[name][f"known_{column}"] for column in columns},
        )
        for name, label in conditions_of(frame, chart).items()
    ]


def ratio_lines(trials: pl.DataFrame, columns: Sequence[str], what: str) -> list[str]:
    """The ratio with-skill / baseline of a sum of columns as a line: over cases, with its 95 % interval.

    A case's value is the mean of its trials that report it; no line where no case has both above 0.
    """
    cases = case_means(trials, columns)
    found = ratio_ci(cases["baseline"].to_list(), cases["skill"].to_list())
    if found.ratio is None:
        return []
    interval = f"95% CI ×{found.ci[0]:.2f}…×{found.ci[1]:.2f}, " if found.ci else ""
    return [f"{what}, {SKILL} / {BASELINE}: ×{found.ratio:.2f} ({interval}{counted(found.n, 'case')})"]


def case_means(trials: pl.DataFrame, columns: Sequence[str]) -> pl.DataFrame:
    """One row a case with its mean of a sum of columns at baseline and with the skill; null where not reported."""
    key = ("set", "case_id") if "set" in trials.columns else ("case_id",)
    total = pl.when(pl.any_horizontal(pl.col(*columns).is_not_null())).then(pl.sum_horizontal(*columns))
    means = (total.filter(pl.col("condition") == name).mean().alias(name) for name in (REFERENCE, CANDIDATE))
    return trials.group_by(key, maintain_order=True).agg(*means)


def amount(number: float) -> str:
    """A number of tokens or seconds, as short as it can be read."""
    return f"{number:,.0f}" if number >= 100 or number == int(number) else f"{number:.1f}"


def money(usd: float) -> str:
    """Dollars with three digits that count."""
    if not usd:
        return "$0"
    digits = 2 if abs(usd) >= 1 else 2 - math.floor(math.log10(abs(usd)))
    return f"{'−' if usd < 0 else ''}${abs(usd):,.{digits}f}"
