"""Intervals, repeats and the judge's figures, against scipy and by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from skilleval_nb import stats
from skilleval_nb.errors import InputError


@given(st.integers(1, 200), st.data())
def test_wilson_is_scipys(n: int, data: st.DataObject) -> None:
    k = data.draw(st.integers(0, n))
    expected = scipy_stats.binomtest(k, n).proportion_ci(method="wilson")
    assert stats.wilson(k / n, n) == pytest.approx((expected.low, expected.high), abs=1e-12)


def test_wilson_needs_a_rate_and_a_unit() -> None:
    for p, n in ((1.2, 3), (-0.1, 3), (0.5, 0)):
        with pytest.raises(InputError, match="at least one unit"):
            stats.wilson(p, n)


@given(st.lists(st.floats(-1, 1, width=16), min_size=1, max_size=60))
def test_the_interval_of_delta_is_students_with_two_pseudo_cases(d: list[float]) -> None:
    expected = scipy_stats.ttest_1samp([*d, 1, -1], 0).confidence_interval(0.95)
    low, high = stats.delta_ci(d)
    assert low == pytest.approx(max(-1, expected.low), abs=1e-9)
    assert high == pytest.approx(min(1, expected.high), abs=1e-9)
    assert low <= math.fsum(d) / len(d) + 1e-12
    assert math.fsum(d) / len(d) - 1e-12 <= high


def test_the_ratio_is_students_on_the_logs() -> None:
    baseline, skill = [100.0, 250.0, 80.0, 900.0], [120.0, 240.0, 130.0, 1500.0]
    logs = [math.log(s / b) for b, s in zip(baseline, skill, strict=True)]
    test = scipy_stats.ttest_1samp(logs, 0)
    interval = test.confidence_interval(0.95)
    found = stats.ratio_ci([*baseline, None, 5, 0], [*skill, 7, None, 3])
    assert found.n == 4
    assert found.ratio == pytest.approx(math.exp(sum(logs) / 4))
    assert found.ci == pytest.approx((math.exp(interval.low), math.exp(interval.high)))
    assert found.p == pytest.approx(test.pvalue)


@pytest.mark.parametrize(
    ("baseline", "skill", "ratio", "n"),
    [([], [], None, 0), ([2], [4], 2.0, 1), ([2, 1], [4, 2], 2.0, 2), ([1, 2, 3], [2, 4, 6], 2.0, 3)],
)
def test_too_few_pairs_or_no_spread_give_a_ratio_without_an_interval(
    baseline: list[float], skill: list[float], ratio: float | None, n: int
) -> None:
    found = stats.ratio_ci(baseline, skill)
    assert (found.ci, found.p, found.n) == (None, None, n)
    assert found.ratio == (None if ratio is None else pytest.approx(ratio))


def test_pass_at_k_by_hand() -> None:
    assert stats.pass_at_k(2, 4, 2) == pytest.approx(5 / 6)  # one of six pairs holds no pass
    assert stats.pass_hat_k(2, 4, 2) == pytest.approx(1 / 6)
    assert stats.pass_at_k(4, 4, 5) is None
    assert stats.pass_hat_k(4, 4, 5) is None
    with pytest.raises(InputError, match="k ≥ 1"):
        stats.pass_at_k(2, 4, 0)
    with pytest.raises(InputError, match="0 ≤ c ≤ n"):
        stats.pass_hat_k(5, 4, 1)


@given(st.integers(1, 12), st.data())
def test_the_two_pass_rates_meet_at_one_trial(n: int, data: st.DataObject) -> None:
    c, k = data.draw(st.integers(0, n)), data.draw(st.integers(1, n))
    at, hat = stats.pass_at_k(c, n, k), stats.pass_hat_k(c, n, k)
    assert at is not None
    assert hat is not None
    assert hat - 1e-12 <= c / n <= at + 1e-12
    if k == 1:
        assert at == hat == pytest.approx(c / n)


def test_the_variance_cannot_be_split_from_single_runs() -> None:
    split = stats.variance_split([[True], [False], [False]], [[True], [True], [False]])
    assert split.n == 3
    assert split.total == pytest.approx(1 / 3)  # differences 0, 1, 0
    assert split.se == pytest.approx(1 / 3)
    assert split.runs is split.cases is split.run_share is None


def test_the_variance_needs_two_measured_cases() -> None:
    split = stats.variance_split([[True, False], [None]], [[True, True], [True]])
    assert (split.n, split.total, split.se) == (1, None, None)


def test_pure_run_noise_is_all_runs() -> None:
    """Differences 0.5 and -0.5 (variance 0.5), each with noise 0.25 + 0: half of it is noise of the runs."""
    split = stats.variance_split([[True, False], [True, False]], [[True, True], [False, False]])
    assert (split.total, split.runs, split.cases, split.run_share) == pytest.approx((0.5, 0.25, 0.25, 0.5))
    still = stats.variance_split([[True, True]] * 2, [[True, True]] * 2)
    assert (still.total, still.run_share) == (0, None)


def test_flips_between_two_gradings() -> None:
    flips = stats.summary_flips(n=40, up=5, down=5)
    assert (flips.p, flips.flip_rate) == (1.0, 0.25)
    with pytest.raises(InputError, match="at least one answer"):
        stats.summary_flips(0, 0, 0)


def test_agreement_by_hand() -> None:
    """Two items, two gradings: one agreed pass, one split; π = (¼, ¾), pe = 2 · ¼ · ¾ = 0.375, pa = ½."""
    found = stats.gwet_ac1([[0, 2], [1, 1]])
    assert found is not None
    assert (found.pa, found.pe, found.ac1) == pytest.approx((0.5, 0.375, 0.2))
    assert stats.gwet_ac1([]) is None
    assert stats.gwet_ac1([[0, 1], [1, 0], [0, 0]]) is None
    perfect = stats.gwet_ac1([[0, 3], [3, 0]])
    assert perfect is not None
    assert perfect.ac1 == 1.0


def test_a_judge_that_barely_discriminates_corrects_nothing() -> None:
    weak = stats.rogan_gladen(q=0.7, n=20, tp=6, fn=4, tn=5, fp=5)
    assert (weak.point, weak.ci) == (None, None)
    assert weak.j == pytest.approx(0.1)
    unsure = stats.rogan_gladen(q=0.7, n=20, tp=2, fn=1, tn=2, fp=1)  # j 0.33, but of three labels each
    assert unsure.point is None
    assert unsure.j_ci[0] < 0 < unsure.j
    with pytest.raises(InputError, match="at least one human pass and one human fail"):
        stats.rogan_gladen(q=0.7, n=20, tp=3, fn=0, tn=0, fp=0)


def test_a_corrected_rate_stays_a_rate() -> None:
    high = stats.rogan_gladen(q=1.0, n=30, tp=27, fn=3, tn=28, fp=2)
    assert high.point == 1.0
    assert high.ci is not None
    assert high.ci[1] == 1.0
    low = stats.rogan_gladen(q=0.0, n=30, tp=27, fn=3, tn=28, fp=2)
    assert low.point == 0.0
    assert low.ci is not None
    assert low.ci[0] == 0.0


def test_a_perfect_judge_lends_its_verdicts_and_a_constant_one_nothing() -> None:
    labelled = [1, 0, 1, 1, 0, 1, 0, 1]
    perfect = stats.ppi_mean([1, 0, 1, 0] * 10, labelled, labelled)
    plain = sum(labelled) / len(labelled)
    assert 0.5 - 1e-9 <= perfect.estimate <= plain  # pulled towards the judge's own rate of one half
    assert perfect.lam > 0.7
    constant = stats.ppi_mean([1] * 40, [1] * 8, labelled)
    assert constant.lam == 0
    assert constant.estimate == pytest.approx(plain)
    with pytest.raises(InputError, match="two or more"):
        stats.ppi_mean([1, 0], [1], [1])
