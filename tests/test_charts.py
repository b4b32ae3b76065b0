"""Pass rates and difficulty: what they draw and say, from one case to many, and how charts show themselves."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import altair as alt
import polars as pl
import pytest
from charted import EVIL, cases, data, description, frame_at, having, svg, words
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from skilleval_nb.charts import difficulty, pass_rates
from skilleval_nb.errors import InputError
from skilleval_nb.notebook import describe, render, setup

THREE = {
    "up": ((0, 3, 3), (2, 3, 3)),
    "down": ((3, 3, 3), (1, 3, 3)),
    "half": ((1, 2, 3), (3, 3, 3)),
    "gone": ((1, 1, 3), (0, 0, 3)),
}
"""`half` fails without the skill: 1 of 2 is a tie. `gone` was not measured with it. So 1/3 against 2/3."""


def test_the_description_holds_the_numbers() -> None:
    assert pass_rates(cases(THREE)).to_dict()["description"] == (
        "pass rates: pass rate baseline 1/3 (33%) with-skill 2/3 (67%) Δ +33% over 3 cases;"
        " baseline 95% CI 6…79%, with-skill 95% CI 21…94%;"
        " flipped to fail 1: down; flipped to pass 2: half, up; not measured in both 1"
    )


def test_every_rate_stands_beside_its_counts_and_drops_come_first() -> None:
    shown = words(pass_rates(cases(THREE)))
    assert [text for text in shown if text in THREE] == ["down", "half", "up", "gone"]
    for text in ("1/3 (33%)", "2/3 (67%)", "3/3 → 1/3", "1/2 → 3/3", "0/3 → 2/3", "1/1 → not measured"):
        assert text in shown
    assert {"cases passed (%)", "trials passed (%)", "baseline", "with-skill", "100%"} <= set(shown)


def test_conditions_differ_in_shape_too() -> None:
    marks = re.findall(r'aria-roledescription="(circle|diamond|point)"[^>]*', svg(pass_rates(cases(THREE))))
    assert marks
    spec = pass_rates(cases(THREE)).to_dict()
    shapes = re.findall(r"'range': \['circle', 'diamond'\]", str(spec))
    assert shapes


def test_one_case_is_enough() -> None:
    shown = words(pass_rates(cases({"only": ((0, 1, 1), (1, 1, 1))})))
    assert {"only", "0/1 (0%)", "1/1 (100%)", "0/1 → 1/1"} <= set(shown)


def test_nothing_measured_is_no_zero() -> None:
    chart = pass_rates(cases({"a": ((0, 0, 1), (0, 0, 1))}))
    assert {"0/0 (n/a)", "not measured → not measured"} <= set(words(chart))
    assert "Δ n/a over 0 cases; not measured in both 1" in chart.to_dict()["description"]


def test_many_cases_are_counted_and_the_picture_stays_small() -> None:
    up, down = ((0, 1, 1), (1, 1, 1)), ((1, 1, 1), (0, 1, 1))
    chart = pass_rates(cases({f"c{i}": down if i < 5 else up for i in range(1000)}))
    shown = words(chart)
    assert {"5 of 1,000", "995 of 1,000", "what became of 1,000 cases", "flipped to fail"} <= set(shown)
    size = re.search(r'<svg[^>]*height="([\d.]+)"', svg(chart))
    assert size is not None
    assert float(size[1]) < 400
    assert "c16 and 983 more" in chart.to_dict()["description"]


def test_forty_cases_are_drawn_one_by_one() -> None:
    shown = words(pass_rates(cases({f"c{i}": ((0, 1, 1), (1, 1, 1)) for i in range(40)})))
    assert {f"c{i}" for i in range(40)} <= set(shown)


def test_names_of_strangers_are_harmless_and_stay_apart() -> None:
    long = "n" * 200
    chart = pass_rates(cases({EVIL: THREE["up"], long + "1": THREE["down"], long + "2": THREE["half"]}))
    picture = svg(chart)
    assert "<script" not in picture
    assert "3/3 → 1/3" in picture
    assert "1/2 → 3/3" in picture
    picture.encode()


def test_other_conditions_are_left_alone() -> None:
    placebo = cases(THREE).with_columns(condition=pl.lit("placebo")).head(4)
    assert words(pass_rates(pl.concat([cases(THREE), placebo]))) == words(pass_rates(cases(THREE)))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (cases(THREE).drop("passes"), "no column passes"),
        (pl.concat([cases(THREE, "r1"), cases(THREE, "r2")]), r"2 runs.*run_id.*r2"),
    ],
)
def test_a_wrong_frame_is_an_error_that_says_what_to_do(wrong: pl.DataFrame, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pass_rates(wrong)


def test_the_overall_bars_have_wilson_intervals() -> None:
    """Of 1 and 2 of the 3 cases measured in both; the oracle is scipy's."""
    bars = having(pass_rates(cases(THREE)), "condition", "low")
    for bar, passed in zip(bars, (1, 2), strict=True):
        ci = binomtest(passed, 3).proportion_ci(method="wilson")
        assert (bar["low"], bar["high"]) == pytest.approx((ci.low, ci.high), abs=1e-9)
        assert bar["rate"] == pytest.approx(passed / 3)


