"""One run under way: its trials performed, written as they end, and turned into the log's record."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from .execute import Counts, execute
from .folder import RunFolder
from .gate_trial import GateTrials
from .log import append_record
from .paths import shown
from .patterns import Matcher
from .plan import Plan
from .progress import Painter
from .record import build_record, trial_line
from .runners import Runner
from .runs import LOG, Run, look_of
from .values import Trial, TrialKey


@dataclass
class Job:
    """What is needed to run, or to go on with, one run.

    `finished` are the trials that a run before an interrupt has measured, `attempts` how often each trial
    was tried, `before_s` the time that was spent. `addresses` say what each trial is made of, `reused` holds
    the lines of earlier runs that stand in for a trial.
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
    addresses: dict[TrialKey, str] = field(default_factory=dict)
    reused: dict[TrialKey, dict[str, Any]] = field(default_factory=dict)
    partial: str | None = None


async def conduct(job: Job) -> Run:
    """Runs the trials, closes everything, writes the record."""
    plan, folder, counts, settings = job.plan, job.folder, job.counts, job.plan.settings
    matcher = Matcher()
    trials = GateTrials(plan, matcher, job.attempts)

    def on_trial(trial: Trial) -> None:
        folder.append(trial_line(trial, job.addresses[trial.key]))
        key = trial.key
        text = trial.answer.text if trial.answer else ""
        if not text.strip() and not trial.outcome.measured:
            text = f"[no answer: {trial.outcome.value}, {trial.reason}]"
        folder.add_text(key.case_id, key.condition, key.trial, settings.n, trial.outcome.value, text)
        counts.add(trial)

    def may_start() -> bool:
        spent = counts.tokens_in + counts.tokens_out
        over_tokens = settings.max_tokens_total is not None and spent >= settings.max_tokens_total
        over_cost = settings.max_cost_usd is not None and counts.cost_usd >= settings.max_cost_usd
        if over_tokens or over_cost:
            job.partial = "budget"
        return not (over_tokens or over_cost)

    began = time.monotonic()
    for key, line in job.reused.items():
        folder.append(line)
        folder.add_text(
            key.case_id, key.condition, key.trial, settings.n, line["outcome"], line.get("text", "")
        )
    skipped = job.finished | set(job.reused)
    try:
        await execute(
            (key for key in plan.trials() if key not in skipped),
            trials.perform,
            concurrency=settings.concurrency,
            on_trial=on_trial,
            may_start=may_start,
        )
    finally:
        await asyncio.shield(_close(matcher, settings.runners, folder))
    log = folder.path.parent / LOG
    record = build_record(
        job.header,
        folder.lines(),
        look=look_of(job.header, log),
        duration_s=job.before_s + time.monotonic() - began,
        partial=job.partial,
        resumes=job.resumes,
    )
    if job.resumes:
        job.header["resumes"] = job.resumes
        folder.write_header(job.header)
    append_record(log, record)
    return Run(record, folder.path)


async def _close(matcher: Matcher, runners: Sequence[Runner], folder: RunFolder) -> None:
    try:
        await matcher.aclose()
        for runner in runners:
            await runner.aclose()
    finally:
        folder.close()


def how_to_resume(job: Job) -> str:
    """One line for a user who has just interrupted a run."""
    done, total = job.counts.done, job.counts.total
    path = shown(job.plan.eval_set.path)
    return (
        f"interrupted: {done} of {total} trials are kept; go on with"
        f' skilleval run {path} --resume {job.folder.run_id} or se.run_set("{path}", resume="{job.folder.run_id}")'
    )
