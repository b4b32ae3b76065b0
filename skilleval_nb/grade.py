"""The checks that need no model: each one's result on an answer, and a trial's outcome from all of them.

A kind of check is one function in `KINDS`. It either grades the answer at once, or says which rule is to hold
for which text (a pattern to be found, JSON); the rules of a trial are then tried together, within their bound.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Any

from .cases import Check, UnsupportedCheck
from .file_checks import file_contains, file_exists
from .patterns import Found, JsonRule, Matcher, Rule
from .values import Grade, Outcome

_EVIDENCE_CHARS = 200


@dataclass(frozen=True, slots=True)
class Search:
    """A check that is decided by a rule: it passes where its holding for `text` is what is `wanted`.

    `text` begins where the answer begins, so that a place in it is a place in the answer.
    """

    rule: Rule
    text: str
    wanted: bool


def _includes(check: Any, text: str) -> Search:
    return Search(check.pattern, text, wanted=True)


def _excludes(check: Any, text: str) -> Search:
    return Search(check.pattern, text, wanted=False)


def _verdict(check: Any, text: str) -> Search:
    return Search(check.pattern, text.split("\n", 1)[0].removesuffix("\r"), wanted=True)


def _regex(check: Any, text: str) -> Search:
    return Search(check.pattern, text, wanted=not check.negated)


def _json(check: Any, text: str) -> Search:
    return Search(JsonRule(check.schema or ""), _unfenced(text.strip()), wanted=not check.negated)


def _unfenced(text: str) -> str:
    """What a fenced block holds where the whole text is one; a line that closes it earlier is no JSON either way."""
    first, _, rest = text.partition("\n")
    for sign in "`~":
        width = len(first) - len(first.lstrip(sign))
        body, _, last = rest.rpartition("\n")
        if width >= 3 and last.strip() and not last.strip().strip(sign) and len(last.strip()) >= width:
            return body
    return text


def _contains(check: Any, text: str) -> Grade:
    return _placed(check, text, text.find(check.value), len(check.value))


def _icontains(check: Any, text: str) -> Grade:
    folded, wanted = text.casefold(), check.value.casefold()
    start = folded.find(wanted)
    end = start + len(wanted)
    if start >= 0 and len(folded) != len(text):  # letters have become several: ß is ss
        ends = list(accumulate(len(letter.casefold()) for letter in text))
        start, end = bisect_right(ends, start), bisect_left(ends, end) + 1
    return _placed(check, text, start, end - start)


def _equals(check: Any, text: str) -> Grade:
    wanted, trimmed = check.value.strip(), text.strip()
    return _placed(check, text, text.find(trimmed) if trimmed == wanted else -1, len(trimmed))


def _starts_with(check: Any, text: str) -> Grade:
    start = len(text) - len(text.lstrip())
    return _placed(check, text, start if text.startswith(check.value, start) else -1, len(check.value))


def _placed(check: Any, text: str, start: int, length: int) -> Grade:
    """The grade of a text that was found at `start`, or nowhere (-1)."""
    if start < 0:
        return Grade(check.kind, passed=bool(check.negated))
    evidence = text[start : start + min(length, _EVIDENCE_CHARS)]
    return Grade(check.kind, passed=not check.negated, evidence=evidence, span=(start, start + length))


def _size(check: Any, text: str) -> Grade:
    trimmed = text.strip()
    number = len(trimmed.split()) if check.kind == "words" else trimmed.count("\n") + bool(trimmed)
    fits = (check.least is None or number >= check.least) and (check.most is None or number <= check.most)
    noun = check.kind if number != 1 else check.kind[:-1]
    return Grade(check.kind, passed=fits is not check.negated, evidence=f"{number:,} {noun}")


KINDS: Mapping[str, Callable[[Any, str], Grade | Search]] = {
    "includes": _includes,
    "excludes": _excludes,
    "verdict": _verdict,
    "regex": _regex,
    "contains": _contains,
    "icontains": _icontains,
    "equals": _equals,
    "starts_with": _starts_with,
    "json": _json,
    "lines": _size,
    "words": _size,
}
"""Every deterministic kind over the answer: a function of the check and the whole answer."""
FILE_KINDS: Mapping[str, Callable[[Any, Path], Grade]] = {
    "file_exists": file_exists,
    "file_contains": file_contains,
}
"""Every kind over the files that a trial left: a function of the check and their folder."""


async def grade_patterns(
    checks: Sequence[Check], text: str, matcher: Matcher, files: Path | None = None
) -> list[Grade]:
    """One grade a check, in their order; none is left out because another failed.

    `files` is the folder of the files that the trial left, where it leaves any.
    """
    steps = [_step(check, text, files) for check in checks]
    searches = [step for step in steps if isinstance(step, Search)]
    found = iter(await matcher.search_each([(search.rule, search.text) for search in searches]))
    return [
        _decided(check.kind, step, next(found), matcher.limit_s) if isinstance(step, Search) else step
        for check, step in zip(checks, steps, strict=True)
    ]


def _step(check: Check, text: str, files: Path | None) -> Grade | Search:
    if isinstance(check, UnsupportedCheck):
        reason = f"the kind {check.kind!r} {check.why}"
        return Grade(check.kind, passed=None, outcome=Outcome.GRADER_FAILED, reason=reason)
    if check.kind not in FILE_KINDS:
        return KINDS[check.kind](check, text)
    if files is None:
        reason = "there is no folder with the trial's files"
        return Grade(check.kind, passed=None, outcome=Outcome.GRADER_FAILED, reason=reason)
    return FILE_KINDS[check.kind](check, files)


def _decided(kind: str, search: Search, found: Found, limit_s: float) -> Grade:
    rule = search.rule
    is_json = isinstance(rule, JsonRule)
    subject = "the JSON check" if is_json else f"the pattern {rule}"
    if found.ran_over:
        reason = f"{subject} ran over its {limit_s:g} s"
        return Grade(kind, passed=None, outcome=Outcome.GRADER_TIMEOUT, reason=reason)
    if found.error is not None:
        reason = f"{subject} could not be {'finished' if is_json else 'searched'}: {found.error}"
        return Grade(kind, passed=None, outcome=Outcome.GRADER_FAILED, reason=reason)
    if is_json:
        if found.fault is not None:
            return Grade(kind, passed=not search.wanted, evidence=": ".join(filter(None, found.fault)))
        return Grade(kind, passed=search.wanted, evidence=None if search.wanted else "valid JSON")
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
