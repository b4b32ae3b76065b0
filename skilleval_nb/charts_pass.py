"""Pass rates without the skill and with it: over all cases and for each, and by the cases' difficulty."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt

from .charts_data import (
    BASELINE,
    CASE_COLUMNS,
    CASE_EXTRAS,
    FATES,
    MODEL,
    SKILL,
    CaseRow,
    Source,
    about,
    apart,
    case_rows,
    listed,
    one_run,
    take,
)
from .charts_look import (
    BLUE,
    GREY,
    INK,
    LINE,
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
from .gate import Cell, Decision, counted, decide, rate_line
from .stats import wilson

MOST_CASES = 40
"""More cases than these are counted by what happened to them instead of being drawn one by one."""
TITLE = "Pass rate without and with the skill"
NO_CASE = "no case is in this log"


def pass_rates(run_or_frame: Source) -> alt.VConcatChart:
    """How often each case passes without the skill and with it, and the pass rate over all cases.

    Takes a run, or the case-level frame of one. A case's rate is over its measured trials; the overall rates
    are over the cases measured in both conditions, by majority, as the gate counts them, with Wilson's 95 %
    interval. Drops come first. Above 40 cases the chart counts cases by what happened to them.

    Raises InputError where the frame is not at case level, holds several runs or one condition only.
    """
    frame = take(run_or_frame, "pass_rates", "case", CASE_COLUMNS, (*CASE_EXTRAS, *MODEL))
    one_run(frame, "pass_rates")
    cases = case_rows(frame, "pass_rates")
    under = about(run_or_frame, frame)
    if not cases:
        return nothing(TITLE, NO_CASE, under)
    decision = decide([case.cells for case in cases])
    rows = sorted(_rows(cases), key=lambda row: (row["change"] is None, row["change"]))
    lower = _each(rows) if len(rows) <= MOST_CASES else _counted(rows)
    return finish([_overall(decision), lower], TITLE, _sentence(under, decision, rows), subtitle=under)


def _rows(cases: Sequence[CaseRow]) -> list[Row]:
    rows: list[Row] = []
    for case, name in zip(cases, apart([case.cells.case_id for case in cases]), strict=True):
        before, after = (_rate(cell) for cell in (case.cells.baseline, case.cells.skill))
        rows.append(
            {
                "case": name,
                "before": before,
                "after": after,
                "change": None if before is None or after is None else after - before,
                "counts": case.counts,
                "what": case.fate,
            }
        )
    return rows


def _rate(cell: Cell) -> float | None:
    return cell.passes / cell.measured if cell.measured else None


def _estimate(passed: int, whole: int) -> Row:
    """A share with its interval and its counts; without a denominator there is no rate."""
    low, high = wilson(passed / whole, whole) if whole else (None, None)
    return {
        "rate": passed / whole if whole else None,
        "low": low,
        "high": high,
        "counts": share(passed, whole),
    }


def _overall(decision: Decision) -> alt.LayerChart:
    """Two bars with their intervals and counts."""
    passed = {BASELINE: decision.baseline_pass, SKILL: decision.skill_pass}
    rows = [{"condition": name, **_estimate(count, decision.graded)} for name, count in passed.items()]
    y = alt.Y("condition:N", sort=None, title=None)
    text = "all cases measured in both conditions, with 95 % intervals"
    frame = table(rows, condition=str, rate=float, low=float, high=float, counts=str)
    base = alt.Chart(frame, title=heading(text))
    colour, _ = styles((BASELINE, SKILL), legend=False)
    bars = base.mark_bar(size=14).encode(x=percent_axis("rate", "cases passed"), y=y, color=colour)
    whiskers = base.mark_errorbar(color=INK, ticks=alt.MarkConfig(size=8), thickness=1.5).encode(
        x=percent_axis("low", "cases passed"), x2="high:Q", y=y
    )
    return alt.LayerChart(layer=[bars, whiskers, side_text(base, y)], width=WIDTH, height=2 * ROW)


def _each(rows: Sequence[Row]) -> alt.LayerChart:
    """One line a case: a circle without the skill, a diamond with it, and what lies between."""
    frame = table(rows, case=str, before=float, after=float, counts=str)
    y = alt.Y("case:N", sort=[row["case"] for row in rows], title=None, axis=alt.Axis(grid=True))
    base = alt.Chart(frame, title=heading(f"each case: trials passed / measured, {BASELINE} → {SKILL}"))
    moved = base.mark_rule(color=LINE, strokeWidth=2).encode(
        x=percent_axis("before", "trials passed"), x2="after:Q", y=y
    )
    colour, shape = styles((BASELINE, SKILL))
    layers: list[alt.Chart] = [moved]
    for name, column, size in ((BASELINE, "before", 130), (SKILL, "after", 80)):
        points = base.transform_calculate(condition=f"'{name}'").mark_point(filled=True, opacity=1, size=size)
        points = points.encode(x=percent_axis(column, "trials passed"), y=y, color=colour, shape=shape)
        layers.append(points)
    return alt.LayerChart(layer=[*layers, side_text(base, y)], width=WIDTH, height=ROW * len(rows))


def _counted(rows: Sequence[Row]) -> alt.LayerChart:
    """Too many cases to draw: how many of them flipped, and how many did not."""
    totals = {what: sum(row["what"] == what for row in rows) for what in FATES}
    counts = [
        {"what": what, "cases": total, "counts": f"{total:,} of {len(rows):,}"}
        for what, total in totals.items()
    ]
    y = alt.Y("what:N", sort=list(FATES), title=None)
    frame = table(counts, what=str, cases=int, counts=str)
    base = alt.Chart(frame, title=heading(f"what became of {len(rows):,} cases"))
    bars = base.mark_bar(size=14, color=INK).encode(
        x=alt.X("cases:Q", title="cases", axis=alt.Axis(tickCount=5, tickMinStep=1)), y=y
    )
    return alt.LayerChart(layer=[bars, side_text(base, y)], width=WIDTH, height=ROW * len(FATES))


def _sentence(under: str, decision: Decision, rows: Sequence[Row]) -> str:
    """The chart in words, with its numbers."""
    parts = [
        f"{under or 'pass rates'}: {' '.join(rate_line(decision).split())}"
        f" over {counted(decision.graded, 'case')}"
    ]
    if decision.graded:
        ends = [
            reach(wilson(passed / decision.graded, decision.graded))
            for passed in (decision.baseline_pass, decision.skill_pass)
        ]
        parts.append(f"{BASELINE} {ends[0]}, {SKILL} {ends[1]}")
    found = {what: [row["case"] for row in rows if row["what"] == what] for what in FATES}
    parts += [f"{what} {len(found[what])}: {listed(found[what])}" for what in FATES[:2] if found[what]]
    parts += [f"{what} {len(found[what])}" for what in FATES[2:] if found[what]]
    return "; ".join(parts)


TAGS = (1, 2, 3, None)


def difficulty(run_or_frame: Source) -> alt.VConcatChart:
    """The share of cases that pass at each difficulty, without the skill and with it.

    Takes a run, or the case-level frame of one. Counts cases measured in both conditions, by majority; the
    intervals are Wilson's at 95 %, over cases. Cases without a tag are counted as `untagged`.

    Raises InputError where the frame is not at case level, holds several runs or one condition only.
    """
    frame = take(run_or_frame, "difficulty", "case", (*CASE_COLUMNS, "difficulty"), (*CASE_EXTRAS, *MODEL))
    one_run(frame, "difficulty")
    title, under = "Pass rate by difficulty", about(run_or_frame, frame)
    cases = case_rows(frame, "difficulty")
    if not cases:
        return nothing(title, NO_CASE, under)
    rows: list[Row] = []
    said = []
    for tag in TAGS:
        group = [case for case in cases if _tag(case) == tag]
        if not group:
            continue
        found = decide([case.cells for case in group])
        name = f"{'untagged' if tag is None else tag} ({counted(len(group), 'case')})"
        both = [
            {"tag": name, "condition": condition, **_estimate(passed, found.graded)}
            for condition, passed in ((BASELINE, found.baseline_pass), (SKILL, found.skill_pass))
        ]
        rows += both
        words = [" ".join(filter(None, (r["counts"], reach((r["low"], r["high"]))))) for r in both]
        left_out = f", {counted(found.errors, 'case')} not measured in both" if found.errors else ""
        said.append(f"{name}: {BASELINE} {words[0]}, {SKILL} {words[1]}{left_out}")
    return finish([_tags(rows)], title, told(title, under, f"{'. '.join(said)}."), subtitle=under)


def _tag(case: CaseRow) -> int | None:
    return case.difficulty if case.difficulty in TAGS else None


def _tags(rows: Sequence[Row]) -> alt.LayerChart:
    frame = table(rows, tag=str, condition=str, rate=float, low=float, high=float, counts=str)
    order = list(dict.fromkeys(row["tag"] for row in rows))
    y = alt.Y("tag:N", sort=order, title="difficulty", axis=alt.Axis(grid=False, titlePadding=12))
    offset = alt.YOffset("condition:N", sort=[BASELINE, SKILL])
    base = alt.Chart(frame, title=heading("cases passed / measured in both conditions, with 95 % intervals"))
    colour, shape = styles((BASELINE, SKILL))
    rules = base.mark_rule(strokeWidth=2).encode(
        x=percent_axis("low", "cases passed"),
        x2="high:Q",
        y=y,
        yOffset=offset,
        color=alt.Color("condition:N", scale=alt.Scale(domain=[BASELINE, SKILL], range=[GREY, BLUE])),
    )
    points = base.mark_point(filled=True, opacity=1, size=110).encode(
        x=percent_axis("rate", "cases passed"), y=y, yOffset=offset, color=colour, shape=shape
    )
    text = side_text(base, y, yOffset=offset)
    return alt.LayerChart(layer=[rules, points, text], width=WIDTH, height=2 * ROW * len(order) + 10)
