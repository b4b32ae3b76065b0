"""How far a judge can be trusted, in numbers: agreement with people, and drift, against oracles of others."""

from __future__ import annotations

import itertools
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from skilleval_nb import stats
from skilleval_nb.errors import InputError

counts = st.integers(0, 30)


def gradings(tp: int, fn: int, tn: int, fp: int) -> list[list[int]]:
    """Human and judge as two gradings of each item: how many said fail, how many pass."""
    return [[0, 2]] * tp + [[2, 0]] * tn + [[1, 1]] * (fn + fp)


@settings(deadline=None)  # the first call imports the oracle
@given(counts, counts, counts, counts)
def test_kappa_is_that_of_statsmodels(tp: int, fn: int, tn: int, fp: int) -> None:
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater")
    n = tp + fn + tn + fp
    found = stats.cohen_kappa(tp, fn, tn, fp)
    if not n or n in (tp, tn):
        assert found is None
        return
    assert found is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # theirs divides by a spread of nothing
        theirs = inter_rater.cohens_kappa([[tp, fn], [fp, tn]])
    assert found.kappa == pytest.approx(theirs.kappa, abs=1e-12)
    if found.ci is None:
        assert not theirs.std_kappa > 1e-5  # rounding
    else:
        ends = max(-1, theirs.kappa_low), min(1, theirs.kappa_upp)
        assert found.ci == pytest.approx(ends, abs=1e-9)


@settings(deadline=None)  # the first call imports the oracle
@given(counts, counts, counts, counts)
def test_kappa_is_that_of_sklearn(tp: int, fn: int, tn: int, fp: int) -> None:
    metrics = pytest.importorskip("sklearn.metrics")
    found = stats.cohen_kappa(tp, fn, tn, fp)
    if found is not None:
        human = [1] * (tp + fn) + [0] * (tn + fp)
        judge = [1] * tp + [0] * fn + [0] * tn + [1] * fp
        assert found.kappa == pytest.approx(metrics.cohen_kappa_score(human, judge), abs=1e-12)


def test_kappa_where_it_has_no_interval_or_is_none() -> None:
    assert stats.cohen_kappa(0, 0, 0, 0) is None
    assert stats.cohen_kappa(9, 0, 0, 0) is None  # both pass all: agreement by chance is 1
    assert stats.cohen_kappa(0, 0, 9, 0) is None
    assert stats.cohen_kappa(5, 0, 5, 0) == stats.Kappa(1.0, None)
    constant = stats.cohen_kappa(6, 0, 0, 4)  # a judge that passes everything
    assert constant == stats.Kappa(0.0, None)


@pytest.mark.parametrize(
    ("table", "ac1", "ci"),
    [
        ((26, 2, 22, 4), 0.778990450205, (0.606325484024, 0.951655416385)),
        ((19, 1, 14, 6), 0.655384615385, (0.410210570988, 0.900558659781)),
        ((18, 2, 0, 0), 0.889502762431, (0.714500124097, 1.0)),
        ((38, 1, 1, 2), 0.919565911267, (0.821647661274, 1.0)),
        ((5, 0, 5, 1), 0.818181818182, (0.413065663279, 1.0)),
    ],
)
def test_ac1_of_human_and_judge_is_that_of_irrcac(
    table: tuple[int, int, int, int], ac1: float, ci: tuple[float, float]
) -> None:
    """Computed with irrCAC 0.4.4, `CAC(raw, digits=12).gwet()`; its scipy (1.12) knew t only to 1e-8."""
    found = stats.gwet_ac1(gradings(*table))
    assert found is not None
    assert found.ac1 == pytest.approx(ac1, abs=1e-11)
    assert found.ci == pytest.approx(ci, abs=1e-8)


def test_ac1_of_unequal_repeats_is_that_of_irrcac() -> None:
    whole = stats.gwet_ac1([[0, 3], [0, 3], [1, 2], [3, 0], [0, 3], [0, 3], [2, 1], [0, 3]])
    assert whole is not None
    assert whole.ac1 == pytest.approx(0.733333333333, abs=1e-11)
    assert whole.ci == pytest.approx((0.248530183331, 1.0), abs=1e-8)
    gaps = stats.gwet_ac1([[0, 3], [0, 2], [1, 2], [3, 0], [0, 1], [1, 1], [2, 1], [0, 3]])
    assert gaps is not None
    assert gaps.ac1 == pytest.approx(0.415525114155, abs=1e-11)
    assert gaps.ci == pytest.approx((-0.3625349657, 1.0), abs=1e-8)


@settings(deadline=None)  # the first call imports the oracle
@given(counts, counts, counts, counts)
def test_ac1_interval_is_the_closed_form_of_gwet_2008(tp: int, fn: int, tn: int, fp: int) -> None:
    """Two graders: his equation by cells of the table, with n − 1 in place of n."""
    from scipy.stats import t

    n = tp + fn + tn + fp
    found = stats.gwet_ac1(gradings(tp, fn, tn, fp))
    if n < 2 or found is None:
        return
    cells = {(1, 1): tp / n, (1, 0): fn / n, (0, 0): tn / n, (0, 1): fp / n}
    pi = {k: (2 * cells[k, k] + cells[1, 0] + cells[0, 1]) / 2 for k in (0, 1)}
    pa, pe = cells[1, 1] + cells[0, 0], 2 * pi[0] * pi[1]
    g = (pa - pe) / (1 - pe)
    spread = pa * (1 - pa) - 4 * (1 - g) * (sum(cells[k, k] * (1 - pi[k]) for k in (0, 1)) - pa * pe)
    squares = sum(cells[k, m] * (1 - (pi[k] + pi[m]) / 2) ** 2 for k, m in cells)
    spread += 4 * (1 - g) ** 2 * (squares - pe**2)
    assert found.ac1 == pytest.approx(g, abs=1e-12)
    if found.ci is None:
        assert spread == pytest.approx(0, abs=1e-12)
    else:
        half = t.ppf(0.975, n - 1) * (spread / (n - 1)) ** 0.5 / (1 - pe)
        assert found.ci == pytest.approx((max(-1, g - half), min(1, g + half)), abs=1e-9)


