"""Going on with a run: the same set, skill, judge and settings, and only the trials it still lacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from .cases import EvalSet
from .conditions import CONDITIONS, Chosen, chosen
from .errors import InputError, Problem, RunNotFound
from .execute import Counts
from .finder import find_folder
from .folder import RunFolder
from .job import Job
from .judge import prompt_hash
from .paths import shown
from .plan import Plan
from .progress import Painter
from .record import is_measured, key_of, latest
from .reuse import addresses
from .runners import Runner
from .runs import Run, from_folder
from .skills import Skill
from .values import TrialKey, utc_now


def folder_to_resume(resume: str | Path, runs: Path, set_name: str) -> RunFolder:
    """The folder that `resume` names; raises RunNotFound."""
    found = find_folder(resume, runs, set_name)
    if found is None:
        raise RunNotFound(Problem(str(resume), f"no run of {set_name!r} to resume in {shown(runs)}"))
    if "regradeOf" in RunFolder(found).read_header():
        raise RunNotFound(Problem(str(resume), "is a regrade, which asks no model under test", "regrade it"))
    return RunFolder(found)


FREE = ("concurrency", "timeout_s", "max_cost_usd", "max_tokens_total")
"""What a resumed run may be given anew."""
NEUTRAL: Mapping[str, Any] = {"runner": "auto", "judge_n": 1, "conditions": CONDITIONS, "confirm": False}


def settings_of(header: Mapping[str, Any], asked: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the run that is resumed; an argument that says otherwise is refused."""
    stored = dict(header["arguments"])
    problems = []
    for name, value in asked.items():
        if value is None or value == NEUTRAL.get(name):
            continue
        before = stored.get(name)
        if name == "conditions":
            if not _are_those(chosen(value), header):
                problems.append(Problem(name, f"the run was started with {before!r}, or with other texts"))
        elif name in FREE or (isinstance(value, Runner) and value.name == str(before).partition(":")[0]):
            stored[name] = value
        elif name == "judge_model" and str(value).endswith(f":{before}"):
            continue  # the executor's own runner, named
        elif (list(value) if isinstance(value, tuple) else value) != before:
            problems.append(Problem(name, f"the run was started with {before!r}, not {value!r}"))
    if problems:
        raise InputError(problems)
    systems = header.get("systems") or {}
    texts = {name: text for name, text in systems.items() if name not in CONDITIONS}
    return {**stored, "conditions": Chosen(tuple(header["conditions"]), texts)}


def _are_those(choice: Chosen, header: Mapping[str, Any]) -> bool:
    """Whether conditions are those of a run; their texts too, where they are given."""
    systems = header.get("systems") or {}
    given = ((systems.get(name), text) for name, text in choice.texts.items())
    return list(choice.names) == header["conditions"] and all(was == text for was, text in given)


def job_to_resume(plan: Plan, folder: RunFolder, header: dict[str, Any], painter: Painter) -> Job | Run:
    """The job that runs what the folder's run still lacks; the run itself where it lacks nothing."""
    folder.lock()
    folder.cut_torn_tail()
    lines = [{name: value for name, value in line.items() if name != "text"} for line in folder.lines()]
    counting = latest(lines)
    finished = {key for key, line in counting.items() if is_measured(line)}
    attempts: dict[TrialKey, int] = {}
    for line in lines:
        attempts[key_of(line)] = max(attempts.get(key_of(line), 0), int(line.get("attempt", 1)))
    known = from_folder(folder.path).record
    if len(finished) == plan.executor_calls and known["durationS"] is not None:
        folder.close()
        painter.say(f"{folder.run_id}: nothing is left to run")
        return Run(known, folder.path)
    for line in folder.lines():
        if key_of(line) in finished and is_measured(line):
            folder.add_text(line, plan.settings.n)
    before_s = _spent_s(header, lines)
    header["sessions"] = [*header.get("sessions", [header["ts"]]), utc_now()]
    header["resumes"] = int(header.get("resumes", 0)) + 1
    folder.write_header(header)
    counts = Counts(
        total=plan.executor_calls,
        done=len(finished),
        started_with=len(finished),
        passed=sum(counting[key]["outcome"] == "passed" for key in finished),
    )
    counts.failed = counts.done - counts.passed
    painter.say(f"resuming {folder.run_id}: {len(finished)} of {plan.executor_calls} trials are done")
    return Job(
        plan,
        folder,
        header,
        painter,
        counts,
        attempts,
        finished,
        resumes=header["resumes"],
        addresses=addresses(plan),
        before_s=before_s,
    )


def refuse_if_changed(header: Mapping[str, Any], eval_set: EvalSet, skill: Skill) -> None:
    """Raises RunNotFound where the set, the skill or the judge's prompt is not what the run began with."""
    now = {
        "setHash": eval_set.hash,
        "skillHash": skill.hash,
        "judgeHash": header["judgeHash"] and prompt_hash(),
    }
    names = {"setHash": "the set", "skillHash": "the skill", "judgeHash": "the judge's prompt"}
    changed = [f"{names[key]} (was {header[key]}, is {now[key]})" for key in now if header[key] != now[key]]
    if changed:
        what = f"cannot be resumed, as it has changed since: {', '.join(changed)}"
        raise RunNotFound(Problem(str(header["runId"]), what, "run it anew"))


def _spent_s(header: Mapping[str, Any], lines: Iterable[Mapping[str, Any]]) -> float:
    """Seconds of the sessions so far, each from its start to the end of its last trial."""
    starts = sorted(map(datetime.fromisoformat, header.get("sessions", [header["ts"]])))
    last: dict[datetime, datetime | None] = dict.fromkeys(starts)
    for line in lines:
        if ended := line.get("endedAt"):
            moment = datetime.fromisoformat(ended)
            begun = max((start for start in starts if start <= moment), default=None)
            if begun is not None:
                last[begun] = max(moment, last[begun] or moment)
    return sum((end - start).total_seconds() for start, end in last.items() if end is not None)
