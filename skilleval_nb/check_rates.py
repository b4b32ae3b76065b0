"""Which checks of a set tell the skill from no skill: each one's pass rates under both conditions, and its class."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol

import polars as pl

from .controls import visible
from .errors import InputError, Problem, RunNotFound
from .folder import RunFolder
from .gate import counted
from .record import CANDIDATE, REFERENCE, clip
from .text import check_words

LINES = 20
"""The most checks that `check_lines` names."""
TEXT_LIMIT = 60
_KEYS = ("run_id", "case_id", "check")
_NEEDED = (*_KEYS, "condition", "kind", "passed")


class CheckClass(StrEnum):
    """What a check's results say of it, the most urgent first."""

    HURTS = "hurts"
    NOISY = "noisy"
    ALWAYS_FAILS = "always fails"
    ALWAYS_PASSES = "always passes"
    NOT_MEASURED = "not measured"
    DISCRIMINATES = "discriminates"


class CheckedRun(Protocol):
    """What is needed of a `Run`."""

    @property
    def record(self) -> Mapping[str, Any]:
        """The run as the log holds it."""

    @property
    def folder(self) -> Path | None:
        """Where its header is."""

    @property
    def checks(self) -> pl.DataFrame:
        """One row a check of a trial."""


def check_report(run: CheckedRun | pl.DataFrame) -> pl.DataFrame:
    """One row a check of a case (of each run, if several): its results at baseline and with the skill, and its class.

    Takes a run, or a frame as `run.checks` and `load_log(level="check")` give it. Of a run every check is
    told, also one that no trial came to; of a frame those that occur in it. Columns: run_id, case_id, check
    (number in its case, from 1), kind, text (what it asks for; null where the run's folder is not at hand),
    baseline_passed of baseline_measured, skill_passed of skill_measured (trials in which it was decided),
    baseline_rate and skill_rate (null: decided in no trial), undecided (trials of the two conditions in which
    it could not be decided), class. Other conditions than these two are left out.

    The class is the first that holds: `not measured` (decided in no trial of one of the conditions), `always
    passes`, `always fails` (in every trial of both), `noisy` (trials of one condition disagree and the rates
    differ by no more than 0.5), `discriminates` (skill_rate is above baseline_rate), `hurts` (below).
    It says what these trials showed: that chance did not do it is the run's evidence, not the class.
    Raises InputError where a frame lacks a column that is needed.
    """
    if isinstance(run, pl.DataFrame):
        return _classed(_counted(run).with_columns(text=pl.lit(None, pl.String)))
    counts = _counted(run.checks)
    known = _known(run)
    if known.is_empty():
        return _classed(counts.with_columns(text=pl.lit(None, pl.String)))
    run_id = str(run.record.get("runId", ""))
    counts = known.join(
        counts.drop("run_id", "kind"), on=("case_id", "check"), how="left", maintain_order="left"
    )
    return _classed(counts.with_columns(pl.lit(run_id).alias("run_id"), pl.col(*_COUNTS).fill_null(0)))


def check_lines(report: pl.DataFrame, limit: int = LINES) -> list[str]:
    """A check report in plain text: how many checks are of each class, and those that do not discriminate, worst first.

    At most `limit` checks are named; how many more there are is said.
    """
    if report.is_empty():
        return ["checks: no result of a check is recorded"]
    numbers = dict(report["class"].value_counts().iter_rows())
    parts = [f"{name} {numbers[name]:,}" for name in CheckClass if name in numbers]
    lines = [f"{counted(report.height, 'check')}: {' · '.join(parts)}"]
    rank = pl.col("class").replace_strict(
        {name.value: at for at, name in enumerate(CheckClass)}, return_dtype=pl.Int8
    )
    weak = report.filter(pl.col("class") != CheckClass.DISCRIMINATES).sort(rank, maintain_order=True)
    several = report["run_id"].n_unique() > 1
    lines += [_line(row, several=several) for row in weak.head(limit).iter_rows(named=True)]
    if weak.height > limit:
        lines.append(f"  and {weak.height - limit:,} more that do not discriminate")
    return [" ".join(visible(line).splitlines()) for line in lines]


_COUNTS = ("baseline_passed", "baseline_measured", "skill_passed", "skill_measured", "undecided")


