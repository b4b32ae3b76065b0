"""The set that stored answers are graded by: the run's own cases, with the checks that hold now."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from .cases import Case, EvalSet
from .checks import CheckReader
from .comparable import named
from .errors import InputError, Problem
from .paths import project_root
from .sets import load_set
from .shapes import clip

Checks = Mapping[str, Sequence[Mapping[str, Any]]]


def cases_of_run(
    header: Mapping[str, Any], edits: Checks | None = None, notes: list[str] | None = None
) -> dict[str, Case]:
    """The cases of a run as its header keeps them, with edited checks where there are any.

    What is worth knowing of the checks, such as a key that no check has, goes to `notes`.
    Raises InputError with every check that cannot be read.
    """
    problems: list[Problem] = []
    unknown: list[str] = []
    said: list[str] = [] if notes is None else notes

    def add(place: str, what: str, fix: str = "") -> None:
        problems.append(Problem(place, what, fix))

    reader = CheckReader(
        header.get("regex", "js"), add, said.append, lambda place, key: unknown.append(place + key)
    )
    cases = {}
    for item in header["cases"]:
        name = str(item["id"])
        raw: Any = (edits or {}).get(name, item["checks"])
        raw = list(raw) if isinstance(raw, tuple) else raw
        checks = reader.read(raw, f"checks → {name}")
        known = {"difficulty": item.get("difficulty"), "cluster": item.get("cluster")}
        cases[name] = Case(name, item["prompt"], checks, raw={"assert": raw}, **known)
    reader.finish()
    if problems:  # beside another error an unknown key may be the cause: a misspelt one
        raise InputError(
            [*problems, *(Problem(key, "unknown key", "correct or remove it") for key in unknown)]
        )
    said += [f"{key}: unknown key, kept and not used" for key in unknown]
    return cases


def set_to_grade(
    header: Mapping[str, Any], folder: Path, checks: Checks | EvalSet | str | Path | None
) -> EvalSet:
    """The run's set with edited checks, or with those of a changed set; the run's own where `checks` is None.

    Raises InputError where they do not fit the answers.
    """
    stored = cases_of_run(header)
    root = project_root(folder.parent)
    base = EvalSet(
        kind="eval",
        name=str(header["set"]),
        path=root / str(header.get("setPath") or f"{header['set']}.json"),
        root=root,
        cases=tuple(stored.values()),
        skill_ref=header.get("skill"),
        max_tokens=(header.get("settings") or {}).get("setMaxTokens"),
        raw={"regex": header.get("regex", "js")},
    )
    if checks is None:
        return base
    given: Any = checks
    if not isinstance(given, Mapping | EvalSet | str | Path):
        what = f"is {clip(given)}: it is a changed set, or a mapping of case ids to their checks"
        raise InputError(
            Problem("checks", what, 'such as {"my-case": [{"kind": "includes", "pattern": "…"}]}')
        )
    if not isinstance(checks, Mapping):
        changed = checks if isinstance(checks, EvalSet) else load_set(checks)
        cases = _matched(stored, changed)
        limit = changed.max_tokens
        said = (*changed.notes, *_left_out(stored, changed))
        return replace(base, cases=cases, raw=changed.raw, max_tokens=limit, notes=said)
    if unknown := [name for name in checks if name not in stored]:
        known = ", ".join(list(stored)[:20])
        raise InputError(
            Problem("checks", f"no such case: {', '.join(map(repr, unknown))}", f"it has {known}")
        )
    notes: list[str] = []
    cases = tuple(cases_of_run(header, checks, notes).values())
    return replace(base, cases=cases, notes=tuple(notes))


def _left_out(stored: Mapping[str, Case], changed: EvalSet) -> list[str]:
    """Which cases are not graded, as only one side has them."""
    ids = [case.id for case in changed.cases]
    sides = {
        "the changed set has them not": [name for name in stored if name not in ids],
        "the run has not answered them": [name for name in ids if name not in stored],
    }
    return [f"left out, as {why}: {named(names)}" for why, names in sides.items() if names]


def _matched(stored: Mapping[str, Case], changed: EvalSet) -> tuple[Case, ...]:
    """The changed set's cases that the run has answered."""
    problems = [
        Problem(
            f"{changed.name} → {case.id}", "its prompt is not the one that was answered", "run the set anew"
        )
        for case in changed.cases
        if case.id in stored and stored[case.id].prompt != case.prompt
    ]
    cases = tuple(case for case in changed.cases if case.id in stored)
    if not cases and not problems:
        problems = [Problem(changed.name, "has none of the cases that the run has answered")]
    if problems:
        raise InputError(problems)
    return cases
