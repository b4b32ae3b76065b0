"""What a model can be given besides the skill and nothing: an earlier skill, a placebo, a part of the skill, any text.

A condition is known by its name alone (`KNOWN`), or has a text that the caller gives. Everything that is wrong is
found before a call is made; what needs no skill and no project even before they are read.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from .controls import visible
from .errors import InputError, LeavesRoot, Problem
from .git import git_output
from .paths import condition_stem, find_inside, shown
from .placebo import placebo
from .sections import NAME_LIMIT, WITHOUT, named_section, sections_of
from .skills import Skill, load_skill, read_skill

BASELINE, SKILL, PREVIOUS, PLACEBO = "baseline", "skill", "previous", "placebo"
CONDITIONS = (BASELINE, SKILL)
KNOWN = f"{BASELINE}, {SKILL}, {PREVIOUS}, {PREVIOUS}:<git revision or file>, {PLACEBO}, {WITHOUT}<heading>"

Given = Sequence[str | Mapping[str, str]] | Mapping[str, str | None]
"""How a caller names conditions: names, mappings of a name to its text, or one mapping (None: a known name)."""


@dataclass(frozen=True)
class Chosen:
    """The conditions of a run in their order, and the texts of those that are not to be looked up."""

    names: tuple[str, ...]
    texts: Mapping[str, str] = field(default_factory=dict)


def chosen(given: Given | Chosen) -> Chosen:
    """What a caller has chosen; raises InputError where it is none of the forms of `Given`."""
    if isinstance(given, Chosen):
        return given
    if problems := problems_of_conditions(given):
        raise InputError(problems)
    pairs = _pairs(given)
    return Chosen(tuple(name for name, _ in pairs), {name: text for name, text in pairs if text is not None})


def problems_of_conditions(given: Any) -> list[Problem]:
    """Everything that is wrong with conditions as they are named, before the skill is known."""
    if isinstance(given, Chosen):
        return []
    if isinstance(given, str) or not isinstance(given, Sequence | Mapping):
        return [Problem("conditions", f"is {given!r}: it is a list of names, or names with their texts")]
    if strange := [item for item in given if not isinstance(item, str | Mapping)]:
        return [Problem("conditions", f"{strange[0]!r} is neither a name nor a mapping of names to texts")]
    pairs = _pairs(given)
    problems = [problem for name, text in pairs for problem in _problems_of_one(name, text)]
    if not problems and (not pairs or len({name for name, _ in pairs}) < len(pairs)):
        problems = [Problem("conditions", "must name each condition once, and at least one")]
    return problems or _problems_of_stems([name for name, _ in pairs])


def _pairs(given: Any) -> list[tuple[Any, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    return [
        pair for item in given for pair in (item.items() if isinstance(item, Mapping) else [(item, None)])
    ]


def _problems_of_one(name: Any, text: Any) -> list[Problem]:
    if (
        not isinstance(name, str)
        or len(name) > NAME_LIMIT
        or name != " ".join(visible(name).split())
        or not name
    ):
        said = repr(name) if len(repr(name)) <= 2 * NAME_LIMIT else f"{repr(name)[: 2 * NAME_LIMIT]}…"
        what = f"{said} is no name: it has 1 to {NAME_LIMIT} characters that can be seen, on one line"
        return [Problem("conditions", what)]
    word, colon, rest = name.partition(":")
    if text is None:
        known = name in (*CONDITIONS, PREVIOUS, PLACEBO) or (word in (PREVIOUS, WITHOUT[:-1]) and rest)
        fix = f'use {KNOWN}, or give a text: {{"{visible(name)}": "…"}}'
        return [] if known else [Problem("conditions", f"unknown: {name!r}", fix)]
    if name in (*CONDITIONS, PREVIOUS, PLACEBO) or (colon and word in (PREVIOUS, WITHOUT[:-1])):
        return [Problem("conditions", f"{name!r} has a meaning of its own", "give the text another name")]
    if "/" in name or "\\" in name or name.startswith((".", "~")):
        return [Problem("conditions", f"{name!r} looks like a path", "use letters, digits, `-`, `_`")]
    if not isinstance(text, str) or not text.strip():
        return [Problem("conditions", f"{name!r} has no text", f"for no system text at all use {BASELINE}")]
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return [Problem("conditions", f"the text of {name!r} cannot be sent ({error.reason})")]
    return []


def _problems_of_stems(names: Sequence[str]) -> list[Problem]:
    stems: dict[str, str] = {}
    problems = []
    for name in names:
        stem = condition_stem(name).casefold()
        if stem in stems:
            what = f"{stems[stem]!r} and {name!r} would share transcript files"
            problems.append(Problem("conditions", what, "rename one of them, or run them apart"))
        stems.setdefault(stem, name)
    return problems


@dataclass(frozen=True)
class Project:
    """Where conditions look things up: the set's folder, the root that nothing may leave, and the skill."""

    folder: Path
    root: Path
    skill: Skill


