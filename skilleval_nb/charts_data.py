"""What charts are drawn from: a run or a frame of the right level, and names that may come from strangers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from .controls import visible
from .errors import InputError, Problem
from .frames import frame_of, schema_of
from .gate import CaseCells, Cell, counted
from .record import CANDIDATE, REFERENCE, clip
from .runs import Run
from .text import title_line

Source = Run | pl.DataFrame | pl.LazyFrame
NAMED = 12
"""The most names that a description lists."""
MOST_CONDITIONS = 8
BASELINE, SKILL = "baseline", "with-skill"
UP, DOWN, BOTH, NEITHER = "flipped to pass", "flipped to fail", "passes in both", "fails in both"
UNMEASURED = "not measured in both"
FATES = (DOWN, UP, BOTH, NEITHER, UNMEASURED)
"""What can become of a case, drops first."""


def take(
    source: Source, chart: str, level: str, needed: Sequence[str], useful: Sequence[str] = ()
) -> pl.DataFrame:
    """The columns of a level that a chart needs, and those useful ones that are there, typed as declared.

    Takes a run, or a frame of that level, lazy or not. Raises InputError where it is something else, lacks a
    needed column, or holds values of another type.
    """
    if isinstance(source, Run):
        source = frame_of([dict(source.record)], level)
    schema = schema_of(level)
    types = {name: schema[name] for name in (*needed, *useful)}
    return typed(source, chart, types, needed, f'give it a run, or load_log(level="{level}")')


def typed(
    source: Any, chart: str, types: Mapping[str, pl.DataType], needed: Sequence[str], fix: str
) -> pl.DataFrame:
    """The columns of `types` that a frame has, in these types; the needed ones must be there."""
    if not isinstance(source, pl.DataFrame | pl.LazyFrame):
        raise InputError(Problem(chart, f"takes a frame, not {type(source).__name__}", fix))
    names = source.collect_schema().names()
    if missing := [name for name in needed if name not in names]:
        raise InputError(Problem(chart, f"the frame has no column {', '.join(missing)}", fix))
    columns = [pl.col(name).cast(kind) for name, kind in types.items() if name in names]
    try:
        return source.lazy().select(columns).collect()
    except pl.exceptions.PolarsError as error:
        what = f"a column of the frame has another type than it should: {clip(visible(str(error)), 160)}"
        raise InputError(Problem(chart, what, fix)) from error


def one_run(frame: pl.DataFrame, chart: str) -> None:
    """Raises InputError where a frame holds several runs, of which the chart can show one."""
    runs = frame["run_id"].unique().drop_nulls().sort().to_list() if "run_id" in frame.columns else []
    if len(runs) > 1:
        fix = f'keep one: frame.filter(pl.col("run_id") == {runs[-1]!r})'
        raise InputError(Problem(chart, f"the frame holds {len(runs)} runs", fix))


def newest_runs(frame: pl.DataFrame, most: int) -> tuple[list[pl.DataFrame], int]:
    """The rows of each of the newest runs, oldest first, and how many runs there are; no known time is oldest."""
    keys = frame.select("run_id", *(["ts"] if "ts" in frame.columns else [])).unique(
        "run_id", maintain_order=True
    )
    ordered = keys.sort("ts", maintain_order=True) if "ts" in keys.columns else keys
    kept = ordered["run_id"].tail(most)
    return [frame.filter(pl.col("run_id").eq_missing(pl.lit(run))) for run in kept], keys.height


@dataclass(frozen=True, slots=True)
class CaseRow:
    """A case under the two conditions; `recorded` is False where only its verdicts are known, not its trials."""

    cells: CaseCells
    recorded: bool
    difficulty: int | None = None

    @property
    def fate(self) -> str:
        """What became of it: one of FATES."""
        if not self.cells.graded:
            return UNMEASURED
        before, after = self.cells.baseline.verdict, self.cells.skill.verdict
        if before == after:
            return BOTH if after else NEITHER
        return UP if after else DOWN

    def count(self, cell: Cell) -> str:
        """Trials passed of those measured, or the bare verdict."""
        if not cell.measured:
            return "not measured"
        return f"{cell.passes}/{cell.measured}" if self.recorded else "pass" if cell.passes else "fail"

    @property
    def counts(self) -> str:
        """Both conditions' counts."""
        return f"{self.count(self.cells.baseline)} → {self.count(self.cells.skill)}"


CASE_COLUMNS = ("case_id", "condition", "passes", "measured", "trials")
CASE_EXTRAS = ("verdict", "difficulty", "run_id", *("ts", "set", "skill_hash", "delivery", "n"))
MODEL = ("resolved_model", "model")


