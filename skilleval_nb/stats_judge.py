"""How far a judge can be trusted: agreement with itself, drift on anchors, and rates corrected by human labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, variance

from .errors import InputError
from .stats_estimates import Z, wilson
from .stats_exact import ALPHA, looks_p, mcnemar_p, single_run_p

DRIFTED_UP = "drifted up"
DRIFTED_DOWN = "drifted down"
UNSTABLE = "unstable"
NO_DRIFT = "no drift seen"
POWER = 0.8
"""The chance with which `smallest_drift` would be seen."""

ROUNDING = 1e-12
"""A variance below this is none: what is left of it is rounding."""


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
    """Gwet's AC1 with the observed (`pa`) and the chance agreement (`pe`).

    `ci` is None where the formula gives it no width: all items agree, or there is only one.
    """

    ac1: float
    pa: float
    pe: float
    ci: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Kappa:
    """Cohen's κ of two graders with its large-sample interval.

    `ci` is None where the formula gives it no width: perfect agreement, or a grader that says the same of all.
    """

    kappa: float
    ci: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class Drift:
    """Whether a judge grades the same items otherwise than before.

    `n` items were decided both times; `up` went from fail to pass, `down` from pass to fail. `p_checks` is
    what `verdict` goes by: p, paid for by the number of the check. `could_miss` is the smallest one-way flip
    rate that this check would have seen with 80 % power; None: it could have seen none.
    """

    n: int
    up: int
    down: int
    check: int
    flips: Flips
    p_checks: float
    could_miss: float | None
    verdict: str


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


def drift(
    n: int, up: int, down: int, *, own: float | None = None, own_items: int = 0, check: int = 1
) -> Drift | None:
    """Compare a judge's verdicts on `n` items with its (or another judge's) earlier ones; None: no such items.

    `check` counts the comparisons made with these items so far, this one included. The first is settled by p
    itself, a later one by p·k(k+1), so that false alarms stay rare however often one looks. `own` is the share
    of pairs of repeats that disagreed on `own_items` items: where the judge did not drift but flips more than
    it disagrees with itself (the intervals are apart), it is unstable. Without `own` that cannot be told.
    """
    if not n:
        return None
    flips = summary_flips(n, up, down)
    paid = 1 if check == 1 else check * (check + 1)
    p_checks = flips.p if check == 1 else looks_p(flips.p, check)
    if p_checks <= ALPHA:
        verdict = DRIFTED_UP if up > down else DRIFTED_DOWN
    elif own is not None and own_items and flips.flip_ci[0] > wilson(own, own_items)[1]:
        verdict = UNSTABLE
    else:
        verdict = NO_DRIFT
    return Drift(n, up, down, check, flips, p_checks, smallest_drift(n, ALPHA / paid), verdict)


def smallest_drift(n: int, alpha: float = ALPHA) -> float | None:
    """The smallest one-way flip rate that `n` items show with 80 % power; None where no outcome of theirs could.

    With rate r the flips are binomial(n, r), all one way, and seen where `single_run_p` is at most `alpha`.
    """
    needed = next((flips for flips in range(1, n + 1) if single_run_p(n, flips, 0) <= alpha), None)
    if needed is None:
        return None
    from scipy.special import betaincinv

    return float(betaincinv(needed, n - needed + 1, POWER))


def gwet_ac1(counts: Sequence[Sequence[int]]) -> Agreement | None:
    """Agreement beyond chance of repeated gradings; one row an item, one column a category (fail, pass).

    Unlike κ and α it does not collapse where nearly everything passes. The interval is Gwet's (2008), with the
    variance over the items (items are a sample) and Student's t. None where no item was graded twice.
    """
    rows = [row for row in counts if sum(row)]
    repeated = [row for row in rows if sum(row) > 1]
    categories = len(rows[0]) if rows else 0
    if not repeated or categories < 2:
        return None
    pa = fmean(_agreed(row) for row in repeated)
    shares = [fmean(row[q] / sum(row) for row in rows) for q in range(categories)]
    pe = sum(share * (1 - share) for share in shares) / (categories - 1)
    ac1 = (pa - pe) / (1 - pe)
    influence = []
    for row in rows:
        own = (_agreed(row) - pe) * len(rows) / len(repeated) / (1 - pe) if sum(row) > 1 else 0.0
        chance = sum(k * (1 - share) for k, share in zip(row, shares, strict=True))
        chance /= sum(row) * (categories - 1)
        influence.append(own - 2 * (1 - ac1) * (chance - pe) / (1 - pe))
    return Agreement(ac1, pa, pe, _around(ac1, influence))


def _agreed(row: Sequence[int]) -> float:
    """The share of pairs of gradings of one item that agree."""
    return sum(k * (k - 1) for k in row) / (sum(row) * (sum(row) - 1))


def _around(estimate: float, influence: Sequence[float]) -> tuple[float, float] | None:
    """Student's interval of an estimate from what each item adds to it, within [-1, 1]."""
    if len(influence) < 2:
        return None
    spread = sum((one - estimate) ** 2 for one in influence) / (len(influence) - 1)
    if spread < ROUNDING:
        return None
    from scipy.special import stdtrit

    half = float(stdtrit(len(influence) - 1, 0.975)) * math.sqrt(spread / len(influence))
    return max(-1.0, estimate - half), min(1.0, estimate + half)


def cohen_kappa(tp: int, fn: int, tn: int, fp: int) -> Kappa | None:
    """Cohen's κ between human and judge, counted as in `rogan_gladen`.

    The interval is that of Fleiss, Cohen and Everitt (1969). None without items, and where both say the same
    of every item: chance alone would then agree on all.
    """
    n = tp + fn + tn + fp
    if not n or n in (tp, tn):
        return None
    table = ((tp / n, fn / n), (fp / n, tn / n))  # human by judge
    rows = [sum(row) for row in table]
    columns = [sum(column) for column in zip(*table, strict=True)]
    expected = sum(r * c for r, c in zip(rows, columns, strict=True))
    kappa = (table[0][0] + table[1][1] - expected) / (1 - expected)
    same = sum(table[i][i] * (1 - (rows[i] + columns[i]) * (1 - kappa)) ** 2 for i in (0, 1))
    other = sum(table[i][1 - i] * (columns[i] + rows[1 - i]) ** 2 for i in (0, 1)) * (1 - kappa) ** 2
    spread = same + other - (kappa - expected * (1 - kappa)) ** 2
    if spread < ROUNDING:
        return Kappa(kappa, None)
    half = Z * math.sqrt(spread / n) / (1 - expected)
    return Kappa(kappa, (max(-1.0, kappa - half), min(1.0, kappa + half)))


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
