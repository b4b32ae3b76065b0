"""`calibrate_judge`: a judge grades answers whose verdict is known, and what it gets wrong is kept in the log."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import __version__
from .calibration import CalibrationSet, load_calibration
from .calibration_result import REASONING_LIMIT, Calibration, calibration_record
from .cases import JudgeCheck
from .controls import visible
from .errors import InputError, Problem, SetError
from .execute import Counts, execute
from .finder import LOG, resolve_runs_dir
from .folder import make_runs_dir
from .gate import counted
from .header import git_state
from .judge import SYSTEM, Judge, prompt_hash
from .judge_log import calibration_records
from .live import painter_for
from .log import append_record
from .plan import seed_of
from .progress import Painter, Progress
from .record import clip
from .runners import Runner, choose, create
from .settings import DEFAULT_CONCURRENCY, DEFAULT_JUDGE, DEFAULT_TIMEOUT_S, named_judge, problems_of
from .sync import run_sync
from .values import Grade, Outcome, Trial, TrialKey, Usage, utc_now

CONDITION = "judge"


def calibrate_judge(
    path: str | Path,
    *,
    judge_model: str | None = None,
    runner: str | Runner = "auto",
    judge_n: int = 1,
    repeats: int = 1,
    system: str | None = None,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
) -> Calibration:
    """Lets a judge grade the answers of a calibration file and holds its verdicts against people's labels.

    Works in a cell, a script, pytest and inside a running event loop. The judge sees task, rubric and answer,
    never the label. `judge_model`, which may name its runner too (`anthropic:sonnet`), goes before
    `EVAL_JUDGE_MODEL` and `sonnet`; a runner with one model uses that. `runner` is as for `run_set`. `judge_n`
    is the odd number of votes a verdict, as it is in a run. With `repeats` above 1 every item is judged that
    often, sampled with seeds of its own, which measures how far the judge agrees with itself. `system` takes
    the place of the judge's prompt: another text is another judge. `timeout_s` (180) bounds each judge call.

    What the judge did not decide is never counted as a verdict. A record of kind `calibration` goes into the
    log in `runs_dir`, and what has changed since an earlier calibration with the same items is part of it. An
    interrupt ends children, keeps what is judged as a partial record, and is raised again.
    Raises InputError (SetError, RunnerUnavailable, …) before any call where the input is bad.
    """
    work = _prepare(**locals())  # the arguments as they came: nothing else is local yet
    try:
        work.painter.start(work.given.name, work.counts)
        run_sync(work.conduct, work.painter.paint)
    except BaseException as error:
        work.painter.finish()
        if isinstance(error, KeyboardInterrupt) and work.grades:
            work.write(partial="interrupted")
            kept = f"{work.counts.done} of {work.counts.total}"
            work.painter.say(f"interrupted: {kept} judgements are in the log, as a partial calibration")
        raise
    work.painter.paint()
    work.painter.finish()
    return work.write()


@dataclass
class _Work:
    """One calibration under way; `grades` holds what the judge has said of each item, by repeat."""

    given: CalibrationSet
    judge: Judge
    repeats: int
    concurrency: int
    log: Path
    painter: Painter
    counts: Counts
    ts: str
    began: float = field(default_factory=time.monotonic)
    grades: dict[TrialKey, Grade] = field(default_factory=dict)

    def keys(self) -> list[TrialKey]:
        """Every judgement to be made: all items once, then all again."""
        return [
            TrialKey(item.id, CONDITION, number)
            for number in range(1, self.repeats + 1)
            for item in self.given.items
        ]

    async def conduct(self) -> None:
        """Asks the judge for all judgements, and closes its runner whatever happens."""
        try:
            await execute(self.keys(), self._perform, concurrency=self.concurrency, on_trial=self._on_trial)
        finally:
            await asyncio.shield(self._close())

    async def _perform(self, key: TrialKey) -> Trial:
        item = self._items[key.case_id]
        check = JudgeCheck(self.given.rubrics[item.rubric])
        grade = await self.judge.grade(check, item.task, item.answer, seed=seed_of(key), label=str(key))
        if grade.passed is None:
            return Trial(key, grade.outcome or Outcome.GRADER_FAILED, grade.reason, grades=(grade,))
        return Trial(key, Outcome.PASSED if grade.passed else Outcome.FAILED, grades=(grade,))

    def __post_init__(self) -> None:
        self._items = {item.id: item for item in self.given.items}

    def _on_trial(self, trial: Trial) -> None:
        fault = Grade(CONDITION, None, outcome=trial.outcome, reason=trial.reason)
        self.grades[trial.key] = trial.grades[0] if trial.grades else fault
        self.counts.add(trial)

    async def _close(self) -> None:
        try:
            await self.judge.runner.aclose()
        except Exception as error:  # noqa: BLE001 - the judgements are made: what fails to close must not lose them
            self.painter.say(f"warning: closing failed: {type(error).__name__}: {error}")

    def write(self, partial: str | None = None) -> Calibration:
        """The record of what was judged, in the log and as a result."""
        judge, runner = self.judge, self.judge.runner
        head = {
            "ts": self.ts,
            "source": "file",
            "calibration": self.given.name,
            "calibrationHash": self.given.hash,
            "judgeModel": judge.model,
            "resolvedJudgeModel": runner.resolve_model(judge.model),
            "judgeRunner": runner.name,
            "judgeHash": prompt_hash(judge.system),
            "judgeN": judge.votes,
            "repeats": self.repeats,
            "partial": partial,
            "usage": _usage(list(self.grades.values())),
            "durationS": round(time.monotonic() - self.began, 3),
            "version": __version__,
            "git": git_state(self.given.root),
        }
        rows = [self._row(item.id, item.rubric, label=item.label) for item in self.given.items]
        record = calibration_record(head, rows, calibration_records(self.log))
        append_record(self.log, record, named="the calibration's record", then="calibrate again")
        return Calibration(record)

    def _row(self, identifier: str, rubric: str, *, label: bool) -> dict[str, Any]:
        keys = (TrialKey(identifier, CONDITION, number) for number in range(1, self.repeats + 1))
        grades = [(key.trial, self.grades[key]) for key in keys if key in self.grades]
        return item_row(identifier, rubric, grades, label=label)


def item_row(
    identifier: str, rubric: str, grades: Sequence[tuple[int, Grade]], *, label: bool
) -> dict[str, Any]:
    """One item as the record holds it; `grades` are the judge's, each with the number of its repeat."""
    reasoning = next((grade.reasoning for _, grade in grades if grade.reasoning), None)
    return {
        "id": identifier,
        "rubric": rubric,
        "label": label,
        "verdicts": [grade.passed for _, grade in grades],
        "quoted": [grade.quoted for _, grade in grades],
        "undecided": [
            {"repeat": number, "outcome": grade.outcome, "reason": clip(grade.reason or "")}
            for number, grade in grades
            if grade.passed is None
        ],
        "reasoning": clip(reasoning, REASONING_LIMIT) if reasoning else None,
    }


