"""Tokens and money of a trial, by condition and by who spent them: the executor and the judge."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from .charts_data import Source, about
from .charts_ledger import KINDS, NO_TRIAL, SENT, Spent, amount, ledger, money, ratio_lines
from .charts_look import (
    BLUE,
    INK,
    ORANGE,
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

COLOURS = ("#1f4e79", "#5b9bd5", "#bcd6ef", ORANGE)
UNKNOWN = "not reported"
COLUMN = 84
"""Width of a column of numbers in pixels."""
TOGETHER = "together"
Checks = pl.DataFrame | pl.LazyFrame | None


def tokens(run_or_trials: Source, checks: Checks = None) -> alt.VConcatChart:
    """Tokens of a trial, by condition and by who spent them, in the four kinds that providers bill apart.

    Takes a run, or trials and, for the judge, their checks, of several runs too (`load_log(level="trial")`,
    `load_log(level="check")`). Bars are means over the trials that report tokens; a judge's are summed over its
    judgements of a trial, and count where all of those are known. A kind that nobody reports is called so and
    has no bar. Below them, the ratio with-skill / baseline over cases with its 95 % interval.

    Raises InputError where the frames are of another level, or hold more than 8 conditions.
    """
    title = "Tokens of a trial"
    found = ledger(run_or_trials, checks, "tokens", tuple(KINDS))
    under = about(run_or_trials, found.trials)
    rows = found.spent("tokens")
    if missing := _missing(rows, "tokens are"):
        return nothing(title, missing, under)
    notes = [
        *ratio_lines(found.trials, SENT, "tokens in"),
        *ratio_lines(found.trials, ["output_tokens"], "tokens out"),
        *found.notes(),
    ]
    words = ". ".join([*map(_kinds_in_words, rows), *notes])
    parts = [_stacks(rows), _numbers(rows), *lines(notes)]
    return finish(parts, title, told(title, under, f"{words}."), subtitle=under)


def cost(run_or_trials: Source, checks: Checks = None) -> alt.VConcatChart:
    """What a trial costs in USD, by condition and by who spent it.

    Takes what `tokens` takes. Bars are means over the trials whose cost is known, with the sum beside them;
    where it is not reported there is no bar. A cost of 0 is a reported one: a local model's.

    Raises InputError where the frames are of another level, or hold more than 8 conditions.
    """
    title = "Cost of a trial"
    found = ledger(run_or_trials, checks, "cost", ("cost_usd",))
    under = about(run_or_trials, found.trials)
    rows = found.spent("cost")
    if missing := _missing(rows, "a cost is"):
        return nothing(title, missing, under)
    notes = [*ratio_lines(found.trials, ["cost_usd"], "USD"), *found.notes()]
    words = ". ".join([*(f"{row.name} {_cost_words(row)}" for row in rows), *notes])
    return finish([_bars(rows), *lines(notes)], title, told(title, under, f"{words}."), subtitle=under)


def _missing(rows: Sequence[Spent], what: str) -> str:
    """Why there is nothing to draw; empty where there is."""
    if not rows:
        return NO_TRIAL
    if any(row.reported for row in rows):
        return ""
    return f"{what} not reported by any of {counted(sum(row.asked for row in rows), 'trial')}"


def _total(row: Spent) -> float | None:
    means = [mean for kind in KINDS if (mean := row.mean(kind)) is not None]
    return sum(means) if means else None


def _kind_text(row: Spent, kind: str) -> str:
    """A kind's mean; how many trials know it, where that is not all that report."""
    mean = row.mean(kind)
    if mean is None:
        return UNKNOWN
    some = "" if row.known[kind] == row.reported else f" ({row.known[kind]}/{row.reported})"
    return f"{amount(mean)}{some}"


def _kinds_in_words(row: Spent) -> str:
    total = _total(row)
    if total is None:
        return f"{row.name}: {UNKNOWN} ({row.counts})"
    kinds = ", ".join(f"{name} {_kind_text(row, kind)}" for kind, name in KINDS.items())
    return f"{row.name}: {amount(total)} tokens a trial over {row.counts} ({kinds})"


