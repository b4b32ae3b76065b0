"""Judges held against people over time, and against each other on the same items."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import altair as alt
import polars as pl

from .charts_data import NAMED, apart, shown, typed
from .charts_grid import FAIL, PASS, cell_words, cells, grid
from .charts_look import (
    COLOURS,
    ROW,
    Row,
    finish,
    heading,
    lines,
    nothing,
    own_scales,
    percent_axis,
    reach,
    share,
    side_text,
    styles,
    table,
    told,
)
from .errors import InputError, Problem
from .gate import counted
from .stats import wilson

MOST_CALIBRATIONS = 40
PANEL = 170
MEASURES = {
    "accuracy": (("tp", "tn"), ("tp", "tn", "fp", "fn"), "accuracy: of the judged"),
    "sensitivity": (("tp",), ("tp", "fn"), "sensitivity: of human passes"),
    "specificity": (("tn",), ("tn", "fp"), "specificity: of human fails"),
}
"""Each measure's numerator and denominator, and what it is of."""
_ENDS = [f"{name}{end}" for name in MEASURES for end in ("", "_low", "_high")]
TYPES: dict[str, Any] = {
    "ts": pl.Datetime("ms", "UTC"),
    **dict.fromkeys(("judge_model", "judge_hash", "calibration", "partial"), pl.String),
    **dict.fromkeys(("items", "judged", "tp", "fn", "tn", "fp"), pl.Int64),
    **dict.fromkeys(_ENDS, pl.Float64),
}
Frame = pl.DataFrame | pl.LazyFrame


def judge_agreement(calibrations: Frame) -> alt.VConcatChart:
    """How far judges agree with people, calibration by calibration, the oldest first: three rates with intervals.

    Takes the frame of `load_calibrations`. Accuracy is of all judged items, sensitivity of those that people
    pass, specificity of those that they fail; intervals are at 95 %. A judge is its model and the hash of its
    prompt. Of more than 40 calibrations the newest are drawn.

    Raises InputError where the frame is another, or holds more than 8 judges.
    """
    title = "Judges against people"
    fix = "give it load_calibrations()"
    needed = [name for name in TYPES if name != "partial"]
    frame = typed(calibrations, "judge_agreement", TYPES, needed, fix)
    if frame.is_empty():
        return nothing(title, "no calibration of a judge is in this log")
    frame = frame.sort("ts", maintain_order=True)
    runs = list(frame.tail(MOST_CALIBRATIONS).iter_rows(named=True))
    keys = list(dict.fromkeys((row["judge_model"], row["judge_hash"]) for row in runs))
    if len(keys) > len(COLOURS):
        what = f"the frame holds {len(keys)} judges; a chart tells {len(COLOURS)} apart"
        raise InputError(
            Problem("judge_agreement", what, 'keep some: frame.filter(pl.col("judge_model") == "…")')
        )
    judges = dict(zip(keys, apart(_judge(*key) for key in keys), strict=True))
    names = apart([_when(row) for row in runs], 70)
    panels = [
        _measure(name, runs, names, judges, first=name == "accuracy", last=name == "specificity")
        for name in MEASURES
    ]
    said = [_words(row, name, judges) for row, name in zip(runs, names, strict=True)][-NAMED:]
    more = f"the newest {len(said)} of {frame.height:,}: " if frame.height > len(said) else ""
    notes = [] if frame.height == len(runs) else [f"the newest {len(runs)} of {frame.height:,} calibrations"]
    beside = alt.HConcatChart(hconcat=panels, spacing=16, resolve=own_scales())
    parts: list[Any] = [beside, *lines(notes)]
    text = f"{counted(frame.height, 'calibration')}. {more}{' '.join(said)}"
    return finish(parts, title, told(title, "", text))


def _judge(model: object, prompt: object) -> str:
    return f"{shown(model, 40)} · prompt {shown(str(prompt)[:7]) if prompt is not None else 'not recorded'}"


def _when(row: Row) -> str:
    when = f"{row['ts']:%Y-%m-%d %H:%M}" if row["ts"] else "no time"
    return f"{when} · {shown(row['calibration'], 30)}{' (partial)' if row.get('partial') else ''}"


def _counts(row: Row, name: str) -> tuple[int, int]:
    right, whole, _ = MEASURES[name]
    return sum(row[cell] or 0 for cell in right), sum(row[cell] or 0 for cell in whole)


def _measure(
    name: str, runs: Sequence[Row], names: Sequence[str], judges: dict[Any, str], *, first: bool, last: bool
) -> alt.LayerChart:
    rows: list[Row] = []
    for row, run in zip(runs, names, strict=True):
        part, whole = _counts(row, name)
        rows.append(
            {
                "run": run,
                "judge": judges[row["judge_model"], row["judge_hash"]],
                "rate": row[name] if whole else None,
                "low": row[f"{name}_low"],
                "high": row[f"{name}_high"],
                "counts": f"{part}/{whole}" if whole else "0/0",
                "judged": f"judged {row['judged']}/{row['items']}",
            }
        )
    types = {
        "run": str,
        "judge": str,
        "rate": float,
        "low": float,
        "high": float,
        "counts": str,
        "judged": str,
    }
    axis = alt.Axis(grid=True, labelLimit=300) if first else alt.Axis(labels=False, ticks=False, grid=True)
    y = alt.Y("run:N", sort=list(names), title=None, axis=axis)
    base = alt.Chart(table(rows, **types), title=heading(MEASURES[name][2]))
    labels = list(judges.values())
    colour, shape = styles(labels, "judge", legend=first, columns=1)
    percents = alt.Axis(format=".0%", values=[0, 0.5, 1])
    hover = ["run", "judge", "counts", "judged"]
    layers = [
        base.mark_rule(strokeWidth=1.6).encode(
            x=percent_axis("low", name, percents), x2="high:Q", y=y, color=colour
        ),
        base.mark_point(filled=True, opacity=1, size=90).encode(
            x=percent_axis("rate", name, percents), y=y, color=colour, shape=shape, tooltip=hover
        ),
        side_text(base, y, at=PANEL),
    ]
    if last:
        layers.append(side_text(base, y, "judged", at=PANEL + 60))
    return alt.LayerChart(layer=layers, width=PANEL, height=1.2 * ROW * len(names))


