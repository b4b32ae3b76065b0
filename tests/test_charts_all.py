"""What holds for every chart: titles, words, size, shapes, empty logs, wrong frames, strangers' names, no network."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import altair as alt
import polars as pl
import pytest
from charted import (
    EVIL,
    START,
    cases,
    check_row,
    data,
    description,
    found_in,
    frame_at,
    run_row,
    svg,
    title,
    trial_row,
)
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted
from worlds import case, check, project

import skilleval_nb as se
from skilleval_nb import charts
from skilleval_nb.charts_data import apart
from skilleval_nb.errors import InputError

Chart = alt.VConcatChart


@dataclass(frozen=True)
class Kind:
    """A chart, the frame that it takes for so many things with such names, and the word for what is not there."""

    draw: Callable[[Any], Chart]
    frame: Callable[[int, str], pl.DataFrame]
    nothing: str


def case_frame(number: int, name: str) -> pl.DataFrame:
    up, down = ((0, 3, 3), (3, 3, 3)), ((2, 3, 3), (0, 0, 3))
    return cases({f"{name}{at}": up if at % 2 else down for at in range(number)}, set=name, skill_hash=name)


def run_frame(number: int, name: str) -> pl.DataFrame:
    return frame_at(
        "run", [run_row(at, set=name, skill_hash=f"{at}{name}", run_id=f"{name}{at}") for at in range(number)]
    )


def trial_frame(number: int, name: str) -> pl.DataFrame:
    return frame_at(
        "trial",
        [
            trial_row(
                f"{name}{at}", condition, set=name, run_id=f"{name}{at % 5}", outcome="passed" if at % 3 else "failed",
                input_tokens=10 + at, output_tokens=5, latency_s=1.0 + at, cost_usd=0.01, ts=START, skill_hash=name,
            )
            for at in range(number)
            for condition in ("baseline", "skill", name)
        ],
    )  # fmt: skip


def check_frame(number: int, name: str) -> pl.DataFrame:
    return frame_at(
        "check",
        [
            check_row(f"{name}{at}", condition, kind=name, passed=condition == "skill")
            for at in range(number)
            for condition in ("baseline", "skill")
        ],
    )


def calibration_frame(number: int, name: str) -> pl.DataFrame:
    names = ("accuracy", "sensitivity", "specificity")
    rates = {f"{rate}{end}": 0.5 for rate in names for end in ("", "_low", "_high")}
    rows = [
        {"ts": START, "judge_model": f"{name}{at % 3}", "judge_hash": name, "calibration": name,
         "items": 9, "judged": 8, "tp": 2, "fn": 2, "tn": 2, "fp": 2, "partial": None, **rates}
        for at in range(number)
    ]  # fmt: skip
    return pl.DataFrame(rows).with_columns(pl.col("ts").cast(pl.Datetime("ms", "UTC")))


def item_frame(number: int, name: str) -> pl.DataFrame:
    return pl.DataFrame(
        [{"item": f"{name}{at}", "verdict": at % 2 == 0, "judge_model": name} for at in range(number)]
    )


KINDS = {
    "pass_rates": Kind(charts.pass_rates, case_frame, "no case"),
    "flips_matrix": Kind(charts.flips_matrix, case_frame, "no case"),
    "difficulty": Kind(charts.difficulty, case_frame, "no case"),
    "delta_over_log": Kind(charts.delta_over_log, run_frame, "no run"),
    "check_discrimination": Kind(charts.check_discrimination, check_frame, "no check"),
    "tokens": Kind(charts.tokens, trial_frame, "no trial"),
    "cost": Kind(charts.cost, trial_frame, "no trial"),
    "latency": Kind(charts.latency, trial_frame, "no trial"),
    "cost_per_extra_pass": Kind(charts.cost_per_extra_pass, trial_frame, "no trial"),
    "judge_agreement": Kind(charts.judge_agreement, calibration_frame, "no calibration"),
    "judge_flips": Kind(lambda frame: charts.judge_flips(frame, frame), item_frame, "no item"),
}
every = pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)


def test_every_public_chart_is_tested_here() -> None:
    assert set(KINDS) == set(charts.__all__)


@every
@pytest.mark.parametrize("number", [1, 200])
def test_a_chart_has_title_words_and_few_rows_at_any_size(kind: Kind, number: int) -> None:
    chart = kind.draw(kind.frame(number, "n"))
    spec = chart.to_dict()
    assert title(chart)
    assert re.search(r"\d", description(chart)), "the numbers are in words"
    assert 0 < len(data(chart)) <= 500
    assert re.fullmatch("#f[0-9a-f]{5}", spec["background"]), (
        "its own light ground, readable on a dark page too"
    )
    axes = [axis for name in ("x", "y") for axis in found_in(spec, name) if isinstance(axis, dict)]
    numbers = [
        axis for axis in axes if axis.get("type") == "quantitative" and axis.get("axis", 0) is not None
    ]
    assert all(axis.get("title") for axis in numbers if "zero" not in axis["field"]), (
        "axes of numbers say of what"
    )
    for scale in found_in(spec, "shape"):
        if isinstance(scale, dict):
            assert len(set(scale["scale"]["range"])) == len(scale["scale"]["range"])


@every
def test_a_chart_is_drawn_without_a_network_or_a_warning(kind: Kind) -> None:
    assert svg(kind.draw(kind.frame(40, "n"))).startswith("<svg")


@every
def test_an_empty_log_is_a_chart_that_says_so(kind: Kind) -> None:
    chart = kind.draw(kind.frame(1, "n").clear())
    assert kind.nothing in svg(chart)
    assert kind.nothing in description(chart)


@every
def test_another_frame_is_an_error_that_says_what_to_give(kind: Kind) -> None:
    with pytest.raises(InputError, match=r"(has no|neither) .* — give it"):
        kind.draw(pl.DataFrame({"other": [1]}))
    with pytest.raises(InputError, match=r"takes a frame, not str — give it"):
        kind.draw("runs/log.jsonl")


def test_a_column_of_another_type_is_an_error_that_names_it() -> None:
    wrong = cases({"a": ((0, 1, 1), (1, 1, 1))}).with_columns(passes=pl.lit("many"))
    with pytest.raises(InputError, match=r"pass_rates: a column of the frame has another type.*passes"):
        charts.pass_rates(wrong)


@every
def test_names_of_strangers_are_harmless(kind: Kind) -> None:
    chart = kind.draw(kind.frame(3, EVIL))
    picture = svg(chart)
    assert "<script" not in picture
    for text in (picture, description(chart)):
        assert not re.search("[\x00-\x08\x0e-\x1f\u202e]", text)
    assert "\x1b" not in str(data(chart))


@every
def test_very_long_names_do_not_widen_a_chart_without_end(kind: Kind) -> None:
    size = re.search(r'<svg[^>]*width="([\d.]+)"', svg(kind.draw(kind.frame(3, "long" * 500))))
    assert size
    assert float(size[1]) < 1400


@every
def test_a_lazy_frame_is_taken_too(kind: Kind) -> None:
    assert data(kind.draw(kind.frame(3, "n").lazy())) == data(kind.draw(kind.frame(3, "n")))


@given(st.lists(st.none() | st.text(), max_size=20))
def test_names_are_clean_short_and_stay_apart(names: list[str | None]) -> None:
    found = apart(names, 12)
    assert len(set(found)) == len(names)
    for name, raw in zip(found, names, strict=True):
        assert name
        assert len(re.sub(r" \(\d+\)$", "", name)) <= max(12, len("(not recorded)"))
        assert name.isprintable() or not (raw or "").isprintable()
        assert "\n" not in name


def test_a_run_is_taken_by_every_chart_of_runs(tmp_path: Path) -> None:
    path = project(tmp_path, case("a", check(), prompt="p", difficulty=2))
    run = se.run_set(path, runner=Scripted({"p": ("no", "magic")}), progress=False)
    for name, kind in KINDS.items():
        if not name.startswith("judge"):
            assert "magic · scripted script-1 · inject · n=1" in description(kind.draw(run))
    assert "flipped to pass (fail → pass) 1 of 1: a" in description(charts.flips_matrix(run))
    assert "2 (1 case): baseline 0/1 (0%)" in description(charts.difficulty(run))
    assert "tokens are not reported by any of 2 trials" in description(charts.tokens(run))
