"""More cases or more trials: what a plan advises, what a run's variance advises, and that a plan shows it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from scripted import Scripted
from worlds import case, check, project

import skilleval_nb as se
from skilleval_nb import stats


def test_too_few_cases_are_the_first_thing_to_mend() -> None:
    """Table of the reference: from 30 %, 5 × 1 finds nothing reliably, 5 × 3 finds +55, 3 × 5 finds +55."""
    assert stats.plan_advice(5, 1) == (
        "first write 1 more case unlike the others: fewer than 6 never speak for similar prompts",
        "n=3 takes 30 calls instead of 10 and finds +55 points on these prompts (now none reliably)",
    )
    first, second = stats.plan_advice(3, 3)
    assert first.startswith("first write 3 more cases")
    assert second == "n=5 takes 30 calls instead of 18 and finds +55 points on these prompts (now +70)"


def test_a_hopeless_design_gets_a_number_of_trials_that_finds_something() -> None:
    for n_cases, n_trials in ((1, 1), (1, 3), (2, 1), (2, 2)):
        assert stats.design(n_cases, n_trials).smallest_delta is None
        _, second = stats.plan_advice(n_cases, n_trials)
        found = re.match(r"n=(\d+) takes (\d+) calls instead of (\d+) and finds \+(\d+) points", second)
        assert found
        more, calls, now, points = map(int, found.groups())
        assert (calls, now) == (2 * n_cases * more, 2 * n_cases * n_trials)
        assert stats.power(n_cases, more, 0.3, points / 100) >= 0.78
        assert stats.power(n_cases, more, 0.3, (points - 5) / 100) < 0.80


def test_groups_count_and_not_their_cases() -> None:
    first, *_ = stats.plan_advice(12, 1, units=4)
    assert first.startswith("first write 2 more cases unlike the others")
    assert not any("first write" in sentence for sentence in stats.plan_advice(12, 1))
    grouped = stats.design(12, 1, units=4)
    assert grouped.p_cases_min == 0.125
    assert grouped.p_set_min == stats.design(12, 1).p_set_min
    assert grouped.text.endswith("similar prompts need at least 6 groups of cases (4 here)")


def test_from_ten_cases_more_cases_help_most() -> None:
    """From 30 %: 10 × 1 finds +65, 20 × 1 and 40 × 1 find +45 and +35, 20 × 3 finds +30."""
    assert stats.plan_advice(10, 1) == (
        "20 cases × 1 trial (40 calls) find +45 points (now +65), and tell more of similar prompts",
    )
    assert stats.plan_advice(20, 1) == (
        "40 cases × 1 trial (80 calls) find +35 points (now +45), and tell more of similar prompts",
    )
    (repeated,) = stats.plan_advice(20, 3)
    assert repeated.startswith("60 cases × 1 trial (the same 120 calls) find +25 points (now +30)")


def test_below_ten_cases_both_ways_are_told() -> None:
    repeats, cases = stats.plan_advice(9, 1)
    assert re.fullmatch(
        r"n=3 takes 54 calls instead of 18 and finds \+\d+ points on these prompts \(now \+65\)", repeats
    )
    assert cases.startswith("27 cases × 1 trial (54 calls) find")


def test_no_advice_where_small_rises_are_found_already() -> None:
    assert stats.design(1000, 1).smallest_delta is not None
    assert stats.plan_advice(1000, 1) == stats.plan_advice(300, 2) == ()


@pytest.mark.parametrize("n_trials", [1, 2, 3, 5, 9, 20])
def test_every_advice_is_short_and_within_its_rules(n_trials: int) -> None:
    for n_cases in (1, 2, 3, 5, 6, 7, 9, 10, 15, 33, 120):
        sentences = stats.plan_advice(n_cases, n_trials)
        assert len(sentences) <= 2
        assert all(len(sentence) <= 105 for sentence in sentences)
        assert any("first write" in sentence for sentence in sentences) == (n_cases < 6)


def split(baseline: str, skill: str) -> stats.VarianceSplit:
    arms = ([[letter == "1" for letter in trials] for trials in arm.split()] for arm in (baseline, skill))
    return stats.variance_split(*arms)


def test_after_a_run_the_larger_part_of_the_variance_is_named() -> None:
    """Differences 1 and 0 without run noise: all of it is cases. 0 and ½ with noise ½ and ¼ a case: all runs."""
    cases = stats.advice(split("00 11", "11 11"))
    assert cases == (
        "cases differ more than the runs of one case do (100% of the variance of Δ, 2 cases): add cases to narrow Δ"
    )
    runs = stats.advice(split("10 10", "10 11"))
    assert runs == (
        "runs of one case differ more than the cases do (100% of the variance of Δ, 2 cases): raise n to narrow Δ"
    )


@pytest.mark.parametrize(("baseline", "skill"), [("0 1 0", "1 1 0"), ("00", "11"), ("00 00", "11 11")])
def test_no_advice_from_single_trials_one_case_or_no_variance(baseline: str, skill: str) -> None:
    assert stats.advice(split(baseline, skill)) is None


def test_a_plan_shows_what_it_can_show_and_what_to_change(tmp_path: Path) -> None:
    path = project(tmp_path, case("a", cluster="x"), case("b", cluster="x"), case("c"))
    plan = se.plan_set(path, runner=Scripted({}))
    lines = str(plan).splitlines()
    at = next(place for place, line in enumerate(lines) if line.startswith("can show    "))
    assert "groups of cases (2 here)" in lines[at]
    assert [lines[at + 1][:12], lines[at + 2][:12]] == ["advice      ", " " * 12]
    assert tuple(line[12:] for line in lines[at + 1 : at + 3]) == stats.plan_advice(3, 1, units=2)
    alone = se.plan_set(path, runner=Scripted({}), conditions=("skill",))
    assert "advice" not in str(alone)


def test_clusters_of_a_set_reach_the_runs_evidence(tmp_path: Path) -> None:
    """Six cases moved, but in two groups: on these prompts as before, for similar ones nothing."""
    cases = [case(name, cluster="x" if name < "d" else "y") for name in "abcdef"]
    plain = [case(name) for name in "abcdef"]
    answers: dict[str, tuple[str | None, str | None]] = {
        f"Task {name}.": ("plain", "magic!") for name in "abcdef"
    }
    runs = []
    for folder, items in (("clustered", cases), ("plain", plain)):
        (tmp_path / folder).mkdir()
        path = project(tmp_path / folder, *items)
        runs.append(se.run_set(path, runner=Scripted(answers), progress=False))
    (grouped, alone) = (run.record["evidence"] for run in runs)
    assert (alone["scope"], grouped["scope"]) == (stats.SIMILAR, stats.THESE)
    assert (alone["pCases"], grouped["pCases"]) == (2 / 64, 0.5)
    assert grouped["pSet"] == alone["pSet"]
    assert "not shown (2 groups; at least 6 are needed)" in grouped["line"]
    assert [item.get("cluster") for item in runs[0].record["cases"]] == list("xxxyyy")
    assert all("cluster" not in item for item in runs[1].record["cases"])
    reopened = se.load_run(str(runs[0].folder))
    assert reopened.record["evidence"] == grouped
    again = se.regrade(reopened, checks={name: [check()] for name in "abc"})
    assert again.record["evidence"]["pCases"] == 0.5
    compared = se.compare(runs[0])
    assert (compared.evidence.units, compared.evidence.p_cases) == (2, 0.5)
    both = se.compare(runs[1], runs[0])
    assert (both.evidence.units, both.evidence.clustered) == (2, True)