def systems_of(choice: Chosen, project: Project, baseline: str | None) -> dict[str, str | None]:
    """The system text of each condition, in their order; None for none at all.

    Raises InputError with everything that cannot be looked up.
    """
    systems: dict[str, str | None] = {}
    problems: list[Problem] = []
    for name in choice.names:
        try:
            known = choice.texts.get(name)
            systems[name] = _looked_up(name, project, baseline) if known is None else known
        except InputError as error:
            problems += error.problems
    if problems:
        raise InputError(problems)
    return systems


def alike(systems: Mapping[str, str | None]) -> list[str]:
    """A sentence on every condition that gives the model what an earlier one gives it."""
    seen: dict[str, str] = {}
    sentences = []
    for name, system in systems.items():
        text = (system or "").strip()
        if text in seen:
            hint = "; name an earlier version, such as previous:HEAD~1" if name == PREVIOUS else ""
            same = f"{name} and {seen[text]} are the same text, so only chance can tell them apart{hint}"
            sentences.append(same)
        seen.setdefault(text, name)
    return sentences


def _looked_up(name: str, project: Project, baseline: str | None) -> str | None:
    skill = project.skill
    if name == BASELINE:
        return baseline
    if name == SKILL:
        return skill.body
    if name == PLACEBO:
        return placebo(len(skill.body))
    if name.startswith(WITHOUT):
        return _without(name, skill)
    return _previous(name, project)


def _without(name: str, skill: Skill) -> str:
    wanted = name.removeprefix(WITHOUT)
    sections = sections_of(skill.body)
    found = named_section(sections, wanted)
    if found is None:
        several = sum(section.heading == wanted for section in sections)
        why = f"{several} headings read so" if several else "the skill has no such heading"
        labels = ", ".join(repr(section.label) for section in sections[:40])
        raise InputError(Problem(name, why, f"of {labels}" if labels else "it has no headings at all"))
    if not found.rest:
        raise InputError(Problem(name, "nothing of the skill is left without it", f"that is {BASELINE}"))
    return found.rest


def _previous(name: str, project: Project) -> str:
    """The body of another version of the skill: that of a file in the project, or of a git revision."""
    reference = name.removeprefix(PREVIOUS).removeprefix(":")
    file = _file(name, reference, project) if reference else None
    revision = reference or "HEAD"
    commit, why = _commit(revision, project)
    if file is not None and commit is not None:
        what = f"{reference!r} is a file and a git revision too"
        raise InputError(
            Problem(name, what, f"write {PREVIOUS}:./{reference}, or the revision in another form")
        )
    if file is not None:
        body = load_skill(file).body
    elif commit is not None:
        body = _at(name, revision, commit, project)
    else:
        no_file = f"{reference!r} is no file in the project, and" if reference else "HEAD is"
        what = f"{no_file} no git revision ({why})"
        raise InputError(Problem(name, what, "commit the skill first, or name a file"))
    if not body:
        raise InputError(Problem(name, "has no body, so it is the same as no skill", f"use {BASELINE}"))
    return body


def _file(name: str, reference: str, project: Project) -> Path | None:
    try:
        if PurePosixPath(reference).is_absolute() or PureWindowsPath(reference).drive:
            raise LeavesRoot(reference)
        return find_inside(reference, project.folder, project.root)
    except LeavesRoot:
        what = "leads outside the project's root, or is an absolute path"
        raise InputError(Problem(name, what, "name a file in the project, or a git revision")) from None
    except (ValueError, OSError):
        return None  # what cannot be a path may be a revision


def _commit(revision: str, project: Project) -> tuple[str | None, str]:
    """The commit that a revision names, or None and why there is none."""
    asked = ("rev-parse", "--verify", "--end-of-options", f"{revision}^{{commit}}")
    try:
        return git_output(project.skill.path.resolve().parent, *asked).decode().split()[-1], ""
    except OSError:
        return None, "git cannot be run here"
    except subprocess.TimeoutExpired:
        return None, "git did not answer in time"
    except subprocess.CalledProcessError as error:
        lines = visible(error.stderr.decode("utf-8", "replace")).split("\n")
        return None, next((line for line in lines if line.strip()), "git gave no reason")


def _at(name: str, revision: str, commit: str, project: Project) -> str:
    """The skill's body at a commit."""
    path = project.skill.path.resolve()
    try:
        blob = git_output(path.parent, "cat-file", "blob", f"{commit}:./{path.name}")
        return read_skill(blob.decode("utf-8-sig"), path).body
    except UnicodeDecodeError as error:
        what = f"the skill was not UTF-8 text at {revision} (byte {error.start})"
    except (OSError, subprocess.SubprocessError):
        what = f"git has no {shown(path, project.root)} at {revision} (commit {commit[:10]})"
    raise InputError(Problem(name, what, "commit the skill first, or name a file"))
