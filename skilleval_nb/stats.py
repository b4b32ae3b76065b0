"""How far chance explains a difference: the evidence that stands beside the gate and never changes it.

`summary` weighs the trials of two conditions, `evidence_line` says it in words, `design` tells beforehand
what a set can show, `advice` what to do about it. The parts are in `stats_exact` (tests), `stats_several`
(adjusted p-values), `stats_estimates` (intervals), `stats_summary`, `stats_judge`, `stats_design` and `stats_advice`;
all that is public is reachable from here.
"""

from __future__ import annotations

from .gate import counted, gate_of, span
from .stats_advice import advice, plan_advice
from .stats_design import (
    BASELINE_RATE,
    CLAIM_UNITS,
    Design,
    design,
    findings,
    power,
    shown_p,
    smallest_rise,
)
from .stats_estimates import (
    Ratio,
    Trials,
    VarianceSplit,
    delta_ci,
    pass_at_k,
    pass_hat_k,
    ratio_ci,
    variance_split,
    wilson,
)
from .stats_exact import (
    ALPHA,
    e_value,
    looks_p,
    mcnemar_p,
    sign_flip_p,
    single_run_p,
    stratified_p,
)
from .stats_judge import (
    DRIFTED_DOWN,
    DRIFTED_UP,
    NO_DRIFT,
    UNSTABLE,
    Agreement,
    Corrected,
    Drift,
    Flips,
    Kappa,
    Powered,
    cohen_kappa,
    drift,
    gwet_ac1,
    ppi_mean,
    rogan_gladen,
    smallest_drift,
    summary_flips,
)
from .stats_several import bh, holm
from .stats_summary import IMPROVES, NO_EVIDENCE, REGRESSES, SIMILAR, THESE, Summary, summary

__all__ = [
    "ALPHA",
    "BASELINE_RATE",
    "DRIFTED_DOWN",
    "DRIFTED_UP",
    "IMPROVES",
    "NO_DRIFT",
    "NO_EVIDENCE",
    "REGRESSES",
    "SIMILAR",
    "THESE",
    "UNSTABLE",
    "Agreement",
    "Corrected",
    "Design",
    "Drift",
    "Flips",
    "Kappa",
    "Powered",
    "Ratio",
    "Summary",
    "Trials",
    "VarianceSplit",
    "advice",
    "bh",
    "cohen_kappa",
    "delta_ci",
    "design",
    "drift",
    "e_value",
    "evidence_line",
    "gwet_ac1",
    "held",
    "holm",
    "looks_p",
    "mcnemar_p",
    "pass_at_k",
    "pass_hat_k",
    "plan_advice",
    "power",
    "ppi_mean",
    "ratio_ci",
    "rogan_gladen",
    "shown_p",
    "sign_flip_p",
    "single_run_p",
    "smallest_drift",
    "smallest_rise",
    "stratified_p",
    "summary",
    "summary_flips",
    "variance_split",
    "wilson",
]


def evidence_line(summary: Summary, *, n_trials: int, look: int = 1, withheld: str | None = None) -> str:
    """Write the line that stands beside the gate.

    `n_trials` is the planned number a case and condition, `look` counts the evaluations of this set since
    the last confirmation, `withheld` is a reason not to tell the result at all. Where the unmeasured trials
    could change the gate, no direction is claimed. The smallest rise is that from `BASELINE_RATE`: a property
    of the design, not of what was seen.
    """
    if withheld is not None:
        return f"evidence: withheld: {withheld}"
    if summary.p_set is None or summary.delta_ci is None:
        cases = counted(summary.scored_cases + summary.unscored_cases, "case")
        return f"evidence: none (0 of {cases} measured in both conditions)"
    settled = gate_of(summary.worst[0]) is gate_of(summary.best[0])
    n = summary.scored_cases
    line = (
        f"evidence: {_these(summary, summary.p_set, settled=settled)}."
        f" Similar prompts: {_similar(summary, settled=settled)}."
        f" Δ 95% CI {span(*summary.delta_ci)}; {findings(n, n_trials, smallest_rise(n, n_trials, BASELINE_RATE))}"
    )
    if summary.verdict != NO_EVIDENCE and settled and look > 1:
        paid = f"p = {shown_p(looks_p(summary.p_set, look))}".replace("= <", "<")
        line += f"; look {look}: counting the looks {paid}; confirm to settle"
    return line


def held(delta_ci: tuple[float, float] | None, max_drop: float) -> bool | None:
    """Say whether the interval of Δ rules out a drop of `max_drop` (a rate); None where nothing was measured."""
    return None if delta_ci is None else delta_ci[0] > -max_drop


def _these(summary: Summary, p_set: float, *, settled: bool) -> str:
    shown = f"p {shown_p(p_set)}"
    if summary.verdict != NO_EVIDENCE and settled:
        return f"{summary.verdict} on these prompts ({shown})"
    if summary.verdict != NO_EVIDENCE:
        trials = counted(summary.missing_runs, "unmeasured trial")
        return f"withheld, the gate depends on {trials} ({shown} on these prompts)"
    hopeless = "; no outcome of this design can be evidence" if (summary.p_set_min or 0) > ALPHA else ""
    return f"no evidence yet ({shown} on these prompts{hopeless})"


def _similar(summary: Summary, *, settled: bool) -> str:
    p_cases, smallest = summary.p_cases, summary.p_cases_min
    if p_cases is None or smallest is None or smallest > ALPHA:
        units = counted(summary.units, "group" if summary.clustered else "case")
        return f"not shown ({units}; at least {CLAIM_UNITS} are needed)"
    shown = f"p {shown_p(p_cases)}"
    if summary.scope == SIMILAR:
        return f"{summary.verdict if settled else 'withheld'} ({shown})"
    if p_cases > ALPHA:
        return f"not shown ({shown})"
    if summary.scope is None:
        return f"not shown ({shown}, but no evidence on these prompts)"
    return f"not shown ({shown}, but the interval of Δ includes 0)"
