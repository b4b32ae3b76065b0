"""Frames to draw, and what is found in a chart: its data, its texts, its description."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import altair as alt
import polars as pl
import vl_convert

from skilleval_nb.frames import schema_of

Counts = tuple[int, int, int]
"""Passes, measured trials, planned trials."""
START = datetime(2026, 11, 1, tzinfo=UTC)
EVIL = "<script>alert(1)</script>\x1b[31m\x00\u202e 'x' \\ \n{{y}}"


def frame_at(level: str, rows: Sequence[Mapping[str, Any]]) -> pl.DataFrame:
    """Rows with the types that a level's columns have, and only the columns that the rows have."""
    schema = schema_of(level)
    names = list(rows[0]) if rows else list(schema)
    return pl.DataFrame(list(rows), schema={name: schema[name] for name in names})


def cases(of: Mapping[str, tuple[Counts, Counts]], run_id: str = "r", **more: Any) -> pl.DataFrame:
    """A case-level frame: for each case its counts without and with the skill."""
    return frame_at(
        "case",
        [
            {
                "run_id": run_id, "case_id": name, "difficulty": 1, "condition": condition,
                "verdict": None if not measured else 2 * passes > measured,
                "passes": passes, "measured": measured, "trials": planned, **more,
            }
            for name, both in of.items()
            for condition, (passes, measured, planned) in zip(("baseline", "skill"), both, strict=True)
        ],
    )  # fmt: skip


def run_row(at: int = 0, **more: Any) -> dict[str, Any]:
    """A run of ten cases as a run-level frame has it; runs are an hour apart."""
    return {
        "run_id": f"r{at}", "ts": START + timedelta(hours=at), "kind": "eval", "set": "s", "skill_hash": "aaaaaaa111",
        "set_hash": "h", "delivery": "inject", "resolved_model": "m", "judge_model": None, "n": 1, "graded": 10,
        "baseline_pass": 2, "skill_pass": 7, "delta": 0.5, "delta_estimate": 0.45, "delta_low": 0.1,
        "delta_high": 0.8, "gate": "PASS", "look": at + 1, "confirm": False, "subset": False, "partial": None,
        "baseline_reused": None, **more,
    }  # fmt: skip


def trial_row(case: str = "a", condition: str = "baseline", trial: int = 1, **more: Any) -> dict[str, Any]:
    """A measured trial as a trial-level frame has it; what is not given was not reported."""
    return {
        "run_id": "r", "case_id": case, "condition": condition, "trial": trial, "outcome": "passed",
        "input_tokens": None, "output_tokens": None, "cache_read_tokens": None, "cache_write_tokens": None,
        "latency_s": None, "cost_usd": None, "reused": False, "set": "s", "delivery": "inject", **more,
    }  # fmt: skip


def check_row(
    case: str = "a", condition: str = "baseline", trial: int = 1, check: int = 1, **more: Any
) -> dict[str, Any]:
    """A check's result as a check-level frame has it."""
    return {
        "run_id": "r", "case_id": case, "condition": condition, "trial": trial, "check": check, "kind": "includes",
        "passed": True, "judge_model": None, "judge_input_tokens": None, "judge_output_tokens": None,
        "judge_cache_read_tokens": None, "judge_cache_write_tokens": None, "judge_cost_usd": None, **more,
    }  # fmt: skip


def svg(chart: alt.VConcatChart) -> str:
    """The picture, drawn without the renderer's own cleaning: a chart's texts are clean already."""
    return str(vl_convert.vegalite_to_svg(chart.to_dict(validate=False)))


def words(chart: alt.VConcatChart) -> list[str]:
    """The texts that the picture shows, from top to bottom of its marks."""
    return [unescape(found) for found in re.findall(r"<text[^>]*>([^<]*)</text>", svg(chart)) if found]


def data(chart: alt.VConcatChart) -> list[dict[str, Any]]:
    """All rows of all parts."""
    return [row for rows in chart.to_dict(validate=False).get("datasets", {}).values() for row in rows]


def having(chart: alt.VConcatChart, *columns: str) -> list[dict[str, Any]]:
    """The rows that have all of these columns."""
    return [row for row in data(chart) if set(columns) <= set(row)]


def description(chart: alt.VConcatChart) -> str:
    return str(chart.to_dict()["description"])


def title(chart: alt.VConcatChart) -> str:
    return str(chart.to_dict()["title"]["text"])


def found_in(spec: Any, key: str) -> list[Any]:
    """All values of a key, wherever in a specification it is."""
    if isinstance(spec, Mapping):
        own = [spec[key]] if key in spec else []
        return own + [
            hit for name, value in spec.items() if name != "datasets" for hit in found_in(value, key)
        ]
    return [hit for item in spec for hit in found_in(item, key)] if isinstance(spec, list) else []
