"""Charts of runs. Each says in its `description` what it shows, so a reader who sees no picture misses nothing.

Every rate stands beside its counts, and conditions differ in shape as well as in colour. A saved picture cannot
follow the theme of the page that it is shown on, so it brings its own light ground: readable on both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import altair as alt
import polars as pl

from .controls import visible
from .errors import InputError, Problem
from .gate import CaseCells, Cell, Decision, counted, decide, percent_of, rate_line
from .record import CANDIDATE, REFERENCE, clip
from .text import title_line

if TYPE_CHECKING:
    from .runs import Run

MOST_CASES = 40
"""More cases than these are counted by what happened to them instead of being drawn one by one."""
NEEDED = ("case_id", "condition", "passes", "measured", "trials")
BASELINE, SKILL = "baseline", "with-skill"
GREY, BLUE, INK, GROUND = "#808080", "#1f77c9", "#2f353d", "#f7f8fa"
WIDTH = 400
ROW = 20
"""Height of a case's row in pixels."""
_NAMES = 12

_Row = dict[str, Any]


def pass_rates(run_or_frame: Run | pl.DataFrame) -> alt.VConcatChart:
    """How often each case passes without the skill and with it, and the pass rate over all cases.

    Takes a run, or the case-level frame of one. A case's rate is over its measured trials; the overall rates
    are over the cases measured in both conditions, by majority, as the gate counts them. Drops come first.
    Above 40 cases the chart counts cases by what happened to them.

    Raises InputError where the frame is not at case level, holds no case, several runs or one condition only.
    """
    title = ""
    if isinstance(run_or_frame, pl.DataFrame):
        frame = run_or_frame
    else:
        frame, title = run_or_frame.cases, visible(title_line(run_or_frame.record))
    cases = _cases(frame)
    decision = decide(cases)
    rows = sorted(_rows(cases), key=lambda row: (row["change"] is None, row["change"]))
    lower = _each(rows) if len(rows) <= MOST_CASES else _counted(rows)
    return _themed(
        alt.vconcat(_overall(decision), lower, spacing=14).resolve_scale(
            color="independent", shape="independent"
        ),
        title=title or "Pass rate without and with the skill",
        description=_sentence(title, decision, rows),
    )


def _cases(frame: pl.DataFrame) -> list[CaseCells]:
    missing = [name for name in NEEDED if name not in frame.columns]
    if missing:
        what = f"the frame has no column {', '.join(missing)}"
        raise InputError(
            Problem("pass_rates", what, 'give it a run, or run.cases, or load_log(level="case")')
        )
    runs = frame["run_id"].unique().sort().to_list() if "run_id" in frame.columns else []
    if len(runs) > 1:
        fix = f'keep one: frame.filter(pl.col("run_id") == {runs[-1]!r})'
        raise InputError(Problem("pass_rates", f"the frame holds {len(runs)} runs", fix))
    cells: dict[str, dict[str, Cell]] = {}
    for row in frame.select(NEEDED).iter_rows(named=True):
        if row["condition"] in (REFERENCE, CANDIDATE):
            cell = Cell(row["passes"], row["measured"], row["trials"])
            cells.setdefault(row["case_id"], {})[row["condition"]] = cell
    if not cells:
        raise InputError(
            Problem("pass_rates", "there is no case to draw", "run a set with at least one case")
        )
    for name in (REFERENCE, CANDIDATE):
        if not any(name in found for found in cells.values()):
            what = f"{name} was not run, and this chart compares {REFERENCE} and {CANDIDATE}"
            raise InputError(Problem("pass_rates", what, "give it a run of both conditions"))
    nothing = Cell(0, 0, 0)
    return [
        CaseCells(case_id, found.get(REFERENCE, nothing), found.get(CANDIDATE, nothing))
        for case_id, found in cells.items()
    ]


def _rows(cases: Sequence[CaseCells]) -> list[_Row]:
    rows: list[_Row] = []
    taken: dict[str, int] = {}
    for case in cases:
        name = visible(clip(case.case_id, 80))
        taken[name] = taken.get(name, 0) + 1
        before, after = (_rate(cell) for cell in (case.baseline, case.skill))
        rows.append(
            {
                "case": name if taken[name] == 1 else f"{name} ({taken[name]})",
                "before": before,
                "after": after,
                "change": None if before is None or after is None else after - before,
                "counts": f"{_count(case.baseline)} → {_count(case.skill)}",
                "what": _what(case),
            }
        )
    return rows


def _rate(cell: Cell) -> float | None:
    return cell.passes / cell.measured if cell.measured else None


def _count(cell: Cell) -> str:
    return f"{cell.passes}/{cell.measured}" if cell.measured else "not measured"


_WHATS = ("flipped to fail", "flipped to pass", "passes in both", "fails in both", "not measured in both")


def _what(case: CaseCells) -> str:
    if not case.graded:
        return _WHATS[4]
    before, after = case.baseline.verdict, case.skill.verdict
    if before == after:
        return _WHATS[2] if after else _WHATS[3]
    return _WHATS[1] if after else _WHATS[0]


def _colour(legend: alt.Legend | None = None) -> alt.Color:
    scale = alt.Scale(domain=[BASELINE, SKILL], range=[GREY, BLUE])
    return alt.Color("condition:N", scale=scale, legend=legend)


