"""What must hold for every set: bounds, symmetry, order, no evidence from failures, no gate from exclusions."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from skilleval_nb import stats
from skilleval_nb.gate import CaseCells, Cell, Decision, decide
from skilleval_nb.values import Gate

Case = tuple[str, str, str | None]
"""Baseline and skill, a trial a letter (1 passed, 0 failed, . not measured), and the case's cluster."""

ROUNDING = 1e-9
STRENGTH = {None: 0, stats.THESE: 1, stats.SIMILAR: 2}
MIRROR = {
    stats.IMPROVES: stats.REGRESSES,
    stats.REGRESSES: stats.IMPROVES,
    stats.NO_EVIDENCE: stats.NO_EVIDENCE,
}
CLUSTERS = st.sampled_from([None, "a", "b", "c"])


def sets_of(trials: str, most: int, cluster: st.SearchStrategy[str | None]) -> st.SearchStrategy[list[Case]]:
    """Sets whose cells hold up to `most` of the letters."""
    cells = st.text(trials, min_size=1, max_size=most)
    return st.lists(st.tuples(cells, cells, cluster), max_size=12)


ALONE = st.none()
SETS = st.one_of(
    sets_of("01", 1, ALONE), sets_of("01", 3, ALONE), sets_of("01.", 4, ALONE),
    sets_of("01", 1, CLUSTERS), sets_of("01.", 4, CLUSTERS),
)  # fmt: skip
CLEAR = st.builds(
    lambda up, rest: [("0", "1", None)] * up + rest,
    st.integers(3, 9),
    st.lists(st.tuples(st.sampled_from("01"), st.sampled_from("01"), CLUSTERS), max_size=4),
)
"""Sets with evidence in them, which is rare in the ones above."""

ALL_UP: list[Case] = [("00000", "11111", None)] * 1000
FLIPPED: list[Case] = [("0", "1", None)] * 1200


def weigh(cases: Sequence[Case]) -> stats.Summary:
    """The summary; clusters are given where a case has one."""
    clusters = [cluster for _, _, cluster in cases]
    baseline, skill = [trials(base) for base, _, _ in cases], [trials(skill) for _, skill, _ in cases]
    return stats.summary(baseline, skill, clusters if any(clusters) else None)


def trials(letters: str) -> list[bool | None]:
    return [None if letter == "." else letter == "1" for letter in letters]


def decided(cases: Sequence[Case]) -> Decision:
    def cell(trials: str) -> Cell:
        return Cell(trials.count("1"), len(trials) - trials.count("."), len(trials))

    return decide(CaseCells(str(at), cell(base), cell(skill)) for at, (base, skill, _) in enumerate(cases))


@settings(deadline=None)
@given(st.one_of(SETS, CLEAR))
@example(ALL_UP)
@example(FLIPPED)
def test_every_number_keeps_its_bounds(cases: list[Case]) -> None:
    found = weigh(cases)
    assert "significant" not in stats.evidence_line(found, n_trials=2)
    if found.delta is None:
        assert found.scored_cases == 0
        return
    assert found.delta_ci is not None
    low, high = found.delta_ci
    assert -1 <= low <= found.delta <= high <= 1
    assert low < high
    for p, smallest in ((found.p_set, found.p_set_min), (found.p_cases, found.p_cases_min)):
        assert p is not None
        assert smallest is not None
        assert 0 < smallest <= p * (1 + ROUNDING)
        assert p <= 1
    assert found.p_set is not None
    assert found.p_set_conditional is not None
    assert 0 < found.p_set <= found.p_set_conditional <= 1
    assert (found.verdict == stats.NO_EVIDENCE) == (found.scope is None)
    for rate, interval in ((found.base_rate, found.base_ci), (found.skill_rate, found.skill_ci)):
        assert rate is not None
        assert interval is not None
        assert 0 <= interval[0] <= rate + ROUNDING
        assert rate - ROUNDING <= interval[1] <= 1


@pytest.mark.parametrize(("wins", "losses"), [(1200, 0), (0, 1200), (5000, 100), (3, 0), (0, 0)])
def test_no_p_value_is_zero(wins: int, losses: int) -> None:
    n = wins + losses
    assert 0 < stats.mcnemar_p(wins, losses) <= 1
    assert 0 < stats.single_run_p(max(n, 1), wins, losses) <= 1
    assert 0 < stats.stratified_p([(0, 3, 3, 3)] * n)[0] <= 1
    design = stats.design(max(n, 1), 3)
    assert 0 < design.p_set_min <= 1
    assert 0 < design.p_cases_min <= 1


