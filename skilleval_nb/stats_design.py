"""What a design can show before it is paid for: its smallest p-values, and the smallest rise that it finds.

A rise is *found* where the evidence says `improves` on these prompts (p ≤ ALPHA, Δ > 0) with 80 % power,
in cases that are all alike.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import TYPE_CHECKING

from .errors import InputError
from .gate import counted
from .stats_exact import ALPHA, critical, sign_flip_min, single_run_min, stratified_min, worst_chance

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

POWER, TOLERANCE = 0.80, 0.02
"""Wanted power, and how far below it a step may lie: what the table's 600 simulations cannot tell apart."""

FINE_BELOW = 10
"""Rises up to so many points are told to the point, larger ones in steps of 5."""

BASELINE_RATE = 0.3
"""Assumed where nothing is known of the baseline."""

CLAIM_UNITS = 6
"""Fewest cases or clusters with which a claim about similar prompts is possible."""

EXACT_CASES, EXACT_TRIALS = 400, 200
"""Largest designs worked out (one trial a case) and simulated (more); beyond, the normal approximation."""

SIMULATIONS, SEED = 1_000, 20_261_130

ROUNDING = 1e-12
"""What the transforms add to a chance: three trials often give a p of exactly ALPHA."""

_TABLE_DESIGNS = (
    *((3, 1), (3, 3), (3, 5), (5, 1), (5, 3), (5, 5), (10, 1), (10, 3), (10, 5)),
    *((20, 1), (20, 3), (20, 5), (40, 1), (40, 3)),
)
_SMALLEST_RISES = {  # percentage points by baseline rate, for the designs above in their order; 0: none
    0.1: (0, 75, 50, 85, 55, 40, 65, 35, 25, 45, 25, 20, 30, 15),
    0.3: (0, 70, 55, 0, 55, 45, 65, 40, 30, 45, 30, 20, 35, 20),
    0.5: (0, 0, 50, 0, 50, 40, 0, 40, 30, 45, 30, 25, 35, 20),
    0.8: (0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 20, 15, 20, 15),
}


@dataclass(frozen=True, slots=True)
class Design:
    """What `n_cases` × `n_trials` can show.

    `p_set_min` and `p_cases_min` are the smallest p-values that any outcome can give, on these prompts and
    for similar ones. `smallest_delta` is the smallest rise found with 80 % power on these prompts, a rate in
    steps of 5 points (of 1 point below 10); None where no rise from that baseline is found so often.
    """

    p_set_min: float
    p_cases_min: float
    smallest_delta: float | None
    text: str


def design(
    n_cases: int, n_trials: int, *, baseline_rate: float = BASELINE_RATE, units: int | None = None
) -> Design:
    """Say what a set of `n_cases`, each run `n_trials` times in both conditions, can show.

    `units` are the groups of cases that stand or fall together, which count for similar prompts; None: every
    case stands alone.

    Raises:
        InputError: no case, no trial, a rate outside [0, 1], or more groups than cases.
    """
    groups = n_cases if units is None else units
    if not 1 <= groups <= n_cases or n_trials < 1 or not 0 <= baseline_rate <= 1:
        raise InputError(
            "a design needs at least one case, one trial, a baseline rate in [0, 1] and no more groups than cases,"
            f" not {n_cases}, {n_trials}, {baseline_rate} and {groups}"
        )
    p_set_min = single_run_min(n_cases) if n_trials == 1 else stratified_min([(n_trials, n_trials)] * n_cases)
    p_cases_min = sign_flip_min(groups)
    smallest = None if p_set_min > ALPHA else smallest_rise(n_cases, n_trials, baseline_rate)
    size = f"{counted(n_cases, 'case')} × {counted(n_trials, 'trial')}"
    if p_set_min > ALPHA:
        text = (
            f"{size}: no outcome of this design can be evidence (smallest p {shown_p(p_set_min)});"
            " 3 cases × 1 trial, 2 × 3 or 1 × 4 are the least"
        )
    else:
        found = f"{findings(n_cases, n_trials, smallest)} (80% power from a baseline of {baseline_rate:.0%})"
        text = f"{found}; smallest p {shown_p(p_set_min)} on these prompts"
    if p_cases_min > ALPHA:
        kind = "cases" if groups == n_cases else f"groups of cases ({groups} here)"
        text += f"; similar prompts need at least {CLAIM_UNITS} {kind}"
    elif p_set_min <= ALPHA:
        text += f", {shown_p(p_cases_min)} for similar prompts"
    return Design(p_set_min, p_cases_min, smallest, text)


def findings(n_cases: int, n_trials: int, smallest: float | None) -> str:
    """The size of a design and what it finds: `9 cases × 1 trial find +65 points or more`."""
    size = f"{counted(n_cases, 'case')} × {counted(n_trials, 'trial')}"
    verb = "finds" if n_cases == 1 and n_trials == 1 else "find"
    if smallest is None:
        return f"{size} {verb} no rise reliably"
    points = round(100 * smallest)
    return f"{size} {verb} +{counted(points, 'point')} or more"


def shown_p(p: float) -> str:
    """A p-value with two significant digits, more where those would put it on the wrong side of ALPHA."""
    if p < 0.0001:
        return "< 0.0001"
    for digits in range(2, 17):
        text = f"{p:#.{digits}g}"
        if (float(text) <= ALPHA) == (p <= ALPHA):
            return text
    return repr(p)


def smallest_rise(n_cases: int, n_trials: int, baseline_rate: float) -> float | None:
    """The smallest rise (a rate) from `baseline_rate` that is found with 80 % power, or None.

    From the reference table for its designs, else worked out, simulated or approximated by size.
    """
    known = _SMALLEST_RISES.get(baseline_rate)
    if known and (n_cases, n_trials) in _TABLE_DESIGNS:
        return known[_TABLE_DESIGNS.index((n_cases, n_trials))] / 100 or None
    return _search(n_cases, n_trials, baseline_rate)


