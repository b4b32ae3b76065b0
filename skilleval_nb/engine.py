"""`run_set`: a set, a skill and a model in; a run on disk, in the log and in hand out.

The one module that knows all parts: plan → execute → grade → folder → record → log.
"""

from __future__ import annotations

import asyncio
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import __version__
from .cases import EvalSet
from .errors import InputError, Problem, RunNotFound
from .execute import Counts, execute
from .folder import RunFolder
from .gate_trial import GateTrials
from .judge import prompt_hash
from .log import append_record
from .patterns import Matcher
from .paths import shown
from .plan import Plan, make_plan
from .live import painter_for
from .progress import Painter, Progress
from .record import SCHEMA, build_record, is_measured, key_of, latest, trial_line
from .runners import Runner
from .runs import LOG, Run, find_folder, from_folder, look_of, resolve_runs_dir
from .settings import CONDITIONS, check_runnable, settle
from .sets import load_set
from .skills import Skill, load_skill
from .sync import TICK_S, run_sync
from .values import Trial, TrialKey


@dataclass
class _Job:
    """One call of run_set, from its arguments to its run."""

    plan: Plan
    folder: RunFolder
    header: dict[str, Any]
    painter: Painter
    counts: Counts
    attempts: dict[TrialKey, int] = field(default_factory=dict)
    finished: set[TrialKey] = field(default_factory=set)
    resumes: int = 0
    before_s: float = 0.0
    partial: str | None = None


def run_set(
    set: str | Path | EvalSet,  # noqa: A002 - the public name of SPEC §3
    *,
    runner: str | Runner = "auto",
    model: str | None = None,
    judge_model: str | None = None,
    judge_n: int = 1,
    n: int | None = None,
    conditions: Sequence[str] = CONDITIONS,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    max_tokens_total: int | None = None,
    confirm: bool = False,
    max_drop: float | None = None,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
) -> Run:
    """Runs every case of a set with and without its skill, grades all answers and reports the difference.

    Works in a cell, a script, pytest and inside a running event loop. `model` goes before `EVAL_MODEL`, the
    set's own model and `haiku`; `n` (trials a case and condition) before `EVAL_N` and 1; `judge_model` before
    `EVAL_JUDGE_MODEL` and `sonnet`. `timeout_s` (default 180) bounds each trial's executor, retries included,
    and each judge call. `max_cost_usd` and `max_tokens_total` stop new trials once what was spent reaches
    them. `resume` takes a run id or `"last"` and runs only what that run still lacks: trials never started
    and trials without a measurement. `progress` False shows nothing; a function gets the counts.

    Each trial is on disk when it ends. An interrupt ends children, keeps what is finished, prints how to
    resume, and is raised again. Nothing is written for a set without cases.
    Raises InputError (SetError, SkillError, RunnerUnavailable, …) before any call where the input is bad.
    """
    arguments = locals()
    job = _prepare(**arguments)
    if isinstance(job, Run):
        return job
    job.painter.start(job.plan.eval_set.name, job.counts)
    try:
        run = run_sync(lambda: _conduct(job), job.painter.paint)
    except KeyboardInterrupt:
        job.painter.finish()
        job.painter.say(_how_to_resume(job))
        raise
    finally:
        job.painter.paint()
        job.painter.finish()
    return run


async def arun_set(set: str | Path | EvalSet, **settings: Any) -> Run:  # noqa: A002
    """`run_set` for a running event loop: the same arguments, the same run.

    Cancelling the task, which is also what an interrupted `await` in a cell becomes, ends children, keeps
    what is finished and says how to resume.
    """
    job = _prepare(set, **settings)
    if isinstance(job, Run):
        return job
    job.painter.start(job.plan.eval_set.name, job.counts)
    heart = asyncio.create_task(_heartbeat(job.painter.paint))
    try:
        return await _conduct(job)
    except asyncio.CancelledError:
        job.painter.finish()
        job.painter.say(_how_to_resume(job))
        raise
    finally:
        heart.cancel()
        job.painter.paint()
        job.painter.finish()


async def _heartbeat(paint: Callable[[], None]) -> None:
    """Paints, and wakes the loop: an interrupted await in a notebook is only noticed when the loop turns."""
    while True:
        paint()
        await asyncio.sleep(TICK_S)


def plan_set(
    set: str | Path | EvalSet,  # noqa: A002
    *,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
    **settings: Any,
) -> Plan:
    """What a run would do: its trials, calls, tokens and the smallest difference it could show; no call is made.

    Takes the settings of `run_set`. Raises InputError as `run_set` would.
    """
    eval_set = set if isinstance(set, EvalSet) else load_set(set)
    eval_set, skill = _with_skill(eval_set, skill_path)
    return make_plan(eval_set, skill, settle(eval_set, **settings), case_ids)


