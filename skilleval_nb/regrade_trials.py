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
from .values import Answer, Grade, Outcome, Request, Trial, TrialKey, Usage, utc_now

Line = Mapping[str, Any]


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
        line, case = self._regrading.lines[key], self._cases[key.case_id]
        answer = answer_of(line)
        grades: tuple[Grade, ...] = ()
        outcome, reason = Outcome(line["outcome"]), line.get("reason")
        if answer is not None and is_gradeable(line):
            grades, outcome, reason = await self._grader.grade(
                case, answer.text, key, self._regrading.kept(case, line)
            )
            grades = tuple(
                replace(grade, before=self._regrading.before(case, line, number))
                for number, grade in enumerate(grades, 1)
            )
        return Trial(
            key,
            outcome,
            reason,
            answer,
            grades,
            line.get("latencyS"),
            calls=0,
            ended_at=utc_now(),
            taken_from=str(line.get("from", self._regrading.run_id)),
        )


def is_gradeable(line: Line) -> bool:
    """True for a trial whose executor answered, whatever became of its grading."""
    return "text" in line and line["outcome"] not in (
        Outcome.EXECUTOR_FAILED,
        Outcome.EXECUTOR_TIMEOUT,
        Outcome.SKILL_NOT_LOADED,
    )
