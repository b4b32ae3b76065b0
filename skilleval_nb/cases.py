"""A set of cases as the rest of the package sees it, whatever file it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from .patterns import Pattern


@dataclass(frozen=True, slots=True)
class PatternCheck:
    """A regular expression over the answer: `includes`, `excludes`, or `verdict` (its first line only)."""

    kind: str
    pattern: Pattern


@dataclass(frozen=True, slots=True)
class JudgeCheck:
    """A rubric that a judge model decides; `kind` is `judge`."""

    rubric: str
    kind: str = "judge"


Check = PatternCheck | JudgeCheck


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with its checks; `difficulty` is 1, 2, 3 or None (untagged), `raw` the file's own words."""

    id: str
    prompt: str
    checks: tuple[Check, ...]
    difficulty: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)


@dataclass(frozen=True)
class EvalSet:
    """A loaded set.

    `skill_ref` is the path as the file gives it, `skill_path` where it was found (None: not there).
    `notes` are things worth knowing that are not errors: unknown keys kept, untagged difficulties, a
    missing skill. `root` is the project's root, which `runs_dir` is relative to. `raw` is the whole file.
    """

    kind: str
    name: str
    path: Path
    root: Path
    cases: tuple[Case, ...]
    skill_ref: str | None = None
    skill_path: Path | None = None
    model: str | None = None
    max_tokens: int | None = None
    notes: tuple[str, ...] = ()
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @cached_property
    def hash(self) -> str:
        """16 hex digits over all that decides a result: ids, prompts, checks and the answer's length limit."""
        content = [self.kind, self.max_tokens, [[c.id, c.prompt, c.checks] for c in self.cases]]
        text = json.dumps(content, default=_fields, ensure_ascii=True, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def judge_checks(self) -> int:
        """How many checks need a judge, over all cases."""
        return sum(isinstance(check, JudgeCheck) for case in self.cases for check in case.checks)

    def __repr__(self) -> str:
        """Short enough for a cell's output."""
        checks = sum(len(case.checks) for case in self.cases)
        counts = f"{len(self.cases)} cases, {checks} checks"
        counts += f", {len(self.notes)} notes" if self.notes else ""
        return f"EvalSet({self.name!r}, {self.kind}, {counts}, skill={self.skill_ref!r})"


def _fields(check: Check) -> list[str]:
    if isinstance(check, JudgeCheck):
        return [check.kind, check.rubric]
    return [check.kind, check.pattern.dialect, check.pattern.flags, check.pattern.source]
