"""Charts: what they draw and say, from one case to many, and how they show themselves without a network."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import altair as alt
import polars as pl
import pytest

from skilleval_nb.charts import pass_rates
from skilleval_nb.errors import InputError
from skilleval_nb.notebook import describe, render, setup

Counts = tuple[int, int, int]
"""Passes, measured trials, planned trials."""


def frame(cases: Mapping[str, tuple[Counts, Counts]], run_id: str = "r") -> pl.DataFrame:
    """A case-level frame: for each case its counts without and with the skill."""
    rows = [
        {
            "run_id": run_id, "case_id": name, "difficulty": 1, "condition": condition,
            "verdict": None if not measured else 2 * passes > measured,
            "passes": passes, "measured": measured, "trials": planned,
        }
        for name, both in cases.items()
        for condition, (passes, measured, planned) in zip(("baseline", "skill"), both, strict=True)
    ]  # fmt: skip
    return pl.DataFrame(rows, schema_overrides={"verdict": pl.Boolean})


def svg(chart: alt.VConcatChart) -> str:
    return render(chart.to_dict())[0]["image/svg+xml"]


def words(chart: alt.VConcatChart) -> list[str]:
    """The texts that the picture shows."""
    return [found for found in re.findall(r"<text[^>]*>([^<]*)</text>", svg(chart)) if found]


THREE = {
    "up": ((0, 3, 3), (2, 3, 3)),
    "down": ((3, 3, 3), (1, 3, 3)),
    "half": ((1, 2, 3), (3, 3, 3)),
    "gone": ((1, 1, 3), (0, 0, 3)),
}
"""`half` fails without the skill: 1 of 2 is a tie. `gone` was not measured with it. So 1/3 against 2/3."""


def test_the_description_holds_the_numbers() -> None:
    assert pass_rates(frame(THREE)).to_dict()["description"] == (
        "pass rates: pass rate baseline 1/3 (33%) with-skill 2/3 (67%) Δ +33% over 3 cases;"
        " flipped to fail 1: down; flipped to pass 2: half, up; not measured in both 1"
    )


def test_every_rate_stands_beside_its_counts_and_drops_come_first() -> None:
    shown = words(pass_rates(frame(THREE)))
    assert [text for text in shown if text in THREE] == ["down", "half", "up", "gone"]
    for text in ("1/3 (33%)", "2/3 (67%)", "3/3 → 1/3", "1/2 → 3/3", "0/3 → 2/3", "1/1 → not measured"):
        assert text in shown
    assert {"cases passed (%)", "trials passed (%)", "baseline", "with-skill", "100%"} <= set(shown)


def test_conditions_differ_in_shape_too() -> None:
    marks = re.findall(r'aria-roledescription="(circle|diamond|point)"[^>]*', svg(pass_rates(frame(THREE))))
    assert marks
    spec = pass_rates(frame(THREE)).to_dict()
    shapes = re.findall(r"'range': \['circle', 'diamond'\]", str(spec))
    assert shapes


def test_one_case_is_enough() -> None:
    shown = words(pass_rates(frame({"only": ((0, 1, 1), (1, 1, 1))})))
    assert {"only", "0/1 (0%)", "1/1 (100%)", "0/1 → 1/1"} <= set(shown)


def test_nothing_measured_is_no_zero() -> None:
    chart = pass_rates(frame({"a": ((0, 0, 1), (0, 0, 1))}))
    assert {"0/0 (n/a)", "not measured → not measured"} <= set(words(chart))
    assert "Δ n/a over 0 cases; not measured in both 1" in chart.to_dict()["description"]


def test_many_cases_are_counted_and_the_picture_stays_small() -> None:
    up, down = ((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (0, 1, 1))
    chart = pass_rates(frame({f"c{i}": down if i < 5 else up for i in range(1000)}))
    shown = words(chart)
    assert {"5 of 1,000", "995 of 1,000", "what became of 1,000 cases", "flipped to fail"} <= set(shown)
    size = re.search(r'<svg[^>]*height="([\d.]+)"', svg(chart))
    assert size is not None
    assert float(size[1]) < 400
    assert "c16 and 983 more" in chart.to_dict()["description"]


def test_forty_cases_are_drawn_one_by_one() -> None:
    shown = words(pass_rates(frame({f"c{i}": ((0, 1, 1), (1, 1, 1)) for i in range(40)})))
    assert {f"c{i}" for i in range(40)} <= set(shown)


def test_names_of_strangers_are_harmless_and_stay_apart() -> None:
    evil = "<script>\x1b[31m\x00\u202e</script> 'x' \\"
    long = "n" * 200
    chart = pass_rates(frame({evil: THREE["up"], long + "1": THREE["down"], long + "2": THREE["half"]}))
    picture = svg(chart)
    assert "<script" not in picture
    assert "3/3 → 1/3" in picture
    assert "1/2 → 3/3" in picture
    picture.encode()


def test_other_conditions_are_left_alone() -> None:
    placebo = frame(THREE).with_columns(condition=pl.lit("placebo")).head(4)
    assert words(pass_rates(pl.concat([frame(THREE), placebo]))) == words(pass_rates(frame(THREE)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (frame(THREE).drop("passes"), "no column passes"),
        (frame(THREE).clear(), "no case to draw"),
        (pl.concat([frame(THREE, "r1"), frame(THREE, "r2")]), r"2 runs.*run_id.*r2"),
    ],
)
def test_a_wrong_frame_is_an_error_that_says_what_to_do(wrong: pl.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pass_rates(wrong)


def test_a_chart_shows_itself_as_pictures_and_as_text() -> None:
    bundle, metadata = render(pass_rates(frame(THREE)).to_dict())
    assert set(bundle) == {"image/svg+xml", "image/png", "text/plain"}
    assert bundle["text/plain"].startswith("<chart: pass rates: pass rate baseline 1/3 (33%)")
    assert bundle["image/svg+xml"].startswith("<svg")
    size = re.search(r'<svg[^>]*width="([\d.]+)"', bundle["image/svg+xml"])
    assert size is not None
    assert abs(metadata["image/png"]["width"] - float(size[1])) < 8
    assert metadata["image/png"]["alt"] in bundle["text/plain"]


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"description": "d", "title": "t"}, "d"),
        ({"title": "t"}, "t"),
        ({"title": {"text": ["two", "lines"]}}, "two lines"),
        ({"title": {"anchor": "start"}}, "chart"),
        ({}, "chart"),
    ],
)
def test_a_chart_without_a_description_has_its_title(spec: dict[str, Any], text: str) -> None:
    assert describe(spec) == text


def test_a_control_character_in_anybodys_chart_does_not_end_the_process() -> None:
    data = pl.DataFrame({"name": ["a\x01b\x00", "c"], "value": [1, 2]})
    spec = alt.Chart(data, title="t\x07").mark_bar().encode(x="value:Q", y="name:N").to_dict()
    assert "a\\u{1}b\\u{0}" in render(spec)[0]["image/svg+xml"]


def test_setup_turns_on_the_renderer_any_number_of_times_and_import_does_not() -> None:
    before = alt.renderers.active
    assert before != "skilleval_nb"
    try:
        setup()
        setup()
        assert alt.renderers.active == "skilleval_nb"
        chart = alt.Chart(pl.DataFrame({"x": [1]}), title="one").mark_point().encode(x="x:Q")
        bundle, _ = chart._repr_mimebundle_(None, None)
        assert bundle["text/plain"] == "<chart: one>"
    finally:
        alt.renderers.enable(before)


def test_a_chart_needs_no_network() -> None:
    """Drawn in a process where opening any socket fails."""
    code = """
import socket
def refuse(*_, **__): raise OSError("no network")
socket.socket.connect = socket.getaddrinfo = refuse
import altair as alt, polars as pl
import skilleval_nb.notebook as notebook
notebook.setup()
chart = alt.Chart(pl.DataFrame({"x": [1]}), title="one").mark_point().encode(x="x:Q")
print(sorted(chart._repr_mimebundle_(None, None)[0]))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['image/png', 'image/svg+xml', 'text/plain']"
