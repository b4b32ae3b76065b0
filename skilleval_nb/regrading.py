"""Grading stored answers anew: another judge, edited checks, and no call to the model under test.

Answers never change here, so what differs between the old grades and the new ones is the graders' doing. A
judge's grade stands where neither judge nor rubric has changed; where nothing has changed at all, every judge
check is graded again, which shows how far the judge agrees with itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .cases import EvalSet
from .controls import visible
from .errors import InputError, Problem, RunNotFound
from .execute import Counts
from .finder import find_folder, resolve_runs_dir
from .folder import RunFolder
from .gate import counted
from .header import make_header, without_password
from .job import Job, arun_job, run_job
from .judge import prompt_hash
from .live import painter_for
from .paths import shown
from .plan import Condition, Plan
from .progress import Painter, Progress
from .record import latest
from .regrade_set import Checks, cases_of_run, set_to_grade
from .regrade_trials import RegradeTrials, Regrading, Stored
from .resume import job_to_resume
from .runners import Runner, create
from .runs import Run, from_folder
from .settings import (
    DEFAULT_CONCURRENCY,
    DEFAULT_JUDGE,
    DEFAULT_TIMEOUT_S,
    Settings,
    judge_warnings,
    named_judge,
    problems_of,
    refuse_if_unkept,
)
from .skills import Skill


def regrade(
    run: Run | str | Path | None = None,
    *,
    checks: Checks | EvalSet | str | Path | None = None,
    judge_model: str | None = None,
    judge_n: int | None = None,
    runner: str | Runner | None = None,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    max_tokens_total: int | None = None,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
) -> Run:
    """Grades the stored answers of a run anew and returns that as a run of its own; no executor is called.

    `run` is a Run, a run id, a folder or `"last"`. `checks` are the edited checks: a changed set (its cases are
    matched by id, and their prompts must be those that were answered), or a mapping of case ids to their list
    of checks as a set file has them; cases that it does not name keep theirs. `judge_model` (which may name its
    runner, `anthropic:sonnet`), `judge_n` and `runner` are the judge's; unless given they are those of the run.

    Deterministic checks are all graded again, they cost nothing. A judge is asked for checks whose rubric is new
    or whose grade was never decided; for all of them where the judge, its prompt or its votes differ; and for all
    of them where nothing differs. Trials without an answer stay as they are.

    The result says what changed (`.changes`, one row a check), has a folder of its own beside the run's, and
    leaves a record of kind `regrade` in the log there. `resume` takes the id of a regrade that was interrupted,
    in place of `run`.
    Raises RunNotFound where the answers are not here, InputError where checks do not fit them.
    """
    job = _prepare(**locals())  # the arguments as they came: nothing else is local yet
    return job if isinstance(job, Run) else run_job(job)


async def aregrade(run: Run | str | Path | None = None, **options: Any) -> Run:
    """`regrade` for a running event loop: the same arguments, the same result."""
    job = _prepare(run, **options)
    return job if isinstance(job, Run) else await arun_job(job)


def _prepare(
    run: Run | str | Path | None = None,
    *,
    checks: Checks | EvalSet | str | Path | None = None,
    judge_model: str | None = None,
    judge_n: int | None = None,
    runner: str | Runner | None = None,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    max_tokens_total: int | None = None,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
) -> Job | Run:
    """Everything that can be refused is refused here, before a file is written or a call is made."""
    wishes: dict[str, Any] = {
        "judge_model": judge_model, "judge_n": 1 if judge_n is None else judge_n, "concurrency": concurrency,
        "timeout_s": timeout_s,
        "max_cost_usd": max_cost_usd, "max_tokens_total": max_tokens_total, "runner": runner or "auto",
    }  # fmt: skip
    if problems := problems_of(wishes):
        raise InputError(problems)
    runs = resolve_runs_dir(runs_dir)
    own: RunFolder | None = None
    if resume is not None:
        if run is not None or checks is not None:
            what = "a regrade that is resumed has its run and its checks already"
            raise InputError(Problem("resume", what, "leave out the others"))
        own = _own(resume, runs)
        run = own.path.parent / own.read_header()["regradeOf"]
    elif run is None:
        raise InputError(Problem("run", "is missing", 'name one, such as regrade("last")'))
    source = _source(run, runs)
    header = source.read_header()
    before = cases_of_run(header)
    known = own.read_header() if own else header
    eval_set = set_to_grade(known, source.path, checks)
    judge, spec, model = _judge(known, judge_model, runner, eval_set)
    settings = Settings(
        runner=Stored(header),
        runner_spec=str(header["arguments"].get("runner", header["runner"])),
        model=header["model"],
        requested_model=header.get("requestedModel") or header["model"],
        judge_runner=judge,
        judge_spec=spec,
        judge_model=judge.fixed_model or model,
        judge_n=judge_n or int(known.get("judgeN") or 1),
        n=int(header["n"]),
        conditions=tuple(header["conditions"]),
        concurrency=min(concurrency or DEFAULT_CONCURRENCY, judge.max_concurrency or 10**6),
        timeout_s=float(timeout_s or DEFAULT_TIMEOUT_S),
        max_cost_usd=max_cost_usd,
        max_tokens_total=max_tokens_total,
    )
    refuse_if_unkept(max_cost_usd, (judge,))
    if own and eval_set.judge_checks:
        _refuse_another(known, settings)
    if eval_set.judge_checks:
        tested = header.get("resolvedModel") or header["model"]
        warnings = judge_warnings(judge, settings.judge_model, header["runner"], tested)
        settings = replace(settings, warnings=tuple(warnings))
    systems = header.get("systems") or {}
    conditions = tuple(Condition(name, systems.get(name)) for name in header["conditions"])
    skill = Skill(Path(str(header.get("skill") or "SKILL.md")), body=systems.get("skill") or "")
    plan = Plan(eval_set, skill, settings, conditions, eval_set.cases)
    regrading = Regrading.of(plan, header, before, latest(source.lines()))
    painter = painter_for(progress)
    return _resumed(plan, regrading, own, painter) if own else _begun(plan, regrading, source, painter)


def _resumed(plan: Plan, regrading: Regrading, own: RunFolder, painter: Painter) -> Job | Run:
    header = own.read_header()
    folder = RunFolder(own.path, _secrets(plan))
    job = job_to_resume(plan, folder, header, painter)
    return job if isinstance(job, Run) else _as_regrade(job, regrading)


def _begun(plan: Plan, regrading: Regrading, source: RunFolder, painter: Painter) -> Job:
    old = source.read_header()
    folder = RunFolder.create(
        source.path.parent, f"{plan.eval_set.name}-regrade", datetime.now(UTC), _secrets(plan)
    )
    folder.lock()
    header = {**make_header(plan, folder.run_id, source.path.parent), **_taken_over(old)}
    header["arguments"]["judge_runner"] = without_password(plan.settings.judge_spec)
    header["regrade"] = _before(from_folder(source.path).record)
    folder.write_header(header)
    _announce(plan, regrading, painter)
    return _as_regrade(Job(plan, folder, header, painter, Counts(total=plan.executor_calls)), regrading)


def _as_regrade(job: Job, regrading: Regrading) -> Job:
    plan = job.plan
    job.trials = lambda matcher: RegradeTrials(plan, regrading, matcher)
    job.addresses = {}  # what was graded anew stands in for no other trial
    job.lacking = {key for key in plan.trials() if key not in regrading.lines}
    return job


def _secrets(plan: Plan) -> list[str]:
    return [secret for runner in plan.settings.runners for secret in runner.secrets]


def _announce(plan: Plan, regrading: Regrading, painter: Painter) -> None:
    """Says what is about to happen, before the first call."""
    settings = plan.settings
    asked, kept = regrading.judged(plan.cases)
    by = f" by {settings.judge_model} on {settings.judge_runner.name}" if asked else ""
    calls = counted(asked * settings.judge_n, "judge call")
    stand = f"; {counted(kept, 'judge grade')} kept" if kept else ""
    painter.say(f"regrade of {regrading.run_id}: no call to the model under test, {calls}{by}{stand}")
    for sentence in settings.judge_runner.about():
        painter.say(sentence)
    for warning in (*settings.warnings, *plan.eval_set.notes):
        painter.say(f"warning: {visible(warning)}")


def _before(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the run said with its old grades."""
    names = (
        "ts",
        "graded",
        "baselinePass",
        "skillPass",
        "delta",
        "gate",
        "judgeModel",
        "judgeHash",
        "setHash",
    )
    return {name: record.get(name) for name in names}


