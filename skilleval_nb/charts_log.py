"""Δ over the log: what each run of a set found, in order of time, with the edits of the skill between them."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import polars as pl

from .charts_data import MODEL, NAMED, Source, about, listed, shown, take, version
from .charts_look import BLUE, GREEN, INK, LINE, MOST_ROWS, ORANGE, Row, finish, heading, nothing, table, told
from .errors import InputError, Problem
from .gate import counted, signed, span

MOST_PANELS = 6
MOST_RUNS = 200
NAMED_RUNS = 40
"""More runs than these are not labelled one by one."""
WIDTH, HEIGHT = 640, 190
STEP = 16
"""Width of a run in pixels where its label stands on its side."""
FLAT_RUNS, FLAT_STEP = 7, 120
"""The most runs whose labels lie flat, and the width of each in pixels."""
ABSENT = -1.3
"""Where below −100 % a run stands that was not measured."""
LOOK, CONFIRMED, REUSED = (
    "Δ, mean of the cases, with 95 % interval",
    "the same, confirmation",
    "the same, baseline reused",
)
GATE, UNMEASURED = "Δ by the gate, majority of the trials", "not measured"
MARKS = {
    LOOK: ("circle", BLUE), CONFIRMED: ("square", GREEN), REUSED: ("triangle-up", BLUE),
    GATE: ("M-1,-0.22H1V0.22H-1Z", INK), UNMEASURED: ("cross", ORANGE),
}  # fmt: skip
TITLE = "Δ pass rate over the log"
NEEDED = ("run_id", "ts", "set", "delta", "graded", "baseline_pass", "skill_pass")
USEFUL = (
    *("kind", "skill_hash", "gate", "look", "confirm", "baseline_reused", "subset", "partial"),
    *("delta_estimate", "delta_low", "delta_high"),
    *("set_hash", "judge_model", "delivery", "n", *MODEL),
)
ALIKE = (("set_hash", "versions of the set"), ("resolved_model", "models"), ("model", "models"),
         ("judge_model", "judges"), ("delivery", "deliveries"), ("n", "values of n"))  # fmt: skip


def delta_over_log(run_or_frame: Source) -> alt.VConcatChart:
    """What each run of a set found, oldest first: Δ with its 95 % interval and the gate's Δ, by skill content hash.

    Takes the run-level frame of a log (or a run). A dashed line is an edit of the skill. Each set has a panel
    of its own. Runs that hold verdicts only, as the origin's do, have the gate's Δ and no interval; runs that
    could not be measured stand below the scale, never at 0. Trigger runs have no Δ and are left out. Of more
    runs than the chart can hold (200 in all) each set's newest are drawn, and the chart says so.

    Raises InputError where the frame is not at run level, or holds more than 6 sets.
    """
    frame = take(run_or_frame, "delta_over_log", "run", NEEDED, USEFUL)
    left_out = 0
    if "kind" in frame.columns:
        left_out = frame.height
        frame = frame.filter(pl.col("kind").ne_missing("trigger"))
        left_out -= frame.height
    under = about(run_or_frame, frame)
    if frame.is_empty():
        return nothing(TITLE, "no run that compares a skill with its baseline is in this log", under)
    parts = frame.sort("ts", maintain_order=True).partition_by("set", maintain_order=True)
    if len(parts) > MOST_PANELS:
        names = listed([shown(part["set"][0], 40) for part in parts], MOST_PANELS)
        fix = 'keep some: frame.filter(pl.col("set") == "…")'
        raise InputError(
            Problem("delta_over_log", f"the frame holds {len(parts)} sets ({names}); 6 fit", fix)
        )
    most = min(MOST_RUNS, MOST_ROWS // len(parts))
    drawn = [_rows(part, most) for part in parts]
    marks = [mark for mark in MARKS if any(mark in _marks(row) for rows in drawn for row in rows)]
    panels = [
        _panel(rows, _title(part, len(rows)), marks, legend=at == 0)
        for at, (part, rows) in enumerate(zip(parts, drawn, strict=True))
    ]
    said = [_sentence(part, rows) for part, rows in zip(parts, drawn, strict=True)]
    if left_out:
        said.append(f"{counted(left_out, 'trigger run')} left out: they have no Δ.")
    return finish(panels, TITLE, told(TITLE, under, " ".join(said)), subtitle=under, spacing=24)


def _rows(part: pl.DataFrame, most: int) -> list[Row]:
    """The newest runs of a set, each with its number among all of them and whether the skill was edited before it."""
    if "skill_hash" not in part.columns:
        part = part.with_columns(skill_hash=pl.lit(None, pl.String))
    edited = pl.col("skill_hash").ne_missing(pl.col("skill_hash").shift(1))
    newest = part.with_row_index("at", 1).with_columns(edited=edited & (pl.col("at") > 1)).tail(most)
    return [_row(run) for run in newest.iter_rows(named=True)]


def _row(run: Row) -> Row:
    return {
        "at": run["at"],
        "delta": run.get("delta_estimate"),
        "low": run.get("delta_low"),
        "high": run.get("delta_high"),
        "gate_delta": run["delta"],
        "absent": ABSENT if run["delta"] is None else None,
        "mark": CONFIRMED if run.get("confirm") else REUSED if run.get("baseline_reused") else LOOK,
        "skill": version(run["skill_hash"]),
        "edit": run["at"] if run["edited"] else None,
        "counts": _counts(run),
        "notes": " · ".join(_notes(run)),
        "when": f"{run['ts']:%Y-%m-%d %H:%M} UTC" if run["ts"] else "time not recorded",
        "gate": shown(run["gate"], 20) if run.get("gate") else "gate not recorded",
        "run": shown(run["run_id"], 60),
    }


def _counts(run: Row) -> str:
    graded = run["graded"]
    if run["delta"] is None:
        return "not measured"
    return f"cases {run['baseline_pass']}/{graded} → {run['skill_pass']}/{graded}"


def _notes(run: Row) -> list[str]:
    notes = [f"look {run['look']}"] if run.get("look") else []
    notes += ["confirmation"] if run.get("confirm") else []
    if reused := run.get("baseline_reused"):
        notes.append(f"{counted(reused, 'trial')} reused")
    notes += ["subset"] if run.get("subset") else []
    notes += ["partial"] if run.get("partial") else []
    return notes


def _title(part: pl.DataFrame, drawn: int) -> str:
    """The set, how many of its runs are drawn, and what else than the skill differs between them."""
    words = [shown(part["set"][0], 60), counted(part.height, "run")]
    if drawn < part.height:
        words[1] = f"the newest {drawn} of {part.height:,} runs"
    differ = _differ(part)
    return " · ".join([*words, *([f"not alike: {', '.join(differ)}"] if differ else [])])


def _differ(part: pl.DataFrame) -> list[str]:
    found: dict[str, int] = {}
    for column, noun in ALIKE:
        if column in part.columns and (values := part[column].drop_nulls().n_unique()) > 1:
            found.setdefault(noun, values)
    return [f"{values} {noun}" for noun, values in found.items()]


def _marks(row: Row) -> list[str]:
    """The marks that stand for a run."""
    found = [row["mark"]] if row["delta"] is not None else []
    return [*found, UNMEASURED if row["gate_delta"] is None else GATE]


def _panel(rows: Sequence[Row], title: str, marks: Sequence[str], *, legend: bool) -> alt.LayerChart:
    flat = len(rows) <= FLAT_RUNS
    first, last = rows[0]["at"], rows[-1]["at"]
    width = max(260, len(rows) * FLAT_STEP) if flat else min(WIDTH, len(rows) * STEP)
    frame = table(
        [{**row, **label} for row, label in zip(rows, _labels(rows, width, flat=flat), strict=True)],
        at=int,
        delta=float,
        low=float,
        high=float,
        gate_delta=float,
        absent=float,
        mark=str,
        skill=str,
        edit=int,
        counts=str,
        notes=str,
        when=str,
        gate=str,
        run=str,
        line1=str,
        line2=str,
        line3=str,
        line4=str,
    )
    scale = alt.Scale(domain=[first - 0.6, last + 0.6], nice=False, zero=False)
    x = alt.X("at:Q", title=None, scale=scale, axis=None)
    base = alt.Chart(frame, title=heading(title))
    zero = alt.Chart(table([{"zero": 0.0}], zero=float)).mark_rule(color=INK).encode(y=_scale("zero"))
    edits = base.transform_filter("isValid(datum.edit)").transform_calculate(between="datum.edit - 0.5")
    edits = edits.mark_rule(color=LINE, strokeDash=[4, 3]).encode(
        x=alt.X("between:Q", title=None, scale=scale, axis=None)
    )
    thin = 1.6 if len(rows) <= NAMED_RUNS else 1
    ranges = base.transform_filter("isValid(datum.low)").mark_rule(strokeWidth=thin, color=BLUE)
    layers = [zero, edits, ranges.encode(x=x, y=_scale("low"), y2="high:Q")]
    colours, shapes = ([MARKS[mark][at] for mark in marks] for at in (1, 0))
    key = alt.Legend(title=None, orient="top", columns=1, labelLimit=320, offset=4) if legend else None
    colour = alt.Color("mark:N", scale=alt.Scale(domain=list(marks), range=colours), legend=key)
    shape = alt.Shape("mark:N", scale=alt.Scale(domain=list(marks), range=shapes), legend=key)
    hover = ["run", "when", "skill", "counts", "gate", "notes"]
    for column, mark in (("gate_delta", GATE), ("delta", None), ("absent", UNMEASURED)):
        points = base.transform_filter(f"isValid(datum.{column})")
        if mark:
            points = points.transform_calculate(mark=f"'{mark}'")
        small, wide = (80, 240) if flat else (80, 150) if len(rows) <= NAMED_RUNS else (30, 60)
        points = points.mark_point(filled=True, opacity=1, size=wide if mark == GATE else small)
        layers.append(points.encode(x=x, y=_scale(column), color=colour, shape=shape, tooltip=hover))
    named = base.transform_filter("isValid(datum.line1)")
    for column, down in (
        (("line1", 8), ("line2", 22), ("line3", 36), ("line4", 50)) if flat else (("line1", 8),)
    ):
        text = (
            named.mark_text(color=INK, fontSize=11, baseline="top", limit=FLAT_STEP - 6)
            if flat
            else named.mark_text(color=INK, fontSize=11, angle=270, align="right", limit=380)
        )
        layers.append(text.encode(x=x, y=alt.value(HEIGHT + down), text=f"{column}:N"))
    return alt.LayerChart(layer=layers, width=width, height=HEIGHT)


def _labels(rows: Sequence[Row], width: int, *, flat: bool) -> list[Row]:
    """What stands below each run: four lines, or one on its side; of very many runs those of an edit only."""
    if flat:
        notes = [row["notes"].partition(" · ") for row in rows]
        return [
            {"line1": row["skill"], "line2": row["counts"], "line3": look, "line4": rest}
            for row, (look, _, rest) in zip(rows, notes, strict=True)
        ]
    named = set(range(len(rows)))
    if len(rows) > NAMED_RUNS:
        gap = STEP * (len(rows) + 0.2) / width
        named = set()
        for at in (0, len(rows) - 1, *(at for at, row in enumerate(rows) if row["edit"])):
            if all(abs(at - other) >= gap for other in named):
                named.add(at)
    words = [" · ".join(filter(None, (row["notes"], row["counts"], row["skill"]))) for row in rows]
    return [{"line1": text if at in named else None} for at, text in enumerate(words)]


def _scale(column: str) -> alt.Y:
    words = f"datum.value < -1.1 ? '{UNMEASURED}' : (datum.value > 0 ? '+' : '') + format(datum.value, '.0%')"
    axis = alt.Axis(values=[ABSENT, -1, -0.5, 0, 0.5, 1], labelExpr=words)
    scale = alt.Scale(domain=[ABSENT - 0.15, 1.08], nice=False)
    return alt.Y(f"{column}:Q", title="Δ pass rate (%)", scale=scale, axis=axis)


def _sentence(part: pl.DataFrame, rows: Sequence[Row]) -> str:
    """One set in words: how many runs and edits, then the newest runs with their numbers."""
    versions = part["skill_hash"].drop_nulls().n_unique() if "skill_hash" in part.columns else 0
    differ = _differ(part)
    head = f"{shown(part['set'][0], 60)}: {counted(part.height, 'run')}"
    head += f" of {counted(versions, 'version')} of the skill" if versions else ""
    head += f", not alike in {', '.join(differ)}" if differ else ""
    newest = rows[-NAMED:]
    more = f", the newest {len(newest)}" if len(newest) < part.height else ""
    return f"{head}{more}. {' '.join(map(_run_words, newest))}"


def _run_words(row: Row) -> str:
    words = [f"Run {row['at']} ({row['when']}, {row['skill']}"]
    words[0] += f", {row['notes']})" if row["notes"] else ")"
    if row["gate_delta"] is None:
        return f"{words[0]}: not measured."
    if row["delta"] is None:
        return (
            f"{words[0]}: gate's Δ {signed(row['gate_delta'])}%, {row['counts']}, {row['gate']}, no interval."
        )
    interval = "no interval" if row["low"] is None else f"95% CI {span(row['low'], row['high'])}"
    return (
        f"{words[0]}: Δ {signed(row['delta'])}% ({interval}), gate's Δ {signed(row['gate_delta'])}%,"
        f" {row['counts']}, {row['gate']}."
    )
