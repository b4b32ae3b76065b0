"""What one trial of a gate set does: one model call under its condition, then every check on the answer."""

from __future__ import annotations

from collections.abc import Mapping

from .calls import call
from .grader import Grader
from .judge import Judge
from .patterns import Matcher
from .plan import Plan
from .stored import Line, grade_stored
from .values import Grade, Outcome, Trial, TrialKey, utc_now


class GateTrials:
    """Performs the trials of a plan; shared by all workers of a run.

    `answers` are lines of earlier runs whose answers are taken, and only graded anew.
    """

    def __init__(
        self,
        plan: Plan,
        matcher: Matcher,
        attempts: Mapping[TrialKey, int] | None = None,
        answers: Mapping[TrialKey, Line] | None = None,
    ) -> None:
        settings = plan.settings
        self._answers = answers or {}
        self._plan = plan
        self._attempts = attempts or {}
        self._cases = {case.id: case for case in plan.cases}
        self._conditions = {condition.name: condition for condition in plan.conditions}
        judge = Judge(settings.judge_runner, settings.judge_model, settings.judge_n, settings.timeout_s)
        self._grader = Grader(judge, matcher)

    async def perform(self, key: TrialKey) -> Trial:
        """One trial from question to outcome."""
        plan = self._plan
        case = self._cases[key.case_id]
        if (line := self._answers.get(key)) is not None:
            return await grade_stored(self._grader, case, key, line, run_id=str(line["from"]))
        request = plan.request(case, self._conditions[key.condition], key)
        called = await call(plan.settings.runner, request, plan.settings.timeout_s)
        grades: tuple[Grade, ...] = ()
        if called.failure is not None:
            outcome = Outcome.EXECUTOR_TIMEOUT if called.timed_out else Outcome.EXECUTOR_FAILED
            reason: str | None = called.failure
        else:
            assert called.answer is not None
            grades, outcome, reason = await self._grader.grade(case, called.answer.text, key)
        return Trial(
            key,
            outcome,
            reason,
            called.answer,
            grades,
            called.latency_s,
            self._attempts.get(key, 0) + 1,
            called.calls,
            ended_at=utc_now(),
        )
