"""The gate: majority, percentages, the two fillings, and the texts of the seed."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skilleval_nb.errors import InputError
from skilleval_nb.gate import (
    CaseCells,
    Cell,
    Decision,
    decide,
    gate_lines,
    gate_of,
    majority,
    percent,
    percent_of,
    rate_line,
    span,
)
from skilleval_nb.values import Gate


def cell(trials: str) -> Cell:
    """Trials as a string: 1 passed, 0 failed, . not measured."""
    return Cell(trials.count("1"), len(trials) - trials.count("."), len(trials))


def decided(*pairs: tuple[str, str]) -> Decision:
    return decide([CaseCells(f"c{i}", cell(base), cell(skill)) for i, (base, skill) in enumerate(pairs)])


@pytest.mark.parametrize(
    ("passes", "measured", "verdict"),
    [
        (0, 0, None),
        (0, 1, False),
        (1, 1, True),
        (1, 2, False),
        (2, 3, True),
        (2, 4, False),
        (3, 4, True),
        (2, 5, False),
    ],
)
def test_a_cell_passes_by_strictly_more_than_half(passes: int, measured: int, verdict: bool | None) -> None:
    assert majority(passes, measured) is verdict


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (1, 8, 13),
        (-1, 8, -12),
        (0, 3, 0),
        (1, 3, 33),
        (2, 3, 67),
        (-2, 3, -67),
        (3, 3, 100),
        (1, 200, 1),
        (-1, 200, 0),
        (57, 200, 29),
        (1, 201, 0),
    ],
)
def test_percentages_round_half_up_on_the_exact_quotient(part: int, whole: int, shown: int) -> None:
    assert percent_of(part, whole) == shown
    assert percent(Fraction(part, whole)) == shown


@pytest.mark.parametrize(
    ("rate", "shown"), [(0.125, 13), (-0.125, -12), (0.0, 0), (1.0, 100), (-0.005, 0), (0.285, 29)]
)
def test_a_float_rounds_as_the_ratio_of_counts_it_stands_for(rate: float, shown: int) -> None:
    assert percent(rate) == shown  # 57/200 is stored as 0.28499999…


def test_ranges_keep_the_sign_of_what_rounds_to_zero() -> None:
    assert span(-0.18, 0.91) == "−18…+91%"
    assert span(0, 1) == "0…+100%"
    assert span(0.001, 0.5) == "+0…+50%"
    assert span(-0.5, -0.001) == "−50…−0%"


@pytest.mark.parametrize("counts", [(1, 0, 1), (-1, 0, 0), (1, 2, 1)])
def test_a_cell_that_cannot_be_is_refused(counts: tuple[int, int, int]) -> None:
    with pytest.raises(InputError, match="passes ≤ measured ≤ planned"):
        Cell(*counts)


def test_the_seeds_own_lines() -> None:
    decision = decided(("0", "1"), ("0", "1"), ("0", "1"))
    assert rate_line(decision) == "pass rate   baseline 0/3 (0%)   with-skill 3/3 (100%)   Δ +100%"
    assert gate_lines(decision) == ["ship gate: PASS — skill moves the number"]


def test_the_specs_sample() -> None:
    decision = decided(*[("0", "1")] * 5, ("1", "0"), ("1", "1"), ("0", "0"), ("0", "0"))
    assert rate_line(decision) == "pass rate   baseline 2/9 (22%)   with-skill 6/9 (67%)   Δ +44%"
    assert decision.gate is Gate.PASS
    assert decision.delta == pytest.approx(4 / 9)


def test_no_movement_gives_both_explanations_and_the_question() -> None:
    decision = decided(("1", "1"), ("0", "0"))
    assert rate_line(decision) == "pass rate   baseline 1/2 (50%)   with-skill 1/2 (50%)   Δ 0%"
    first, *rest = gate_lines(decision)
    assert first.startswith("ship gate: NO MOVEMENT — ")
    text = " ".join(rest)
    assert "the trap is too easy" in text
    assert "a weaker model" in text
    assert "isn't pulling its weight" in text
    assert rest[-1].strip() == "Either way: does this skill earn its context budget?"


def test_a_regression_has_an_ascii_minus_in_its_rate_line() -> None:
    decision = decided(("1", "0"), ("1", "1"), ("1", "1"))
    assert decision.gate is Gate.REGRESSION
    assert rate_line(decision) == "pass rate   baseline 3/3 (100%)   with-skill 2/3 (67%)   Δ -33%"
    assert gate_lines(decision)[0].startswith("ship gate: REGRESSION — ")


def test_halves_of_a_delta_round_up_in_both_directions() -> None:
    assert rate_line(decided(("0", "1"), *[("0", "0")] * 7)).endswith("Δ +13%")
    assert rate_line(decided(("1", "0"), *[("0", "0")] * 7)).endswith("Δ -12%")


def test_a_delta_that_rounds_to_zero_still_shows_its_direction() -> None:
    same = [("1", "1")] * 300
    assert rate_line(decided(("0", "1"), *same)).endswith("Δ +0%")
    assert rate_line(decided(("1", "0"), *same)).endswith("Δ -0%")


def test_errors_leave_both_rates_and_can_open_the_gate() -> None:
    decision = decided(("0", "1"), ("1", "."), ("1", "1"))
    assert (decision.graded, decision.errors, decision.unmeasured_trials) == (2, 1, 1)
    assert (decision.baseline_pass, decision.skill_pass) == (1, 2)
    assert decision.observed is Gate.PASS
    assert decision.worst == (0.0, Gate.NO_MOVEMENT)
    assert decision.best == (1 / 3, Gate.PASS)
    assert decision.gate is Gate.NOT_MEASURED
    assert gate_lines(decision) == [
        "ship gate: NOT MEASURED — depends on 1 unmeasured trial (provisional Δ 0…+33%)"
    ]


def test_a_range_that_spans_zero() -> None:
    decision = decided(("1", "1"), ("0", "0"), (".", "."))
    assert gate_lines(decision) == [
        "ship gate: NOT MEASURED — depends on 2 unmeasured trials (provisional Δ −33…+33%)"
    ]


def test_a_gate_that_errors_cannot_change_stands_with_their_number() -> None:
    decision = decided(("0", "1"), ("0", "1"), ("0", "."))
    assert decision.gate is Gate.PASS
    line, note = gate_lines(decision)
    assert line == "ship gate: PASS — skill moves the number"
    assert "1 trial unmeasured" in note
    assert "Δ +67…+100%" in note


def test_a_lone_survivor_does_not_decide_a_cell_against_the_missing() -> None:
    """One pass of five planned is a verdict (the origin's rule), but four missing trials could turn it."""
    decision = decided(("00000", "1...."))
    assert decision.observed is Gate.PASS
    assert decision.gate is Gate.NOT_MEASURED


@pytest.mark.parametrize("pairs", [[("..", "..")], [("11", "..")], [("..", "00"), (".", "1")]])
def test_nothing_graded_is_not_measured(pairs: list[tuple[str, str]]) -> None:
    decision = decided(*pairs)
    assert decision.gate is decision.observed is Gate.NOT_MEASURED
    assert decision.delta is decision.baseline_rate is decision.skill_rate is None
    assert rate_line(decision) == "pass rate   baseline 0/0 (n/a)   with-skill 0/0 (n/a)   Δ n/a"
    assert gate_lines(decision)[0].startswith("ship gate: NOT MEASURED — no case measured in both conditions")


def test_a_set_without_cases() -> None:
    decision = decide([])
    assert decision.gate is Gate.NOT_MEASURED
    assert decision.worst == decision.best == (None, Gate.NOT_MEASURED)
    assert gate_lines(decision) == ["ship gate: NOT MEASURED — the set has no cases"]


RUNS = st.text("01.", min_size=1, max_size=3)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.tuples(RUNS, RUNS), min_size=1, max_size=3))
def test_the_gate_stands_iff_every_completion_of_the_set_agrees(pairs: list[tuple[str, str]]) -> None:
    decision = decided(*pairs)
    flat = "|".join(f"{base}/{skill}" for base, skill in pairs)
    holes = flat.count(".")
    deltas = set()
    for fill in itertools.islice(itertools.product("01", repeat=holes), 4096):
        parts = flat.split(".")
        whole = "".join(itertools.chain.from_iterable(itertools.zip_longest(parts, fill, fillvalue="")))
        complete = [tuple(case.split("/")) for case in whole.split("|")]
        deltas.add(decided(*((base, skill) for base, skill in complete)).delta)
    known = [d for d in deltas if d is not None]
    if holes <= 12:
        assert decision.worst[0] == min(known)
        assert decision.best[0] == max(known)
    if decision.gate is not Gate.NOT_MEASURED:
        assert {gate_of(d) for d in known} == {decision.gate} == {decision.observed}


@given(st.lists(st.tuples(RUNS, RUNS), max_size=8))
def test_the_fillings_bracket_what_was_observed(pairs: list[tuple[str, str]]) -> None:
    """In cases, since the two fillings count over all of them and the observed Δ over the graded ones."""
    decision = decided(*pairs)
    observed = decision.skill_pass - decision.baseline_pass
    worst, best = (round((side[0] or 0) * len(pairs)) for side in (decision.worst, decision.best))
    assert worst <= observed <= best
    assert decision.graded + decision.errors == len(pairs)


@given(st.lists(st.tuples(RUNS, RUNS), max_size=8))
def test_swapping_the_conditions_mirrors_delta(pairs: list[tuple[str, str]]) -> None:
    there, back = decided(*pairs), decided(*((skill, base) for base, skill in pairs))
    assert there.delta == (None if back.delta is None else pytest.approx(-back.delta))
    assert (there.graded, there.errors, there.unmeasured_trials) == (
        back.graded,
        back.errors,
        back.unmeasured_trials,
    )
