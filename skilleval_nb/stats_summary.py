"""The trials of two conditions, weighed: rates, intervals, p-values for both questions, and a verdict."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from statistics import fmean
from typing import TYPE_CHECKING

from .errors import InputError
from .gate import CaseCells, Cell, decide
from .stats_estimates import Trials, delta_ci, wilson
from .stats_exact import (
    ALPHA,
    mcnemar_p,
    sign_flip_min,
    sign_flip_p,
    single_run_min,
    single_run_p,
    stratified_min,
    stratified_p,
)

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence

NO_EVIDENCE, IMPROVES, REGRESSES = "no evidence", "improves", "regresses"
THESE, SIMILAR = "these prompts", "similar prompts"


@dataclass(frozen=True, slots=True)
class Summary:
    """What the trials of two conditions show; the fields with a default keep it where no case was scored.

    Verdicts (a case's majority): `gate` is the raw decision over the `scored_cases` ("PASS" where
    `gate_delta` > 0, else "FAIL"), `base_pass` and `skill_pass` their passes, `wins`, `losses` and `ties` the
    cases that flipped up, down or not; `worst` and `best` are (Δ, decision) over all cases with the
    `missing_runs` against the skill, then for it.

    Trials: `base_rate`, `skill_rate` and `delta` are means of the per-case pass rates, with 95 % intervals
    over the `units` (cases, or clusters where `clustered`). `p_set` asks about these prompts (chance is in
    the runs), `p_cases` about similar ones (chance is in the choice of cases); the `_min` are the smallest
    that this design could have given. `verdict` is "improves", "regresses" or "no evidence", `scope`
    "these prompts" or "similar prompts".
    """

    gate: str | None
    base_pass: int
    skill_pass: int
    scored_cases: int
    gate_delta: float | None
    unscored_cases: int
    worst: tuple[float | None, str | None]
    best: tuple[float | None, str | None]
    missing_runs: int
    wins: int
    losses: int
    ties: int
    units: int
    clustered: bool
    base_rate: float | None = None
    skill_rate: float | None = None
    base_ci: tuple[float, float] | None = None
    skill_ci: tuple[float, float] | None = None
    delta: float | None = None
    delta_ci: tuple[float, float] | None = None
    p_set: float | None = None
    p_set_conditional: float | None = None
    p_set_min: float | None = None
    p_cases: float | None = None
    p_cases_min: float | None = None
    verdict: str = NO_EVIDENCE
    scope: str | None = None


@dataclass(frozen=True, slots=True)
class _SetTest:
    """The answer for these prompts; `direction` is the sign of the movement that was tested."""

    p: float
    conditional: float
    smallest: float
    direction: int


def summary(
    baseline: Sequence[Trials], skill: Sequence[Trials], clusters: Sequence[Hashable] | None = None
) -> Summary:
    """Weigh the trials of two conditions; one sequence of True, False or None (not measured) a case.

    `clusters` names for each case the group of prompts that stand or fall together (paraphrases, one
    fixture); None: a case of its own.

    Raises:
        InputError: the arguments differ in length.
    """
    if len(baseline) != len(skill) or (clusters is not None and len(clusters) != len(skill)):
        raise InputError("summary needs one entry a case in baseline, skill and clusters")
    cells = [
        CaseCells(str(i), _cell(base), _cell(with_skill))
        for i, (base, with_skill) in enumerate(zip(baseline, skill, strict=True))
    ]
    groups: dict[Hashable, list[CaseCells]] = {}
    for i, case in enumerate(cells):
        if case.graded:
            alone = clusters is None or clusters[i] is None
            groups.setdefault((i,) if alone or clusters is None else ("", clusters[i]), []).append(case)
    decision = decide(cells)
    moves = [(c.baseline.verdict, c.skill.verdict) for c in cells if c.graded]
    wins, losses = moves.count((False, True)), moves.count((True, False))
    counts = Summary(
        gate=_raw(decision.delta),
        base_pass=decision.baseline_pass,
        skill_pass=decision.skill_pass,
        scored_cases=decision.graded,
        gate_delta=decision.delta,
        unscored_cases=decision.errors,
        worst=(decision.worst[0], _raw(decision.worst[0])),
        best=(decision.best[0], _raw(decision.best[0])),
        missing_runs=decision.unmeasured_trials,
        wins=wins,
        losses=losses,
        ties=len(moves) - wins - losses,
        units=len(groups),
        clustered=clusters is not None,
    )
    return _weigh(counts, list(groups.values())) if groups else counts


def _weigh(counts: Summary, groups: Sequence[Sequence[CaseCells]]) -> Summary:
    """Add the estimates and tests over the scored cases, in groups of those that stand or fall together."""
    scored = [case for group in groups for case in group]
    n = len(scored)
    sums = [sum((_difference(case) for case in group), Fraction(0)) for group in groups]
    weight = len(groups) / n  # times a cluster's sum, so that the mean over the clusters is Δ
    delta = float(sum(sums) / n)
    interval = delta_ci([weight * float(total) for total in sums], pseudo=weight * max(map(len, groups)))
    these, p_cases = _test_set(scored), sign_flip_p(sums)
    base_rate = fmean(c.baseline.passes / c.baseline.measured for c in scored)
    skill_rate = fmean(c.skill.passes / c.skill.measured for c in scored)
    verdict, scope = _judge(these, p_cases, delta, interval)
    return replace(
        counts,
        base_rate=base_rate,
        skill_rate=skill_rate,
        base_ci=wilson(base_rate, len(groups)),
        skill_ci=wilson(skill_rate, len(groups)),
        delta=delta,
        delta_ci=interval,
        p_set=these.p,
        p_set_conditional=these.conditional,
        p_set_min=these.smallest,
        p_cases=p_cases,
        p_cases_min=sign_flip_min(len(groups)),
        verdict=verdict,
        scope=scope,
    )


def _test_set(scored: Sequence[CaseCells]) -> _SetTest:
    """Test single runs by the unconditional refinement, everything else by the conditional test over runs."""
    if all(c.baseline.measured == c.skill.measured == 1 for c in scored):
        n = len(scored)
        moves = [c.skill.passes - c.baseline.passes for c in scored]
        up, down = moves.count(1), moves.count(-1)
        direction = (up > down) - (up < down)
        return _SetTest(single_run_p(n, up, down), mcnemar_p(up, down), single_run_min(n), direction)
    p, direction = stratified_p(
        (c.baseline.passes, c.baseline.measured, c.skill.passes, c.skill.measured) for c in scored
    )
    return _SetTest(p, p, stratified_min((c.baseline.measured, c.skill.measured) for c in scored), direction)


def _judge(
    these: _SetTest, p_cases: float, delta: float, interval: tuple[float, float]
) -> tuple[str, str | None]:
    """Climb the ladder: these prompts first, then similar ones where the interval agrees.

    With unequal run counts Δ can point against the movement that was tested; then nothing is claimed.
    """
    sign = (delta > 0) - (delta < 0)
    if these.p > ALPHA or sign == 0 or sign != these.direction:
        return NO_EVIDENCE, None
    beyond = p_cases <= ALPHA and not interval[0] <= 0 <= interval[1]
    return IMPROVES if sign > 0 else REGRESSES, SIMILAR if beyond else THESE


def _difference(case: CaseCells) -> Fraction:
    skill, baseline = case.skill, case.baseline
    moved = skill.passes * baseline.measured - baseline.passes * skill.measured
    return Fraction(moved, skill.measured * baseline.measured)


def _cell(trials: Trials) -> Cell:
    measured = [bool(t) for t in trials if t is not None]
    return Cell(sum(measured), len(measured), len(trials))


def _raw(delta: float | None) -> str | None:
    return None if delta is None else "PASS" if delta > 0 else "FAIL"
