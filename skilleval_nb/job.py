"""One run under way: its trials performed, written as they end, and turned into the log's record."""

from __future__ import annotations

import asyncio
import shlex
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from .execute import Counts, execute
from .finder import LOG
from .folder import RunFolder
from .gate_trial import GateTrials
from .log import append_record
from .paths import shown
from .patterns import Matcher
from .plan import Plan
from .progress import Painter
from .record import Address, trial_line
from .run_record import run_record
from .runs import Run
from .settings import Settings
from .sync import TICK_S, run_sync
from .values import Trial, TrialKey


class Trials(Protocol):
    """What performs the trials of a job."""

    async def perform(self, key: TrialKey) -> Trial:
        """One trial from its beginning to its outcome."""


@dataclass
class Job:
    """What is needed to run, or to go on with, one run.

    `finished` are the trials that a run before an interrupt has measured, `attempts` how often each trial
    was tried, `before_s` the time that was spent. `addresses` say what each trial is made of, `reused` holds
    the lines of earlier runs that stand in for a trial, and `answers` those whose answers are graded anew.
    `trials` makes what performs them: None asks the model under test and grades its answers. `lacking` are
    trials that cannot be performed at all.
    """

    plan: Plan
    folder: RunFolder
    header: dict[str, Any]
    painter: Painter
    counts: Counts
    attempts: dict[TrialKey, int] = field(default_factory=dict)
    finished: set[TrialKey] = field(default_factory=set)
    resumes: int = 0
    before_s: float = 0.0
    addresses: dict[TrialKey, Address] = field(default_factory=dict)
    reused: dict[TrialKey, dict[str, Any]] = field(default_factory=dict)
    answers: dict[TrialKey, dict[str, Any]] = field(default_factory=dict)
    partial: str | None = None
    trials: Callable[[Matcher], Trials] | None = None
    lacking: set[TrialKey] = field(default_factory=set)


def run_job(job: Job) -> Run:
    """Conducts a job to its end, from anywhere; an interrupt keeps what is finished and says how to go on."""
    try:
        job.painter.start(job.plan.eval_set.name, job.counts)
        run = run_sync(lambda: conduct(job), job.painter.paint)
    except BaseException:
        _broken_off(job)
        raise
    job.painter.paint()
    job.painter.finish()
    return run


async def arun_job(job: Job) -> Run:
    """`run_job` inside a running loop; cancelling it is an interrupt."""
    heart = asyncio.create_task(_heartbeat(job.painter.paint))
    try:
        job.painter.start(job.plan.eval_set.name, job.counts)
        run = await conduct(job)
    except BaseException:
        _broken_off(job)
        raise
    finally:
        heart.cancel()
    job.painter.paint()
    job.painter.finish()
    return run


def _broken_off(job: Job) -> None:
    job.folder.close()
    job.painter.finish()
    job.painter.say(how_to_resume(job))


async def _heartbeat(paint: Callable[[], None]) -> None:
    """Paints, and wakes the loop: an interrupted await in a notebook is only noticed when the loop turns."""
    while True:
        paint()
        await asyncio.sleep(TICK_S)


async def conduct(job: Job) -> Run:
    """Runs the trials, closes everything, writes the record."""
    plan, folder, counts, settings = job.plan, job.folder, job.counts, job.plan.settings
    matcher = Matcher()
    trials: Trials = (
        job.trials(matcher) if job.trials else GateTrials(plan, matcher, job.attempts, job.answers)
    )

    def on_trial(trial: Trial) -> None:
        line = trial_line(trial, job.addresses.get(trial.key))
        folder.append(line)
        folder.add_text(line, settings.n)
        counts.add(trial)

    def may_start() -> bool:
        job.partial = _limit_reached(counts, settings)
        return job.partial is None

    began = time.monotonic()
    for line in job.reused.values():
        folder.append(line)
        folder.add_text(line, settings.n)
    skipped = job.finished | set(job.reused) | job.lacking
    try:
        await execute(
            (key for key in plan.trials() if key not in skipped),
            trials.perform,
            concurrency=min(settings.concurrency, plan.executor_calls),
            on_trial=on_trial,
            may_start=may_start,
        )
    finally:
        await asyncio.shield(_close(matcher, job))
    log = folder.path.parent / LOG
    record = run_record(
        job.header,
        folder.lines(),
        log,
        duration_s=job.before_s + time.monotonic() - began,
        partial=job.partial or ("never answered" if job.lacking else None),
        resumes=job.resumes,
    )
    append_record(log, record)
    return Run(record, folder.path)


def _limit_reached(counts: Counts, settings: Settings) -> str | None:
    """Why no more trials may start: a limit is reached, or an answer did not say what it took from one."""
    spent = counts.tokens_in + counts.tokens_out
    if settings.max_tokens_total is not None:
        if counts.uncounted:
            return "budget: an answer came without its tokens"
        if spent >= settings.max_tokens_total:
            return "budget"
    if settings.max_cost_usd is not None:
        if counts.unpriced:
            return "budget: an answer came without its cost"
        if counts.cost_usd >= settings.max_cost_usd:
            return "budget"
    return None


async def _close(matcher: Matcher, job: Job) -> None:
    """Ends what the run has open; an error in one does not keep the others open."""
    for closing in (matcher.aclose, *(runner.aclose for runner in job.plan.settings.runners)):
        try:
            await closing()
        except Exception as error:  # noqa: BLE001 - the trials are done: what fails to close must not lose the record
            job.painter.say(f"warning: closing failed: {type(error).__name__}: {error}")
    job.folder.close()


def how_to_resume(job: Job) -> str:
    """One line for a user whose run has stopped before its end."""
    done, total = job.counts.done, job.counts.total
    run_id, runs = job.folder.run_id, job.folder.path.parent
    if "regradeOf" in job.header:
        words, call, options = ["regrade"], "regrade", [f'resume="{run_id}"']
    else:
        path = shown(job.plan.eval_set.path)
        words, call, options = ["run", path], "run_set", [f'"{path}"', f'resume="{run_id}"']
    words += ["--resume", run_id]
    if runs != job.plan.eval_set.root / "runs":
        words += ["--runs-dir", shown(runs)]
        options.append(f'runs_dir="{shown(runs)}"')
    return (
        f"interrupted: {done} of {total} trials are kept; go on with"
        f" skilleval {shlex.join(words)} or se.{call}({', '.join(options)})"
    )
