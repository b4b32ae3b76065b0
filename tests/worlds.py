"""Small projects on disk for tests: a root, a skill and a set, written for the test at hand."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

BODY = "Answer with the word MAGIC."
SKILL = f"---\nname: magic\ndescription: Says the magic word.\n---\n\n{BODY}\n"


def check(kind: str = "includes", pattern: str = "magic", **more: Any) -> dict[str, Any]:
    """A pattern check."""
    return {"kind": kind, "pattern": pattern, **more}


def judged(rubric: str = "The answer holds a magic word.") -> dict[str, Any]:
    """A judge check."""
    return {"kind": "judge", "rubric": rubric}


def case(identifier: str, *checks: dict[str, Any], prompt: str | None = None, **more: Any) -> dict[str, Any]:
    """A case; its prompt names it."""
    return {
        "id": identifier,
        "prompt": prompt or f"Task {identifier}.",
        "assert": list(checks or (check(),)),
        **more,
    }


def project(root: Path, *cases: dict[str, Any], name: str = "magic", skill: str = SKILL, **top: Any) -> Path:
    """A project with one skill and one set; returns the set's path."""
    (root / "pyproject.toml").touch()
    (root / "skills" / "magic").mkdir(parents=True, exist_ok=True)
    (root / "skills" / "magic" / "SKILL.md").write_text(skill, encoding="utf-8")
    (root / "sets").mkdir(exist_ok=True)
    path = root / "sets" / f"{name}.json"
    content = {"skill": "skills/magic/SKILL.md", **top, "cases": list(cases or (case("one"),))}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path