def test_agreement_without_any_spread_has_no_interval() -> None:
    perfect = stats.gwet_ac1([[0, 2]] * 6 + [[2, 0]] * 4)
    assert perfect is not None
    assert (perfect.ac1, perfect.ci) == (1.0, None)
    single = stats.gwet_ac1([[0, 2]])
    assert single is not None
    assert single.ci is None


@pytest.mark.parametrize(("n", "rate"), [(33, 0.2), (66, 0.1), (134, 0.05)])
def test_so_many_items_see_such_a_drift(n: int, rate: float) -> None:
    """The three sizes that the reference names: 80 % power at that rate, less with one point less."""
    seen = [flips for flips in range(n + 1) if stats.single_run_p(n, flips, 0) <= 0.05]
    assert sum(float(binom.pmf(flips, n, rate)) for flips in seen) >= 0.8
    smallest = stats.smallest_drift(n)
    assert smallest is not None
    assert rate - 0.01 < smallest <= rate
    assert sum(float(binom.pmf(flips, n, smallest)) for flips in seen) == pytest.approx(0.8)


def test_too_few_items_can_show_no_drift() -> None:
    """Two items that both flip have p 0.125, three 0.031: all three must flip, and 0.8 = r³."""
    assert stats.smallest_drift(0) is None
    assert stats.smallest_drift(2) is None
    assert stats.smallest_drift(3) == pytest.approx(0.8 ** (1 / 3))
    assert stats.smallest_drift(3, 0.01) is None


@pytest.mark.parametrize(
    ("up", "down", "verdict"),
    [
        (0, 0, stats.NO_DRIFT),
        (0, 6, stats.DRIFTED_DOWN),  # the reference's own: p 0.0186 of 40
        (6, 0, stats.DRIFTED_UP),
        (3, 0, stats.NO_DRIFT),
        (5, 5, stats.NO_DRIFT),  # its own noise is not known
    ],
)
def test_the_verdict_of_a_first_check(up: int, down: int, verdict: str) -> None:
    found = stats.drift(40, up, down)
    assert found is not None
    assert (found.verdict, found.up, found.down, found.n) == (verdict, up, down, 40)
    assert found.p_checks == found.flips.p == stats.single_run_p(40, up, down)
    assert found.could_miss == stats.smallest_drift(40)


def test_later_checks_are_paid_for() -> None:
    """0/6 of 40 has p 0.0186; at the second check it counts 6-fold, 0.112, which is no alarm any more."""
    found = stats.drift(40, 0, 6, check=2)
    assert found is not None
    assert found.p_checks == pytest.approx(0.01863120793 * 6, abs=1e-8)
    assert found.verdict == stats.NO_DRIFT
    assert found.could_miss == stats.smallest_drift(40, 0.05 / 6)
    first = stats.smallest_drift(40)
    assert found.could_miss is not None
    assert first is not None
    assert found.could_miss > first
    large = stats.drift(40, 0, 12, check=2)
    assert large is not None
    assert large.verdict == stats.DRIFTED_DOWN


@pytest.mark.parametrize(
    ("own", "items", "verdict"),
    [
        (0.0, 40, stats.UNSTABLE),  # flips 25 % (14…40), itself at most 9 %
        (0.0, 5, stats.NO_DRIFT),  # itself up to 43 %
        (0.2, 40, stats.NO_DRIFT),
        (None, 0, stats.NO_DRIFT),
    ],
)
def test_flips_both_ways_are_held_against_the_judges_own_noise(
    own: float | None, items: int, verdict: str
) -> None:
    found = stats.drift(40, 5, 5, own=own, own_items=items)
    assert found is not None
    assert found.verdict == verdict


def test_nothing_to_compare_is_no_verdict() -> None:
    assert stats.drift(0, 0, 0) is None
    with pytest.raises(InputError):
        stats.drift(3, 2, 2)


def test_false_alarms_over_many_checks_stay_rare() -> None:
    """The worst case by enumeration: m of 20 items flip each way with ¼, a check each of ten times."""
    n, alarms = 20, 0.0
    for check in range(1, 11):
        worst = 0.0
        for m in range(n + 1):
            chance = sum(
                binom.pmf(d, m, 0.5) * binom.pmf(up, d, 0.5)
                for d in range(m + 1)
                for up in range(d + 1)
                if _alarm(n, up, d - up, check)
            )
            worst = max(worst, float(chance))
        alarms += worst
    assert alarms <= 0.05 * 1.5


_seen: dict[tuple[int, int, int, int], bool] = {}


def _alarm(n: int, up: int, down: int, check: int) -> bool:
    key = (n, up, down, check)
    if key not in _seen:
        found = stats.drift(n, up, down, check=check)
        assert found is not None
        _seen[key] = found.verdict in (stats.DRIFTED_UP, stats.DRIFTED_DOWN)
    return _seen[key]


def test_drift_is_symmetric() -> None:
    for up, down in itertools.product(range(8), range(8)):
        there, back = stats.drift(20, up, down), stats.drift(20, down, up)
        assert there is not None
        assert back is not None
        assert there.p_checks == back.p_checks
        swap = {stats.DRIFTED_UP: stats.DRIFTED_DOWN, stats.DRIFTED_DOWN: stats.DRIFTED_UP}
        assert swap.get(there.verdict, there.verdict) == back.verdict