def _with_skill(eval_set: EvalSet, skill_path: str | Path | None) -> tuple[EvalSet, Skill]:
    """The set with the skill that a run injects: the set's own, or the caller's in its place."""
    if skill_path is not None:
        skill = load_skill(skill_path)
        path = skill.path.resolve()
        return replace(eval_set, skill_path=path, skill_ref=shown(path, eval_set.root)), skill
    check_runnable(eval_set)
    assert eval_set.skill_path is not None
    return eval_set, load_skill(eval_set.skill_path)


def _prepare(
    set: str | Path | EvalSet,  # noqa: A002
    *,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
    **settings: Any,
) -> _Job | Run:
    """Everything that can be refused is refused here, before a file is written or a call is made."""
    eval_set = set if isinstance(set, EvalSet) else load_set(set)
    runs = resolve_runs_dir(runs_dir, eval_set.root)
    header: dict[str, Any] | None = None
    folder: RunFolder | None = None
    if resume is not None:
        folder = _folder_to_resume(resume, runs, eval_set.name)
        header = folder.read_header()
        settings = _settings_of(header, settings)
        case_ids = [case["id"] for case in header["cases"]]
    eval_set, skill = _with_skill(eval_set, skill_path)
    plan = make_plan(eval_set, skill, settle(eval_set, **settings), case_ids)
    painter = painter_for(progress)
    if not plan.cases:
        painter.say(f"{eval_set.name}: the set has no cases, so there is nothing to run")
        return Run(build_record(_header(plan, "", runs), ()))
    if header is not None and folder is not None:
        return _job_to_resume(plan, folder, header, painter, runs)
    folder = RunFolder.create(runs, eval_set.name, datetime.now(UTC))
    header = _header(plan, folder.run_id, runs)
    folder.write_header(header)
    _announce(plan, painter)
    return _Job(plan, folder, header, painter, Counts(total=plan.executor_calls))


def _folder_to_resume(resume: str | Path, runs: Path, set_name: str) -> RunFolder:
    found = find_folder(resume, runs, set_name)
    if found is None:
        raise RunNotFound(Problem(str(resume), f"no run of {set_name!r} to resume in {shown(runs)}"))
    return RunFolder(found)


