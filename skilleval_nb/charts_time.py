"""How long answers take, by condition."""

from __future__ import annotations

import altair as alt
import polars as pl

from .charts_data import Source, about, conditions_of, take
from .charts_ledger import NO_TRIAL, amount, ratio_lines
from .charts_look import (
    BLACK,
    COLOURS,
    INK,
    ROW,
    WIDTH,
    Row,
    finish,
    heading,
    lines,
    nothing,
    side_text,
    table,
    told,
)
from .gate import counted

MOST_TICKS = 50
"""From this many trials on a condition is drawn as a box."""
TITLE = "Latency of a trial"
NEEDED = ("run_id", "case_id", "condition", "latency_s")
WIDE = 20
"""Where the longest takes this many times the median, the axis is logarithmic."""
Number = float | int | None


def latency(run_or_trials: Source) -> alt.VConcatChart:
    """How long the executor's answers take, by condition, in seconds.

    Takes a run, or trials (of several runs too). Below 50 trials a condition has a tick for each, from 50 on a
    box (the middle half) with a line from the 5th to the 95th percentile; the median is black. Below, the ratio
    with-skill / baseline over cases with its 95 % interval.

    Raises InputError where the frame is of another level, or holds more than 8 conditions.
    """
    frame = take(run_or_trials, "latency", "trial", NEEDED, ("set", "delivery", "n", "resolved_model"))
    under = about(run_or_trials, frame)
    if frame.is_empty():
        return nothing(TITLE, NO_TRIAL, under)
    if not frame["latency_s"].count():
        what = f"no latency is reported by any of {counted(frame.height, 'trial')}"
        return nothing(TITLE, what, under)
    labels = conditions_of(frame, "latency")
    rows = _summaries(frame, labels)
    notes = ratio_lines(frame, ["latency_s"], "time")
    words = ". ".join([*(f"{row['name']}: {row['counts']}" for row in rows), *notes])
    parts = [_drawn(frame, labels, rows), *lines(notes)]
    return finish(parts, TITLE, told(TITLE, under, f"{words}."), subtitle=under)


def _summaries(frame: pl.DataFrame, labels: dict[str | None, str]) -> list[Row]:
    """One row a condition: median, quartiles, 5th and 95th percentile, and how many trials they are of."""
    time = pl.col("latency_s")
    quantiles = {"p05": 0.05, "q1": 0.25, "median": 0.5, "q3": 0.75, "p95": 0.95}
    found = frame.group_by("condition").agg(
        pl.len().alias("trials"),
        time.count().alias("known"),
        time.max().alias("longest"),
        time.min().alias("shortest"),
        *(time.quantile(at, "linear").alias(name) for name, at in quantiles.items()),
    )
    by_name = {row["condition"]: row for row in found.iter_rows(named=True)}
    return [
        {**by_name[name], "name": label, "counts": _words(by_name[name])} for name, label in labels.items()
    ]


def _words(row: Row) -> str:
    trials = f"{row['known']:,}/{row['trials']:,} trials"
    if not row["known"]:
        return f"not reported · {trials}"
    if row["known"] == 1:
        return f"{amount(row['median'])} s · {trials}"
    if row["known"] < MOST_TICKS:
        reach = f"{amount(row['shortest'])}…{amount(row['longest'])} s"
    else:
        reach = f"middle half {amount(row['q1'])}…{amount(row['q3'])} s"
    return f"median {amount(row['median'])} s · {reach} · {trials}"


def _drawn(frame: pl.DataFrame, labels: dict[str | None, str], rows: list[Row]) -> alt.LayerChart:
    names = [row["name"] for row in rows]
    boxes = [row for row in rows if row["known"] >= MOST_TICKS]
    strips = {row["condition"]: row["name"] for row in rows if row["known"] < MOST_TICKS}
    ticks: list[Row] = [
        {"name": strips[row["condition"]], "seconds": row["latency_s"]}
        for row in frame.iter_rows(named=True)
        if row["condition"] in strips and row["latency_s"] is not None
    ]
    known = [row for row in rows if row["known"]]
    log = min(row["shortest"] for row in known) > 0 and any(
        row["longest"] > WIDE * row["median"] for row in known
    )
    scale = alt.Scale(type="log") if log else alt.Scale(zero=True)
    title = "seconds, log scale" if log else "seconds"
    y = alt.Y("name:N", sort=names, title=None, scale=alt.Scale(domain=names), axis=alt.Axis(grid=True))
    colour = alt.Color(
        "name:N", scale=alt.Scale(domain=names, range=list(COLOURS[: len(names)])), legend=None
    )
    types = {
        "name": str,
        "p05": float,
        "q1": float,
        "median": float,
        "q3": float,
        "p95": float,
        "counts": str,
    }
    base = alt.Chart(table(rows, **types))
    box = alt.Chart(table(boxes, **types))

    def x(column: str) -> alt.X:
        return alt.X(f"{column}:Q", title=title, scale=scale, axis=alt.Axis(tickCount=5))

    layers = [
        box.mark_rule(strokeWidth=1.5, color=INK).encode(x=x("p05"), x2="p95:Q", y=y),
        box.mark_bar(size=16).encode(x=x("q1"), x2="q3:Q", y=y, color=colour),
        alt.Chart(table(ticks, name=str, seconds=float))
        .mark_tick(size=16, thickness=2, opacity=0.75)
        .encode(x=x("seconds"), y=y, color=colour),
        base.mark_tick(size=26, thickness=3, opacity=1, color=BLACK).encode(x=x("median"), y=y),
        side_text(base, y),
    ]
    said = [
        *(["a tick a trial"] if ticks else []),
        *(["box: middle half, line: 5th to 95th percentile"] if boxes else []),
    ]
    what = f"executor's answers: {'; '.join(said)}; black: median"
    return alt.LayerChart(layer=layers, width=WIDTH, height=1.7 * ROW * len(names), title=heading(what))
