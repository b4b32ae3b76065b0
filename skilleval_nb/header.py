"""A run's header: all that identifies it, known and written before its first call."""

from __future__ import annotations

import re
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import __version__
from .git import git_output
from .judge import prompt_hash
from .paths import shown
from .plan import Plan
from .record import SCHEMA
from .values import utc_now


def make_header(plan: Plan, run_id: str, runs: Path, *, skill_path: str | None = None) -> dict[str, Any]:
    """Everything that identifies a run, known before its first call; holds no key and no path outside the project.

    `skill_path` is where a resumed run finds the skill, if not where the set says.
    """
    settings, eval_set = plan.settings, plan.eval_set
    judged = any(check.kind == "judge" for case in plan.cases for check in case.checks)
    return {
        "schema": SCHEMA,
        "kind": eval_set.kind,
        "runId": run_id,
        "ts": utc_now(),
        "set": eval_set.name,
        "setPath": shown(eval_set.path, eval_set.root),
        "skill": eval_set.skill_ref,
        "model": settings.model,
        "judgeModel": settings.judge_model if judged else None,
        "n": settings.n,
        "setHash": eval_set.hash,
        "regex": eval_set.raw.get("regex", "js"),
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
        "draw": plan.draw,
        "maxDrop": settings.max_drop,
        "settings": {
            "timeoutS": settings.timeout_s,
            "concurrency": settings.concurrency,
            "maxTokens": plan.max_tokens,
            "setMaxTokens": eval_set.max_tokens,
            "maxCostUsd": settings.max_cost_usd,
            "maxTokensTotal": settings.max_tokens_total,
        },
        "warnings": [*settings.warnings, *eval_set.notes],
        "version": __version__,
        "git": git_state(eval_set.root),
        "dir": shown(runs / run_id, eval_set.root),
        "conditions": [condition.name for condition in plan.conditions],
        "systems": {condition.name: condition.system for condition in plan.conditions},
        "cases": [
            {
                "id": case.id,
                "prompt": case.prompt,
                "difficulty": case.difficulty,
                **({"cluster": case.cluster} if case.cluster else {}),
                "checks": [dict(check) for check in case.raw.get("assert", ())],
            }
            for case in plan.cases
        ],
        "arguments": {
            "runner": without_password(settings.runner_spec),
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
            "case_ids": [case.id for case in plan.cases] if len(plan.cases) < len(eval_set.cases) else None,
            "skill_path": skill_path,
            "draw": plan.draw,
        },
    }


def without_password(spec: str) -> str:
    """A runner's spec without the user and password that its base URL may hold."""
    return re.sub(r"//[^/@]*@", "//", spec)


def git_state(root: Path) -> dict[str, Any] | None:
    """The project's commit and whether tracked files differ from it; None outside a git checkout."""
    with suppress(OSError, subprocess.SubprocessError):
        changes = git_output(root, "status", "--porcelain", "--untracked-files=no")
        commit = git_output(root, "rev-parse", "HEAD").decode().strip()
        return {"commit": commit, "dirty": bool(changes.strip())}
    return None