def case_rows(frame: pl.DataFrame, chart: str) -> list[CaseRow]:
    """The cases of one run in their order; other conditions than these two are left alone.

    Raises InputError where a condition of the two was not run at all.
    """
    cells: dict[str, dict[str, Cell]] = {}
    verdict_only, tags = set(), {}
    for row in frame.filter(pl.col("condition").is_in([REFERENCE, CANDIDATE])).iter_rows(named=True):
        name = row["case_id"] if row["case_id"] is not None else "(no id)"
        cell = _cell(row)
        if cell is None:
            verdict, cell = row.get("verdict"), Cell(0, 0, 1)
            if verdict is not None:
                verdict_only.add(name)
                cell = Cell(int(verdict), 1, 1)
        cells.setdefault(name, {})[row["condition"]] = cell
        tags[name] = row.get("difficulty")
    for name in (REFERENCE, CANDIDATE):
        if cells and not any(name in found for found in cells.values()):
            what = f"{name} was not run, and this chart compares {REFERENCE} and {CANDIDATE}"
            raise InputError(Problem(chart, what, "give it a run of both conditions"))
    none = Cell(0, 0, 0)
    return [
        CaseRow(
            CaseCells(name, found.get(REFERENCE, none), found.get(CANDIDATE, none)),
            name not in verdict_only,
            tags[name],
        )
        for name, found in cells.items()
    ]


def _cell(row: Mapping[str, Any]) -> Cell | None:
    """The trials of a row; None where an old record holds its verdict only."""
    counts = [row[name] for name in ("passes", "measured", "trials")]
    return None if None in counts else Cell(*counts)


def shown(name: object, limit: int = 80) -> str:
    """A stranger's name, harmless, on one line, no longer than `limit`."""
    if name is None:
        return "(not recorded)"
    return clip(visible(clip(str(name), limit)), limit) or "(no name)"


def apart(names: Iterable[object], limit: int = 80) -> list[str]:
    """Names as they can be shown; those that look alike are numbered, so that each stays itself."""
    taken: set[str] = set()
    found = []
    for name in names:
        base = unique = shown(name, limit)
        number = 1
        while unique in taken:
            number += 1
            unique = f"{base} ({number})"
        taken.add(unique)
        found.append(unique)
    return found


def listed(names: Sequence[str], most: int = NAMED) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(names[:most])}{more}"


def conditions_of(frame: pl.DataFrame, chart: str) -> dict[str | None, str]:
    """The conditions of a frame with the names that they are shown by: baseline, with-skill, then the others.

    Raises InputError where there are more than a chart can tell apart.
    """
    found = frame["condition"].unique().to_list()
    if len(found) > MOST_CONDITIONS:
        what = f"the frame holds {len(found)} conditions; a chart tells {MOST_CONDITIONS} apart"
        fix = 'keep some: frame.filter(pl.col("condition").is_in(["baseline", "skill"]))'
        raise InputError(Problem(chart, what, fix))
    first = {REFERENCE: 0, CANDIDATE: 1}
    ordered = sorted(found, key=lambda name: (first.get(name, 2), name is None, name or ""))
    label = {REFERENCE: BASELINE, CANDIDATE: SKILL}
    return dict(zip(ordered, apart([label.get(name, name) for name in ordered], 40), strict=True))


def subject(frame: pl.DataFrame) -> str:
    """What a frame is of: set, model, delivery and n where they are one, else how many there are."""
    model = next((name for name in ("resolved_model", "run_model", "model") if name in frame.columns), "")
    parts = []
    if "run_id" in frame.columns and (runs := frame["run_id"].n_unique()) > 1:
        parts.append(counted(runs, "run"))
    for column, noun, prefix in (
        ("set", "set", ""), (model, "model", ""), ("delivery", "delivery", ""), ("n", "value of n", "n="),
    ):  # fmt: skip
        values = frame[column].unique().drop_nulls().to_list() if column in frame.columns else []
        if len(values) == 1:
            parts.append(f"{prefix}{shown(values[0], 60)}")
        elif values:
            plural = {"delivery": "deliveries", "value of n": "values of n"}.get(noun, f"{noun}s")
            parts.append(f"{len(values):,} {plural}")
    return " · ".join(parts)


def about(source: object, frame: pl.DataFrame) -> str:
    """What a chart is of: a run's own title, or what is known of a frame."""
    return visible(title_line(source.record)) if isinstance(source, Run) else subject(frame)


def version(skill_hash: object) -> str:
    """A skill by the first signs of its content hash."""
    return "no skill hash" if skill_hash is None else f"skill {shown(str(skill_hash)[:7])}"