def _taken_over(old: Mapping[str, Any]) -> dict[str, Any]:
    """What a regrade's header says of the run whose answers it grades."""
    names = (
        *("set", "setPath", "skill", "skillHash", "runner", "runnerVersion", "delivery", "model"),
        *("requestedModel", "resolvedModel", "subset", "systems", "maxDrop"),
    )
    return {"kind": "regrade", "regradeOf": old["runId"], **{name: old.get(name) for name in names}}


def _own(resume: str | Path, runs: Path) -> RunFolder:
    """The folder of a regrade; raises RunNotFound."""
    found = find_folder(resume, runs)
    if found is None or "regradeOf" not in RunFolder(found).read_header():
        fix = f"regrades are the folders *-regrade* in {shown(runs)}"
        raise RunNotFound(Problem(str(resume), "is no regrade that could be resumed", fix))
    return RunFolder(found)


def _source(run: Run | str | Path, runs: Path) -> RunFolder:
    """The folder with the answers; raises RunNotFound where there is none."""
    folder = run.folder if isinstance(run, Run) else find_folder(run, runs)
    if folder is None or not (folder / "run.json").is_file():
        name = run.id if isinstance(run, Run) else str(run)
        what = f"its answers are not here: a run without its folder cannot be graded anew (looked in {shown(runs)})"
        raise RunNotFound(Problem(name, what, "give the folder of a run, or the runs_dir that it is in"))
    return RunFolder(folder)


