"""Rules about single checks: those that cannot be right, and those that fail a right answer."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

from .cases import Check, JudgeCheck, PatternCheck, RegexCheck, TextCheck, UnsupportedCheck, check_text
from .lint_subject import Lint, Subject, begins, is_ban, place_of
from .patterns import Pattern, search_now

LOOKS = {"verdict": "looks at the first line only", "other": "looks at the very beginning only"}
LINE_FIX = 'let it stand on any line: includes, with "^" and the flag "m"'
_ASKS = re.compile(
    r"\bfirst (?:line|word)\b|\b(?:begin|start)\b[^.\n]{0,30}\bwith\b|\bone word\b|\byes or no\b",
    re.IGNORECASE,
)
_LOOKS_LIKE_REGEX = re.compile(
    r"^\\[bBdDsSwW]|\\[bBdDsSwW](?![A-Za-z])|(?<![*.])\.[*+]|\[(?:a-z|A-Z|0-9)|\(\?[:=!<]|^\^\w|\w\|\w"
)
_TYPES = {
    *("string", "number", "boolean", "bool", "null", "undefined", "none", "int", "str", "float", "any"),
    *("void", "true", "false", "object", "unknown", "never", "bytes", "dict", "list"),
}
_ASIDE = re.compile(r"\([^()]*\)|\"[^\"]*\"|“[^”]*”|`[^`]*`")
_VERDICT_TOLD = re.compile(r"\b(?:is|are) a (?:fail|pass)\b|\bcounts? as\b|\bFAILS?\b|^Fail\b")
_SECOND_DEMAND = re.compile(
    r"\bAND\b|;\s|\band (?:also|it|must|does|has|offers|gives|names|says|states|mentions|notes|asks|explains"
    r"|explicitly)\b"
)


def unsupported(subject: Subject) -> Iterator[Lint]:
    """A check that cannot be run here leaves its case without a result."""
    for _, check, place in subject.checks():
        if isinstance(check, UnsupportedCheck):
            what = f"{check.kind} is not run here ({check.why}): the case cannot be graded"
            yield Lint(
                "unsupported-check", place, what, "replace it by a kind that is run here, or remove it"
            )


def contradictions(subject: Subject) -> Iterator[Lint]:
    """No answer can pass two checks of which one bans what the other asks for."""
    for case in subject.cases:
        numbered = list(enumerate(case.checks, 1))
        for at, wanted in numbered:
            for other, banned in numbered:
                if not is_ban(wanted) and is_ban(banned) and _excludes(banned, wanted):
                    yield Lint(
                        "contradicting-checks",
                        place_of(case, other),
                        f"bans what check {at} asks for ({check_text(wanted)}): no answer passes both",
                        "remove one of the two",
                    )


def _excludes(banned: Check, wanted: Check) -> bool:
    if isinstance(wanted, PatternCheck | RegexCheck) and isinstance(banned, PatternCheck | RegexCheck):
        same = wanted.pattern == banned.pattern
        return same and not (wanted.kind == "verdict" and re.search(r"[$^]", wanted.pattern.source))
    if not isinstance(wanted, TextCheck) or not isinstance(banned, TextCheck):
        return False
    if banned.kind == "contains" and wanted.kind != "icontains":
        return banned.value in wanted.value
    if banned.kind == "icontains":
        return banned.value.lower() in wanted.value.lower()
    return (banned.kind, banned.value) == (wanted.kind, wanted.value)


def empty_match(subject: Subject) -> Iterator[Lint]:
    """A pattern that is found in every text decides nothing."""
    patterned = [
        (check, check.pattern, place)
        for _, check, place in subject.checks()
        if isinstance(check, PatternCheck | RegexCheck) and not re.search(r"\(\?<?[=!]", check.pattern.source)
    ]
    always = _found_everywhere({pattern for _, pattern, _ in patterned})
    for check, pattern, place in patterned:
        if pattern in always:
            fate = "fails" if is_ban(check) else "passes"
            what = f"{pattern} is found in any text, even an empty one: this check always {fate}"
            yield Lint("empty-match", place, what, "demand at least one sign that is not optional")


def _found_everywhere(patterns: set[Pattern]) -> set[Pattern]:
    left = list(patterns)
    for probe in ("", "q", "\n".join((string.printable, "Some words, and 42 more. " * 200, ""))):
        found = search_now(left, probe) if left else []
        left = [pattern for pattern, place in zip(left, found, strict=True) if place.span is not None]
    return set(left)


def regex_in_text(subject: Subject) -> Iterator[Lint]:
    """A plain-text check does not read its value as a pattern."""
    for _, check, place in subject.checks():
        if isinstance(check, TextCheck) and (sign := _LOOKS_LIKE_REGEX.search(check.value)):
            parts = {part.strip().lower() for part in check.value.split("|")}
            if "|" in sign[0] and parts & _TYPES:
                continue
            what = f"{check_text(check)} is plain text, but looks like a regular expression"
            yield Lint("regex-in-plain-text", place, what, "use the kind regex (or includes, excludes)")


def first_line(subject: Subject) -> Iterator[Lint]:
    """A check of how an answer begins fails a model that reasons before it answers."""
    if subject.opens:
        return
    for case, check, place in subject.checks():
        if begins(check):
            what = (
                f"{LOOKS.get(check.kind, LOOKS['other'])}, and fails a model that reasons before it answers"
            )
            fix = f"{LINE_FIX}, or have the prompt ask for it on the first line"
            if _ASKS.search(case.prompt):
                what, fix = (
                    f"{what}, as many do that have a skill to follow, whatever the prompt asks for",
                    LINE_FIX,
                )
            yield Lint("first-line-verdict", place, what, fix)


def judge_alone(subject: Subject) -> Iterator[Lint]:
    """A case that only a judge grades stands and falls with the judge."""
    for case in subject.cases:
        if case.checks and all(isinstance(check, JudgeCheck) for check in case.checks):
            what = "only a judge grades it: a judge that errs cannot be told from a skill that fails"
            yield Lint("judge-alone", case.id, what, "put a check beside it that needs no model")


def _demands(rubric: str) -> str:
    """A rubric without what stands aside in it, and without sentences that only say what counts as which verdict."""
    sentences = re.split(r"(?<=[.!?])\s+", _ASIDE.sub("", rubric))
    return " ".join(sentence for sentence in sentences if not _VERDICT_TOLD.search(sentence))


def two_in_one(subject: Subject) -> Iterator[Lint]:
    """A rubric with several demands gives one verdict on all, and hides which of them failed."""
    for _, check, place in subject.checks():
        if isinstance(check, JudgeCheck) and _SECOND_DEMAND.search(_demands(check.rubric)):
            what = "advice: the rubric makes several demands, and its verdict does not say which one failed"
            yield Lint("rubric-two-in-one", place, what, "give each demand its own judge check")
