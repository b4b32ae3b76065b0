"""Reading a set file: everything that is wrong with it at once, with its place, before anything is run."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cases import Case, EvalSet
from .checks import CheckReader
from .errors import LeavesRoot
from .jsonfile import Report, located, parse_object
from .paths import file_stem, find_inside, project_root, shown
from .shapes import clip, explain, listed

if TYPE_CHECKING:
    from pydantic import BaseModel

ID_LIMIT = 120


def load_set(path: str | Path, strict: bool = False) -> EvalSet:  # noqa: FBT001, FBT002 - SPEC's signature
    """Reads a set file.

    Unknown keys are kept in `raw` and noted; with `strict` they are errors. A skill that is not where the
    file says is noted too: only running needs it.
    Raises SetError with every problem of the file, each as `path:line:column` or `path → cases[3].id`.
    """
    return _read(path, strict=strict, to_run=False)


def load_to_run(path: str | Path, *, strict: bool = False) -> EvalSet:
    """`load_set` for a set that is to be run: a skill that is not there is an error like the others."""
    return _read(path, strict=strict, to_run=True)


def _read(path: str | Path, *, strict: bool, to_run: bool) -> EvalSet:
    file = located(path)
    report = Report(str(path))
    raw = parse_object(file, report, "set", "a set is an object with `skill` and `cases`")
    kind = _kind(raw, report)
    model = _shape(raw, report)
    notes: list[str] = []
    unknown = _unknown_keys(raw)
    root = project_root(file.resolve().parent)
    skill_ref = raw.get("skill") if isinstance(raw.get("skill"), str) else None
    skill_path = _skill(skill_ref, file, root, report, notes)
    if to_run and skill_path is None:
        what = f"{skill_ref!r} was not found" if skill_ref else "the set names no skill"
        report.add("skill", what, "correct it, or give skill_path (--skill)")
    cases = tuple(_cases(raw, report, notes, unknown))
    for place, key in unknown:
        if strict or report.problems:  # beside another error it may be the cause: a misspelt key
            report.add(f"{place}{key}", "unknown key", "correct or remove it")
        else:
            notes.append(f"{place}{key}: unknown key, kept and not used")
    report.raise_if_any()
    assert model is not None
    return EvalSet(
        kind=kind,
        name=file.stem,
        path=file.resolve(),
        root=root,
        cases=cases,
        skill_ref=skill_ref,
        skill_path=skill_path,
        model=raw.get("model"),
        max_tokens=raw.get("max_tokens"),
        notes=tuple(notes),
        raw=raw,
    )


def _kind(raw: Mapping[str, Any], report: Report) -> str:
    """The kind of set by its shape; only gate sets can be loaded so far."""
    if raw.get("kind") == "calibration" and "cases" not in raw:
        report.add("", "this is a calibration set: it measures judges", "use se.calibrate_judge")
        report.raise_if_any()
    for key, name in (("prompts", "trigger set"), ("evals", "suite")):
        if key in raw and "cases" not in raw:
            report.add(
                "", f"this looks like a {name} (it has `{key}`); this version reads gate sets (`cases`)"
            )
            report.raise_if_any()
    return "eval"


@cache
def _models() -> type[BaseModel]:
    """The shape of a gate set (seed 000), made on first use: pydantic is not imported before."""
    from typing import Annotated, Literal

    from pydantic import BaseModel, ConfigDict, Field, StringConstraints

    text = Annotated[str, StringConstraints(strip_whitespace=False, pattern=r"\S")]
    config = ConfigDict(strict=True, extra="allow")

    class CaseItem(BaseModel):
        model_config = config
        id: text | int
        prompt: text
        checks: Annotated[Any, Field(alias="assert")]
        cluster: text | None = None
        group: text | None = None
        split: text | None = None

    class GateSet(BaseModel):
        model_config = config
        skill: text | None = None
        model: text | None = None
        regex: Literal["js", "python"] = "js"
        max_tokens: Annotated[int, Field(gt=0)] | None = None
        cases: list[CaseItem]

    return GateSet


def _shape(raw: Mapping[str, Any], report: Report) -> BaseModel | None:
    """Checks types and required keys."""
    from pydantic import ValidationError

    try:
        return _models().model_validate(raw)
    except ValidationError as error:
        explain(error, report.add)
        return None


KNOWN: Mapping[str, frozenset[str]] = {
    "set": frozenset({"skill", "model", "regex", "max_tokens", "cases", "difficultyBasis"}),
    "case": frozenset({"id", "prompt", "difficulty", "assert", "cluster", "group", "split"}),
}


def _unknown_keys(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every key of the set and its cases that the format does not have, with the place it stands in."""
    found = [("", key) for key in raw if key not in KNOWN["set"]]
    for index, case in enumerate(listed(raw.get("cases"))):
        if isinstance(case, dict):
            found += [(f"cases[{index}].", key) for key in case if key not in KNOWN["case"]]
    return found


