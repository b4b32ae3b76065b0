"""The ship decision of a set: majority per cell, rates over cases, and what unmeasured trials could change.

A cell is one case under one condition. The decision looks at verdicts only; how far chance explains it is
said beside it by `stats`.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from .errors import InputError
from .values import Gate

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MINUS = "−"

GATE_TEXTS = {
    Gate.PASS: ["ship gate: PASS — skill moves the number"],
    Gate.REGRESSION: ["ship gate: REGRESSION — skill moves the number down"],
    Gate.NO_MOVEMENT: [
        "ship gate: NO MOVEMENT — skill does not move the number",
        "  either the model already behaves this way (the trap is too easy: pick a harder one or a weaker model),",
        "  or the skill isn't pulling its weight.",
        "  Either way: does this skill earn its context budget?",
    ],
}


def majority(passes: int, measured: int) -> bool | None:
    """Decide a cell: strictly more than half must pass, a tie is False, nothing measured is None."""
    return None if measured == 0 else 2 * passes > measured


def percent_of(part: int, whole: int) -> int:
    """Round 100 · part / whole to a whole number, halves up (towards +∞), on the exact quotient."""
    return (200 * part + whole) // (2 * whole)


def percent(rate: float | Fraction) -> int:
    """Round a rate to whole percent, halves up (towards +∞).

    A float counts as the ratio of whole numbers up to a million that it stands for, so that 57/200 is 29 % and
    not the 28 % of its nearest double.
    """
    exact = rate if isinstance(rate, Fraction) else Fraction(rate).limit_denominator()
    return percent_of(exact.numerator, exact.denominator)


def signed(rate: float | Fraction, minus: str = MINUS) -> str:
    """Write a rate in whole percent with its sign and no % mark; `+0` and `−0` are rates that round to 0."""
    sign = "+" if rate > 0 else minus if rate < 0 else ""
    return f"{sign}{abs(percent(rate))}"


def span(low: float | Fraction, high: float | Fraction) -> str:
    """Write a range of rates: `−18…+91%`."""
    return f"{signed(low)}…{signed(high)}%"


def counted(number: int, noun: str) -> str:
    """Write a number with its noun in the right form: `1 case`, `2 cases`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Cell:
    """One case under one condition: `passes` of `measured` trials, of `planned` that were to run."""

    passes: int
    measured: int
    planned: int

    def __post_init__(self) -> None:
        if not 0 <= self.passes <= self.measured <= self.planned:
            counts = f"{self.passes}, {self.measured} and {self.planned}"
            raise InputError(f"a cell needs 0 ≤ passes ≤ measured ≤ planned, not {counts}")

    @property
    def verdict(self) -> bool | None:
        """The majority over the measured trials."""
        return majority(self.passes, self.measured)

    @property
    def unmeasured(self) -> int:
        """Planned trials that gave no measurement."""
        return self.planned - self.measured

    def filled(self, *, passing: bool) -> bool:
        """Decide as if every unmeasured trial had passed, or had failed; a cell without trials fails."""
        return 2 * (self.passes + (self.unmeasured if passing else 0)) > self.planned


@dataclass(frozen=True, slots=True)
class CaseCells:
    """One case under the two conditions that are compared."""

    case_id: str
    baseline: Cell
    skill: Cell

    @property
    def graded(self) -> bool:
        """True where both conditions gave at least one measurement."""
        return self.baseline.measured > 0 and self.skill.measured > 0


@dataclass(frozen=True, slots=True)
class Decision:
    """The gate and the counts that it rests on.

    `graded` is the number of cases measured in both conditions, the denominator of both rates; `errors` is
    the number of all others. Rates and `delta` are None where nothing was graded. `observed` is the gate over
    the graded cases alone. `worst` and `best` are (Δ over all cases, its gate) with every unmeasured trial
    counted against the skill, then for it; their Δ is None only for a set without cases. `gate` is the
    decision: the word on which both fillings agree, else NOT MEASURED.
    """

    graded: int
    baseline_pass: int
    skill_pass: int
    baseline_rate: float | None
    skill_rate: float | None
    delta: float | None
    observed: Gate
    errors: int
    unmeasured_trials: int
    worst: tuple[float | None, Gate]
    best: tuple[float | None, Gate]
    gate: Gate


