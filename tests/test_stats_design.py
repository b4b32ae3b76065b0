"""What a design can show: its least p-values, and the smallest rise against enumeration and the table."""

from __future__ import annotations

import itertools
import math

import pytest

from skilleval_nb import stats
from skilleval_nb.errors import InputError


@pytest.mark.parametrize(
    ("n_cases", "n_trials", "p_set", "p_cases"),
    [
        (1, 1, 1.0, 1.0),
        (2, 1, 0.125, 0.5),
        (3, 1, 0.03125, 0.25),
        (4, 1, 0.0078125, 0.125),
        (1, 2, 1 / 3, 1.0),
        (2, 2, 1 / 18, 0.5),
        (3, 2, 1 / 108, 0.25),
        (1, 3, 0.1, 1.0),
        (2, 3, 0.005, 0.5),
        (1, 4, 1 / 35, 1.0),
        (5, 1, 0.001953125, 0.0625),
        (6, 1, 0.00048828125, 0.03125),
    ],
)
def test_the_least_p_values(n_cases: int, n_trials: int, p_set: float, p_cases: float) -> None:
    design = stats.design(n_cases, n_trials)
    assert design.p_set_min == pytest.approx(p_set)
    assert design.p_cases_min == pytest.approx(p_cases)
    hopeless = "no outcome of this design can be evidence" in design.text
    assert hopeless == (p_set > stats.ALPHA)


@pytest.mark.parametrize(
    ("n_cases", "n_trials", "baseline_rate", "rise"),
    [
        (3, 1, 0.3, None),
        (3, 3, 0.3, 0.70),
        (5, 1, 0.1, 0.85),
        (5, 1, 0.3, None),
        (10, 1, 0.3, 0.65),
        (10, 1, 0.5, None),
        (10, 5, 0.8, 0.20),
        (20, 3, 0.5, 0.30),
        (40, 1, 0.3, 0.35),
        (40, 3, 0.8, 0.15),
    ],
)
def test_cells_of_the_reference_table(
    n_cases: int, n_trials: int, baseline_rate: float, rise: float | None
) -> None:
    assert stats.design(n_cases, n_trials, baseline_rate=baseline_rate).smallest_delta == rise


def test_the_table_is_what_the_power_function_says() -> None:
    """Each cell: 80 % power there (±4 points of simulation noise in the table and here), less a step below."""
    for (n_cases, n_trials), rate in itertools.product(
        [(3, 5), (5, 3), (10, 1), (10, 3), (20, 1), (40, 1)], (0.1, 0.3)
    ):
        rise = stats.design(n_cases, n_trials, baseline_rate=rate).smallest_delta
        assert rise is not None
        assert stats.power(n_cases, n_trials, rate, rise) >= 0.76
        assert stats.power(n_cases, n_trials, rate, rise - 0.05) <= 0.84


def test_power_of_single_runs_by_enumeration() -> None:
    rate, rise, n = 0.1, 0.85, 4
    expected = 0.0
    for outcome in itertools.product((False, True), repeat=2 * n):
        base, skill = outcome[:n], outcome[n:]
        if stats.summary([[t] for t in base], [[t] for t in skill]).verdict == "improves":
            chances = [rate if t else 1 - rate for t in base] + [
                rate + rise if t else 1 - rate - rise for t in skill
            ]
            expected += math.prod(chances)
    assert stats.power(n, 1, rate, rise) == pytest.approx(expected, abs=1e-9)


def test_power_of_repeats_by_enumeration() -> None:
    """Three cases, three trials, 40 % → 100 %: only the baseline varies."""
    expected = 0.0
    for passes in itertools.product(range(4), repeat=3):
        base = [[i < c for i in range(3)] for c in passes]
        if stats.summary(base, [[True] * 3] * 3).verdict == "improves":
            expected += math.prod(math.comb(3, c) * 0.4**c * 0.6 ** (3 - c) for c in passes)
    assert stats.power(3, 3, 0.4, 0.6) == pytest.approx(expected, abs=0.04)


def test_the_three_ways_to_the_power_agree_where_they_meet() -> None:
    assert stats.power(400, 1, 0.3, 0.1) == pytest.approx(stats.power(401, 1, 0.3, 0.1), abs=0.03)
    assert stats.power(100, 2, 0.3, 0.15) == pytest.approx(stats.power(101, 2, 0.3, 0.15), abs=0.03)
    assert stats.power(40, 5, 0.3, 0.15) == pytest.approx(stats.power(41, 5, 0.3, 0.15), abs=0.03)


def test_more_cases_find_smaller_rises() -> None:
    found = [stats.design(n, 1).smallest_delta for n in (7, 9, 12, 16, 20, 30, 40, 80, 200, 1000, 10_000)]
    known = [rise for rise in found if rise is not None]
    assert len(known) >= 10
    assert known == sorted(known, reverse=True)
    assert known[-1] == 0.02


def test_a_perfect_baseline_leaves_no_rise_to_find() -> None:
    assert stats.design(50, 3, baseline_rate=1.0).smallest_delta is None


def test_texts() -> None:
    assert stats.design(9, 1).text == (
        "9 cases × 1 trial find +65 points or more (80% power from a baseline of 30%);"
        " smallest p < 0.0001 on these prompts, 0.0039 for similar prompts"
    )
    assert stats.design(3, 3).text.endswith(
        "smallest p 0.00025 on these prompts; similar prompts need at least 6 cases"
    )
    assert stats.design(1, 1).text.startswith(
        "1 case × 1 trial: no outcome of this design can be evidence (smallest p 1.0)"
    )
    assert "find no rise reliably" in stats.design(3, 1).text
    assert "+1 point or more" in stats.design(100_000, 1).text


@pytest.mark.parametrize(
    ("n_cases", "n_trials", "rate"), [(0, 1, 0.3), (1, 0, 0.3), (1, 1, 1.2), (1, 1, -0.1)]
)
def test_designs_that_cannot_be(n_cases: int, n_trials: int, rate: float) -> None:
    with pytest.raises(InputError, match="a design needs"):
        stats.design(n_cases, n_trials, baseline_rate=rate)
