"""What became of each case: in one run as a table of both verdicts, over several runs case by case."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt
import polars as pl

from .charts_data import (
    BASELINE,
    BOTH,
    CASE_COLUMNS,
    CASE_EXTRAS,
    DOWN,
    FATES,
    MODEL,
    NEITHER,
    SKILL,
    UNMEASURED,
    UP,
    CaseRow,
    Source,
    about,
    apart,
    case_rows,
    listed,
    newest_runs,
    take,
    version,
)
from .charts_grid import FAIL, PASS, cell_words, cells, grid
from .charts_look import BLUE, GREY, INK, LINE, ORANGE, ROW, Row, finish, heading, nothing, table, told
from .errors import InputError, Problem
from .gate import counted

MOST_RUNS = 10
MOST_CASES = 40
STEP = 80
"""Width of a run's column in pixels."""
CELLS = (UP, DOWN, BOTH, NEITHER, UNMEASURED)
MARKS = {
    DOWN: ("triangle-down", ORANGE), UP: ("triangle-up", BLUE), BOTH: ("circle", GREY),
    NEITHER: ("cross", "#4a515b"), UNMEASURED: ("M-1,-0.2H1V0.2H-1Z", LINE),
}  # fmt: skip
VERDICTS = {True: PASS, False: FAIL, None: "not measured"}
TITLE = "What became of each case"
Told = tuple[Mapping[str, Any], Sequence[CaseRow]]
"""A run's first row, and its cases."""


def flips_matrix(run_or_frame: Source) -> alt.VConcatChart:
    """Which cases the skill flips: baseline verdict against the verdict with the skill.

    Takes a run, or a case-level frame. Of one run it is a table of both verdicts with the number of cases in
    each cell and their names. Of several runs of one set it is a matrix of cases and runs, oldest first and
    named by the skill's content hash, with the totals of each run below it: of more than 10 runs the newest
    10, of more than 40 cases those that flip most.

    Raises InputError where the frame is not at case level, holds several sets, or a run of one condition only.
    """
    frame = take(run_or_frame, "flips_matrix", "case", CASE_COLUMNS, (*CASE_EXTRAS, *MODEL))
    sets = frame["set"].unique().drop_nulls().sort().to_list() if "set" in frame.columns else []
    if len(sets) > 1:
        fix = f'keep one: frame.filter(pl.col("set") == {sets[0]!r})'
        raise InputError(Problem("flips_matrix", f"the frame holds {len(sets)} sets", fix))
    under = about(run_or_frame, frame)
    if frame.is_empty():
        return nothing(TITLE, "no case is in this log", under)
    if "run_id" not in frame.columns:
        frame = frame.with_columns(run_id=pl.lit("run"))
    parts, total = newest_runs(frame, MOST_RUNS)
    runs: list[Told] = [(part.row(0, named=True), case_rows(part, "flips_matrix")) for part in parts]
    if not any(cases for _, cases in runs):
        return nothing(TITLE, f"no case was run at {BASELINE} or {SKILL}", under)
    return _one(runs[0][1], under) if total == 1 else _several(runs, total, under)


def _one(cases: Sequence[CaseRow], under: str) -> alt.VConcatChart:
    names = apart([case.cells.case_id for case in cases])
    found: dict[tuple[str, str], list[str]] = {}
    for case, name in zip(cases, names, strict=True):
        pair = VERDICTS[case.cells.baseline.verdict], VERDICTS[case.cells.skill.verdict]
        found.setdefault(pair, []).append(name)
    rows = cells(found, CELLS, VERDICTS[None])
    text = f"{BASELINE} → {SKILL}: {'; '.join(map(cell_words, rows))}."
    table_of_both = grid(rows, CELLS, BASELINE, SKILL, "cases by both verdicts, majority of the trials")
    return finish([table_of_both], TITLE, told(TITLE, under, text), subtitle=under)


