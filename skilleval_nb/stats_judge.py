"""How far a judge can be trusted: agreement with itself, drift on anchors, and rates corrected by human labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from .errors import InputError
from .stats_estimates import Z, wilson
from .stats_exact import mcnemar_p, single_run_p


@dataclass(frozen=True, slots=True)
class Flips:
    """Verdicts that changed between two gradings of the same answers.

    `p` asks whether they moved one way (`single_run_p`), `mcnemar` is the same from the flips alone;
    `flip_rate` counts both ways over all answers.
    """

    p: float
    mcnemar: float
    flip_rate: float
    flip_ci: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Agreement:
    """Gwet's AC1 with the observed (`pa`) and the chance agreement (`pe`)."""

    ac1: float
    pa: float
    pe: float


@dataclass(frozen=True, slots=True)
class Corrected:
    """A judged pass rate corrected for the judge's errors.

    `j` = sensitivity + specificity − 1 with its interval. `point` and `ci` are None where the judge cannot
    measure this: j ≤ 0.2, or an interval of j that reaches 0.
    """

    point: float | None
    ci: tuple[float, float] | None
    j: float
    j_ci: tuple[float, float]


@dataclass(frozen=True, slots=True)
class Powered:
    """A pass rate from few human labels and many judged answers; `lam` is the weight given to the judge."""

    estimate: float
    ci: tuple[float, float]
    lam: float


def summary_flips(n: int, up: int, down: int) -> Flips:
    """Compare two gradings of the same `n` answers, of which `up` went fail to pass and `down` pass to fail."""
    if n < 1:
        raise InputError("comparing two gradings needs at least one answer that both graded")
    rate = (up + down) / n
    return Flips(single_run_p(n, up, down), mcnemar_p(up, down), rate, wilson(rate, n))


def gwet_ac1(counts: Sequence[Sequence[int]]) -> Agreement | None:
    """Agreement beyond chance of repeated gradings; one row an item, one column a category (fail, pass).

    Unlike κ and α it does not collapse where nearly everything passes. None where no item was graded twice.
    """
    rows = [row for row in counts if sum(row)]
    repeated = [row for row in rows if sum(row) > 1]
    categories = len(rows[0]) if rows else 0
    if not repeated or categories < 2:
        return None
    pa = fmean(sum(k * (k - 1) for k in row) / (sum(row) * (sum(row) - 1)) for row in repeated)
    shares = [fmean(row[q] / sum(row) for row in rows) for q in range(categories)]
    pe = sum(share * (1 - share) for share in shares) / (categories - 1)
    return Agreement((pa - pe) / (1 - pe), pa, pe)


def rogan_gladen(q: float, n: int, tp: int, fn: int, tn: int, fp: int) -> Corrected:
    """Correct a judged rate `q` of `n` units by a labelled sample (Lang and Reiczigel 2014).

    `tp` and `fn` count human passes that the judge passed and failed, `tn` and `fp` human fails that it
    failed and passed. At least one human pass and one human fail are needed.
    """
    positives, negatives = tp + fn, tn + fp
    if min(tp, fn, tn, fp) < 0 or not positives or not negatives or n < 1:
        raise InputError(
            "correcting a judged rate needs at least one human pass and one human fail among the labels"
        )
    se, sp = tp / positives, tn / negatives
    (se_low, se_high), (sp_low, sp_high) = wilson(se, positives), wilson(sp, negatives)
    n_se, n_sp = positives + 2, negatives + 2
    se_s, sp_s = (tp + 1) / n_se, (tn + 1) / n_sp  # smoothed, as the interval needs them
    j, j_s = se + sp - 1, se_s + sp_s - 1
    j_ci = (
        max(-1.0, j - math.hypot(se - se_low, sp - sp_low)),
        min(1.0, j + math.hypot(se_high - se, sp_high - sp)),
    )
    if j <= 0.2 or j_ci[0] <= 0 or j_s <= 0:
        return Corrected(None, None, j, j_ci)
    z2 = Z * Z
    n_q, q_s = n + z2, (n * q + z2 / 2) / (n + z2)
    rate = min(1.0, max(0.0, (q_s + sp_s - 1) / j_s))
    v_se, v_sp = se_s * (1 - se_s) / n_se, sp_s * (1 - sp_s) / n_sp
    shift = 2 * z2 * (rate * v_se - (1 - rate) * v_sp)
    half = Z / j_s * math.sqrt(q_s * (1 - q_s) / n_q + rate**2 * v_se + (1 - rate) ** 2 * v_sp)
    low, high = max(0.0, rate + shift - half), min(1.0, rate + shift + half)
    return Corrected(min(1.0, max(0.0, (q + sp - 1) / j)), (low, high), j, j_ci)


def ppi_mean(
    judge_unlabelled: Sequence[float], judge_labelled: Sequence[float], human_labelled: Sequence[float]
) -> Powered:
    """Prediction-powered mean (PPI++): human labels of a random part, the judge's verdicts of all.

    At least two answers on each side; the labelled ones must be a random sample of the same answers.
    """
    n, m = len(human_labelled), len(judge_unlabelled)
    if n != len(judge_labelled) or min(n, m) < 2:
        raise InputError(
            "ppi_mean needs two or more unlabelled verdicts and two or more pairs of judge and human"
        )
    judge_mean, human_mean = fmean(judge_labelled), fmean(human_labelled)
    pairs = zip(judge_labelled, human_labelled, strict=True)
    covariance = sum((j - judge_mean) * (h - human_mean) for j, h in pairs) / (n - 1)
    spread = variance([*judge_unlabelled, *judge_labelled])
    lam = 0.0 if spread == 0 else min(1.0, max(0.0, covariance / ((1 + n / m) * spread)))
    rest = [h - lam * j for j, h in zip(judge_labelled, human_labelled, strict=True)]
    estimate = lam * fmean(judge_unlabelled) + fmean(rest)
    half = Z * math.sqrt(lam**2 * variance(judge_unlabelled) / m + variance(rest) / n)
    return Powered(estimate, (estimate - half, estimate + half), lam)
