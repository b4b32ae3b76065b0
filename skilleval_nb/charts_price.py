"""What each extra pass costs: what the skill takes more than the baseline, over the passes that it adds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from .charts_data import Source, about, apart, newest_runs, shown, take, version
from .charts_ledger import KINDS, NO_TRIAL, amount, money
from .charts_look import BLUE, INK, ROW, WIDTH, Row, finish, heading, lines, nothing, side_text, table, told
from .gate import counted, signed
from .record import CANDIDATE, REFERENCE
from .stats import delta_ci
from .values import Outcome

MOST_RUNS = 40
TITLE = "Cost of each extra pass"
NEEDED = ("run_id", "case_id", "condition", "outcome", *KINDS, "cost_usd")
USEFUL = ("ts", "set", "skill_hash", "delivery", "n", "resolved_model")
RULE = "extra a trial ÷ Δ pass rate; 95 % interval of Δ carried through"


def cost_per_extra_pass(run_or_trials: Source) -> alt.VConcatChart:
    """What the skill costs more than the baseline for each trial that passes because of it: in tokens, and in USD.

    Takes a run, or trials (of several runs: one row each, oldest first, the newest 40). Over the cases that are
    measured and report in both conditions: the mean difference a trial ÷ Δ, the mean difference in pass rate.
    The executor's alone, all four kinds of tokens counted alike. The interval carries Δ's 95 % interval
    through and has no upper end where that includes 0. Not defined where Δ is 0 or below; said in words.

    Raises InputError where the frame is not at trial level.
    """
    frame = take(run_or_trials, "cost_per_extra_pass", "trial", NEEDED, USEFUL)
    under = about(run_or_trials, frame)
    if frame.is_empty():
        return nothing(TITLE, NO_TRIAL, under)
    drawn, total = _runs(frame)
    names = apart([_name(run) for run in drawn], 70)
    tokens = [_priced(run["pairs"], "tokens", amount, " tokens") for run in drawn]
    usd = [_priced(run["pairs"], "usd", money, "") for run in drawn]
    parts: list[Any] = [_panel(names, tokens, "tokens", "tokens for each extra pass", ",.0f")]
    words = [f"{name}: {_in_words(row)}" for name, row in zip(names, tokens, strict=True)]
    notes = [] if total == len(drawn) else [f"the newest {len(drawn)} of {total:,} runs"]
    if any(row["extra"] for row in usd):
        parts.append(_panel(names, usd, "USD", "USD for each extra pass", "$~g"))
        words += [f"{name}: {_in_words(row)}" for name, row in zip(names, usd, strict=True)]
    elif any(row["extra"] is not None for row in usd):
        notes.append("cost in USD: $0 for every trial that reports it")
    else:
        notes.append("cost in USD: not reported in both conditions")
    text = f"{RULE}. {'. '.join([*words, *notes])}."
    return finish([*parts, *lines(notes)], TITLE, told(TITLE, under, text), subtitle=under)


def _runs(frame: pl.DataFrame) -> tuple[list[Row], int]:
    """The newest runs, oldest first, each with a row a case: the difference in pass rate, tokens and cost."""
    known = [name for name in USEFUL[:3] if name in frame.columns]
    measured = pl.col("outcome").is_in([Outcome.PASSED.value, Outcome.FAILED.value])
    spent = pl.when(pl.any_horizontal(pl.col(*KINDS).is_not_null())).then(pl.sum_horizontal(*KINDS))
    values = {
        "rate": pl.when(measured).then((pl.col("outcome") == Outcome.PASSED.value).cast(pl.Float64)),
        "tokens": spent.cast(pl.Float64),
        "usd": pl.col("cost_usd"),
    }
    means = (
        value.filter(pl.col("condition") == condition).mean().alias(f"{name}_{condition}")
        for name, value in values.items()
        for condition in (REFERENCE, CANDIDATE)
    )
    cases = frame.group_by("run_id", "case_id", maintain_order=True).agg(
        *(pl.col(name).first() for name in known), *means
    )
    cases = cases.with_columns(
        (pl.col(f"{name}_{CANDIDATE}") - pl.col(f"{name}_{REFERENCE}")).alias(name) for name in values
    )
    parts, total = newest_runs(cases, MOST_RUNS)
    return [{**part.row(0, named=True), "pairs": part.select(*values)} for part in parts], total


def _name(run: Row) -> str:
    when = f"{run['ts']:%m-%d %H:%M}" if run.get("ts") else shown(run["run_id"], 24)
    parts = [shown(run["set"], 30)] if "set" in run else []
    return " · ".join([*parts, version(run.get("skill_hash")).removeprefix("skill "), when])


def _priced(pairs: pl.DataFrame, unit: str, write: Any, noun: str) -> Row:
    """One run's price in a unit, or why there is none."""
    measured = pairs["rate"].count()
    both = pairs.select("rate", unit).drop_nulls()
    none = {"price": None, "low": None, "high": None, "open": False, "extra": None}
    if not measured:
        return {
            **none,
            "first": "not measured",
            "counts": f"no case measured in both conditions (of {pairs.height})",
        }
    if both.is_empty():
        return {
            **none,
            "first": "not reported",
            "counts": f"in both conditions ({counted(measured, 'case')})",
        }
    differences = both["rate"].to_list()
    delta, extra = sum(differences) / len(differences), float(both[unit].mean())  # type: ignore[arg-type]
    sign = "+" if extra > 0 else "−" if extra < 0 else "±"
    over = (
        counted(both.height, "case")
        if both.height == measured
        else f"{both.height} of {counted(measured, 'case')}"
    )
    shown_extra = f"{sign}{write(abs(extra))}{noun} a trial"
    how = f"{shown_extra}, Δ {signed(delta)}% over {over}"
    if delta <= 0:
        return {**none, "extra": extra, "first": "not defined: no extra pass", "counts": how}
    if extra <= 0:
        return {**none, "extra": extra, "first": "costs no more", "counts": how}
    low, high = delta_ci(differences)
    price = extra / delta
    reach = f"95% CI {write(extra / high)}…{write(extra / low) if low > 0 else 'no upper end'}"
    return {
        "price": price,
        "low": extra / high,
        "high": extra / low if low > 0 else None,
        "open": low <= 0,
        "extra": extra,
        "first": f"{write(price)}{noun} ({reach})",
        "counts": f"{shown_extra} ÷ Δ {signed(delta)}% over {over}",
    }


