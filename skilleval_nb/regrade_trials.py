"""What grading one stored answer anew does, and which of its judge's grades still stand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from .cases import Case, Check, JudgeCheck
from .errors import RunnerFailure
from .grader import Grader
from .judge import Judge, prompt_hash
from .patterns import Matcher
from .plan import Plan
from .runners import Runner
from .stored import Line, grade_of, grade_stored, is_gradeable
from .values import Answer, Grade, Request, Trial, TrialKey


class Stored(Runner):
    """Stands for the model under test, whose answers are all there: it is never asked."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self.name = str(header["runner"])
        self.version = header.get("runnerVersion")
        self.delivery = header["delivery"]
        self.fixed_model = header.get("resolvedModel") or header["model"]
        self.reports_cost = True

    async def answer(self, request: Request) -> Answer:
        """Raises RunnerFailure: a regrade asks no model under test."""
        raise RunnerFailure("a regrade asks no model under test")


@dataclass(frozen=True)
class Regrading:
    """The stored trials, and for each case which old check stands where a new one does.

    `all_anew` is True where every judge check is graded again.
    """

    run_id: str
    lines: Mapping[TrialKey, Line]
    places: Mapping[str, Mapping[int, int]]
    same: Mapping[str, frozenset[int]]
    all_anew: bool

    @classmethod
    def of(
        cls, plan: Plan, header: Mapping[str, Any], before: Mapping[str, Case], lines: Mapping[TrialKey, Line]
    ) -> Regrading:
        """Compares the run's checks and judge with those that hold now."""
        settings = plan.settings
        judge = (settings.judge_runner.name, settings.judge_runner.resolve_model(settings.judge_model))
        other = (*judge, settings.judge_n, prompt_hash()) != tuple(
            header.get(name) for name in ("judgeRunner", "resolvedJudgeModel", "judgeN", "judgeHash")
        )
        places, same = {}, {}
        for case in plan.cases:
            places[case.id], same[case.id] = _placed(before[case.id].checks, case.checks)
        edited = any(before[case.id].checks != case.checks for case in plan.cases)
        return cls(str(header["runId"]), lines, places, same, other or not edited)

    def judged(self, cases: Iterable[Case]) -> tuple[int, int]:
        """How many judge checks are to be graded, and how many of their grades are kept, over all trials."""
        by_id = {case.id: case for case in cases}
        gradeable = [line for key, line in self.lines.items() if key.case_id in by_id and is_gradeable(line)]
        kept = sum(len(self.kept(by_id[line["caseId"]], line)) for line in gradeable)
        checks = sum(
            isinstance(check, JudgeCheck) for line in gradeable for check in by_id[line["caseId"]].checks
        )
        return checks - kept, kept

    def kept(self, case: Case, line: Line) -> dict[int, Grade]:
        """The judge's grades of a trial that still stand, by the number of their check."""
        if self.all_anew:
            return {}
        found = {}
        for number, check in enumerate(case.checks, 1):
            if isinstance(check, JudgeCheck) and number in self.same[case.id]:
                grade = self.before(case, line, number)
                if grade is not None and grade.passed is not None:
                    found[number] = replace(grade, kept=True)
        return found

    def before(self, case: Case, line: Line, number: int) -> Grade | None:
        """The grade that stood where check `number` stands now; None for a check that is new."""
        place, checks = self.places[case.id].get(number), line.get("checks") or ()
        return grade_of(checks[place - 1]) if place is not None and place <= len(checks) else None


def _placed(old: tuple[Check, ...], new: tuple[Check, ...]) -> tuple[dict[int, int], frozenset[int]]:
    """The old number of each new check: of the same check, else of one of its kind that was edited in place."""
    places: dict[int, int] = {}
    free = dict(enumerate(old, 1))
    for number, check in enumerate(new, 1):
        twin = next((place for place, other in free.items() if other == check), None)
        if twin is not None:
            places[number] = twin
            del free[twin]
    same = frozenset(places)
    for number, check in enumerate(new, 1):
        if number not in places and number in free and free[number].kind == check.kind:
            places[number] = number
            del free[number]
    return places, same


class RegradeTrials:
    """Grades the trials of a plan from their stored answers; shared by all workers."""

    def __init__(self, plan: Plan, regrading: Regrading, matcher: Matcher) -> None:
        settings = plan.settings
        self._cases = {case.id: case for case in plan.cases}
        self._regrading = regrading
        judge = Judge(settings.judge_runner, settings.judge_model, settings.judge_n, settings.timeout_s)
        self._grader = Grader(judge, matcher)

    async def perform(self, key: TrialKey) -> Trial:
        """One stored trial with the grades that it gets now; one without an answer stays as it is."""
        regrading, case = self._regrading, self._cases[key.case_id]
        line = regrading.lines[key]
        kept = regrading.kept(case, line)
        trial = await grade_stored(self._grader, case, key, line, run_id=regrading.run_id, kept=kept)
        grades = (
            replace(grade, before=regrading.before(case, line, number))
            for number, grade in enumerate(trial.grades, 1)
        )
        return replace(trial, grades=tuple(grades))
