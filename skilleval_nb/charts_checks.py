"""Which checks tell the skill from no skill: each one's pass rate under both conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from .charts_data import BASELINE, NAMED, SKILL, Source, about, apart, one_run, shown, typed
from .charts_look import (
    INK,
    ROW,
    WIDTH,
    Row,
    finish,
    heading,
    nothing,
    percent_axis,
    reach,
    share,
    side_text,
    styles,
    table,
    told,
)
from .check_rates import CheckClass, check_report
from .errors import InputError, Problem
from .gate import counted
from .runs import Run
from .stats import wilson

MOST_CHECKS = 40
WORST = 20
"""How many checks are drawn where there are too many to draw them all."""
TITLE = "What each check tells apart"
NEEDED = (
    "case_id",
    "check",
    *(f"{side}_{end}" for side in (BASELINE, "skill") for end in ("passed", "measured")),
)
TYPES: dict[str, Any] = {
    "run_id": pl.String,
    "case_id": pl.String,
    "check": pl.Int64,
    "kind": pl.String,
    "text": pl.String,
    **dict.fromkeys(NEEDED[2:], pl.Int64),
    "class": pl.String,
}


def check_discrimination(run_or_frame: Source) -> alt.VConcatChart:
    """How often each check passes without the skill and with it, in trials, and what that says of the check.

    Takes a run, its checks (`run.checks`, `load_log(level="check")`), or a frame of `check_report`. The checks
    with the lowest difference come first; the intervals are Wilson's at 95 %, over the trials in which the check
    was decided. Above 40 checks the chart counts them by class and draws the 20 of the lowest difference.

    Raises InputError where the frame is of another kind or holds several runs.
    """
    fix = 'give it a run, load_log(level="check"), or check_report(…)'
    reported = _report(run_or_frame, fix)
    frame = typed(reported, "check_discrimination", TYPES, NEEDED, fix)
    one_run(frame, "check_discrimination")
    under = about(run_or_frame, frame if isinstance(run_or_frame, Run) else _context(run_or_frame))
    if frame.is_empty():
        return nothing(TITLE, "no check of a trial is in this log", under)
    rows = sorted(_rows(frame), key=lambda row: (row["change"] is None, row["change"]))
    many = len(rows) > MOST_CHECKS
    drawn = rows[:WORST] if many else rows
    what = "trials passed / decided, with 95 % intervals"
    if many:
        what = f"the {len(drawn)} of {len(rows):,} checks with the lowest difference: {what}"
    parts: list[Any] = [_each(drawn, what)]
    if many:
        parts.insert(0, _classes(rows))
    return finish(parts, TITLE, told(TITLE, under, _sentence(rows)), subtitle=under)


def _report(source: Any, fix: str) -> Any:
    """A report as it is; one made of a run or of a frame of checks."""
    if isinstance(source, Run):
        return check_report(source)
    if not isinstance(source, pl.DataFrame | pl.LazyFrame):
        return source
    names = source.collect_schema().names()
    if "baseline_passed" in names:
        return source
    if "passed" not in names:
        what = "is no frame of checks: it has neither passed nor baseline_passed"
        raise InputError(Problem("check_discrimination", what, fix))
    return check_report(source.lazy().collect())


def _context(source: pl.DataFrame | pl.LazyFrame) -> pl.DataFrame:
    wanted = ("run_id", "set", "resolved_model", "delivery", "n")
    names = [name for name in wanted if name in source.collect_schema().names()]
    return source.lazy().select(names).collect()


def _rows(frame: pl.DataFrame) -> list[Row]:
    rows: list[Row] = []
    found = list(frame.iter_rows(named=True))
    names = apart([f"{shown(row['case_id'], 40)} #{row['check']} {_kind(row)}" for row in found], 90)
    for row, name in zip(found, names, strict=True):
        sides = [(row[f"{side}_passed"] or 0, row[f"{side}_measured"] or 0) for side in (BASELINE, "skill")]
        rates = [passed / whole if whole else None for passed, whole in sides]
        known = None not in rates
        rows.append(
            {
                "name": name,
                "sides": sides,
                "rates": rates,
                "change": rates[1] - rates[0] if known else None,  # type: ignore[operator]
                "class": shown(row["class"], 30) if row.get("class") else "",
                "text": shown(row["text"], 80) if row.get("text") else "",
            }
        )
    return rows


def _kind(row: Row) -> str:
    return shown(row["kind"], 20) if row.get("kind") else ""


def _each(rows: Sequence[Row], what: str) -> alt.LayerChart:
    """Two lines a check, each with its interval and its counts; the class beside them."""
    points = [
        {"name": row["name"], "condition": condition, **_point(row, at)}
        for row in rows
        for at, condition in enumerate((BASELINE, SKILL))
    ]
    types = {
        "name": str,
        "condition": str,
        "rate": float,
        "low": float,
        "high": float,
        "counts": str,
        "text": str,
    }
    y = alt.Y(
        "name:N", sort=[row["name"] for row in rows], title=None, axis=alt.Axis(grid=True, labelLimit=280)
    )
    offset = alt.YOffset("condition:N", sort=[BASELINE, SKILL])
    base = alt.Chart(table(points, **types), title=heading(what))
    colour, shape = styles((BASELINE, SKILL))
    hover = ["name", "condition", "counts", "text"]
    lines = base.mark_rule(strokeWidth=1.4).encode(
        x=percent_axis("low", "trials passed"), x2="high:Q", y=y, yOffset=offset, color=colour
    )
    marks = base.mark_point(filled=True, opacity=1, size=70).encode(
        x=percent_axis("rate", "trials passed"), y=y, yOffset=offset, color=colour, shape=shape, tooltip=hover
    )
    text = side_text(base, y, yOffset=offset)
    return alt.LayerChart(layer=[lines, marks, text], width=WIDTH, height=1.7 * ROW * len(rows))


def _point(row: Row, at: int) -> Row:
    passed, whole = row["sides"][at]
    low, high = wilson(passed / whole, whole) if whole else (None, None)
    counts = share(passed, whole) if whole else CheckClass.NOT_MEASURED.value
    if at and row["class"] not in ("", counts):
        counts = f"{counts} · {row['class']}"
    return {
        "rate": row["rates"][at], "low": low, "high": high, "text": row["text"],
        "counts": counts,
    }  # fmt: skip


def _classes(rows: Sequence[Row]) -> alt.LayerChart:
    """How many checks are of each class."""
    found = [row["class"] or "no class" for row in rows]
    order = [name for name in (*CheckClass, *sorted(set(found) - set(CheckClass))) if name in found]
    counts = [
        {"class": str(name), "checks": found.count(name), "counts": f"{found.count(name):,} of {len(rows):,}"}
        for name in order
    ]
    y = alt.Y("class:N", sort=[str(name) for name in order], title=None)
    base = alt.Chart(
        table(counts, **{"class": str, "checks": int, "counts": str}),
        title=heading(f"{len(rows):,} checks by class"),
    )
    bars = base.mark_bar(size=14, color=INK).encode(
        x=alt.X("checks:Q", title="checks", axis=alt.Axis(tickCount=5, tickMinStep=1)), y=y
    )
    return alt.LayerChart(layer=[bars, side_text(base, y)], width=WIDTH, height=ROW * len(order))


def _sentence(rows: Sequence[Row]) -> str:
    """How many checks of each class there are, and those that do not discriminate, with their numbers."""
    found = [row["class"] for row in rows if row["class"]]
    numbers = [f"{name} {found.count(name)}" for name in CheckClass if name in found]
    head = counted(len(rows), "check")
    head += f" ({', '.join(numbers)})" if numbers else ""
    weak = [row for row in rows if row["class"] != CheckClass.DISCRIMINATES] or rows
    more = [f"and {len(weak) - NAMED} more"] if len(weak) > NAMED else []
    return f"{head}. {'; '.join([*map(_words, weak[:NAMED]), *more])}."


def _words(row: Row) -> str:
    parts = []
    for name, (passed, whole) in zip((BASELINE, SKILL), row["sides"], strict=True):
        interval = reach(wilson(passed / whole, whole)) if whole else ""
        parts.append(f"{name} {share(passed, whole)}, {interval}" if whole else f"{name} not measured")
    named = f"{row['name']} ({row['class']})" if row["class"] else row["name"]
    return f"{named}: {' → '.join(parts)}"