def _several(runs: Sequence[Told], total: int, under: str) -> alt.VConcatChart:
    labels = apart([_label(at, run) for at, (run, _) in enumerate(runs, total - len(runs) + 1)])
    fates = [{case.cells.case_id: case for case in cases} for _, cases in runs]
    ids = list(dict.fromkeys(name for found in fates for name in found))
    kept = sorted(ids, key=lambda name: _telling([found[name].fate for found in fates if name in found]))
    kept = kept[:MOST_CASES]
    names = dict(zip(ids, apart(ids), strict=True))
    rows = [
        {"case": names[name], "run": label, "fate": found[name].fate, "counts": found[name].counts}
        for name in kept
        for label, found in zip(labels, fates, strict=True)
        if name in found
    ]
    totals = [
        _total(label, fate, found) for label, found in zip(labels, fates, strict=True) for fate in FATES
    ]
    what = "each case, run by run"
    if len(ids) > len(kept):
        what = f"{len(kept)} of {len(ids):,} cases: those that flip most; the totals count all"
    if total > len(runs):
        what += f" (the newest {len(runs)} of {total:,} runs)"
    parts = [_matrix(rows, labels, [names[name] for name in kept], what), _totals(totals, labels)]
    return finish(parts, TITLE, told(TITLE, under, _sentence(runs, labels, fates, total)), subtitle=under)


def _label(number: int, run: Mapping[str, Any]) -> str:
    skill = "no hash" if run.get("skill_hash") is None else version(run["skill_hash"]).removeprefix("skill ")
    return f"{number} · {skill}"


def _telling(fates: Sequence[str]) -> tuple[int, int, int]:
    """Sorts drops first, then what differs between runs, then flips to pass."""
    known = set(fates) - {UNMEASURED}
    return -fates.count(DOWN), -len(known), -fates.count(UP)


def _total(label: str, fate: str, found: Mapping[str, CaseRow]) -> Row:
    number = sum(case.fate == fate for case in found.values())
    return {"run": label, "fate": fate, "cases": number, "counts": f"{number} of {len(found)}"}


def _matrix(rows: Sequence[Row], labels: Sequence[str], names: Sequence[str], what: str) -> alt.LayerChart:
    x = alt.X(
        "run:N", sort=list(labels), title="run, oldest first · skill content hash",
        scale=alt.Scale(domain=list(labels)),
        axis=alt.Axis(orient="top", labelAngle=0, labelFontSize=11, labelOverlap=False, grid=True),
    )  # fmt: skip
    y = alt.Y("case:N", sort=list(names), title=None, axis=alt.Axis(grid=True))
    base = alt.Chart(table(rows, case=str, run=str, fate=str, counts=str), title=heading(what))
    key = alt.Legend(title=None, orient="bottom", columns=3, symbolSize=90)
    shapes = [shape for shape, _ in MARKS.values()]
    colours = [colour for _, colour in MARKS.values()]
    points = base.mark_point(size=95, opacity=1, strokeWidth=1.5, filled=True).encode(
        x=x,
        y=y,
        shape=alt.Shape("fate:N", scale=alt.Scale(domain=list(MARKS), range=shapes), legend=key),
        color=alt.Color("fate:N", scale=alt.Scale(domain=list(MARKS), range=colours), legend=key),
        tooltip=["case", "run", "fate", "counts"],
    )
    return alt.LayerChart(layer=[points], width=STEP * len(labels), height=ROW * len(names))


def _totals(rows: Sequence[Row], labels: Sequence[str]) -> alt.LayerChart:
    """How many cases of each run had each fate, in numbers."""
    x = alt.X("run:N", sort=list(labels), title=None, axis=None, scale=alt.Scale(domain=list(labels)))
    y = alt.Y("fate:N", sort=list(FATES), title=None, axis=alt.Axis(grid=False, domain=False, ticks=False))
    base = alt.Chart(
        table(rows, run=str, fate=str, cases=int, counts=str), title=heading("all cases of each run")
    )
    text = base.mark_text(color=INK, fontSize=12).encode(x=x, y=y, text="counts:N")
    return alt.LayerChart(layer=[text], width=STEP * len(labels), height=ROW * len(FATES))


def _sentence(
    runs: Sequence[Told],
    labels: Sequence[str],
    fates: Sequence[Mapping[str, CaseRow]],
    all_runs: int,
) -> str:
    said = []
    for (run, cases), label, found in zip(runs, labels, fates, strict=True):
        counts = [f"{fate} {sum(case.fate == fate for case in cases)} of {len(cases)}" for fate in FATES]
        fell = apart([name for name, case in found.items() if case.fate == DOWN])
        when = f" ({run['ts']:%Y-%m-%d %H:%M} UTC)" if run.get("ts") else ""
        drops = f"; to fail: {listed(fell, 5)}" if fell else ""
        said.append(f"run {label}{when}: {', '.join(counts)}{drops}")
    more = f", the newest {len(runs)} of {all_runs:,}" if all_runs > len(runs) else ""
    return f"{counted(len(runs), 'run')}{more}. {'. '.join(said)}."
