"""What a run's trials took, by role and condition: calls, tokens, price and time, each only where it is known."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .values import Usage


def ledger(attempts: Sequence[Mapping[str, Any]], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """The token ledger, one row a role and condition, attempts before a resume included.

    `asked` counts trials or judgements, `reported` those whose tokens are known, `calls` retries too.
    """
    rows = []
    for role in ("executor", "judge"):
        for condition in conditions:
            spent = [
                entry
                for line in attempts
                if line["condition"] == condition
                for entry in (_judged(line) if role == "judge" else _answered(line))
            ]
            if not spent and role == "judge":
                continue
            known = [Usage(*entry["tokens"]) for entry in spent if entry["tokens"]]
            costs = [entry["cost"] for entry in spent if entry["cost"] is not None]
            times = [entry["latency"] for entry in spent if entry["latency"] is not None]
            rows.append(
                {
                    "role": role,
                    "condition": condition,
                    "calls": sum(entry["calls"] for entry in spent),
                    "asked": len(spent),
                    "reported": len(known),
                    "tokens": sum(known[1:], known[0]).as_list() if known else None,
                    "costUsd": sum(costs) if costs else None,
                    "latencyS": round(sum(times), 4) if times else None,
                }
            )
    return rows


def _answered(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    if line.get("reused"):
        return []
    return [
        {
            "calls": line.get("calls", 1),
            "tokens": line.get("tokens"),
            "cost": line.get("costUsd"),
            "latency": line.get("latencyS"),
        }
    ]


def _judged(line: Mapping[str, Any]) -> list[dict[str, Any]]:
    if line.get("reused") and not line.get("regraded"):
        return []
    return [
        {
            "calls": check.get("judgeCalls", 1),
            "tokens": check.get("judgeTokens"),
            "cost": check.get("judgeCostUsd"),
            "latency": check.get("judgeLatencyS"),
        }
        for check in line.get("checks", ())
        if check.get("judgeModel") and not check.get("kept")
    ]
