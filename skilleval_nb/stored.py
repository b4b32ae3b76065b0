"""A trial's line read back: its answer and grades as they were, and the same answer graded anew."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .cases import Case
from .grader import Grader
from .values import Answer, Grade, Outcome, Trial, TrialKey, Usage, utc_now

Line = Mapping[str, Any]


def grade_of(check: Mapping[str, Any]) -> Grade:
    """A check's line as the grade it was."""
    tokens, span = check.get("judgeTokens"), check.get("span")
    return Grade(
        str(check["kind"]),
        check.get("passed"),
        evidence=check.get("evidence"),
        span=(span[0], span[1]) if span else None,
        outcome=Outcome(check["outcome"]) if check.get("outcome") else None,
        reason=check.get("reason"),
        reasoning=check.get("reasoning"),
        quoted=check.get("quoted"),
        judge_model=check.get("judgeModel"),
        judge_hash=check.get("judgeHash"),
        judge_usage=Usage(*tokens) if tokens else None,
        judge_cost_usd=check.get("judgeCostUsd"),
        judge_latency_s=check.get("judgeLatencyS"),
        judge_calls=check.get("judgeCalls"),
    )


def answer_of(line: Line) -> Answer | None:
    """A trial's line as the answer that it holds; None where none came."""
    if "text" not in line:
        return None
    tokens = line.get("tokens")
    return Answer(
        line["text"],
        model=line.get("model"),
        stop_reason=line.get("stopReason"),
        usage=Usage(*tokens) if tokens else None,
        usage_reason=line.get("usageReason"),
        cost_usd=line.get("costUsd"),
        latency_s=line.get("latencyS"),
        settings=line.get("settings") or {},
    )


def is_gradeable(line: Line) -> bool:
    """True for a trial whose executor answered, whatever became of its grading."""
    return "text" in line and line["outcome"] not in (
        Outcome.EXECUTOR_FAILED,
        Outcome.EXECUTOR_TIMEOUT,
        Outcome.SKILL_NOT_LOADED,
    )


async def grade_stored(
    grader: Grader,
    case: Case,
    key: TrialKey,
    line: Line,
    *,
    run_id: str,
    kept: Mapping[int, Grade] | None = None,
) -> Trial:
    """The stored trial of the run `run_id` with the grades that it gets now; one without an answer stays as it is.

    `kept` are judge's grades that still stand, by the number of their check.
    """
    answer = answer_of(line)
    grades: tuple[Grade, ...] = ()
    outcome, reason = Outcome(line["outcome"]), line.get("reason")
    if answer is not None and is_gradeable(line):
        grades, outcome, reason = await grader.grade(case, answer.text, key, kept)
    return Trial(
        key,
        outcome,
        reason,
        answer,
        grades,
        line.get("latencyS"),
        calls=0,
        ended_at=utc_now(),
        taken_from=str(line.get("from", run_id)),
    )