def _judge(
    header: Mapping[str, Any], asked: str | None, runner: str | Runner | None, eval_set: EvalSet
) -> tuple[Runner, str, str]:
    """The judge's runner, its spec and its model; those of the run with this header unless others are named."""
    if not eval_set.judge_checks:
        return Stored(header), header["runner"], header["model"]
    arguments, stored = header["arguments"], header.get("judgeModel")
    prefix, model = named_judge(asked or stored or os.environ.get("EVAL_JUDGE_MODEL") or DEFAULT_JUDGE)
    if isinstance(runner, Runner):
        return runner, runner.name, model
    own = arguments.get("judge_runner") if stored else None
    if stored and not own and str(arguments["judge_model"]).endswith(f":{stored}"):
        own = str(arguments["judge_model"]).removesuffix(
            f":{stored}"
        )  # a new model is asked where the old one was
    spec = prefix or runner or own or str(arguments.get("runner") or header["runner"])
    return create(spec), spec, model


def _refuse_another(stored: Mapping[str, Any], settings: Settings) -> None:
    """Raises InputError where a regrade would go on with another judge than it began with."""
    now = {
        "runner": ("judgeRunner", settings.judge_runner.name),
        "judge_model": ("judgeModel", settings.judge_model),
        "judge_n": ("judgeN", settings.judge_n),
        "the judge's prompt": ("judgeHash", prompt_hash()),
    }
    problems = [
        Problem(name, f"the regrade began with {stored[key]!r}, not {value!r}", "give that, or regrade anew")
        for name, (key, value) in now.items()
        if stored[key] != value
    ]
    if problems:
        raise InputError(problems)
