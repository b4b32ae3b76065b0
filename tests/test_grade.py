"""Checks without a model: what each kind looks at, what it reports, and what a trial becomes."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skilleval_nb.cases import PatternCheck
from skilleval_nb.grade import grade_patterns, settle
from skilleval_nb.patterns import Matcher, compile_pattern
from skilleval_nb.values import Grade, Outcome


def grades(text: str, *checks: tuple[str, str], limit_s: float = 1.0) -> list[Grade]:
    async def run() -> list[Grade]:
        async with Matcher(limit_s) as matcher:
            return await grade_patterns(
                [PatternCheck(k, compile_pattern(p)) for k, p in checks], text, matcher
            )

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("kind", "pattern", "text", "passed", "evidence", "span"),
    [
        ("includes", "fix", "First.\nA Fix!", True, "Fix", (9, 12)),
        ("includes", "nothing", "First.\nA Fix!", False, None, None),
        ("includes", "^a", "First.\nA Fix!", False, None, None),
        ("includes", "x*", "abc", True, "", (0, 0)),
        ("includes", "b\\s+c", "é😀 b\n c", True, "b\n c", (3, 7)),
        ("excludes", "sorry", "Done.", True, None, None),
        ("excludes", "sorry", "Done. Sorry, sorry.", False, "Sorry", (6, 11)),
        ("excludes", "", "", False, "", (0, 0)),
        ("verdict", "^simple$", "SIMPLE\nbecause it is", True, "SIMPLE", (0, 6)),
        ("verdict", "^simple$", "SIMPLE\r\nbecause", True, "SIMPLE", (0, 6)),
        ("verdict", "simple$", "a\rsimple", True, "simple", (2, 8)),
        ("verdict", "simple", "\nSIMPLE", False, None, None),
        ("verdict", "simple", "It depends.\nSIMPLE", False, None, None),
        ("verdict", "[^]\\n", "SIMPLE\n", False, None, None),
        ("verdict", "(?=s)(?<=\\W)simple", "**SIMPLE**\nno", True, "SIMPLE", (2, 8)),
        ("verdict", "^$", "", True, "", (0, 0)),
    ],
)
def test_a_check(
    kind: str, pattern: str, text: str, passed: bool, evidence: str | None, span: tuple[int, int] | None
) -> None:
    (grade,) = grades(text, (kind, pattern))
    assert grade == Grade(kind, passed, evidence, span)
    if span:
        assert text[slice(*span)] == evidence


def test_every_check_is_graded_in_order_also_after_a_failed_one() -> None:
    got = grades("a\nb", ("includes", "z"), ("verdict", "b"), ("excludes", "(?=q)q"), ("includes", "(?=b)b"))
    assert [(g.kind, g.passed, g.span) for g in got] == [
        ("includes", False, None),
        ("verdict", False, None),
        ("excludes", True, None),
        ("includes", True, (2, 3)),
    ]
    assert grades("a") == []


def test_evidence_is_cut_and_its_place_is_not() -> None:
    (grade,) = grades("-" + "é" * 500, ("excludes", "é+"))
    assert grade == Grade("excludes", passed=False, evidence="é" * 200, span=(1, 501))


@pytest.mark.parametrize("kind", ["includes", "excludes", "verdict"])
def test_a_pattern_that_runs_over_never_passes_and_takes_no_other_check_with_it(kind: str) -> None:
    bomb, good = grades("a" * 50_000 + "!", (kind, "(a+)+$"), ("includes", "(?=!)!"), limit_s=0.2)
    assert (bomb.passed, bomb.outcome, bomb.span, bomb.evidence) == (None, Outcome.GRADER_TIMEOUT, None, None)
    assert bomb.reason == "the pattern /(a+)+$/i ran over its 0.2 s"
    assert good.passed
    assert settle([good, bomb]) == (
        Outcome.GRADER_TIMEOUT,
        f"check 2 of 2 ({kind}): the pattern /(a+)+$/i ran over its 0.2 s",
    )


def test_a_search_that_cannot_be_made_is_a_failure_of_the_grader() -> None:
    async def run() -> list[Grade]:
        matcher = Matcher()
        await matcher.aclose()
        return await grade_patterns([PatternCheck("excludes", compile_pattern("(?=q)q"))], "a", matcher)

    (grade,) = asyncio.run(run())
    assert (grade.passed, grade.outcome) == (None, Outcome.GRADER_FAILED)
    assert "/(?=q)q/i could not be searched" in str(grade.reason)


PASS, FAIL = Grade("includes", passed=True), Grade("excludes", passed=False)
LATE = Grade("verdict", passed=None, outcome=Outcome.GRADER_TIMEOUT, reason="too late")
ODD = Grade("judge", passed=None, outcome=Outcome.GRADER_UNPARSEABLE, reason="no verdict")


@pytest.mark.parametrize(
    ("given_grades", "outcome", "reason"),
    [
        ([PASS], Outcome.PASSED, None),
        ([PASS, PASS], Outcome.PASSED, None),
        ([PASS, FAIL], Outcome.FAILED, None),
        ([FAIL, LATE], Outcome.GRADER_TIMEOUT, "check 2 of 2 (verdict): too late"),
        ([PASS, ODD, LATE], Outcome.GRADER_UNPARSEABLE, "check 2 of 3 (judge): no verdict"),
        ([LATE, FAIL, ODD], Outcome.GRADER_TIMEOUT, "check 1 of 3 (verdict): too late"),
        ([Grade("judge", passed=None)], Outcome.GRADER_FAILED, "check 1 of 1 (judge): not decided"),
        ([], Outcome.GRADER_FAILED, "the trial has no graded check"),
    ],
)
def test_settle(given_grades: list[Grade], outcome: Outcome, reason: str | None) -> None:
    assert settle(given_grades) == (outcome, reason)


@given(st.lists(st.sampled_from([PASS, FAIL, LATE, ODD]), min_size=1))
def test_a_trial_is_measured_iff_every_check_is_and_passes_iff_all_pass(drawn: list[Grade]) -> None:
    outcome, reason = settle(drawn)
    assert outcome.measured == (LATE not in drawn and ODD not in drawn)
    assert (outcome is Outcome.PASSED) == (set(drawn) == {PASS})
    assert (reason is None) == outcome.measured
