"""Exact tests of whether chance alone could have moved this many trials, or this many prompts.

Two questions that are never mixed. *These prompts*: did the pass probability move on this set? Chance is
in the runs (`stratified_p`, `single_run_p`). *Similar prompts*: would it move on others of their kind?
Chance is in the choice of cases (`sign_flip_p`). All p-values are two-sided by doubling the smaller tail,
and none is 0: below what a float can hold it is the smallest float.
"""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, overload

from .errors import InputError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

ALPHA = 0.05
"""Two-sided level of every claim: 2.5 % in each direction."""

LATTICE_REACH = 2_000_000
LATTICE_CELLS = 400_000_000
"""Memory and additions that `sign_flip_p` may spend; beyond, it rounds the differences to a grid."""


def mcnemar_p(wins: int, losses: int) -> float:
    """Exact McNemar (sign) test of `wins` against `losses`."""
    tail, halvings = _mcnemar(wins, losses)
    return _as_p(tail / (1 << halvings))


def single_run_p(n: int, wins: int, losses: int) -> float:
    """Exact unconditional test of `n` cases run once in each condition, `wins` up and `losses` down.

    Without an effect a case flips up and down with the same probability, at most ¼. The p-value is the
    largest over any mix of difficulties: max over m ≤ n of E[R(D)], D binomial(m, ½), where R(d) is the
    largest McNemar p attainable with d flips that does not exceed the observed one. Never above McNemar's.
    """
    if min(wins, losses) < 0 or wins + losses > n:
        raise InputError(f"single_run_p needs wins + losses ≤ n, not {wins} + {losses} of {n}")
    tail, halvings = _mcnemar(wins, losses)
    if tail >= 1 << halvings:
        return 1.0
    return _as_p(worst_chance(n, tail, halvings))


def single_run_min(n: int) -> float:
    """Smallest p that `single_run_p` can reach: all n cases flip, each with chance ¼."""
    return 1.0 if n == 1 else _as_p(math.ldexp(2.0, -2 * n))


def worst_chance(n: int, level: int, halvings: int) -> float:
    """Largest chance, over all mixes of n cases without an effect, of a McNemar p ≤ level / 2**halvings < 1."""
    import numpy as np

    sizes = [2 * tail / (1 << d) if tail else 0.0 for d, (_, tail) in enumerate(critical(n, level, halvings))]
    law = np.array(sizes)
    worst = float(law[0])
    for _ in range(n):  # after m rounds law[0] is the mean of the sizes over binomial(m, ½) flips
        law = 0.5 * (law[:-1] + law[1:])
        worst = max(worst, float(law[0]))
    return worst


def critical(n: int, level: int, halvings: int) -> list[tuple[int, int]]:
    """For d = 0…n flips: the most losses k with a McNemar p ≤ level / 2**halvings < 1, and Σ_{j≤k} C(d, j).

    k is -1 where not even d wins against no loss reach the level. Integers throughout: ties are exact.
    """
    out: list[tuple[int, int]] = []
    k, tail, term, following = -1, 0, 0, 1  # tail = Σ_{j≤k} C(d, j), term = C(d, k), following = C(d, k + 1)
    for d in range(n + 1):
        shift = halvings - d + 1  # 2·tail/2^d ≤ level/2^halvings ⇔ tail ≤ bound
        bound = level >> shift if shift > 0 else level << -shift
        if tail + following <= bound:
            k, tail, term = k + 1, tail + following, following
            following = term * (d - k) // (k + 1)
        out.append((k, tail))
        tail = 2 * tail - term
        term, following = term * (d + 1) // (d + 1 - k) if k >= 0 else 0, following + term
    return out


def stratified_p(cells: Iterable[tuple[int, int, int, int]]) -> tuple[float, int]:
    """Exact conditional Mantel–Haenszel test over runs: its p, and the direction moved (-1, 0 or 1).

    `cells` holds a case each: baseline passes, baseline runs, skill passes, skill runs. Given the passes of a
    case in both conditions, its skill passes are hypergeometric; the sum over the cases is their convolution.
    """
    import numpy as np

    strata: Counter[tuple[int, int, int]] = Counter()
    observed = 0
    for base_passes, base_runs, skill_passes, skill_runs in cells:
        total = base_passes + skill_passes
        observed += skill_passes
        strata[base_runs, skill_runs, total] += 1
    factors = np.log(np.arange(1, max((b + s for b, s, _ in strata), default=1) + 1))
    logs: Floats = np.concatenate(([0.0], np.cumsum(factors)))  # logs[k] = ln k!
    low, law, expected = 0, np.ones(1), Fraction(0)
    for (base_runs, skill_runs, total), count in strata.items():
        least = max(0, total - base_runs)
        pmf = _hypergeometric(logs, base_runs, skill_runs, total)
        for _ in range(count):
            law = np.convolve(law, pmf) if len(pmf) > 1 else law
        low += least * count
        expected += Fraction(count * total * skill_runs, base_runs + skill_runs)
    at = observed - low
    p = 2 * min(float(law[: at + 1].sum()), float(law[at:].sum()))
    return _as_p(p), (observed > expected) - (observed < expected)