def _words(row: Row, run: str, judges: dict[Any, str]) -> str:
    measures = []
    for name in MEASURES:
        part, whole = _counts(row, name)
        interval = reach((row[f"{name}_low"], row[f"{name}_high"]))
        measures.append(f"{name} {share(part, whole)}{f' {interval}' if interval else ''}")
    judge = judges[row["judge_model"], row["judge_hash"]]
    return f"{run}, {judge}: {', '.join(measures)}, judged {row['judged']}/{row['items']}."


UNDECIDED = "undecided"
UP, DOWN, BOTH, NEITHER, OPEN = (
    "A fails, B passes",
    "A passes, B fails",
    "both pass",
    "both fail",
    "not decided by both",
)
FLIPS = (UP, DOWN, BOTH, NEITHER, OPEN)


def judge_flips(a: Frame, b: Frame) -> alt.VConcatChart:
    """Two judges' verdicts on the same items as a table: on how many they agree, and on which they do not.

    Takes two frames with one row an item, the columns `item` (or `item_id`) and `verdict` (null: undecided), as
    `load_calibrations(level="item")` of one calibration or `Calibration.items` give them. Items that only one
    of them has are counted and left out. The flip rate has Wilson's 95 % interval.

    Raises InputError where a frame is another, or has an item twice.
    """
    title = "Two judges on the same items"
    first, second = (_verdicts(frame, side) for frame, side in ((a, "A"), (b, "B")))
    who = [f"{side}: {_named_judge(frame)}" for frame, side in ((a, "judge A"), (b, "judge B"))]
    under = " · ".join(who)
    shared = [name for name in first if name in second]
    if not shared:
        return nothing(title, "no item is in both frames", under)
    names = dict(zip(shared, apart(shared), strict=True))
    found: dict[tuple[str, str], list[str]] = {}
    for item in shared:
        found.setdefault((_word(first[item]), _word(second[item])), []).append(names[item])
    rows = cells(found, FLIPS, UNDECIDED)
    notes = _flip_notes(found, len(first) - len(shared), len(second) - len(shared))
    what = "items by both verdicts, majority of the repeats"
    text = f"A → B: {'; '.join(map(cell_words, rows))}. {'. '.join(notes)}."
    parts: list[Any] = [grid(rows, FLIPS, "judge A", "judge B", what), *lines(notes)]
    return finish(parts, title, told(title, under, text), subtitle=under)


def _verdicts(frame: Any, side: str) -> dict[str | None, bool | None]:
    fix = 'give it Calibration.items, or load_calibrations(level="item") of one calibration'
    where = f"judge_flips, {side}"
    is_frame = isinstance(frame, pl.DataFrame | pl.LazyFrame)
    name = "item_id" if is_frame and "item_id" in frame.collect_schema().names() else "item"
    items = typed(frame, where, {name: pl.String(), "verdict": pl.Boolean()}, (name, "verdict"), fix)
    if (twice := items.filter(items[name].is_duplicated())).height:
        raise InputError(Problem(where, f"item {shown(twice[name][0])} is there more than once", fix))
    return dict(items.select(name, "verdict").iter_rows())


def _named_judge(frame: Frame) -> str:
    names = frame.collect_schema().names()
    if "judge_model" not in names:
        return "not named"
    wanted = [name for name in ("judge_model", "judge_hash") if name in names]
    row = frame.lazy().select(wanted).head(1).collect()
    return _judge(*row.row(0), *([None] if len(wanted) == 1 else [])) if row.height else "not named"


def _word(verdict: bool | None) -> str:  # noqa: FBT001 - one of three
    return UNDECIDED if verdict is None else PASS if verdict else FAIL


def _flip_notes(found: dict[tuple[str, str], list[str]], only_a: int, only_b: int) -> list[str]:
    up, down = (len(found.get(pair, ())) for pair in ((FAIL, PASS), (PASS, FAIL)))
    decided = sum(len(names) for pair, names in found.items() if UNDECIDED not in pair)
    notes = ["flip rate 0/0 (n/a): no item was decided by both"]
    if decided:
        interval = reach(wilson((up + down) / decided, decided))
        notes = [
            f"flip rate {share(up + down, decided)}, {interval}: {up} to pass, {down} to fail from A to B"
        ]
    left = [f"{number} only in {side}" for number, side in ((only_a, "A"), (only_b, "B")) if number]
    return [*notes, f"items left out: {', '.join(left)}"] if left else notes
