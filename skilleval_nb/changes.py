"""What grading the same answers anew has changed: each check's grade before and after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .values import Grade


def before_line(grade: Grade) -> dict[str, Any]:
    """The grade that a new one takes the place of, as it stands inside the new one's line."""
    values = {
        "passed": grade.passed,
        "evidence": grade.evidence,
        "judgeModel": grade.judge_model,
        "judgeHash": grade.judge_hash,
    }
    return {name: value for name, value in values.items() if value is not None or name == "passed"}


CHANGES = {
    "case_id": str,
    "condition": str,
    "trial": int,
    "check": int,
    "kind": str,
    "new": bool,
    "before": bool,
    "after": bool,
    "changed": bool,
    "graded_anew": bool,
    "before_evidence": str,
    "after_evidence": str,
    "before_judge": str,
    "after_judge": str,
}
"""The columns of the rows below."""


def change_rows(lines: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One row a check of a trial: its grade before and after, and who gave it; None is not decided, or new."""
    return [
        {
            "case_id": line["caseId"],
            "condition": line["condition"],
            "trial": line["trial"],
            "check": number,
            "kind": check.get("kind"),
            "new": "before" not in check,
            "before": (old := check.get("before") or {}).get("passed"),
            "after": check.get("passed"),
            "changed": "before" in check and old.get("passed") is not check.get("passed"),
            "graded_anew": not check.get("kept", False),
            "before_evidence": old.get("evidence"),
            "after_evidence": check.get("evidence"),
            "before_judge": old.get("judgeModel"),
            "after_judge": check.get("judgeModel"),
        }
        for line in lines
        for number, check in enumerate(line.get("checks", ()), 1)
    ]


def change_counts(rows: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """How many grades were made anew and what became of them, as a regrade's record holds it."""
    rows = list(rows)
    judged = [row for row in rows if row["kind"] == "judge"]
    moved = [row for row in rows if row["changed"]]
    return {
        "checks": len(rows),
        "newChecks": sum(row["new"] for row in rows),
        "judged": sum(row["graded_anew"] for row in judged),
        "kept": sum(not row["graded_anew"] for row in judged),
        "toPass": sum(row["after"] is True for row in moved),
        "toFail": sum(row["after"] is False for row in moved),
        "toUndecided": sum(row["after"] is None for row in moved),
        "changed": [
            [row["case_id"], row["condition"], row["trial"], row["check"], row["before"], row["after"]]
            for row in moved
        ],
    }