@settings(deadline=None)
@given(st.one_of(SETS, CLEAR))
@example(ALL_UP)
def test_swapping_the_conditions_mirrors_everything(cases: list[Case]) -> None:
    there, back = weigh(cases), weigh([(skill, base, cluster) for base, skill, cluster in cases])
    assert back.verdict == MIRROR[there.verdict]
    assert (back.scope, back.wins, back.losses) == (there.scope, there.losses, there.wins)
    for name in ("p_set", "p_set_conditional", "p_set_min", "p_cases", "p_cases_min"):
        assert getattr(back, name) == getattr(there, name), name
    assert (back.base_ci, back.skill_ci) == (there.skill_ci, there.base_ci)
    if there.delta is not None and there.delta_ci is not None:
        assert back.delta == -there.delta
        assert back.delta_ci == (-there.delta_ci[1], -there.delta_ci[0])
    gates = {Gate.PASS: Gate.REGRESSION, Gate.REGRESSION: Gate.PASS}
    gate = decided(cases).gate
    assert decided([(skill, base, None) for base, skill, _ in cases]).gate == gates.get(gate, gate)


@settings(deadline=None)
@given(st.one_of(SETS, CLEAR), st.randoms(use_true_random=False))
def test_the_order_of_cases_and_trials_changes_nothing(cases: list[Case], rng: random.Random) -> None:
    shuffled = [("".join(rng.sample(b, len(b))), "".join(rng.sample(s, len(s))), c) for b, s, c in cases]
    rng.shuffle(shuffled)
    assert asdict(weigh(shuffled)) == asdict(weigh(cases))
    assert decided(shuffled) == decided(cases)


@settings(deadline=None, max_examples=300)
@given(st.one_of(SETS, CLEAR), st.integers(1, 4), st.integers(1, 4), st.one_of(CLUSTERS, st.just("new")))
@example([("0", "1", None)] * 3, 1, 1, None)
@example([("0", "1", None)] * 6, 1, 1, None)
@example([("00000", "11000", None)] * 6, 5, 5, None)
def test_a_case_that_fails_everywhere_adds_no_evidence(
    cases: list[Case], base_runs: int, skill_runs: int, cluster: str | None
) -> None:
    cluster = cluster if any(name for _, _, name in cases) else None
    before, after = weigh(cases), weigh([*cases, ("0" * base_runs, "0" * skill_runs, cluster)])
    assert after.p_set is not None
    assert after.p_cases is not None
    assert after.p_set >= (before.p_set or 0) * (1 - ROUNDING)
    assert after.p_cases >= (before.p_cases or 0) * (1 - ROUNDING)
    assert STRENGTH[after.scope] <= STRENGTH[before.scope]
    assert after.verdict in (before.verdict, stats.NO_EVIDENCE)


@settings(deadline=None, max_examples=300)
@given(st.one_of(sets_of("01", 1, ALONE), sets_of("01", 5, ALONE), CLEAR), st.data())
def test_leaving_out_trials_gives_no_gate_that_the_truth_would_not_give(
    cases: list[Case], data: st.DataObject
) -> None:
    """Whatever is not measured: a gate that stands is the one of the whole truth, and of the worst filling."""

    def without(trials: str) -> str:
        gone = data.draw(st.lists(st.booleans(), min_size=len(trials), max_size=len(trials)))
        return "".join("." if out else letter for letter, out in zip(trials, gone, strict=True))

    holed: list[Case] = [(without(base), without(skill), None) for base, skill, _ in cases]
    decision = decided(holed)
    if decision.gate is Gate.NOT_MEASURED:
        return
    assert decision.gate is decided(cases).gate
    against = [(base.replace(".", "1"), skill.replace(".", "0"), None) for base, skill, _ in holed]
    assert decided(against).gate is decision.gate
    assert weigh(holed).worst[1] == ("PASS" if decision.gate is Gate.PASS else "FAIL")


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), max_size=12), st.randoms(use_true_random=False))
def test_adjusted_p_values_never_fall_and_keep_the_order(
    p_values: list[float | None], rng: random.Random
) -> None:
    for adjust in (stats.holm, stats.bh):
        found = adjust(p_values)
        assert [p is None for p in found] == [p is None for p in p_values]
        pairs = sorted(
            (p, q) for p, q in zip(p_values, found, strict=True) if p is not None and q is not None
        )
        assert all(p * (1 - ROUNDING) <= q <= 1 for p, q in pairs)
        assert all(q <= later * (1 + ROUNDING) for (_, q), (_, later) in pairwise(pairs))
        order = rng.sample(range(len(p_values)), len(p_values))
        again = adjust([p_values[at] for at in order])
        assert [None if q is None else pytest.approx(q) for q in (found[at] for at in order)] == list(again)