def _settings_of(header: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the run that is resumed; an argument that says otherwise is refused."""
    stored = dict(header["arguments"])
    neutral: dict[str, Any] = {"runner": "auto", "judge_n": 1, "conditions": CONDITIONS, "confirm": False}
    free = {"concurrency", "timeout_s", "max_cost_usd", "max_tokens_total"}
    problems = []
    for name, value in asked.items():
        if value is None or value == neutral.get(name, None):
            continue
        if name in free:
            stored[name] = value
        elif isinstance(value, Runner) and value.name == str(stored.get(name)).partition(":")[0]:
            stored[name] = value
        elif value != stored.get(name) and list(value if isinstance(value, tuple) else [value]) != stored.get(name):
            problems.append(Problem(name, f"the run was started with {stored.get(name)!r}, not {value!r}"))
    if problems:
        raise InputError(problems)
    return stored


def _job_to_resume(
    plan: Plan, folder: RunFolder, header: dict[str, Any], painter: Painter, runs: Path
) -> _Job | Run:
    """The job that runs what the folder's run still lacks; the run itself where it lacks nothing."""
    now = _header(plan, folder.run_id, runs)
    changed = [
        f"{what} (was {header[name]}, is {now[name]})"
        for name, what in (("setHash", "the set"), ("skillHash", "the skill"), ("judgeHash", "the judge's prompt"))
        if header[name] != now[name]
    ]
    if changed:
        raise RunNotFound(
            Problem(folder.run_id, f"cannot be resumed, as it has changed since: {', '.join(changed)}", "run it anew")
        )
    folder.cut_torn_tail()
    lines = [{name: value for name, value in line.items() if name != "text"} for line in folder.lines()]
    counting = latest(lines)
    finished = {key for key, line in counting.items() if is_measured(line)}
    attempts: dict[TrialKey, int] = {}
    for line in lines:
        attempts[key_of(line)] = max(attempts.get(key_of(line), 0), int(line.get("attempt", 1)))
    if len(finished) == plan.executor_calls and (run := from_folder(folder.path)).record["partial"] is None:
        painter.say(f"{folder.run_id}: nothing is left to run")
        return run
    for line in folder.lines():
        if (key := key_of(line)) in finished and is_measured(line):
            folder.add_text(
                key.case_id, key.condition, key.trial, plan.settings.n, line["outcome"], line.get("text", "")
            )
    previous = from_folder(folder.path).record
    counts = Counts(
        total=plan.executor_calls,
        done=len(finished),
        started_with=len(finished),
        passed=sum(counting[key]["outcome"] == "passed" for key in finished),
    )
    counts.failed = counts.done - counts.passed
    painter.say(f"resuming {folder.run_id}: {len(finished)} of {plan.executor_calls} trials are done")
    return _Job(
        plan,
        folder,
        header,
        painter,
        counts,
        attempts,
        finished,
        resumes=int(header.get("resumes", 0)) + 1,
        before_s=float(previous.get("durationS") or 0.0),
    )


def _announce(plan: Plan, painter: Painter) -> None:
    """Says what is about to happen, before the first call."""
    settings = plan.settings
    calls = f"{plan.executor_calls} calls"
    if plan.judge_calls:
        calls += f" and up to {plan.judge_calls} judge calls"
    if settings.choice:
        painter.say(f"{settings.choice}; {calls}")
    for runner in settings.runners:
        for sentence in runner.about():
            painter.say(sentence)
    for warning in settings.warnings:
        painter.say(f"warning: {warning}")


async def _conduct(job: _Job) -> Run:
    """Runs the trials, closes everything, writes the record."""
    plan, folder, counts, settings = job.plan, job.folder, job.counts, job.plan.settings
    matcher = Matcher()
    trials = GateTrials(plan, matcher, job.attempts)

    def on_trial(trial: Trial) -> None:
        folder.append(trial_line(trial))
        key = trial.key
        text = trial.answer.text if trial.answer else f"[no answer: {trial.outcome.value}, {trial.reason}]"
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
    try:
        await execute(
            (key for key in plan.keys() if key not in job.finished),
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


def _how_to_resume(job: _Job) -> str:
    done, total = job.counts.done, job.counts.total
    path = shown(job.plan.eval_set.path)
    return (
        f"interrupted: {done} of {total} trials are kept; go on with"
        f' skilleval run {path} --resume {job.folder.run_id} or se.run_set("{path}", resume="{job.folder.run_id}")'
    )


def _header(plan: Plan, run_id: str, runs: Path) -> dict[str, Any]:
    """Everything that identifies a run, known before its first call; holds no key and no path outside the project."""
    settings, eval_set = plan.settings, plan.eval_set
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    judged = any(check.kind == "judge" for case in plan.cases for check in case.checks)
    return {
        "schema": SCHEMA,
        "kind": eval_set.kind,
        "runId": run_id,
        "ts": now,
        "set": eval_set.name,
        "setPath": shown(eval_set.path, eval_set.root),
        "skill": eval_set.skill_ref,
        "model": settings.model,
        "judgeModel": settings.judge_model if judged else None,
        "n": settings.n,
        "setHash": eval_set.hash,
        "skillHash": plan.skill.hash,
        "judgeHash": prompt_hash() if judged else None,
        "runner": settings.runner.name,
        "delivery": settings.runner.delivery,
        "requestedModel": settings.requested_model,
        "resolvedModel": settings.runner.resolve_model(settings.model),
        "resolvedJudgeModel": settings.judge_runner.resolve_model(settings.judge_model) if judged else None,
        "judgeRunner": settings.judge_runner.name if judged else None,
        "judgeN": settings.judge_n,
        "runnerVersion": settings.runner.version,
        "subset": len(plan.cases) < len(eval_set.cases),
        "confirm": settings.confirm,
        "maxDrop": settings.max_drop,
        "settings": {
            "timeoutS": settings.timeout_s,
            "concurrency": settings.concurrency,
            "maxTokens": plan.max_tokens,
            "maxCostUsd": settings.max_cost_usd,
            "maxTokensTotal": settings.max_tokens_total,
        },
        "warnings": list(settings.warnings),
        "version": __version__,
        "git": _git_state(eval_set.root),
        "dir": shown(runs / run_id, eval_set.root),
        "conditions": [condition.name for condition in plan.conditions],
        "systems": {condition.name: condition.system for condition in plan.conditions},
        "cases": [
            {
                "id": case.id,
                "prompt": case.prompt,
                "difficulty": case.difficulty,
                "checks": [dict(check) for check in case.raw.get("assert", ())],
            }
            for case in plan.cases
        ],
        "arguments": {
            "runner": settings.runner_spec,
            "model": settings.requested_model,
            "judge_model": f"{settings.judge_spec.partition(':')[0]}:{settings.judge_model}"
            if settings.judge_runner is not settings.runner
            else settings.judge_model,
            "judge_n": settings.judge_n,
            "n": settings.n,
            "conditions": list(settings.conditions),
            "timeout_s": settings.timeout_s,
            "confirm": settings.confirm,
            "max_drop": settings.max_drop,
        },
    }


def _git_state(root: Path) -> dict[str, Any] | None:
    """The project's commit and whether tracked files differ from it; None outside a git checkout."""

    def git(*arguments: str) -> str:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],  # noqa: S607 - the user's own git
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
        return done.stdout.strip()

    with suppress(OSError, subprocess.SubprocessError):
        return {
            "commit": git("rev-parse", "HEAD"),
            "dirty": bool(git("status", "--porcelain", "--untracked-files=no")),
        }
    return None