def _in_words(row: Row) -> str:
    return f"{row['first']}: {row['counts']}"


def _panel(names: Sequence[str], rows: Sequence[Row], what: str, title: str, form: str) -> alt.LayerChart:
    ends = [row[end] for row in rows for end in ("price", "high") if row[end] is not None]
    prices = [row["price"] for row in rows if row["price"] is not None]
    edge = min(1.1 * max(ends, default=1), 6 * max(prices, default=1))
    data = [
        {**row, "name": name, "end": _end(row, edge), "arrow": edge if _end(row, edge) == edge else None}
        for name, row in zip(names, rows, strict=True)
    ]
    types = {
        "name": str,
        "price": float,
        "low": float,
        "end": float,
        "arrow": float,
        "first": str,
        "counts": str,
    }
    y = alt.Y(
        "name:N",
        sort=list(names),
        title=None,
        scale=alt.Scale(domain=list(names)),
        axis=alt.Axis(grid=True, labelLimit=280),
    )
    scale = alt.Scale(domain=[0, edge], nice=False)
    axis = alt.Axis(format=form, tickCount=4) if prices else alt.Axis(values=[0])
    base = alt.Chart(table(data, **types), title=heading(f"{what}: {RULE}"))

    def x(column: str) -> alt.X:
        return alt.X(f"{column}:Q", title=title, scale=scale, axis=axis)

    layers = [
        base.transform_filter("isValid(datum.low)")
        .mark_rule(strokeWidth=2, color=BLUE)
        .encode(x=x("low"), x2="end:Q", y=y),
        base.transform_filter("isValid(datum.arrow)")
        .mark_point(shape="triangle-right", filled=True, opacity=1, size=90, color=BLUE)
        .encode(x=x("arrow"), y=y),
        base.mark_point(shape="diamond", filled=True, opacity=1, size=90, color=INK).encode(
            x=x("price"), y=y
        ),
        side_text(base, y, "first", dy=-7),
        side_text(base, y, dy=8),
    ]
    return alt.LayerChart(layer=layers, width=WIDTH, height=1.9 * ROW * len(names))


def _end(row: Row, edge: float) -> float | None:
    """Where an interval's line ends in the picture."""
    if row["price"] is None:
        return None
    return edge if row["open"] or row["high"] > edge else float(row["high"])
