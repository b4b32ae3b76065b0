"""What one trial of a gate set does: one model call under its condition, then every check on the answer."""

from __future__ import annotations

from datetime import UTC, datetime

from .calls import call
from .cases import Case, JudgeCheck, PatternCheck
from .errors import SkillevalError
from .grade import grade_patterns, settle
from .judge import Judge
from .patterns import Matcher
from .plan import Plan, seed_of
from .values import Grade, Outcome, Trial, TrialKey


class GateTrials:
    """Performs the trials of a plan; shared by all workers of a run."""

    def __init__(self, plan: Plan, matcher: Matcher, attempts: dict[TrialKey, int] | None = None) -> None:
        settings = plan.settings
        self._plan = plan
        self._matcher = matcher
        self._attempts = attempts or {}
        self._cases = {case.id: case for case in plan.cases}
        self._conditions = {condition.name: condition for condition in plan.conditions}
        self._judge = Judge(settings.judge_runner, settings.judge_model, settings.judge_n, settings.timeout_s)

    async def perform(self, key: TrialKey) -> Trial:
        """One trial from question to outcome."""
        plan = self._plan
        case = self._cases[key.case_id]
        request = plan.request(case, self._conditions[key.condition], key)
        called = await call(plan.settings.runner, request, plan.settings.timeout_s)
        grades: tuple[Grade, ...] = ()
        if called.failure is not None:
            outcome = Outcome.EXECUTOR_TIMEOUT if called.timed_out else Outcome.EXECUTOR_FAILED
            reason: str | None = called.failure
        else:
            assert called.answer is not None
            try:
                grades = await self._grade(case, called.answer.text, key)
                outcome, reason = settle(grades)
            except SkillevalError:
                raise
            except Exception as error:  # noqa: BLE001 - a fault of ours must not lose the answer that was paid for
                outcome, reason = Outcome.RUNNER_ERROR, f"{type(error).__name__}: {error}"
        return Trial(
            key,
            outcome,
            reason,
            called.answer,
            grades,
            called.latency_s,
            self._attempts.get(key, 0) + 1,
            called.calls,
            ended_at=datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )

    async def _grade(self, case: Case, text: str, key: TrialKey) -> tuple[Grade, ...]:
        """Every check of the case, in the file's order; patterns first, as they cost nothing."""
        patterns = [check for check in case.checks if isinstance(check, PatternCheck)]
        graded = iter(await grade_patterns(patterns, text, self._matcher))
        grades = []
        for number, check in enumerate(case.checks, 1):
            if isinstance(check, JudgeCheck):
                seed = seed_of(TrialKey(f"{case.id}#{number}", key.condition, key.trial))
                grade = await self._judge.grade(check, case.prompt, text, seed=seed, label=f"{key}#{number}")
            else:
                grade = next(graded)
            grades.append(grade)
        return tuple(grades)
