"""The checks that need no model: each one's result on an answer, and a trial's outcome from all of them.

A kind of check is one function in `KINDS`. It either grades the answer at once, or says which pattern is to
be found where; the patterns of a trial are then searched together, within their bound.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from .patterns import Found, Matcher, Pattern
from .values import Grade, Outcome

_EVIDENCE_CHARS = 200


class Check(Protocol):
    """What every check has; a kind's function knows the rest."""

    @property
    def kind(self) -> str:
        """A key of `KINDS`."""


@dataclass(frozen=True, slots=True)
class Search:
    """A check that is decided by a pattern: it passes where finding it in `text` is what is `wanted`.

    `text` begins where the answer begins, so that a place in it is a place in the answer.
    """

    pattern: Pattern
    text: str
    wanted: bool


def _includes(check: Any, text: str) -> Search:
    return Search(check.pattern, text, wanted=True)


def _excludes(check: Any, text: str) -> Search:
    return Search(check.pattern, text, wanted=False)


def _verdict(check: Any, text: str) -> Search:
    return Search(check.pattern, text.split("\n", 1)[0].removesuffix("\r"), wanted=True)


KINDS: Mapping[str, Callable[[Any, str], Grade | Search]] = {
    "includes": _includes,
    "excludes": _excludes,
    "verdict": _verdict,
}
"""Every deterministic kind: a function of the check and the whole answer."""


async def grade_patterns(checks: Sequence[Check], text: str, matcher: Matcher) -> list[Grade]:
    """One grade a check, in their order; none is left out because another failed."""
    steps = [KINDS[check.kind](check, text) for check in checks]
    searches = [step for step in steps if isinstance(step, Search)]
    found = iter(await matcher.search_each([(search.pattern, search.text) for search in searches]))
    return [
        _decided(check.kind, step, next(found), matcher.limit_s) if isinstance(step, Search) else step
        for check, step in zip(checks, steps, strict=True)
    ]


def _decided(kind: str, search: Search, found: Found, limit_s: float) -> Grade:
    if found.ran_over:
        reason = f"the pattern {search.pattern} ran over its {limit_s:g} s"
        return Grade(kind, passed=None, outcome=Outcome.GRADER_TIMEOUT, reason=reason)
    if found.error is not None:
        reason = f"the pattern {search.pattern} could not be searched: {found.error}"
        return Grade(kind, passed=None, outcome=Outcome.GRADER_FAILED, reason=reason)
    if found.span is None:
        return Grade(kind, passed=not search.wanted)
    start, end = found.span
    evidence = search.text[start : min(end, start + _EVIDENCE_CHARS)]
    return Grade(kind, passed=search.wanted, evidence=evidence, span=found.span)


def settle(grades: Sequence[Grade]) -> tuple[Outcome, str | None]:
    """A trial's outcome and its reason: passed iff all checks passed, not measured where one is undecided.

    An undecided check outweighs a failed one, so that a trial counts as measured only where each of its
    checks was; the first undecided one names the outcome.
    """
    for number, grade in enumerate(grades, 1):
        if grade.passed is None:
            reason = f"check {number} of {len(grades)} ({grade.kind}): {grade.reason or 'not decided'}"
            return grade.outcome or Outcome.GRADER_FAILED, reason
    if not grades:
        return Outcome.GRADER_FAILED, "the trial has no graded check"
    return (Outcome.PASSED if all(grade.passed for grade in grades) else Outcome.FAILED), None