def _usage(grades: Sequence[Grade]) -> dict[str, Any]:
    """What the judge took: `asked` counts judgements, `reported` those with tokens, `calls` retries too."""
    known = [grade.judge_usage for grade in grades if grade.judge_usage is not None]
    costs = [grade.judge_cost_usd for grade in grades if grade.judge_cost_usd is not None]
    return {
        "calls": sum(grade.judge_calls or 0 for grade in grades),
        "asked": len(grades),
        "reported": len(known),
        "tokens": sum(known, Usage()).as_list() if known else None,
        "costUsd": sum(costs) if costs else None,
    }


def _prepare(
    path: str | Path,
    *,
    judge_model: str | None,
    runner: str | Runner,
    judge_n: int,
    repeats: int,
    system: str | None,
    concurrency: int | None,
    timeout_s: float | None,
    runs_dir: str | Path,
    progress: bool | Progress | None,
) -> _Work:
    """Everything that can be refused is refused here, before a file is written or a call is made."""
    wishes = {
        "judge_model": judge_model, "runner": runner, "judge_n": judge_n, "repeats": repeats,
        "concurrency": concurrency, "timeout_s": timeout_s, "n": 1,
    }  # fmt: skip
    problems = problems_of(wishes)
    if system is not None and not str(system).strip():
        problems.append(Problem("system", "is empty: it is the text that tells the judge its task"))
    try:
        given = load_calibration(path)
    except SetError as error:
        raise SetError([*error.problems, *problems]) from None
    if problems:
        raise InputError(problems)
    named, model = named_judge(judge_model or os.environ.get("EVAL_JUDGE_MODEL") or DEFAULT_JUDGE)
    asked, choice = (named or runner), ""
    if asked == "auto":
        asked, reason = choose()
        choice = f"runner {asked}: {reason}"
    judging = create(asked) if isinstance(asked, str) else asked
    runs = resolve_runs_dir(runs_dir, given.root)
    make_runs_dir(runs)
    judge = Judge(
        judging,
        judging.fixed_model or model,
        judge_n,
        float(timeout_s or DEFAULT_TIMEOUT_S),
        system or SYSTEM,
        sampled=repeats > 1,
    )
    total = len(given.items) * repeats
    work = _Work(
        given=given,
        judge=judge,
        repeats=repeats,
        concurrency=min(concurrency or DEFAULT_CONCURRENCY, judging.max_concurrency or 10**6, total),
        log=runs / LOG,
        painter=painter_for(progress),
        counts=Counts(total=total),
        ts=utc_now(),
    )
    _announce(work, choice)
    return work


def _announce(work: _Work, choice: str) -> None:
    """Says what is about to happen, before the first call."""
    calls = counted(work.counts.total * work.judge.votes, "judge call")
    work.painter.say(f"{choice}; {calls}" if choice else f"{calls} to {work.judge.runner.name}")
    for sentence in work.judge.runner.about():
        work.painter.say(sentence)
    for note in work.given.notes:
        work.painter.say(f"note: {visible(note)}")
