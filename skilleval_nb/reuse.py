"""Taking finished trials from earlier runs where nothing that decides a trial has changed.

A trial's address is a hash over all of it: runner and version, model, sampling, prompt, system text, checks and
judge. Only measured trials are taken, never errors, and each is marked as reused where it stands.
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
from .record import is_measured
from .values import TrialKey


def addresses(plan: Plan) -> dict[TrialKey, str]:
    """The address of every trial of a plan, 32 hex digits each."""
    cases = {case.id: case for case in plan.cases}
    conditions = {condition.name: condition for condition in plan.conditions}
    return {key: _address(plan, cases[key.case_id], conditions[key.condition], key) for key in plan.trials()}


def _address(plan: Plan, case: Case, condition: Condition, key: TrialKey) -> str:
    settings = plan.settings
    request = plan.request(case, condition, key)
    content: list[Any] = [
        [
            settings.runner.name,
            settings.runner.version,
            settings.runner.place,
            settings.runner.resolve_model(settings.model),
        ],
        [request.prompt, request.system, request.max_tokens, request.seed, request.sampled, key.trial],
        [str(check) for check in case.checks],
    ]
    if any(check.kind == "judge" for check in case.checks):
        judge = settings.judge_runner
        content.append(
            [judge.name, judge.resolve_model(settings.judge_model), settings.judge_n, prompt_hash()]
        )
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:32]


def reusable(wanted: Mapping[TrialKey, str], runs: Path) -> Iterator[tuple[TrialKey, dict[str, Any]]]:
    """The newest measured trial of any run under `runs` for each address, with the run it comes from."""
    by_address = {address: key for key, address in wanted.items()}
    for path in sorted(runs.glob("*/trials.jsonl"), reverse=True):
        for line in RunFolder(path.parent).lines():
            address = line.get("address")
            if address in by_address and is_measured(line):
                key = by_address.pop(address)
                yield key, {**line, "reused": True, "from": line.get("from", path.parent.name), "attempt": 1}
        if not by_address:
            return
