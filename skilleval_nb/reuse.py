"""Taking finished trials from earlier runs where nothing that decides them has changed.

What decides an answer and what decides its grades are hashed apart: where only the checks or the judge have
changed, the answer is taken and graded anew. Only measured trials are taken, never errors, and each is marked as
reused where it stands.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from .cases import Case
from .folder import RunFolder
from .judge import prompt_hash
from .plan import Condition, Plan
from .record import Address, is_measured
from .values import TrialKey


def addresses(plan: Plan) -> dict[TrialKey, Address]:
    """The address of every trial of a plan."""
    cases = {case.id: case for case in plan.cases}
    conditions = {condition.name: condition for condition in plan.conditions}
    grading = {case.id: _grading(plan, case) for case in plan.cases}
    return {
        key: Address(_answer(plan, cases[key.case_id], conditions[key.condition], key), grading[key.case_id])
        for key in plan.trials()
    }


def _answer(plan: Plan, case: Case, condition: Condition, key: TrialKey) -> str:
    """A hash over the runner and its version, the model, the sampling, the prompt and the system text."""
    settings = plan.settings
    request = plan.request(case, condition, key)
    return _digest(
        settings.runner.name,
        settings.runner.version,
        settings.runner.place,
        settings.runner.resolve_model(settings.model),
        *(request.prompt, request.system, request.max_tokens, request.seed, request.sampled, key.trial),
    )


def _grading(plan: Plan, case: Case) -> str:
    """A hash over the case's checks, and the judge where one of them needs it."""
    content: list[Any] = [str(check) for check in case.checks]
    if any(check.kind == "judge" for check in case.checks):
        settings = plan.settings
        judge = settings.judge_runner
        content += [judge.name, judge.resolve_model(settings.judge_model), settings.judge_n, prompt_hash()]
    return _digest(*content)


def _digest(*content: Any) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def reusable(wanted: Mapping[TrialKey, Address], runs: Path) -> Iterator[tuple[TrialKey, dict[str, Any]]]:
    """The newest measured trial of any run under `runs` with each answer, and the run it comes from.

    A line whose `grading` is not the wanted one holds the answer alone: its grades are others.
    """
    by_answer = {address.answer: key for key, address in wanted.items()}
    for path in sorted(runs.glob("*/trials.jsonl"), reverse=True):
        for line in RunFolder(path.parent).lines():
            answer = line.get("address")
            if answer in by_answer and is_measured(line):
                key = by_answer.pop(answer)
                taken = {name: value for name, value in line.items() if name != "regraded"}  # paid for there
                yield key, {**taken, "reused": True, "from": line.get("from", path.parent.name), "attempt": 1}
        if not by_answer:
            return
