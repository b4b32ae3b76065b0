"""Δ over the log and the flips of cases: order, edits, looks, intervals, what was not measured, many runs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from charted import START, cases, data, description, frame_at, having, run_row, title, words

from skilleval_nb.charts import delta_over_log, flips_matrix
from skilleval_nb.errors import InputError
from skilleval_nb.frames import load_log

ORIGIN = Path(__file__).parents[2] / "shared/corpus/Yco-0314__strata/skills/l5-meta/skill-eval/runs/log.jsonl"
UNMEASURED = dict.fromkeys(
    ("delta", "delta_estimate", "delta_low", "delta_high", "baseline_pass", "skill_pass")
) | {"graded": 0, "gate": "NOT MEASURED"}


def log(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame_at("run", rows)


HISTORY = (
    run_row(
        0, delta=0.0, delta_estimate=0.05, delta_low=-0.3, delta_high=0.4, skill_pass=2, gate="NO MOVEMENT"
    ),
    run_row(1, skill_hash="bbbbbbb222", baseline_reused=12),
    run_row(2, skill_hash="bbbbbbb222", **UNMEASURED),
    run_row(3, skill_hash="bbbbbbb222", confirm=True, look=1, subset=True),
)


def points(chart: Any) -> list[dict[str, Any]]:
    return having(chart, "at", "gate_delta")


def test_runs_stand_in_order_of_time_with_their_intervals_and_the_gates_delta() -> None:
    rows = points(delta_over_log(log(*reversed(HISTORY))))
    assert [row["at"] for row in rows] == [1, 2, 3, 4]
    assert [row["delta"] for row in rows] == [0.05, 0.45, None, 0.45]
    assert [(row["low"], row["high"]) for row in rows] == [(-0.3, 0.4), (0.1, 0.8), (None, None), (0.1, 0.8)]
    assert [row["gate_delta"] for row in rows] == [0.0, 0.5, None, 0.5]
    assert [row["counts"] for row in rows] == [
        "cases 2/10 → 2/10", "cases 2/10 → 7/10", "not measured", "cases 2/10 → 7/10",
    ]  # fmt: skip


def test_edits_looks_confirmations_and_reused_baselines_are_marked() -> None:
    chart = delta_over_log(log(*HISTORY))
    rows = points(chart)
    assert [row["edit"] for row in rows] == [None, 2, None, None]
    assert [row["notes"] for row in rows] == [
        "look 1", "look 2 · 12 trials reused", "look 3", "look 1 · confirmation · subset",
    ]  # fmt: skip
    assert [row["mark"].rpartition(", ")[2] for row in rows] == [
        "with 95 % interval", "baseline reused", "with 95 % interval", "confirmation",
    ]  # fmt: skip
    shown = words(chart)
    assert {"skill aaaaaaa", "skill bbbbbbb", "look 2", "12 trials reused", "Δ pass rate (%)", "+50%"} <= set(
        shown
    )
    assert {
        "the same, confirmation",
        "the same, baseline reused",
        "Δ by the gate, majority of the trials",
    } <= set(shown)


def test_what_was_not_measured_stands_below_the_scale_and_never_at_0() -> None:
    chart = delta_over_log(log(*HISTORY))
    assert [row["absent"] for row in points(chart)] == [None, None, -1.3, None]
    assert words(chart).count("not measured") == 3  # on the axis, in the legend, below the run
    assert "Run 3 (2026-11-01 02:00 UTC, skill bbbbbbb, look 3): not measured." in description(chart)


def test_the_description_tells_every_run() -> None:
    told = description(delta_over_log(log(*HISTORY)))
    assert told.startswith(
        "Δ pass rate over the log (4 runs · s · m · inject · n=1): s: 4 runs of 2 versions of the skill"
    )
    assert (
        "Run 1 (2026-11-01 00:00 UTC, skill aaaaaaa, look 1): Δ +5% (95% CI −30…+40%), gate's Δ 0%,"
        " cases 2/10 → 2/10, NO MOVEMENT." in told
    )


def test_a_record_of_verdicts_has_no_interval() -> None:
    none = dict.fromkeys(("delta_estimate", "delta_low", "delta_high", "skill_hash", "look"))
    chart = delta_over_log(log(run_row(0, **none), run_row(1, **none)))
    assert [(row["delta"], row["low"], row["gate_delta"]) for row in points(chart)] == [(None, None, 0.5)] * 2
    assert [row["edit"] for row in points(chart)] == [None, None]
    assert "no skill hash" in words(chart)
    assert "gate's Δ +50%, cases 2/10 → 7/10, PASS, no interval." in description(chart)
    assert "version" not in description(chart)


def test_each_set_has_a_panel_that_says_what_else_differs() -> None:
    rows = (
        run_row(0),
        run_row(1, set="t"),
        run_row(2, set="t", n=3, judge_model="j1"),
        run_row(3, set="t", judge_model="j2"),
    )
    shown = words(delta_over_log(log(*rows)))
    assert {"s · 1 run", "t · 3 runs · not alike: 2 judges, 2 values of n"} <= set(shown)


def test_seven_sets_are_refused_with_their_names() -> None:
    with pytest.raises(InputError, match=r"7 sets \(s0, s1, .* and 1 more\); 6 fit — keep some"):
        delta_over_log(log(*(run_row(at, set=f"s{at}") for at in range(7))))


def test_trigger_runs_have_no_delta_and_are_left_out() -> None:
    chart = delta_over_log(log(run_row(0), run_row(1, kind="trigger", **UNMEASURED)))
    assert len(points(chart)) == 1
    assert "1 trigger run left out: they have no Δ." in description(chart)
    only = delta_over_log(log(run_row(1, kind="trigger", **UNMEASURED)))
    assert "no run that compares a skill with its baseline is in this log" in words(only)


@pytest.mark.parametrize(("sets", "drawn"), [(1, 200), (6, 83)])
def test_long_logs_are_cut_to_the_newest_and_say_so(sets: int, drawn: int) -> None:
    rows = [
        run_row(at, set=f"s{at % sets}", skill_hash=f"{at // (100 * sets):07x}") for at in range(300 * sets)
    ]
    chart = delta_over_log(log(*rows))
    assert len(points(chart)) == drawn * sets
    assert [row["at"] for row in points(chart)][:1] == [300 - drawn + 1]
    heads = [text for text in words(chart) if text.startswith("s0 ·")]
    assert heads == [f"s0 · the newest {drawn} of 300 runs"]
    labels = [row["line1"] for row in points(chart) if row["line1"]]
    assert len(labels) <= 4 * sets, "only edits and both ends are labelled"


def test_labels_of_many_edits_keep_their_distance() -> None:
    chart = delta_over_log(log(*(run_row(at, skill_hash=f"{at:07x}") for at in range(200))))
    named = [row["at"] for row in points(chart) if row["line1"]]
    assert {1, 200} <= set(named)
    assert len(named) > 20
    pixels = 640 / 200.2
    assert min(b - a for a, b in pairwise(named)) * pixels >= 14


def test_runs_of_no_known_time_come_first() -> None:
    rows = points(delta_over_log(log(run_row(1), run_row(0), run_row(5, ts=None))))
    assert [row["run"] for row in rows] == ["r5", "r0", "r1"]
    assert rows[0]["when"] == "time not recorded"


@pytest.mark.skipif(not ORIGIN.exists(), reason="the corpus is not here")
def test_the_origins_log_is_drawn() -> None:
    log_frame = load_log(ORIGIN, level="run")
    with pytest.raises(InputError, match="7 sets"):
        delta_over_log(log_frame)
    chart = delta_over_log(log_frame.filter(pl.col("set") == "verification-before-completion"))
    assert [row["counts"] for row in points(chart)] == ["cases 1/4 → 4/4", "not measured", "cases 2/4 → 4/4"]
    reviews = flips_matrix(load_log(ORIGIN, level="case").filter(pl.col("set") == "review"))
    assert "2 of 4" in words(reviews)


# --- flips

SIX = {
    "up": ((0, 3, 3), (3, 3, 3)),
    "up2": ((1, 3, 3), (2, 3, 3)),
    "down": ((3, 3, 3), (1, 3, 3)),
    "both": ((2, 3, 3), (3, 3, 3)),
    "neither": ((0, 3, 3), (1, 3, 3)),
    "gone": ((1, 3, 3), (0, 0, 3)),
}


def test_one_run_is_a_table_of_both_verdicts_with_the_names() -> None:
    chart = flips_matrix(cases(SIX))
    found = {(row["before"], row["after"]): (row["counts"], row["fate"], row["names"]) for row in data(chart)}
    assert found == {
        ("pass", "pass"): ("1 of 6", "passes in both", "both"),
        ("pass", "fail"): ("1 of 6", "flipped to fail", "down"),
        ("pass", "not measured"): ("0 of 6", "not measured in both", ""),
        ("fail", "pass"): ("2 of 6", "flipped to pass", "up, up2"),
        ("fail", "fail"): ("1 of 6", "fails in both", "neither"),
        ("fail", "not measured"): ("1 of 6", "not measured in both", "gone"),
    }
    assert {"baseline", "with-skill", "2 of 6", "up, up2", "flipped to pass"} <= set(words(chart))
    assert "flipped to pass (fail → pass) 2 of 6: up, up2" in description(chart)


def test_without_unmeasured_cases_the_table_is_two_by_two() -> None:
    assert len(data(flips_matrix(cases({"a": SIX["up"]})))) == 4


def test_two_hundred_cases_are_counted_and_a_few_named() -> None:
    chart = flips_matrix(cases({f"c{at}": SIX["up"] for at in range(200)}))
    cell = next(row for row in data(chart) if row["fate"] == "flipped to pass")
    assert (cell["counts"], cell["some"]) == ("200 of 200", "c0, c1 and 198 more")
    assert cell["names"].endswith("c11 and 188 more")


def runs(*of: dict[str, Any]) -> pl.DataFrame:
    """Case frames of several runs of one set, an hour apart."""
    return pl.concat(
        cases(found, f"r{at}", ts=START.replace(hour=at), set="s", skill_hash=f"{at:07x}ff")
        for at, found in enumerate(of)
    )


def test_several_runs_are_a_matrix_with_the_totals_of_each() -> None:
    later = {**SIX, "down": SIX["both"], "new": SIX["up"]}
    chart = flips_matrix(runs(SIX, later).reverse())
    matrix = having(chart, "case", "run")
    assert list(dict.fromkeys(row["run"] for row in matrix)) == ["1 · 0000000", "2 · 0000001"]
    assert matrix[0] == {
        "case": "down",
        "run": "1 · 0000000",
        "fate": "flipped to fail",
        "counts": "3/3 → 1/3",
    }
    assert [row["run"] for row in matrix if row["case"] == "new"] == ["2 · 0000001"]
    totals = {(row["run"], row["fate"]): row["counts"] for row in having(chart, "cases", "run")}
    assert totals["1 · 0000000", "flipped to fail"] == "1 of 6"
    assert totals["2 · 0000001", "flipped to pass"] == "3 of 7"
    assert "run 1 · 0000000 (2026-11-01 00:00 UTC): flipped to fail 1 of 6" in description(chart)
    assert "to fail: down" in description(chart)


def test_many_runs_and_cases_are_cut_to_the_newest_and_the_most_telling() -> None:
    dull = {f"c{at}": SIX["both"] for at in range(200)}
    chart = flips_matrix(runs(*[dull] * 11, {**dull, "c150": SIX["down"]}))
    matrix = having(chart, "case", "run")
    assert len({row["case"] for row in matrix}) == 40
    assert matrix[0]["case"] == "c150"
    assert [row["run"] for row in matrix[:10]] == [f"{at + 1} · {at:07x}" for at in range(2, 12)]
    assert len(data(chart)) <= 500
    assert "40 of 200 cases: those that flip most; the totals count all (the newest 10 of 12 runs)" in words(
        chart
    )


def test_several_sets_or_one_condition_are_refused() -> None:
    two = pl.concat([cases(SIX, "a", set="s"), cases(SIX, "b", set="t")])
    with pytest.raises(InputError, match=r"2 sets .*pl\.col\(\"set\"\) == 's'"):
        flips_matrix(two)
    with pytest.raises(InputError, match="skill was not run"):
        flips_matrix(cases(SIX).filter(pl.col("condition") == "baseline"))


def test_a_log_of_other_conditions_has_no_flips() -> None:
    placebo = cases(SIX).with_columns(condition=pl.lit("placebo"))
    chart = flips_matrix(placebo)
    assert title(chart) == "What became of each case"
    assert "no case was run at baseline or with-skill" in words(chart)
