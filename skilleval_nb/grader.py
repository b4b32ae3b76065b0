"""All checks of a case on one answer: the deterministic ones first, as they cost nothing, then the judge's."""

from __future__ import annotations

from collections.abc import Mapping

from .cases import Case, JudgeCheck
from .errors import SkillevalError
from .grade import grade_patterns, settle
from .judge import Judge
from .patterns import Matcher
from .plan import seed_of
from .values import Grade, Outcome, TrialKey


class Grader:
    """Grades answers with one judge and one matcher; shared by all workers of a run."""

    def __init__(self, judge: Judge, matcher: Matcher) -> None:
        self._judge = judge
        self._matcher = matcher

    async def grade(
        self, case: Case, text: str, key: TrialKey, kept: Mapping[int, Grade] | None = None
    ) -> tuple[tuple[Grade, ...], Outcome, str | None]:
        """Every check's grade in the file's order, and what they make of the trial.

        `kept` holds judge's grades that still stand, by the number of their check from 1.
        """
        try:
            grades = await self._all(case, text, key, kept or {})
            return grades, *settle(grades)
        except SkillevalError:
            raise
        except Exception as error:  # noqa: BLE001 - a fault of ours must not lose the answer that was paid for
            return (), Outcome.RUNNER_ERROR, f"{type(error).__name__}: {error}"

    async def _all(
        self, case: Case, text: str, key: TrialKey, kept: Mapping[int, Grade]
    ) -> tuple[Grade, ...]:
        patterns = [check for check in case.checks if not isinstance(check, JudgeCheck)]
        graded = iter(await grade_patterns(patterns, text, self._matcher))
        grades = []
        for number, check in enumerate(case.checks, 1):
            if not isinstance(check, JudgeCheck):
                grade = next(graded)
            elif number in kept:
                grade = kept[number]
            else:
                seed = seed_of(TrialKey(f"{case.id}#{number}", key.condition, key.trial))
                label = f"{key}#{number}"
                grade = await self._judge.grade(check, case.prompt, text, seed=seed, label=label)
            grades.append(grade)
        return tuple(grades)
