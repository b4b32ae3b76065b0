"""Adjusted p-values: by hand, by their definitions, and against statsmodels where that is installed."""

from __future__ import annotations

import importlib.util
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skilleval_nb import stats
from skilleval_nb.errors import InputError

P_VALUES = st.lists(st.floats(0, 1), max_size=7)


def closed(p_values: list[float], at: int) -> float:
    """Holm by closed testing: the worst Bonferroni p of any family that the hypothesis is in."""
    others = [p for place, p in enumerate(p_values) if place != at]
    families = (chosen for size in range(len(p_values)) for chosen in combinations(others, size))
    return max(min(1.0, (1 + len(family)) * min(p_values[at], *family, 1.0)) for family in families)


def false_share(p_values: list[float], at: int) -> float:
    """BH: the least share m·q/(number ≤ q) over all levels q that would let the hypothesis in."""
    return min(
        len(p_values) * q / sum(p <= q for p in p_values) for q in (*p_values, 1.0) if q >= p_values[at]
    )


def test_four_claims_by_hand() -> None:
    """In order .005 ×4, .01 ×3, .03 ×2, .04 ×1, never falling; BH ×4/1, ×4/2, ×4/3, ×4/4, never rising back."""
    p_values = [0.01, 0.04, 0.03, 0.005]
    assert stats.holm(p_values) == pytest.approx((0.03, 0.06, 0.06, 0.02))
    assert stats.bh(p_values) == pytest.approx((0.02, 0.04, 0.04, 0.02))


def test_what_was_not_measured_is_not_counted() -> None:
    assert stats.holm([0.02, None, 0.03]) == pytest.approx((0.04, None, 0.04))
    assert stats.bh([0.02, None, 0.03]) == pytest.approx((0.03, None, 0.03))
    for adjust in (stats.holm, stats.bh):
        assert adjust([]) == ()
        assert adjust([None]) == (None,)
        assert adjust([0.7]) == (0.7,)
        assert adjust([0.9, 0.9, 0.9]) == pytest.approx((1.0 if adjust is stats.holm else 0.9,) * 3)


@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(value: float) -> None:
    for adjust in (stats.holm, stats.bh):
        with pytest.raises(InputError, match=r"p-values are in \[0, 1\]"):
            adjust([0.5, value])


@settings(deadline=None)
@given(P_VALUES)
def test_by_definition(p_values: list[float]) -> None:
    places = range(len(p_values))
    assert stats.holm(p_values) == pytest.approx([closed(p_values, at) for at in places])
    assert stats.bh(p_values) == pytest.approx([false_share(p_values, at) for at in places])


@pytest.mark.parametrize(
    "p_values", [[0.01, 0.04, 0.03, 0.005], [0.2], [0.02, 0.02, 0.9, 1.0, 0.0001, 0.02, 0.048, 0.0]]
)
def test_as_statsmodels_has_it(p_values: list[float]) -> None:
    """Where it is not installed, its answers to the first question are the ones worked out by hand above."""
    if importlib.util.find_spec("statsmodels"):
        adjust = importlib.import_module("statsmodels.stats.multitest").multipletests
        holm, bh = (adjust(p_values, method=method)[1] for method in ("holm", "fdr_bh"))
    else:
        p_values, holm, bh = [0.01, 0.04, 0.03, 0.005], [0.03, 0.06, 0.06, 0.02], [0.02, 0.04, 0.04, 0.02]
    assert stats.holm(p_values) == pytest.approx(holm)
    assert stats.bh(p_values) == pytest.approx(bh)
