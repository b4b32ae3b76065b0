"""A set of cases as the rest of the package sees it, whatever file it came from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
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


@dataclass(frozen=True, slots=True)
class RegexCheck:
    """A regular expression over the whole answer that must be found, or where `negated` must not; `kind` is `regex`."""

    pattern: Pattern
    negated: bool = False
    kind: str = "regex"


@dataclass(frozen=True, slots=True)
class TextCheck:
    """Plain text: `contains`, `icontains` (case ignored), `equals` or `starts_with` (both after trimming)."""

    kind: str
    value: str
    negated: bool = False


@dataclass(frozen=True, slots=True)
class JsonCheck:
    """The answer is JSON, valid against `schema` (a JSON Schema as JSON text) where there is one; `kind` is `json`."""

    schema: str | None = None
    negated: bool = False
    kind: str = "json"


@dataclass(frozen=True, slots=True)
class SizeCheck:
    """How many `lines` or `words` the answer may have; None: no limit on that side."""

    kind: str
    least: int | None = None
    most: int | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class FileCheck:
    """A file that a suite's trial left: `file_exists`, or `file_contains` with the text `value`."""

    kind: str
    path: str
    value: str | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class RouteCheck:
    """The skill that the host must reach for, or where `negated` must not; `kind` is `trigger`.

    `skill` is a name; `*` stands for any skill. With `pattern` True it is a regular expression over the name.
    """

    skill: str
    negated: bool = False
    pattern: bool = False
    kind: str = "trigger"


@dataclass(frozen=True, slots=True)
class UnsupportedCheck:
    """A check of another tool that is not run here: its own `kind`, `raw` as JSON text, and `why` it is not."""

    kind: str
    raw: str
    why: str


Check = (
    PatternCheck
    | JudgeCheck
    | RegexCheck
    | TextCheck
    | JsonCheck
    | SizeCheck
    | FileCheck
    | RouteCheck
    | UnsupportedCheck
)
"""Values: equal, and with the same `str`, only where they check the same."""

_SHOWN_CHARS = 80


def check_text(check: Check) -> str:
    """A check on one line for people, clipped: `includes /x/i`, `not contains "foo"`, `judge: …`."""
    negation = "not " if getattr(check, "negated", False) else ""
    return f"{negation}{check.kind}{_detail(check)}"


def _detail(check: Check) -> str:
    match check:
        case PatternCheck(pattern=pattern) | RegexCheck(pattern=pattern):
            return f" {pattern}" + (" (python)" if pattern.dialect == "python" else "")
        case JudgeCheck(rubric=rubric):
            return f": {clip_line(rubric)}"
        case TextCheck(value=value):
            return f" {_quoted(value)}"
        case JsonCheck(schema=schema):
            return "" if schema is None else f" with schema {clip_line(schema)}"
        case SizeCheck(least=None, most=most):
            return f" at most {most}"
        case SizeCheck(least=least, most=None):
            return f" at least {least}"
        case SizeCheck(least=least, most=most):
            return f" {least} to {most}"
        case FileCheck(path=path, value=None):
            return f" {_quoted(path)}"
        case FileCheck(path=path, value=value):
            return f" {_quoted(path)} with {_quoted(value or '')}"
        case RouteCheck(skill=skill):
            return f" {_quoted(skill)}"
        case UnsupportedCheck():
            return " (never run here)"


def _quoted(text: str) -> str:
    return f'"{clip_line(text)}"'


def clip_line(text: str) -> str:
    """The beginning of `text` on one line, with nothing in it that steers a terminal."""
    line = " ".join(text[: 4 * _SHOWN_CHARS].split())
    line = line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in line)


@dataclass(frozen=True, slots=True)
class CaseFile:
    """A file that a suite's case comes with: `path` as the set has it, `found` where it is.

    `content` is its text where the set itself holds it; `found` is then None.
    """

    path: str
    found: Path | None = None
    content: str | None = None


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt with its checks; `difficulty` is 1, 2, 3 or None (untagged), `raw` the file's own words.

    `cluster` names the cases that are variants of one another, `split` the part of the set that a case is in
    (such as `heldout`); None: the file says nothing. `name` is a suite's own name for the case, `files` what it
    comes with.
    """

    id: str
    prompt: str
    checks: tuple[Check, ...]
    difficulty: int | None = None
    raw: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    cluster: str | None = None
    split: str | None = None
    name: str | None = None
    files: tuple[CaseFile, ...] = ()


@dataclass(frozen=True)
class EvalSet:
    """A loaded set.

    `skill_ref` is the path as the file gives it, `skill_path` where it was found (None: not there).
    `notes` are things worth knowing that are not errors: unknown keys kept, untagged difficulties, a
    missing skill. `root` is the project's root, which `runs_dir` is relative to. `raw` is the whole file.
    `kind` is `eval` (a gate set), `trigger` or `suite`; `skill_name` the name of the skill that a trigger set or a
    suite is about.
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
    skill_name: str | None = None

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


def _fields(check: Check) -> list[str] | dict[str, Any]:
    """What decides a check; that of the seed's kinds stands in logs already."""
    if isinstance(check, JudgeCheck):
        return [check.kind, check.rubric]
    if isinstance(check, PatternCheck):
        return [check.kind, check.pattern.dialect, check.pattern.flags, check.pattern.source]
    return asdict(check)
