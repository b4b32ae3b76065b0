"""More cases or more trials: what to change in a design before it is paid for, and after a run has shown its noise."""

from __future__ import annotations

from .gate import counted, percent
from .stats_design import BASELINE_RATE, CLAIM_UNITS, smallest_rise
from .stats_estimates import VarianceSplit

FEW_CASES = 10
"""Below so many cases repeats are the only way to evidence that is found reliably, and on these prompts only."""

FINE_ENOUGH = 0.10
"""A design that finds a rise of so much needs no advice."""

REPEATS = (3, 5, 7, 9)
"""Numbers of trials that are proposed: odd ones, since a tie is a fail."""


def plan_advice(
    n_cases: int, n_trials: int, *, units: int | None = None, conditions: int = 2
) -> tuple[str, ...]:
    """Up to two sentences on what would make a planned set show more; none where it finds small rises already.

    `units` are the groups of cases that stand or fall together (None: every case alone). Rises are those of
    `smallest_rise` from `BASELINE_RATE`; calls are the executor's, of all `conditions`.
    """
    groups = n_cases if units is None else units
    now = smallest_rise(n_cases, n_trials, BASELINE_RATE)
    if groups < CLAIM_UNITS:
        missing = counted(CLAIM_UNITS - groups, "more case")
        first = f"first write {missing} unlike the others: fewer than {CLAIM_UNITS} never speak for similar prompts"
        return (first, *_repeat(n_cases, n_trials, now, conditions))
    if now is not None and now <= FINE_ENOUGH:
        return ()
    repeat = _repeat(n_cases, n_trials, now, conditions) if n_cases < FEW_CASES else ()
    return (*repeat, *_widen(n_cases, n_trials, now, conditions))


def advice(split: VarianceSplit) -> str | None:
    """Say whether more trials or more cases would narrow Δ, from how a run's variance divides.

    None where that cannot be told: a cell with a single trial, fewer than two cases, or no variance at all.
    """
    if split.run_share is None:
        return None
    of = f"of the variance of Δ, {counted(split.n, 'case')}"
    if split.run_share > 0.5:
        share = percent(split.run_share)
        return f"runs of one case differ more than the cases do ({share}% {of}): raise n to narrow Δ"
    share = percent(1 - split.run_share)
    return f"cases differ more than the runs of one case do ({share}% {of}): add cases to narrow Δ"


def _repeat(n_cases: int, n_trials: int, now: float | None, conditions: int) -> tuple[str, ...]:
    """The fewest repeats that find more on these prompts; nothing where none does."""
    calls = n_cases * n_trials * conditions
    for more in (number for number in REPEATS if number > n_trials):
        found = smallest_rise(n_cases, more, BASELINE_RATE)
        if found is not None and (now is None or found < now):
            cost = f"{n_cases * more * conditions:,} calls instead of {calls:,}"
            return (f"n={more} takes {cost} and finds {_rise(found)} on these prompts (now {_now(now)})",)
    return ()


def _widen(n_cases: int, n_trials: int, now: float | None, conditions: int) -> tuple[str, ...]:
    """More single-trial cases: for the calls of the repeats, planned or advised, else twice as many."""
    times = n_trials if n_trials > 1 else REPEATS[0] if n_cases < FEW_CASES else 2
    wide = n_cases * times
    found = smallest_rise(wide, 1, BASELINE_RATE)
    calls = f"{'the same ' if n_trials > 1 else ''}{wide * conditions:,} calls"
    if found is None or (n_trials == 1 and now is not None and found >= now):
        return ()
    return (
        f"{counted(wide, 'case')} × 1 trial ({calls}) find {_rise(found)} (now {_now(now)}),"
        " and tell more of similar prompts",
    )


def _rise(rise: float) -> str:
    return f"+{counted(percent(rise), 'point')}"


def _now(rise: float | None) -> str:
    return "none reliably" if rise is None else f"+{percent(rise)}"