def stratified_min(runs: Iterable[tuple[int, int]]) -> float:
    """Smallest p that `stratified_p` can reach with these (baseline runs, skill runs) a case."""
    arrangements = math.prod(math.comb(base + skill, skill) for base, skill in runs)
    return _as_p(2 / arrangements)


def sign_flip_p(differences: Sequence[Fraction]) -> float:
    """Exact sign-flip test of one difference a case (or cluster): the law of Σ ±d with fair signs.

    The differences lie on a lattice of their common denominator. Where that is too fine to count (many
    different run counts) they are first rounded to a coarser grid: still a valid test, of the rounded ones.
    """
    import numpy as np

    steps = _on_lattice([d for d in differences if d])
    reach, moved = sum(map(abs, steps)), abs(sum(steps))
    if not moved:
        return 1.0
    bound = (reach - moved) // 2  # Σ ±d ≤ -moved ⇔ the steps that keep their sign sum to at most `bound`
    law = np.zeros(bound + 1)
    law[0] = 1.0
    for step in sorted(map(abs, steps)):
        if step <= bound:
            law[step:] += law[:-step].copy()
        law *= 0.5
    return _as_p(2 * float(law.sum()))


def sign_flip_min(units: int) -> float:
    """Smallest p that `sign_flip_p` can reach with this many cases or clusters."""
    return _as_p(math.ldexp(1.0, 1 - units))


def e_value(wins: int, losses: int) -> float:
    """Evidence for a rise from paired runs that may be looked at after each one; 40 or more settles it.

    The uniform mixture over θ ∈ (½, 1] of the likelihood ratio against θ = ½. For a fall swap the arguments.
    """
    pairs = wins + losses
    upper = sum(math.comb(pairs + 1, j) for j in range(wins + 1))
    return upper / (math.comb(pairs, wins) * (pairs + 1))


@overload
def looks_p(p: float, look: int) -> float: ...
@overload
def looks_p(p: Sequence[float], look: Sequence[int]) -> tuple[float, ...]: ...
def looks_p(p: float | Sequence[float], look: int | Sequence[int]) -> float | tuple[float, ...]:
    """A p-value paid for at look k of any number: min(1, p·k·(k+1)); the levels α/(k(k+1)) sum to α."""
    if isinstance(p, Sequence) and isinstance(look, Sequence):
        return tuple(looks_p(one, k) for one, k in zip(p, look, strict=True))
    if isinstance(p, Sequence) or isinstance(look, Sequence) or look < 1:
        raise InputError("looks_p needs a p-value and its look, counted from 1 (or as many of each)")
    return min(1.0, p * look * (look + 1))


def _as_p(p: float) -> float:
    """A p-value in (0, 1], to 12 digits: in which order chances were summed up decides nothing."""
    return min(1.0, max(sys.float_info.min, float(f"{p:.12g}")))


def _mcnemar(wins: int, losses: int) -> tuple[int, int]:
    """The doubled tail of min(wins, losses) as a fraction: numerator and power of two below it."""
    flips, tail, term = wins + losses, 0, 1
    for j in range(min(wins, losses) + 1):
        tail += term
        term = term * (flips - j) // (j + 1)
    return 2 * tail, flips


def _hypergeometric(logs: Floats, base_runs: int, skill_runs: int, total: int) -> Floats:
    """Law of the skill's passes among `total` of both conditions, from its least possible value upwards."""
    import numpy as np

    s = np.arange(max(0, total - base_runs), min(skill_runs, total) + 1)
    weights = -(logs[s] + logs[skill_runs - s] + logs[total - s] + logs[base_runs - total + s])
    law: Floats = np.exp(weights - weights.max())
    law /= law.sum()
    return law


def _on_lattice(differences: Sequence[Fraction]) -> list[int]:
    """The differences as whole steps of one grid, exact where that is affordable."""
    scale = math.lcm(*(d.denominator for d in differences))
    steps = [int(d * scale) for d in differences]
    divisor = math.gcd(*steps) or 1
    steps = [step // divisor for step in steps]
    reach = sum(map(abs, steps))
    affordable = min(LATTICE_REACH, LATTICE_CELLS // max(1, len(steps)))
    return steps if reach <= affordable else [round(Fraction(step * affordable, reach)) for step in steps]