@lru_cache(maxsize=1024)
def _search(n_cases: int, n_trials: int, baseline_rate: float) -> float | None:
    def reached(points: int) -> float:
        return power(n_cases, n_trials, baseline_rate, points / 100)

    steps = range(5, math.floor(100 * (1 - baseline_rate) + 1e-9) + 1, 5)
    at = bisect_left(steps, POWER - TOLERANCE, key=reached)
    if at == len(steps):
        return None
    if steps[at] <= FINE_BELOW:
        return bisect_left(range(steps[at]), POWER - TOLERANCE, lo=1, key=reached) / 100
    return steps[at] / 100


def power(n_cases: int, n_trials: int, baseline_rate: float, rise: float) -> float:
    """Chance that a rise in cases that are all alike is called `improves` on these prompts."""
    skill_rate = min(1.0, baseline_rate + rise)
    if n_trials == 1 and n_cases <= EXACT_CASES:
        return _power_single(n_cases, baseline_rate, skill_rate)
    if n_trials > 1 and n_cases * n_trials <= EXACT_TRIALS:
        return _power_simulated(n_cases, n_trials, baseline_rate, skill_rate)
    return _power_normal(n_cases, n_trials, baseline_rate, skill_rate)


@lru_cache(maxsize=64)
def _most_losses(n_cases: int) -> tuple[int, ...]:
    """For each number of flips the most losses with `single_run_p` ≤ ALPHA (-1: none)."""
    bits = 40
    low, high = 0, (1 << bits) - 1
    while high - low > 1:  # the largest McNemar level whose worst chance is still ≤ ALPHA
        middle = (low + high) // 2
        if worst_chance(n_cases, middle, bits) <= ALPHA:
            low = middle
        else:
            high = middle
    return tuple(k for k, _ in critical(n_cases, low, bits))


def _power_single(n_cases: int, baseline_rate: float, skill_rate: float) -> float:
    import numpy as np
    from scipy.special import bdtr, gammaln, xlog1py, xlogy

    up, down = (1 - baseline_rate) * skill_rate, baseline_rate * (1 - skill_rate)
    flips = np.arange(n_cases + 1)
    losses = np.array(_most_losses(n_cases))
    choose = gammaln(n_cases + 1) - gammaln(flips + 1) - gammaln(n_cases - flips + 1)
    chance = np.exp(choose + xlogy(flips, up + down) + xlog1py(n_cases - flips, -(up + down)))
    possible = losses >= 0
    share_down = down / (up + down) if up + down else 0.0
    return float((chance[possible] * bdtr(losses[possible], flips[possible], share_down)).sum())


@lru_cache(maxsize=8)
def _hypergeometric_powers(n_cases: int, n_trials: int) -> NDArray[np.complex128]:
    """Transforms of the hypergeometric laws by total passes, raised to the powers 0…n_cases."""
    import numpy as np

    length = n_cases * n_trials + 1
    laws = np.zeros((2 * n_trials + 1, length))
    for total in range(2 * n_trials + 1):
        for s in range(max(0, total - n_trials), min(n_trials, total) + 1):
            ways = math.comb(n_trials, s) * math.comb(n_trials, total - s)
            laws[total, s] = ways / math.comb(2 * n_trials, total)
    transforms = np.fft.rfft(laws, axis=1)
    powers: NDArray[np.complex128] = np.ones((n_cases + 1, *transforms.shape), dtype=np.complex128)
    for k in range(n_cases):
        powers[k + 1] = powers[k] * transforms
    return powers


def _power_simulated(n_cases: int, n_trials: int, baseline_rate: float, skill_rate: float) -> float:
    """Share of simulated sets with `stratified_p` ≤ ALPHA upwards; all laws of a batch by one transform."""
    import numpy as np

    rng = np.random.default_rng(SEED)
    size = (SIMULATIONS, n_cases)
    skill = rng.binomial(n_trials, skill_rate, size)
    totals = skill + rng.binomial(n_trials, baseline_rate, size)
    powers = _hypergeometric_powers(n_cases, n_trials)
    counts = [(totals == total).sum(axis=1) for total in range(2 * n_trials + 1)]
    transform = math.prod(powers[count, total] for total, count in enumerate(counts))
    laws = np.fft.irfft(transform, n=n_cases * n_trials + 1, axis=1)
    beyond = np.arange(n_cases * n_trials + 1) >= skill.sum(axis=1)[:, None]
    return float(((laws * beyond).sum(axis=1) <= ALPHA / 2 + ROUNDING).mean())


def _power_normal(n_cases: int, n_trials: int, baseline_rate: float, skill_rate: float) -> float:
    """Normal approximation of the same test, with its continuity correction."""
    n, runs = n_cases, n_trials
    noise = baseline_rate * (1 - baseline_rate) + skill_rate * (1 - skill_rate)
    mean_total = runs * (baseline_rate + skill_rate)
    spread = 2 * runs * mean_total - mean_total**2 - runs * noise  # E[t(2N - t)], t = passes of both
    null_variance = n * spread / (4 * (2 * runs - 1))
    shift = n * runs * (skill_rate - baseline_rate) / 2
    margin = shift - 0.5 - NormalDist().inv_cdf(1 - ALPHA / 2) * math.sqrt(null_variance)
    variance = n * runs * noise / 4
    return NormalDist(0, math.sqrt(variance)).cdf(margin) if variance > 0 else float(margin >= 0)