def test_nothing_measured_has_no_bar() -> None:
    bars = having(pass_rates(cases({"a": ((0, 0, 1), (0, 0, 1))})), "condition", "rate")
    assert [(bar["rate"], bar["low"], bar["counts"]) for bar in bars] == [(None, None, "0/0 (n/a)")] * 2


def test_old_records_that_hold_verdicts_only_are_drawn_by_them() -> None:
    verdicts = {
        ("a", "baseline"): False,
        ("a", "skill"): True,
        ("b", "baseline"): None,
        ("b", "skill"): False,
    }
    rows = [
        {"run_id": "r", "case_id": name, "condition": condition, "verdict": verdict, "passes": None, "measured": None,
         "trials": None, "difficulty": None}
        for (name, condition), verdict in verdicts.items()
    ]  # fmt: skip
    shown = words(pass_rates(frame_at("case", rows)))
    assert {"fail → pass", "not measured → fail", "0/1 (0%)", "1/1 (100%)"} <= set(shown)
    assert "1/1 → 1/1" not in shown


HARD = {
    **{f"e{i}": ((3, 3, 3), (3, 3, 3)) for i in range(2)},
    "hard": ((0, 3, 3), (3, 3, 3)),
    "odd": ((0, 3, 3), (1, 3, 3)),
    "gone": ((3, 3, 3), (0, 0, 3)),
}
TAGS = {"e0": 1, "e1": 1, "hard": 3, "odd": None, "gone": 3}


def tagged() -> pl.DataFrame:
    tags = pl.col("case_id").replace_strict(TAGS, return_dtype=pl.Int64)
    return cases(HARD).with_columns(difficulty=tags)


def test_difficulty_counts_cases_measured_in_both_by_tag() -> None:
    chart = difficulty(tagged())
    found = [(row["tag"], row["condition"], row["counts"]) for row in data(chart)]
    assert found == [
        ("1 (2 cases)", "baseline", "2/2 (100%)"),
        ("1 (2 cases)", "with-skill", "2/2 (100%)"),
        ("3 (2 cases)", "baseline", "0/1 (0%)"),
        ("3 (2 cases)", "with-skill", "1/1 (100%)"),
        ("untagged (1 case)", "baseline", "0/1 (0%)"),
        ("untagged (1 case)", "with-skill", "0/1 (0%)"),
    ]
    ci = binomtest(2, 2).proportion_ci(method="wilson")
    assert data(chart)[0]["low"] == pytest.approx(ci.low)
    assert "3 (2 cases): baseline 0/1 (0%) 95% CI 0…79%, with-skill 1/1 (100%)" in description(chart)
    assert "1 case not measured in both" in description(chart)
    assert {"difficulty", "cases passed (%)", "untagged (1 case)"} <= set(words(chart))


def test_a_difficulty_of_which_nothing_was_measured_has_no_rate() -> None:
    rows = data(difficulty(cases({"a": ((0, 0, 1), (1, 1, 1))})))
    assert [(row["rate"], row["low"], row["counts"]) for row in rows] == [(None, None, "0/0 (n/a)")] * 2


@settings(max_examples=12, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(0, 3).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m), st.just(3))),
            st.integers(0, 3).flatmap(lambda m: st.tuples(st.integers(0, m), st.just(m), st.just(3))),
            st.sampled_from([1, 2, 3, None]),
        ),
        min_size=1,
        max_size=60,
    )
)
def test_no_rate_is_without_its_denominator(found: list[Any]) -> None:
    frame = cases({str(at): (base, skill) for at, (base, skill, _) in enumerate(found)})
    tags = pl.col("case_id").replace_strict(
        {str(at): tag for at, (_, _, tag) in enumerate(found)}, return_dtype=pl.Int64
    )
    for chart in (pass_rates(frame), difficulty(frame.with_columns(difficulty=tags))):
        for row in data(chart):
            if row.get("rate") is not None:
                counts = re.fullmatch(r"(\d+)/(\d+) \(\d+%\)", row["counts"])
                assert counts
                assert row["rate"] == pytest.approx(int(counts[1]) / int(counts[2]))
                assert row["low"] <= row["rate"] <= row["high"]
            sides = re.split(" → ", row["counts"]) if "before" in row else []
            for rate, counted in zip((row.get("before"), row.get("after")), sides, strict=False):
                assert (rate is None) == (counted == "not measured")
                if rate is not None:
                    assert rate == pytest.approx(int(counted[0]) / int(counted[2]))


def test_a_chart_shows_itself_as_pictures_and_as_text() -> None:
    bundle, metadata = render(pass_rates(cases(THREE)).to_dict())
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