def gate_of(delta: float | None) -> Gate:
    """Name the gate of a Δ; None is NOT MEASURED."""
    if delta is None:
        return Gate.NOT_MEASURED
    return Gate.PASS if delta > 0 else Gate.REGRESSION if delta < 0 else Gate.NO_MOVEMENT


def decide(cases: Iterable[CaseCells]) -> Decision:
    """Decide over all cases of a set; the rates cover those measured in both conditions."""
    cases = list(cases)
    graded = [c for c in cases if c.graded]
    baseline_pass = sum(c.baseline.verdict is True for c in graded)
    skill_pass = sum(c.skill.verdict is True for c in graded)
    delta = _rate(skill_pass - baseline_pass, len(graded))
    worst, best = (_fill(cases, for_skill=side) for side in (False, True))
    return Decision(
        graded=len(graded),
        baseline_pass=baseline_pass,
        skill_pass=skill_pass,
        baseline_rate=_rate(baseline_pass, len(graded)),
        skill_rate=_rate(skill_pass, len(graded)),
        delta=delta,
        observed=gate_of(delta),
        errors=len(cases) - len(graded),
        unmeasured_trials=sum(c.baseline.unmeasured + c.skill.unmeasured for c in cases),
        worst=worst,
        best=best,
        gate=worst[1] if graded and worst[1] is best[1] else Gate.NOT_MEASURED,
    )


def rate_line(decision: Decision, names: tuple[str, str] = ("baseline", "with-skill")) -> str:
    """Write both pass rates with their denominator, and Δ in whole points with an ASCII sign."""
    graded = decision.graded
    change = Fraction(decision.skill_pass - decision.baseline_pass, graded) if graded else None
    shown = "n/a" if change is None else f"{signed(change, '-')}%"
    baseline, skill = (_share(n, graded) for n in (decision.baseline_pass, decision.skill_pass))
    return f"pass rate   {names[0]} {baseline}   {names[1]} {skill}   Δ {shown}"


def gate_lines(decision: Decision) -> list[str]:
    """Write the gate, and in lines below it what a reader needs to judge it."""
    missing = missing_words(decision)
    if decision.gate is not Gate.NOT_MEASURED:
        return [*GATE_TEXTS[decision.gate], *([f"  {missing}"] if missing else [])]
    return [f"ship gate: NOT MEASURED — {missing or 'the set has no cases'}"]


def missing_words(decision: Decision) -> str:
    """Say what the unmeasured trials mean for the gate; empty where there are none."""
    missing = decision.unmeasured_trials
    if not missing:
        return ""
    reach = span(decision.worst[0] or 0, decision.best[0] or 0)
    if decision.gate is not Gate.NOT_MEASURED:
        trials = counted(missing, "trial")
        return f"{trials} unmeasured: the gate stands however they would have ended (Δ {reach})"
    trials = counted(missing, "unmeasured trial")
    why = f"depends on {trials}" if decision.graded else f"no case measured in both conditions, {trials}"
    return f"{why} (provisional Δ {reach})"


def _fill(cases: Sequence[CaseCells], *, for_skill: bool) -> tuple[float | None, Gate]:
    """Count the unmeasured trials of both conditions for or against the skill; Δ is then over all cases."""
    moved = sum(c.skill.filled(passing=for_skill) - c.baseline.filled(passing=not for_skill) for c in cases)
    delta = _rate(moved, len(cases))
    return delta, gate_of(delta)


def _rate(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def _share(part: int, whole: int) -> str:
    return f"{part}/{whole} ({f'{percent_of(part, whole)}%' if whole else 'n/a'})"