def _counted(checks: pl.DataFrame) -> pl.DataFrame:
    """Passed, decided and undecided trials of each check."""
    if missing := [name for name in _NEEDED if name not in checks.columns]:
        what = f"is no frame of checks: it has no {', '.join(missing)}"
        raise InputError(Problem("check_report", what, 'give a run, run.checks or load_log(level="check")'))
    passed, decided = pl.col("passed"), pl.col("passed").is_not_null()
    baseline, skill = (pl.col("condition").eq_missing(name) for name in (REFERENCE, CANDIDATE))
    counts = {
        "baseline_passed": baseline & passed,
        "baseline_measured": baseline & decided,
        "skill_passed": skill & passed,
        "skill_measured": skill & decided,
        "undecided": (baseline | skill) & ~decided,
    }
    sums = (value.sum().cast(pl.Int64).alias(name) for name, value in counts.items())
    grouped = checks.lazy().group_by(_KEYS, maintain_order=True)
    return grouped.agg(pl.col("kind").first(), *sums).collect()


def _classed(counts: pl.DataFrame) -> pl.DataFrame:
    """Add rates and class, in the order of the report's columns."""
    passed = {name: pl.col(f"{name}_passed") for name in ("baseline", "skill")}
    measured = {name: pl.col(f"{name}_measured") for name in ("baseline", "skill")}
    rates = {
        f"{name}_rate": pl.when(measured[name] > 0).then(passed[name] / measured[name]) for name in measured
    }
    apart = (
        passed["skill"] * measured["baseline"] - passed["baseline"] * measured["skill"]
    )  # exact, not of rates
    mixed = pl.any_horizontal((passed[name] > 0) & (passed[name] < measured[name]) for name in measured)
    kind = (
        pl.when(pl.any_horizontal(measured[name] == 0 for name in measured))
        .then(pl.lit(CheckClass.NOT_MEASURED.value))
        .when(pl.all_horizontal(passed[name] == measured[name] for name in measured))
        .then(pl.lit(CheckClass.ALWAYS_PASSES.value))
        .when(pl.all_horizontal(passed[name] == 0 for name in measured))
        .then(pl.lit(CheckClass.ALWAYS_FAILS.value))
        .when(mixed & (2 * apart.abs() <= measured["baseline"] * measured["skill"]))
        .then(pl.lit(CheckClass.NOISY.value))
        .when(apart > 0)
        .then(pl.lit(CheckClass.DISCRIMINATES.value))
        .otherwise(pl.lit(CheckClass.HURTS.value))
    )
    return counts.select(
        *_KEYS,
        "kind",
        "text",
        "baseline_passed",
        "baseline_measured",
        rates["baseline_rate"].alias("baseline_rate"),
        "skill_passed",
        "skill_measured",
        rates["skill_rate"].alias("skill_rate"),
        "undecided",
        kind.alias("class"),
    )


def _known(run: CheckedRun) -> pl.DataFrame:
    """Every check that the run's cases have, in their order; without rows for a record of the origin's."""
    texts: dict[tuple[str, int], str] = {}
    if run.folder is not None:
        with suppress(RunNotFound):
            for case in RunFolder(run.folder).read_header()["cases"]:
                texts |= {(case["id"], at): check_words(raw) for at, raw in enumerate(case["checks"], 1)}
    rows = [
        (case["id"], at, kind, texts.get((case["id"], at)))
        for case in run.record["cases"]
        for at, kind in enumerate(case.get("checks") or (), 1)
    ]
    schema = {"case_id": pl.String, "check": pl.Int64, "kind": pl.String, "text": pl.String}
    return pl.DataFrame(rows, schema=schema, orient="row")


def _line(row: Mapping[str, Any], *, several: bool) -> str:
    place = f"{row['case_id']} check {row['check']}"
    text = f" {clip(row['text'], TEXT_LIMIT)}" if row["text"] else ""
    shown = [
        f"{name} {row[f'{name}_passed']}/{row[f'{name}_measured']}"
        if row[f"{name}_measured"]
        else f"{name} not measured"
        for name in (REFERENCE, CANDIDATE)
    ]
    undecided = f" · {counted(row['undecided'], 'trial')} undecided" if row["undecided"] else ""
    run = f"{row['run_id']} " if several else ""
    kind = row["kind"] or "kind not recorded"
    return f"  {row['class']}: {run}{place} ({kind}{text}) · {' → '.join(shown)}{undecided}"