def _cases(
    raw: Mapping[str, Any], report: Report, notes: list[str], unknown: list[tuple[str, str]]
) -> list[Case]:
    """The cases that can be made; what cannot is already, or gets, reported."""
    reader = CheckReader(
        raw.get("regex", "js"), report.add, notes.append, lambda place, key: unknown.append((place, key))
    )
    ids = _Identifiers(report, notes)
    cases = []
    for index, item in enumerate(listed(raw.get("cases"))):
        if not isinstance(item, dict):
            continue
        place = f"cases[{index}]"
        identifier = item.get("id")
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            notes.append(f"{place}.id: the number {identifier} is read as text")
            identifier = str(identifier)
        if isinstance(identifier, str):
            ids.check(identifier, f"{place}.id")
        cases.append(
            Case(
                id=str(identifier),
                prompt=str(item.get("prompt")),
                checks=reader.read(item["assert"], f"{place}.assert") if "assert" in item else (),
                difficulty=_difficulty(item.get("difficulty"), f"{place}.difficulty", notes),
                raw=item,
                cluster=_cluster(item, place, report),
                split=item.get("split"),
            )
        )
    reader.finish()
    return cases


def _cluster(item: Mapping[str, Any], place: str, report: Report) -> str | None:
    """The case's `cluster`, or `group`, which means the same."""
    names = [item[key] for key in ("cluster", "group") if isinstance(item.get(key), str)]
    if len(set(names)) > 1:
        report.add(f"{place}.group", f"{names[1]!r} is not the `cluster` {names[0]!r}", "keep one of the two")
    return names[0] if names else None


def _difficulty(value: Any, place: str, notes: list[str]) -> int | None:
    """1, 2 or 3; anything else counts as untagged, as it does for the origin's own tools."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (1, 2, 3):
        return int(value)
    if value is not None:
        notes.append(f"{place}: {clip(value)} is not 1, 2 or 3, so the case counts as untagged")
    return None


class _Identifiers:
    """Case ids must differ, also as file names, and must not look like paths."""

    def __init__(self, report: Report, notes: list[str]) -> None:
        self.report = report
        self.notes = notes
        self.seen: dict[str, str] = {}
        self.stems: dict[str, str] = {}

    def check(self, identifier: str, place: str) -> None:
        if identifier in self.seen:
            self.report.add(
                place,
                f"the id {identifier!r} is already that of {self.seen[identifier]}",
                "give each case its own",
            )
            return
        self.seen[identifier] = place.removesuffix(".id")
        if (
            ".." in identifier.replace("\\", "/").split("/")
            or identifier.startswith(("/", "\\"))
            or identifier == "."
        ):
            self.report.add(
                place, f"{identifier!r} is a path, not a name", "use letters, digits, `-`, `_`, `.`"
            )
            return
        if any(unicodedata.category(letter) in ("Cc", "Zl", "Zp") for letter in identifier):
            self.report.add(
                place, f"{identifier!r} holds control characters", "use letters, digits, `-`, `_`, `.`"
            )
            return
        if len(identifier) > ID_LIMIT:
            self.report.add(
                place, f"has {len(identifier)} characters; at most {ID_LIMIT} fit into a file name"
            )
        stem = file_stem(identifier)
        if stem in self.stems:
            self.report.add(
                place,
                f"{identifier!r} and {self.stems[stem]!r} would share the transcript file name {stem!r}",
                "rename one of them",
            )
        self.stems.setdefault(stem, identifier)


def _skill(reference: str | None, file: Path, root: Path, report: Report, notes: list[str]) -> Path | None:
    if not reference or not reference.strip():
        notes.append("the set names no skill: running it needs `skill_path`")
        return None
    try:
        found = find_inside(reference, file.resolve().parent, root)
    except LeavesRoot:
        report.add(
            "skill", f"{reference!r} leads outside the project's root {shown(root)}", "keep the skill inside"
        )
        return None
    except (ValueError, OSError) as error:
        report.add("skill", f"{reference!r} cannot be a path ({error})")
        return None
    if found is None:
        notes.append(f"skill: {reference!r} was not found from the set's folder up to the project's root")
    return found