def _axis_of(names: Sequence[str], *, bare: bool = False) -> alt.Y:
    axis = alt.Axis(labelLimit=260, domain=not bare, ticks=not bare)
    return alt.Y("name:N", sort=list(names), title=None, scale=alt.Scale(domain=list(names)), axis=axis)


def _stacks(rows: Sequence[Spent]) -> alt.LayerChart:
    """A bar a row, one part a kind, and beside it how much it is together and over how many trials."""
    parts: list[Row] = []
    labels: list[Row] = []
    for row in rows:
        total = _total(row)
        head = UNKNOWN if total is None else f"{amount(total)} tokens"
        labels.append({"name": row.name, "counts": f"{head} · {row.counts}"})
        parts += [
            {"name": row.name, "kind": name, "order": at, "tokens": row.mean(kind), "counts": row.counts}
            for at, (kind, name) in enumerate(KINDS.items())
            if row.known[kind]
        ]
    y = _axis_of([row.name for row in rows])
    kinds = list(KINDS.values())
    bars = (
        alt.Chart(table(parts, name=str, kind=str, order=int, tokens=float, counts=str))
        .mark_bar(size=16, stroke="#ffffff", strokeWidth=1)
        .encode(
            x=alt.X("tokens:Q", title="tokens a trial (mean)", stack="zero", axis=alt.Axis(tickCount=5)),
            y=y,
            color=alt.Color(
                "kind:N",
                scale=alt.Scale(domain=kinds, range=list(COLOURS)),
                sort=kinds,
                legend=alt.Legend(title=None, orient="bottom"),
            ),
            order="order:Q",
            tooltip=["name", "kind", "tokens", "counts"],
        )
    )
    text = side_text(alt.Chart(table(labels, name=str, counts=str)), y)
    return alt.LayerChart(
        layer=[bars, text],
        width=WIDTH,
        height=1.3 * ROW * len(rows),
        title=heading("mean of the trials that report"),
    )


def _numbers(rows: Sequence[Spent]) -> alt.LayerChart:
    """The same in numbers: a column a kind."""
    columns = [*KINDS.values(), TOGETHER]
    cells: list[Row] = []
    for row in rows:
        total = _total(row)
        texts = [*(_kind_text(row, kind) for kind in KINDS), UNKNOWN if total is None else amount(total)]
        cells += [
            {"name": row.name, "kind": column, "text": text, "counts": row.counts}
            for column, text in zip(columns, texts, strict=True)
        ]
    axis = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, grid=False)
    text = (
        alt.Chart(table(cells, name=str, kind=str, text=str, counts=str))
        .mark_text(color=INK, fontSize=12)
        .encode(
            x=alt.X("kind:N", sort=columns, title=None, axis=axis, scale=alt.Scale(domain=columns)),
            y=_axis_of([row.name for row in rows], bare=True),
            text="text:N",
        )
    )
    return alt.LayerChart(
        layer=[text],
        width=COLUMN * len(columns),
        height=ROW * len(rows),
        title=heading("tokens a trial, in numbers"),
    )


def _cost_words(row: Spent) -> str:
    mean = row.mean("cost_usd")
    if mean is None:
        return f"{UNKNOWN} · {row.counts}"
    return f"{money(mean)} a trial · {money(row.sums['cost_usd'])} in all · {row.counts}"


def _bars(rows: Sequence[Spent]) -> alt.LayerChart:
    data = [{"name": row.name, "usd": row.mean("cost_usd"), "counts": _cost_words(row)} for row in rows]
    y = _axis_of([row.name for row in rows])
    base = alt.Chart(table(data, name=str, usd=float, counts=str))
    top = max(row["usd"] or 0 for row in data)
    scale = alt.Scale(domain=[0, top or 1])
    axis = alt.Axis(format="$~g", tickCount=4) if top else alt.Axis(format="$~g", values=[0])
    bars = base.mark_bar(size=16, color=BLUE).encode(
        x=alt.X("usd:Q", title="USD a trial (mean)", scale=scale, axis=axis), y=y
    )
    return alt.LayerChart(
        layer=[bars, side_text(base, y)],
        width=WIDTH,
        height=1.3 * ROW * len(rows),
        title=heading("mean of the trials whose cost is known"),
    )
