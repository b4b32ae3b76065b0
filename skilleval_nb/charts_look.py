"""The look of all charts: colours and shapes, axes, labels, the frame around a chart, and how it says "nothing".

A saved picture cannot follow the theme of the page that it is shown on, so it brings its own light ground:
readable on both. What differs in colour differs in shape, place or wording too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import altair as alt
import polars as pl

from .gate import percent, percent_of
from .record import clip

GREY, BLUE, ORANGE, GREEN, PURPLE = "#808080", "#1f77c9", "#d55e00", "#00805e", "#a8478a"
YELLOW, SKY, BLACK = "#b07d00", "#3f9fd0", "#111418"
INK, GROUND, LINE = "#2f353d", "#f7f8fa", "#8a9099"
COLOURS = (GREY, BLUE, ORANGE, GREEN, PURPLE, YELLOW, SKY, BLACK)
SHAPES = (
    *("circle", "diamond", "square", "triangle-up", "cross"),
    *("triangle-down", "triangle-right", "triangle-left"),
)
WIDTH = 400
ROW = 20
"""Height of a row in pixels."""
GAP = 14
MOST_ROWS = 500
"""No chart's data has more rows: what is more than that is counted or cut before it is drawn."""
FIELDS = {str: pl.String, int: pl.Int64, float: pl.Float64, bool: pl.Boolean}

Row = dict[str, Any]


def table(rows: Sequence[Row], **types: type) -> pl.DataFrame:
    """Rows as the frame of a chart, with just the named columns; there may be none."""
    schema = {name: FIELDS[kind] for name, kind in types.items()}
    return pl.DataFrame([{name: row.get(name) for name in schema} for row in rows], schema=schema)


def share(passed: int, whole: int) -> str:
    """`2/3 (67%)`; without a denominator `0/0 (n/a)`."""
    return f"{passed}/{whole} ({percent_of(passed, whole)}%)" if whole else "0/0 (n/a)"


def reach(interval: tuple[float | None, float | None] | None) -> str:
    """An interval of a rate in words: `95% CI 21…94%`; empty where there is none."""
    low, high = interval or (None, None)
    return "" if low is None or high is None else f"95% CI {percent(low)}…{percent(high)}%"


def heading(text: str) -> alt.TitleParams:
    """The line above a part of a chart."""
    return alt.TitleParams(
        text, anchor="start", fontSize=12, fontWeight="normal", color=INK, offset=6, frame="group"
    )


def percent_axis(column: str, title: str, axis: alt.Axis | None = None) -> alt.X:
    """Rates from 0 to 100 %, with room for the marks at both ends."""
    shown = axis or alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    scale = alt.Scale(domain=[-0.03, 1.03], nice=False)
    return alt.X(f"{column}:Q", title=f"{title} (%)", scale=scale, axis=shown)


def styles(
    names: Sequence[str], field: str = "condition", *, legend: bool = True, columns: int = 4
) -> tuple[alt.Color, alt.Shape]:
    """A colour and a shape for each name, in the order of the palette, with one legend for both."""
    key = alt.Legend(title=None, orient="bottom", columns=columns, labelLimit=220) if legend else None
    colours, shapes = list(COLOURS[: len(names)]), list(SHAPES[: len(names)])
    return (
        alt.Color(f"{field}:N", scale=alt.Scale(domain=list(names), range=colours), legend=key),
        alt.Shape(f"{field}:N", scale=alt.Scale(domain=list(names), range=shapes), legend=key),
    )


def side_text(
    base: alt.Chart, y: alt.Y, column: str = "counts", *, dy: int = 0, at: int = WIDTH, **encoded: Any
) -> alt.Chart:
    """The counts, in a column of their own at the right of what is `at` pixels wide."""
    text = base.mark_text(align="left", color=INK, fontSize=12, limit=460, dy=dy)
    labelled: alt.Chart = text.encode(x=alt.value(at + GAP), y=y, text=f"{column}:N", **encoded)
    return labelled


def lines(texts: Sequence[str]) -> list[alt.Chart]:
    """Lines of text as a part of a chart; no part where there are none."""
    if not texts:
        return []
    rows: list[Row] = [{"at": at, "text": text} for at, text in enumerate(texts)]
    text = alt.Chart(table(rows, at=int, text=str)).mark_text(
        align="left", color=INK, fontSize=12, limit=WIDTH + 360
    )
    y = alt.Y("at:O", axis=None, title=None)
    return [text.encode(x=alt.value(0), y=y, text="text:N").properties(width=WIDTH, height=ROW * len(rows))]


def told(title: str, subtitle: str, words: str) -> str:
    """A description: what the chart is, of what, and its numbers in words."""
    return f"{title}{f' ({subtitle})' if subtitle else ''}: {words}"


def nothing(title: str, what: str, subtitle: str = "") -> alt.VConcatChart:
    """A chart that only says that there is nothing to draw, and why."""
    base = alt.Chart(table([{"what": what}], what=str))
    text = base.mark_text(align="left", color=INK, fontSize=13, limit=WIDTH + 160)
    said = text.encode(x=alt.value(0), y=alt.value(ROW), text="what:N")
    return finish(
        [said.properties(width=WIDTH + 160, height=2 * ROW)],
        title,
        told(title, subtitle, f"{what}."),
        subtitle=subtitle,
    )


def finish(
    parts: Sequence[Any], title: str, description: str, *, subtitle: str = "", spacing: int = GAP
) -> alt.VConcatChart:
    """The parts below each other, with title, description and the look of all our charts."""
    config: dict[str, Any] = {
        "labelColor": INK,
        "titleColor": INK,
        "titleFontWeight": "normal",
        "gridColor": "#80808040",
        "domainColor": "#80808080",
        "tickColor": "#80808080",
        "labelFontSize": 12,
        "titleFontSize": 12,
        "labelLimit": 200,
    }
    under: dict[str, Any] = (
        {"subtitle": clip(subtitle, 110), "subtitleColor": INK, "subtitleFontSize": 12} if subtitle else {}
    )
    return alt.VConcatChart(
        vconcat=list(parts),
        spacing=spacing,
        resolve=own_scales(),
        title=alt.TitleParams(title, anchor="start", fontSize=14, color=INK, offset=10, **under),
        description=description,
        background=GROUND,
        padding=14,
        config=alt.Config(
            axis=alt.AxisConfig(**config),
            legend=alt.LegendConfig(labelColor=INK, labelFontSize=12),
            view=alt.ViewConfig(stroke=None),
        ),
    )


def own_scales() -> alt.Resolve:
    """Each part has its own colours, shapes and axes."""
    own: Literal["independent"] = "independent"
    return alt.Resolve(scale=alt.ScaleResolveMap(color=own, shape=own, x=own, y=own))
