"""`run_set`: a set, a skill and a model in; a run on disk, in the log and in hand out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Unpack

from .cases import EvalSet
from .conditions import CONDITIONS, Chosen, Given
from .controls import visible
from .errors import InputError, Problem, SetError
from .execute import Counts
from .finder import resolve_runs_dir
from .folder import RunFolder
from .gate import counted
from .header import make_header
from .job import Job, arun_job, run_job
from .live import painter_for
from .paths import shown
from .plan import Plan, make_plan
from .progress import Painter, Progress
from .record import build_record
from .resume import folder_to_resume, job_to_resume, refuse_if_changed, settings_of
from .reuse import addresses, reusable
from .runners import Runner
from .runs import Run
from .sets import load_set, load_to_run
from .settings import Wishes, check_runnable, problems_of, settle
from .skills import Skill, load_skill
from .values import Outcome


class RunOptions(Wishes, total=False):
    """The keyword arguments of `run_set`, for those that hand them on."""

    reuse: str | None
    resume: str | Path | None
    runs_dir: str | Path
    progress: bool | Progress | None
    skill_path: str | Path | None
    case_ids: Sequence[str] | None


def run_set(
    set: str | Path | EvalSet,  # noqa: A002 - the public name of SPEC §3
    *,
    runner: str | Runner = "auto",
    model: str | None = None,
    judge_model: str | None = None,
    judge_n: int = 1,
    n: int | None = None,
    conditions: Given | Chosen = CONDITIONS,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    max_tokens_total: int | None = None,
    confirm: bool = False,
    max_drop: float | None = None,
    reuse: str | None = None,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | None = None,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
) -> Run:
    """Runs every case of a set with and without its skill, grades all answers and reports the difference.

    Works in a cell, a script, pytest and inside a running event loop.

    `runner` is a name (`auto`, `anthropic`, `claude`, `local`, `replay:FILE`, `record:FILE:RUNNER`) or a Runner.
    `model` goes before `EVAL_MODEL`, the set's own model and `haiku`; `n` (trials a case and condition) before
    `EVAL_N` and 1; `judge_model`, which may name its runner too (`anthropic:sonnet`), before `EVAL_JUDGE_MODEL`
    and `sonnet`; `judge_n` is the odd number of votes a judge check. `concurrency` is how many trials run at a
    time (8). `timeout_s` (180) bounds each trial's executor, retries included, and each judge call.
    `max_cost_usd` and `max_tokens_total` stop new trials once what was spent reaches them. `confirm` marks the
    run that settles a question: looks are counted anew after it. `max_drop`, a rate from 0 to 1, makes the exit
    code ask whether Δ's interval stays above its negative.

    `conditions` are run in that order, one after the other within each case and trial; the gate needs `baseline`
    and `skill`. Others are `previous` (the skill at git's HEAD), `previous:` with a git revision or a file of the
    project, `placebo` (neutral prose, as long as the skill), `without:` with a heading of the skill (the skill
    without that section), and any text: `["baseline", "skill", {"terse": "Be terse."}]`.

    `resume` takes a run id or `"last"` and runs only what that run still lacks: trials never started and trials
    without a measurement. `reuse="unchanged"` takes measured trials of earlier runs in `runs_dir` where nothing
    that decides them has changed, and marks them; None runs everything afresh. `runs_dir` is relative to the
    project's root. `skill_path` takes the place of the set's own skill; `case_ids` runs only these cases.
    `progress` False shows nothing; a function gets the counts.

    Each trial is on disk when it ends. An interrupt ends children, keeps what is finished, prints how to
    resume, and is raised again. Nothing is written for a set without cases.
    Raises InputError (SetError, SkillError, RunnerUnavailable, …) before any call where the input is bad.
    """
    job = prepare_job(**locals())  # the arguments as they came: nothing else is local yet
    if isinstance(job, Run):
        return job
    return run_job(job)


async def arun_set(set: str | Path | EvalSet, **options: Unpack[RunOptions]) -> Run:  # noqa: A002
    """`run_set` for a running event loop: the same arguments, the same run.

    Cancelling the task, which is also what an interrupted `await` in a cell becomes, ends children, keeps
    what is finished and says how to resume.
    """
    job = prepare_job(set, **options)
    if isinstance(job, Run):
        return job
    return await arun_job(job)


def plan_set(
    set: str | Path | EvalSet,  # noqa: A002
    *,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
    **wishes: Unpack[Wishes],
) -> Plan:
    """What a run would do: its trials, calls, tokens and the smallest difference it could show; no call is made.

    Takes the settings of `run_set`. Raises InputError as `run_set` would.
    """
    eval_set = _loaded(set, skill_path, problems_of(wishes))
    eval_set, skill = _with_skill(eval_set, skill_path)
    return make_plan(eval_set, skill, settle(eval_set, **wishes), case_ids)


def set_and_skill(
    set: str | Path | EvalSet,  # noqa: A002
    skill_path: str | Path | None = None,
) -> tuple[EvalSet, Skill]:
    """A set and the skill that a run of it injects; raises InputError as `run_set` would."""
    return _with_skill(_loaded(set, skill_path, ()), skill_path)


def _with_skill(
    eval_set: EvalSet, skill_path: str | Path | None, version: Path | None = None
) -> tuple[EvalSet, Skill]:
    """The set with the skill that a run injects: the set's own, the caller's in its place, or a version of it."""
    if version is not None and eval_set.skill_path is not None:
        return eval_set, replace(load_skill(version), path=eval_set.skill_path)
    if skill_path is not None:
        skill = load_skill(skill_path)
        path = skill.path.resolve()
        return replace(eval_set, skill_path=path, skill_ref=shown(path, eval_set.root)), skill
    check_runnable(eval_set)
    assert eval_set.skill_path is not None
    return eval_set, load_skill(eval_set.skill_path)


def prepare_job(
    set: str | Path | EvalSet,  # noqa: A002
    *,
    reuse: str | None = None,
    resume: str | Path | None = None,
    runs_dir: str | Path = "runs",
    progress: bool | Progress | Painter | None = None,
    skill_path: str | Path | None = None,
    case_ids: Sequence[str] | None = None,
    version: Path | None = None,
    draw: int = 0,
    **settings: Any,
) -> Job | Run:
    """The job of a run; everything that can be refused is refused here, before a file is written or a call is made.

    `version` is a file with the text that the set's skill has in this run, and that a resumed run finds there;
    `draw` is the plan's. The run itself where nothing is left to run.
    """
    problems = [*problems_of(settings), *_problems_of_reuse(reuse, resume, settings)]
    eval_set = _loaded(set, skill_path, problems, resumed=resume is not None)
    runs = resolve_runs_dir(runs_dir, eval_set.root)
    header: dict[str, Any] | None = None
    folder: RunFolder | None = None
    if resume is not None:
        folder = folder_to_resume(resume, runs, eval_set.name)
        header = folder.read_header()
        stored = settings_of(header, {**settings, "case_ids": case_ids})
        own = stored.pop("skill_path", None)
        skill_path = skill_path or (own and eval_set.root / own)
        stored.pop("case_ids", None)
        case_ids = [case["id"] for case in header["cases"]]
        draw = stored.pop("draw", 0)
        settings = stored
    eval_set, skill = _with_skill(eval_set, skill_path, version)
    kept_at = None if skill_path is None else eval_set.skill_ref
    if version is not None:
        kept_at = shown(version, eval_set.root)
    if header is not None:
        refuse_if_changed(header, eval_set, skill)
    plan = make_plan(eval_set, skill, settle(eval_set, **settings), case_ids, draw=draw)
    painter = painter_for(progress)
    if not plan.cases:
        painter.say(f"{eval_set.name}: the set has no cases, so there is nothing to run")
        return Run(build_record(make_header(plan, "", runs), ()))
    secrets = [secret for runner in plan.settings.runners for secret in runner.secrets]
    if header is not None and folder is not None:
        return job_to_resume(plan, RunFolder(folder.path, secrets), header, painter)
    folder = RunFolder.create(runs, eval_set.name, datetime.now(UTC), secrets)
    folder.lock()
    header = make_header(plan, folder.run_id, runs, skill_path=kept_at)
    folder.write_header(header)
    _announce(plan, painter)
    job = Job(plan, folder, header, painter, Counts(total=plan.executor_calls), addresses=addresses(plan))
    if reuse is not None:
        _take_over(job, runs)
    return job


def _take_over(job: Job, runs: Path) -> None:
    """Puts into the job what earlier runs have already answered."""
    found = dict(reusable(job.addresses, runs))
    same = {key for key, line in found.items() if line.get("grading") == job.addresses[key].grading}
    job.reused = {key: line for key, line in found.items() if key in same}
    job.answers = {key: line for key, line in found.items() if key not in same}
    outcomes = [line["outcome"] for line in job.reused.values()]
    job.counts.done = job.counts.started_with = len(outcomes)
    job.counts.passed = outcomes.count(Outcome.PASSED)
    job.counts.failed = outcomes.count(Outcome.FAILED)
    anew = f"; {counted(len(job.answers), 'answer')} taken and graded anew" if job.answers else ""
    total = job.plan.executor_calls
    job.painter.say(f"{len(outcomes)} of {counted(total, 'trial')} are unchanged and reused{anew}")


def _loaded(
    given: str | Path | EvalSet,
    skill_path: str | Path | None,
    problems: Sequence[Problem],
    *,
    resumed: bool = False,
) -> EvalSet:
    """The set, with all that is wrong with it, its skill and the settings raised as one error."""
    if isinstance(given, EvalSet):
        if problems:
            raise InputError(problems)
        return given
    try:
        eval_set = load_to_run(given) if skill_path is None and not resumed else load_set(given)
    except SetError as error:
        raise SetError([*error.problems, *problems]) from None
    if problems:
        raise InputError(problems)
    return eval_set


def _problems_of_reuse(
    reuse: str | None, resume: str | Path | None, settings: Mapping[str, Any]
) -> list[Problem]:
    if reuse not in (None, "unchanged"):
        return [Problem("reuse", f"is {reuse!r}", 'use None or "unchanged"')]
    if reuse is not None and settings.get("confirm"):
        return [Problem("reuse", "a run that confirms needs both conditions afresh", "leave one of them out")]
    if reuse is not None and resume is not None:
        return [Problem("reuse", "a run that is resumed has begun already", "leave one of them out")]
    return []


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
    for warning in (*settings.warnings, *plan.eval_set.notes):
        painter.say(f"warning: {visible(warning)}")