def _overall(decision: Decision) -> alt.LayerChart:
    """Two bars with their counts."""
    rows: list[_Row] = [
        {
            "condition": name,
            "rate": passed / decision.graded if decision.graded else 0.0,
            "counts": _share(passed, decision.graded),
        }
        for name, passed in ((BASELINE, decision.baseline_pass), (SKILL, decision.skill_pass))
    ]
    y = alt.Y("condition:N", sort=None, title=None)
    base = alt.Chart(pl.DataFrame(rows), title=_subtitle("all cases measured in both conditions"))
    bars = base.mark_bar(size=14).encode(x=_percent("rate", "cases passed"), y=y, color=_colour())
    return alt.LayerChart(layer=[bars, _label(base, y)], width=WIDTH, height=2 * ROW)


def _share(passed: int, graded: int) -> str:
    return f"{passed}/{graded} ({percent_of(passed, graded)}%)" if graded else "0/0 (n/a)"


def _each(rows: Sequence[_Row]) -> alt.LayerChart:
    """One line a case: a circle without the skill, a diamond with it, and what lies between."""
    order = [row["case"] for row in rows]
    schema = {"case": pl.String, "before": pl.Float64, "after": pl.Float64, "counts": pl.String}
    frame = pl.DataFrame([{name: row[name] for name in schema} for row in rows], schema=schema)
    y = alt.Y("case:N", sort=order, title=None, axis=alt.Axis(grid=True))
    base = alt.Chart(frame, title=_subtitle(f"each case: trials passed / measured, {BASELINE} → {SKILL}"))
    moved = base.mark_rule(color="#8a9099", strokeWidth=2).encode(
        x=_percent("before", "trials passed"), x2="after:Q", y=y
    )
    legend = alt.Legend(title=None, orient="bottom")
    shape = alt.Shape(
        "condition:N", scale=alt.Scale(domain=[BASELINE, SKILL], range=["circle", "diamond"]), legend=legend
    )
    layers: list[alt.Chart] = [moved]
    for name, column, size in ((BASELINE, "before", 130), (SKILL, "after", 80)):
        points = base.transform_calculate(condition=f"'{name}'").mark_point(filled=True, opacity=1, size=size)
        points = points.encode(x=_percent(column, "trials passed"), y=y, color=_colour(legend), shape=shape)
        layers.append(points)
    return alt.LayerChart(layer=[*layers, _label(base, y)], width=WIDTH, height=ROW * len(rows))


def _counted(rows: Sequence[_Row]) -> alt.LayerChart:
    """Too many cases to draw: how many of them flipped, and how many did not."""
    totals = {what: sum(row["what"] == what for row in rows) for what in _WHATS}
    frame = pl.DataFrame(
        [
            {"what": what, "cases": total, "counts": f"{total:,} of {len(rows):,}"}
            for what, total in totals.items()
        ]
    )
    y = alt.Y("what:N", sort=list(_WHATS), title=None)
    base = alt.Chart(frame, title=_subtitle(f"what became of {len(rows):,} cases"))
    bars = base.mark_bar(size=14, color=INK).encode(x=alt.X("cases:Q", title="cases"), y=y)
    return alt.LayerChart(layer=[bars, _label(base, y)], width=WIDTH, height=ROW * len(_WHATS))


def _percent(column: str, title: str) -> alt.X:
    axis = alt.Axis(format=".0%", values=[0, 0.25, 0.5, 0.75, 1])
    return alt.X(
        f"{column}:Q", title=f"{title} (%)", scale=alt.Scale(domain=[-0.03, 1.03], nice=False), axis=axis
    )


def _label(base: alt.Chart, y: alt.Y) -> alt.Chart:
    """The counts, in a column of their own at the right."""
    text = base.mark_text(align="left", color=INK, fontSize=12)
    labelled: alt.Chart = text.encode(x=alt.value(WIDTH + 14), y=y, text="counts:N")
    return labelled


def _subtitle(text: str) -> alt.TitleParams:
    return alt.TitleParams(
        text, anchor="start", fontSize=12, fontWeight="normal", color=INK, offset=6, frame="group"
    )


def _sentence(title: str, decision: Decision, rows: Sequence[_Row]) -> str:
    """The chart in words, with its numbers."""
    parts = [
        f"{title or 'pass rates'}: {' '.join(rate_line(decision).split())} over {counted(decision.graded, 'case')}"
    ]
    for what in _WHATS[:2]:
        names = [row["case"] for row in rows if row["what"] == what]
        if names:
            more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
            parts.append(f"{what} {len(names)}: {', '.join(names[:_NAMES])}{more}")
    parts += [f"{what} {count}" for what in _WHATS[2:] if (count := sum(row["what"] == what for row in rows))]
    return "; ".join(parts)


def _themed(chart: alt.VConcatChart, *, title: str, description: str) -> alt.VConcatChart:
    """The look of all our charts."""
    config: Mapping[str, Any] = {
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
    themed: alt.VConcatChart = (
        chart.properties(
            title=alt.TitleParams(title, anchor="start", fontSize=14, color=INK, offset=10),
            description=description,
            background=GROUND,
            padding=14,
        )
        .configure_axis(**config)
        .configure_legend(labelColor=INK, labelFontSize=12)
        .configure_view(stroke=None)
    )
    return themed
