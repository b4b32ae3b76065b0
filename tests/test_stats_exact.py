"""The exact tests against brute force, and against scipy where it has the same test."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import special
from scipy import stats as scipy_stats

from skilleval_nb import stats
from skilleval_nb.errors import InputError
from skilleval_nb.stats_exact import single_run_min, stratified_min

FLIPS = st.tuples(st.integers(0, 40), st.integers(0, 40))


@given(FLIPS)
def test_mcnemar_is_the_binomial_test_of_the_flips(flips: tuple[int, int]) -> None:
    wins, losses = flips
    expected = scipy_stats.binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert stats.mcnemar_p(wins, losses) == pytest.approx(expected, abs=1e-12)


def chance_of_as_much(flip_chances: list[float], observed: float) -> float:
    """Chance of a McNemar p no larger than the observed, where case i goes up, and down, with its chance."""
    total = 0.0
    for moves in itertools.product((-1, 0, 1), repeat=len(flip_chances)):
        if stats.mcnemar_p(moves.count(1), moves.count(-1)) <= observed + 1e-12:
            total += math.prod(a if move else 1 - 2 * a for a, move in zip(flip_chances, moves, strict=True))
    return total


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5])
def test_single_runs_by_enumeration_of_the_extreme_mixes(n: int) -> None:
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            observed = stats.mcnemar_p(wins, losses)
            worst = max(chance_of_as_much([0.25] * m, observed) for m in range(n + 1))
            assert stats.single_run_p(n, wins, losses) == pytest.approx(worst, abs=1e-12)


@settings(deadline=None, max_examples=40)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=4), st.data())
def test_no_mix_of_difficulties_beats_the_single_run_bound(rates: list[float], data: st.DataObject) -> None:
    n = len(rates)
    wins = data.draw(st.integers(0, n))
    losses = data.draw(st.integers(0, n - wins))
    chance = chance_of_as_much([p * (1 - p) for p in rates], stats.mcnemar_p(wins, losses))
    assert chance <= stats.single_run_p(n, wins, losses) + 1e-9


@given(FLIPS, st.integers(0, 60))
def test_single_runs_are_symmetric_and_never_above_mcnemar(flips: tuple[int, int], others: int) -> None:
    wins, losses = flips
    n = wins + losses + others
    p = stats.single_run_p(n, wins, losses)
    assert 0 < p <= stats.mcnemar_p(wins, losses) + 1e-12
    assert p == stats.single_run_p(n, losses, wins)
    if wins > losses and others:
        assert stats.single_run_p(n, wins + 1, losses) <= p + 1e-12


@pytest.mark.parametrize("n", [1, 2, 3, 10, 60])
def test_the_least_single_run_p_is_that_of_all_wins(n: int) -> None:
    assert single_run_min(n) == pytest.approx(stats.single_run_p(n, n, 0), rel=1e-9)


def test_seven_of_eight_flips_suffice_up_to_fifty_cases() -> None:
    assert all(stats.single_run_p(n, 7, 1) <= stats.ALPHA for n in range(8, 51))


def test_more_flips_than_cases_are_refused() -> None:
    with pytest.raises(InputError, match="wins \\+ losses ≤ n"):
        stats.single_run_p(3, 2, 2)


CELLS = st.lists(
    st.tuples(st.text("01", min_size=1, max_size=3), st.text("01", min_size=1, max_size=3)),
    min_size=1,
    max_size=3,
)


@settings(deadline=None, max_examples=50)
@given(CELLS)
def test_the_test_over_runs_by_relabelling_them(cells: list[tuple[str, str]]) -> None:
    laws = []
    for base, skill in cells:
        runs = [int(run) for run in base + skill]
        laws.append([sum(chosen) for chosen in itertools.combinations(runs, len(skill))])
    sums = [sum(chosen) for chosen in itertools.product(*laws)]
    seen = sum(skill.count("1") for _, skill in cells)
    tails = (sum(s >= seen for s in sums), sum(s <= seen for s in sums))
    p, direction = stats.stratified_p((b.count("1"), len(b), s.count("1"), len(s)) for b, s in cells)
    assert p == pytest.approx(min(1.0, 2 * min(tails) / len(sums)), abs=1e-12)
    mean = Fraction(sum(sums), len(sums))
    assert direction == (seen > mean) - (seen < mean)
    assert stratified_min([(len(b), len(s)) for b, s in cells]) <= p + 1e-12


@pytest.mark.parametrize("order", list(itertools.permutations([(0, 3, 3, 3), (0, 3, 1, 3), (0, 3, 0, 3)])))
def test_a_p_of_exactly_alpha_is_no_matter_of_rounding(order: tuple[tuple[int, int, int, int], ...]) -> None:
    """Chance 1/20 for the first case and 1/2 for the second: p = 2/40, in whichever order they are multiplied."""
    assert stats.stratified_p(order) == (stats.ALPHA, 1)
    assert stats.stratified_p((s, n, b, m) for b, m, s, n in order) == (stats.ALPHA, -1)


def test_the_test_over_one_case_is_fishers_one_sided_doubled() -> None:
    one_sided = scipy_stats.hypergeom(140, 75, 70).sf(44)
    assert stats.stratified_p([(30, 70, 45, 70)])[0] == pytest.approx(2 * one_sided, rel=1e-9)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.fractions(-1, 1, max_denominator=7), max_size=8))
def test_sign_flips_by_enumeration(differences: list[Fraction]) -> None:
    seen = abs(sum(differences, Fraction(0)))
    sums = [
        sum((sign * d for sign, d in zip(signs, differences, strict=True)), Fraction(0))
        for signs in itertools.product((-1, 1), repeat=len(differences))
    ]
    expected = min(1.0, 2 * sum(s >= seen for s in sums) / len(sums))
    assert stats.sign_flip_p(differences) == pytest.approx(expected, abs=1e-12)


def test_sign_flips_of_single_runs_are_mcnemars() -> None:
    differences = [Fraction(1)] * 30 + [Fraction(-1)] * 14 + [Fraction(0)] * 56
    assert stats.sign_flip_p(differences) == pytest.approx(stats.mcnemar_p(30, 14), rel=1e-9)


def test_differences_without_an_affordable_lattice_are_rounded_to_a_grid() -> None:
    primes = (97, 101, 103, 107, 109, 113, 127, 131, 137, 139, 149, 151)
    differences = [Fraction(3 * i - 8, p) for i, p in enumerate(primes)]
    seen = abs(sum(differences, Fraction(0)))
    signs = list(itertools.product((-1, 1), repeat=len(primes)))
    above = sum(
        sum((s * d for s, d in zip(flip, differences, strict=True)), Fraction(0)) >= seen for flip in signs
    )
    assert stats.sign_flip_p(differences) == pytest.approx(2 * above / len(signs), abs=0.002)


@given(st.integers(0, 30), st.integers(0, 30))
def test_the_e_value_is_a_fair_game(wins: int, losses: int) -> None:
    """Without an effect the next flip is a fair coin, so the mean of both futures is the present."""
    now = stats.e_value(wins, losses)
    assert now == pytest.approx(
        (stats.e_value(wins + 1, losses) + stats.e_value(wins, losses + 1)) / 2, rel=1e-12
    )
    closed = math.exp(math.log(2) * (wins + losses + 1) + special.betaln(wins + 1, losses + 1))
    assert now == pytest.approx(closed * special.betaincc(wins + 1, losses + 1, 0.5), rel=1e-9)


@pytest.mark.parametrize(("wins", "losses"), [(8, 0), (11, 1), (14, 2), (16, 3)])
def test_where_the_e_value_settles(wins: int, losses: int) -> None:
    assert stats.e_value(wins, losses) >= 40 > stats.e_value(wins - 1, losses)


def test_looks_are_paid_for() -> None:
    assert stats.looks_p(0.01, 1) == 0.02
    assert stats.looks_p(0.5, 3) == 1.0
    assert math.fsum(1 / (k * (k + 1)) for k in range(1, 100_000)) <= 1
    with pytest.raises(InputError, match="counted from 1"):
        stats.looks_p(0.5, 0)
    with pytest.raises(InputError, match="as many of each"):
        stats.looks_p([0.5], 1)  # type: ignore[call-overload]
