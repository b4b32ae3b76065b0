"""Run folders written by hand, so that a test says exactly which trials a run holds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from worlds import case as set_case
from worlds import check

P, F = "passed", "failed"
RUN = "20261130T181500Z-magic"


def case(identifier: str, *checks: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A case as run.json holds it."""
    made = set_case(identifier, *(checks or (check(),)), **more)
    return {"difficulty": 1, **made, "checks": made.pop("assert")}


def grade(kind: str = "includes", passed: bool | None = True, **more: Any) -> dict[str, Any]:
    """A check's line."""
    return {"kind": kind, "passed": passed, **more}


def line(
    identifier: str,
    condition: str,
    outcome: str = P,
    text: str | None = "an answer",
    trial: int = 1,
    **more: Any,
) -> dict[str, Any]:
    """A trial's line; without a text it has no answer."""
    made = {
        "caseId": identifier, "condition": condition, "trial": trial, "attempt": 1, "outcome": outcome, "calls": 1,
        "model": "m-1", "stopReason": "end_turn", "tokens": [10, 5, None, None], "latencyS": 1.0,
        "checks": [grade(passed=outcome == P)] if outcome in (P, F) else [],
    }  # fmt: skip
    return {**made, **({} if text is None else {"text": text}), **more}


def write_run(
    root: Path,
    cases: Sequence[Mapping[str, Any]],
    lines: Sequence[Mapping[str, Any]],
    run: str = RUN,
    **more: Any,
) -> Path:
    """A run's folder under root/runs, as a finished run leaves it; its path."""
    folder = root / "runs" / run
    folder.mkdir(parents=True)
    (root / "pyproject.toml").touch()
    header = {
        "schema": 1, "kind": "eval", "runId": run, "ts": "2026-11-30T18:15:00.000Z", "set": "magic",
        "skill": "skills/magic/SKILL.md", "model": "m", "judgeModel": None, "n": 1, "setHash": "a", "skillHash": "b",
        "judgeHash": None, "runner": "scripted", "delivery": "inject", "dir": f"runs/{run}", "warnings": [],
        "conditions": ["baseline", "skill"], "systems": {"baseline": None, "skill": "Say magic."}, "arguments": {},
        "cases": list(cases), **more,
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(header), encoding="utf-8")
    text = "".join(json.dumps(line) + "\n" for line in lines)  # ASCII: lone surrogates too
    (folder / "trials.jsonl").write_text(text, encoding="utf-8")
    return folder


def both(identifier: str, before: str, after: str, **more: Any) -> list[dict[str, Any]]:
    """One trial a condition, with these outcomes."""
    return [line(identifier, "baseline", before, **more), line(identifier, "skill", after, **more)]
