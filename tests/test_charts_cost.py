"""Tokens, cost, latency and the price of an extra pass: sums worked out by hand, and what is absent is called so."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from charted import START, check_row, data, description, frame_at, having, trial_row, words
from scipy import stats

from skilleval_nb.charts import cost, cost_per_extra_pass, latency, tokens
from skilleval_nb.errors import InputError


def trials(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame_at("trial", rows)


def checks(*rows: dict[str, Any]) -> pl.DataFrame:
    return frame_at("check", rows)


USED = trials(
    trial_row("a", "baseline", input_tokens=100, output_tokens=20, cache_read_tokens=0, cost_usd=0.001),
    trial_row("b", "baseline", input_tokens=50, output_tokens=40, cost_usd=0.003),
    trial_row("c", "baseline", outcome="executor_failed"),
    trial_row("a", "skill", input_tokens=300, output_tokens=10, cache_read_tokens=8, cost_usd=0.002),
    trial_row(
        "b", "skill", input_tokens=200, output_tokens=30, cache_read_tokens=4, cost_usd=0.004, reused=True
    ),
    trial_row("c", "skill", input_tokens=10, output_tokens=2, cache_read_tokens=0, cost_usd=0.006),
)
J1: dict[str, Any] = {
    "judge_model": "j",
    "judge_input_tokens": 70,
    "judge_output_tokens": 7,
    "judge_cost_usd": 0.01,
}
J2: dict[str, Any] = {
    "judge_model": "j",
    "judge_input_tokens": 30,
    "judge_output_tokens": 3,
    "judge_cost_usd": 0.02,
}
JUDGED = checks(
    check_row("a", "baseline", check=1, **J1),
    check_row("a", "baseline", check=2, **J2),
    check_row("a", "skill", check=1, judge_model="j", judge_input_tokens=60, judge_output_tokens=6),
    check_row("a", "skill", check=2, judge_model="j"),
    check_row("b", "skill", check=1),
)  # fmt: skip


def cells(chart: Any) -> dict[tuple[str, str], str]:
    return {(row["name"], row["kind"]): row["text"] for row in having(chart, "kind", "text")}


def test_tokens_are_means_over_the_trials_that_report_each_kind() -> None:
    found = cells(tokens(USED, JUDGED))
    base, skill = "executor · baseline", "executor · with-skill"
    assert found[base, "input"] == "75"  # (100 + 50) / 2
    assert found[base, "output"] == "30"
    assert found[base, "cache read"] == "0 (1/2)"  # one of the two that report does not tell it
    assert found[base, "together"] == "105"
    assert found[skill, "input"] == "170"  # 510 / 3
    assert found[skill, "cache read"] == "4"
    assert found[skill, "together"] == "188"  # 170 + 14 + 4


def test_a_kind_that_nobody_reports_is_called_so_and_has_no_bar() -> None:
    chart = tokens(USED, JUDGED)
    bars = having(chart, "kind", "tokens")
    assert {row["kind"] for row in bars} == {"input", "cache read", "output"}
    assert {text for (_, kind), text in cells(chart).items() if kind == "cache write"} == {"not reported"}
    assert "cache write not reported" in description(chart)
    assert all(row["tokens"] is not None for row in bars)


def test_a_judge_is_summed_over_its_judgements_of_a_trial_where_all_are_known() -> None:
    chart = tokens(USED, JUDGED)
    found = cells(chart)
    assert found["judge · baseline", "input"] == "100"
    assert found["judge · baseline", "output"] == "10"
    assert found["judge · with-skill", "together"] == "not reported"  # one of its two judgements is not known
    labels = {row["name"]: row["counts"] for row in having(chart, "name", "counts") if "kind" not in row}
    assert labels == {
        "executor · baseline": "105 tokens · 2/3 trials",
        "executor · with-skill": "188 tokens · 3/3 trials",
        "judge · baseline": "110 tokens · 1/1 trials",
        "judge · with-skill": "not reported · 0/1 trials",
    }


def test_the_ratio_is_geometric_over_cases_with_students_interval() -> None:
    base, skill = [100, 50, 80], [300, 200, 100]
    frame = trials(
        *(trial_row(str(at), "baseline", input_tokens=n) for at, n in enumerate(base)),
        *(trial_row(str(at), "skill", input_tokens=n) for at, n in enumerate(skill)),
    )
    logs = np.log(np.array(skill) / np.array(base))
    ci = stats.ttest_1samp(logs, 0).confidence_interval(0.95)
    expected = (
        f"tokens in, with-skill / baseline: ×{np.exp(logs.mean()):.2f}"
        f" (95% CI ×{np.exp(ci.low):.2f}…×{np.exp(ci.high):.2f}, 3 cases)"
    )
    chart = tokens(frame)
    assert expected in words(chart)
    assert expected in description(chart)


def test_what_has_to_be_known_beside_the_numbers_is_said() -> None:
    shown = words(tokens(USED))
    assert "the judge is not counted: give its checks too (checks=…)" in shown
    assert "1 of 6 trials taken from earlier runs, and paid then" in shown
    assert "no judge check is in these trials" in words(
        tokens(USED, JUDGED.filter(pl.col("judge_model").is_null()))
    )


def test_cost_is_a_mean_with_the_sum_beside_it() -> None:
    chart = cost(USED, JUDGED)
    found = {row["name"]: (row["usd"], row["counts"]) for row in having(chart, "usd")}
    assert found == {
        "executor · baseline": (pytest.approx(0.002), "$0.00200 a trial · $0.00400 in all · 2/3 trials"),
        "executor · with-skill": (pytest.approx(0.004), "$0.00400 a trial · $0.0120 in all · 3/3 trials"),
        "judge · baseline": (pytest.approx(0.03), "$0.0300 a trial · $0.0300 in all · 1/1 trials"),
        "judge · with-skill": (None, "not reported · 0/1 trials"),
    }
    assert "USD a trial (mean)" in words(chart)


def test_a_local_models_cost_of_0_is_reported() -> None:
    chart = cost(trials(trial_row("a", cost_usd=0.0), trial_row("a", "skill", cost_usd=0.0)))
    assert {row["counts"] for row in having(chart, "usd")} == {"$0 a trial · $0 in all · 1/1 trials"}


def test_nothing_reported_is_a_chart_that_says_so() -> None:
    nothing = trials(trial_row("a"), trial_row("a", "skill"))
    assert "tokens are not reported by any of 2 trials" in words(tokens(nothing))
    assert "a cost is not reported by any of 2 trials" in words(cost(nothing))
    assert "no latency is reported by any of 2 trials" in words(latency(nothing))


@pytest.mark.parametrize("chart", [tokens, cost, latency])
def test_other_conditions_are_shown_up_to_eight(chart: Any) -> None:
    names = ["skill", "placebo", "baseline", "previous"]
    given: dict[str, Any] = {"input_tokens": 5, "cost_usd": 0.5, "latency_s": 1.0}
    rows = having(chart(trials(*(trial_row("a", name, **given) for name in names))), "name", "counts")
    order = list(dict.fromkeys(row["name"].removeprefix("executor · ") for row in rows))
    assert order == ["baseline", "with-skill", "placebo", "previous"]
    with pytest.raises(InputError, match=r"9 conditions; a chart tells 8 apart"):
        chart(trials(*(trial_row("a", f"c{at}", **given) for at in range(9))))


def test_a_condition_that_calls_itself_with_skill_stays_apart() -> None:
    rows = having(
        latency(trials(trial_row("a", "skill", latency_s=1.0), trial_row("a", "with-skill", latency_s=2.0))),
        "median",
    )
    assert [(row["name"], row["median"]) for row in rows] == [("with-skill", 1.0), ("with-skill (2)", 2.0)]


def test_few_latencies_are_ticks_with_median_and_n() -> None:
    times = [1.0, 2.0, 4.0, None]
    frame = trials(
        *(trial_row("a", trial=at, latency_s=time) for at, time in enumerate(times)), trial_row("a", "skill")
    )
    chart = latency(frame)
    assert sorted(row["seconds"] for row in having(chart, "seconds")) == [1.0, 2.0, 4.0]
    assert {row["counts"] for row in having(chart, "median")} == {
        "median 2 s · 1…4 s · 3/4 trials",
        "not reported · 0/1 trials",
    }
    assert "seconds" in words(chart)
    assert "executor's answers: a tick a trial; black: median" in words(chart)


def test_fifty_latencies_are_a_box() -> None:
    times = [float(at) for at in range(1, 102)]
    frame = trials(*(trial_row("a", trial=int(time), latency_s=time) for time in times))
    chart = latency(frame)
    assert having(chart, "seconds") == []
    box = having(chart, "q1")[0]
    quantiles = np.quantile(times, [0.05, 0.25, 0.5, 0.75, 0.95])
    assert [box[name] for name in ("p05", "q1", "median", "q3", "p95")] == pytest.approx(quantiles.tolist())
    assert box["counts"] == "median 51 s · middle half 26…76 s · 101/101 trials"


def test_one_very_slow_answer_makes_the_axis_logarithmic_and_says_so() -> None:
    frame = trials(
        *(trial_row("a", trial=at, latency_s=time) for at, time in enumerate([1.0, 1.0, 1.0, 90.0]))
    )
    assert "seconds, log scale" in words(latency(frame))


# --- the price of an extra pass


def paired(
    run: str, passes: list[tuple[bool, bool]], extra: int | None, usd: float | None = None, **more: Any
) -> list[dict[str, Any]]:
    """One trial a condition and case: `extra` tokens and dollars more with the skill than 100 and 0.01."""
    return [
        trial_row(
            f"c{at}", condition, run_id=run,
            outcome="passed" if passed else "failed",
            input_tokens=None if extra is None else 100 + extra * (condition == "skill"),
            cost_usd=None if usd is None else 0.01 + usd * (condition == "skill"), **more,
        )
        for at, pair in enumerate(passes)
        for condition, passed in zip(("baseline", "skill"), pair, strict=True)
    ]  # fmt: skip


def test_the_price_is_the_extra_over_the_passes_added_with_deltas_interval_carried_through() -> None:
    differences = [1] * 8 + [0] * 2
    chart = cost_per_extra_pass(trials(*paired("r", [(False, bool(d)) for d in differences], 40, 0.002)))
    ci = stats.ttest_1samp([*differences, 1, -1], 0).confidence_interval(0.95)
    in_tokens, in_usd = having(chart, "price")
    assert in_tokens["price"] == pytest.approx(40 / 0.8)
    assert in_tokens["low"] == pytest.approx(40 / min(1, ci.high))
    assert in_tokens["end"] == pytest.approx(40 / ci.low)
    assert in_tokens["arrow"] is None
    assert in_tokens["counts"] == "+40 tokens a trial ÷ Δ +80% over 10 cases"
    assert in_usd["price"] == pytest.approx(0.0025)
    assert {"tokens for each extra pass", "USD for each extra pass"} <= set(words(chart))


def test_an_interval_of_delta_that_includes_0_has_no_upper_end() -> None:
    row = having(
        cost_per_extra_pass(trials(*paired("r", [(False, True), (False, False), (True, True)], 30))), "price"
    )[0]
    assert row["arrow"] == row["end"]
    assert row["first"] == "90 tokens (95% CI 30…no upper end)"


@pytest.mark.parametrize(
    ("passes", "extra", "first", "counts"),
    [
        ([(True, True)], 30, "not defined: no extra pass", "+30 tokens a trial, Δ 0% over 1 case"),
        ([(True, False)], 30, "not defined: no extra pass", "+30 tokens a trial, Δ −100% over 1 case"),
        ([(False, True)], -30, "costs no more", "−30 tokens a trial, Δ +100% over 1 case"),
        ([(False, True)], 0, "costs no more", "±0 tokens a trial, Δ +100% over 1 case"),
        ([(False, True)], None, "not reported", "in both conditions (1 case)"),
    ],
)
def test_where_there_is_no_price_it_is_said_why(
    passes: list[tuple[bool, bool]], extra: int | None, first: str, counts: str
) -> None:
    chart = cost_per_extra_pass(trials(*paired("r", passes, extra)))
    row = having(chart, "price")[0]
    assert (row["price"], row["low"], row["first"], row["counts"]) == (None, None, first, counts)
    assert f"{first}: {counts}" in description(chart)
    assert "cost in USD: not reported in both conditions" in words(chart)


def test_a_case_that_is_not_measured_or_not_reported_in_both_is_left_out() -> None:
    rows = paired("r", [(False, True)] * 3, 10)
    rows[1]["outcome"] = "executor_timeout"  # c0 with the skill
    rows[2]["input_tokens"] = None  # c1 at baseline
    row = having(cost_per_extra_pass(trials(*rows)), "price")[0]
    assert row["counts"] == "+10 tokens a trial ÷ Δ +100% over 1 of 2 cases"
    rows = [{**row, "outcome": "executor_timeout"} for row in rows]
    row = having(cost_per_extra_pass(trials(*rows)), "price")[0]
    assert (row["first"], row["counts"]) == ("not measured", "no case measured in both conditions (of 3)")


def test_runs_stand_in_order_of_time_and_of_many_the_newest() -> None:
    rows = [
        row
        for at in reversed(range(50))
        for row in paired(
            f"r{at}", [(False, True)], at + 1, 0.0, ts=START.replace(minute=at), skill_hash="abcdef999"
        )
    ]
    chart = cost_per_extra_pass(trials(*rows))
    found = having(chart, "price")
    assert [row["price"] for row in found] == [float(at + 1) for at in range(10, 50)]
    assert found[0]["name"] == "s · abcdef9 · 11-01 00:10"
    assert {"the newest 40 of 50 runs", "cost in USD: $0 for every trial that reports it"} <= set(
        words(chart)
    )


def test_a_run_of_one_condition_is_not_measured() -> None:
    chart = cost_per_extra_pass(trials(trial_row("a", input_tokens=3)))
    assert [row["first"] for row in data(chart) if "first" in row] == ["not measured"]
