"""Point estimates and 95 % intervals: rates, differences, ratios, repeats, and where the spread comes from."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, variance

from .errors import InputError

Trials = Sequence[bool | None]
"""The trials of one case under one condition: passed, failed, or None where not measured."""

Z = NormalDist().inv_cdf(0.975)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio skill / baseline over `n` pairs; no interval and no p below three pairs or without any spread."""

    ratio: float | None
    ci: tuple[float, float] | None
    p: float | None
    n: int


@dataclass(frozen=True, slots=True)
class VarianceSplit:
    """Variance of the per-case differences: `total` = `runs` (noise of repeats) + `cases` (the prompts differ).

    `se` is the standard error of Δ. Parts are None where a cell has fewer than two measured trials (they
    cannot be told apart), `total` and `se` where there are fewer than two cases.
    """

    n: int
    total: float | None
    runs: float | None
    cases: float | None
    run_share: float | None
    se: float | None


def wilson(p: float, n: float) -> tuple[float, float]:
    """Wilson's interval of a proportion `p` of `n` independent units; `p` may be a mean of fractions."""
    if not 0 <= p <= 1 or n <= 0:
        raise InputError(f"an interval needs a rate in [0, 1] and at least one unit, not {p} of {n}")
    centre = p + Z * Z / (2 * n)
    half = Z * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    scale = 1 + Z * Z / n
    low, high = max(0.0, (centre - half) / scale), min(1.0, (centre + half) / scale)
    return (0.0 if p == 0 else low), (1.0 if p == 1 else high)


def delta_ci(d: Iterable[float], *, pseudo: float = 1.0) -> tuple[float, float]:
    """The smoothed paired t interval of a mean difference, within [-1, 1].

    Student's t over the differences and two pseudo-cases, ±`pseudo`: a prompt that was not seen may flip
    outright. `pseudo` is above 1 only for clusters, whose units carry the weight of their size.
    """
    low, high = _t_interval([*d, pseudo, -pseudo])
    return max(-1.0, low), min(1.0, high)


def ratio_ci(baseline: Sequence[float | None], skill: Sequence[float | None]) -> Ratio:
    """Geometric mean of skill / baseline over cases, with Student's t on the logs.

    Pairs with a side that is None or not above 0 are left out.
    """
    logs = [math.log(s / b) for b, s in zip(baseline, skill, strict=True) if b and s and b > 0 and s > 0]
    if not logs:
        return Ratio(None, None, None, 0)
    mean = fmean(logs)
    if len(logs) < 3 or max(logs) - min(logs) < 1e-12:
        return Ratio(math.exp(mean), None, None, len(logs))
    from scipy.special import stdtr

    low, high = _t_interval(logs)
    t = mean / math.sqrt(variance(logs) / len(logs))
    p = 2 * float(stdtr(len(logs) - 1, -abs(t)))
    return Ratio(math.exp(mean), (math.exp(low), math.exp(high)), p, len(logs))


def pass_at_k(c: int, n: int, k: int) -> float | None:
    """Chance that at least one of k trials passes, from c passes of n (Chen 2021); None where n < k."""
    return None if _too_few(c, n, k) else (math.comb(n, k) - math.comb(n - c, k)) / math.comb(n, k)


def pass_hat_k(c: int, n: int, k: int) -> float | None:
    """Chance that k of k trials pass, from c passes of n (pass^k of τ-bench); None where n < k."""
    return None if _too_few(c, n, k) else math.comb(c, k) / math.comb(n, k)


def variance_split(baseline: Sequence[Trials], skill: Sequence[Trials]) -> VarianceSplit:
    """Split the variance of Δ over the cases measured in both conditions.

    Where runs carry more than half of it, more trials help; otherwise only more cases do.
    """
    differences: list[float] = []
    noise: list[float | None] = []
    for pair in zip(baseline, skill, strict=True):
        base, with_skill = ([t for t in trials if t is not None] for trials in pair)
        if base and with_skill:
            differences.append(fmean(with_skill) - fmean(base))
            noise.append(_mean_variance(base, with_skill))
    n = len(differences)
    if n < 2:
        return VarianceSplit(n, None, None, None, None, None)
    total = variance(differences)
    known = [v for v in noise if v is not None]
    runs = fmean(known) if len(known) == n else None
    return VarianceSplit(
        n=n,
        total=total,
        runs=runs,
        cases=None if runs is None else max(0.0, total - runs),
        run_share=None if runs is None or total == 0 else min(1.0, runs / total),
        se=math.sqrt(total / n),
    )


def _mean_variance(*cells: Sequence[bool]) -> float | None:
    """Σ of the variances of both cells' means; None where a cell has a single trial."""
    if any(len(cell) < 2 for cell in cells):
        return None
    return sum(fmean(cell) * (1 - fmean(cell)) / (len(cell) - 1) for cell in cells)


def _t_interval(values: Sequence[float]) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(len(values) - 1, 0.975)) * math.sqrt(variance(values) / len(values))
    mean = fmean(values)
    return mean - half, mean + half


def _too_few(c: int, n: int, k: int) -> bool:
    if not 0 <= c <= n or k < 1:
        raise InputError(f"pass@k needs 0 ≤ c ≤ n and k ≥ 1, not c {c}, n {n}, k {k}")
    return n < k
