"""Reading a set file: everything that is wrong with it at once, with its place, before anything is run."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .cases import Case, Check, EvalSet, JudgeCheck, PatternCheck
from .errors import LeavesRoot, PatternError, Problem, SetError
from .paths import file_stem, find_inside, project_root, shown
from .patterns import compile_pattern

if TYPE_CHECKING:
    from pydantic import BaseModel, ValidationError

ID_LIMIT = 120
DIALECTS = ("js", "python")
PATTERN_KINDS = ("includes", "excludes", "verdict")
KINDS = (*PATTERN_KINDS, "judge")


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
    file = Path(path)
    if not file.is_absolute() and not file.exists():  # from a notebook's folder the project's root is meant
        file = next((p for p in (project_root(Path.cwd()) / file,) if p.exists()), file)
    where = str(path)
    report = _Report(where)
    raw = _parse(file, where, report)
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
    cases = tuple(_cases(raw, report, notes))
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


class _Report:
    """Collects problems, one a place."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: dict[str, Problem] = {}

    def add(self, place: str, what: str, fix: str = "") -> None:
        where = f"{self.where} → {place}" if place else self.where
        self.problems.setdefault(f"{where}\0{what}", Problem(where, what, fix))

    def raise_if_any(self) -> None:
        if self.problems:
            raise SetError(self.problems.values())


def _parse(file: Path, where: str, report: _Report) -> dict[str, Any]:
    """The file as JSON with one object on top."""
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            what = f"not UTF-8 text (byte {error.start})"
            raise SetError(Problem(where, what, "save it as UTF-8")) from None
        what = f"no set can be read here ({getattr(error, 'strerror', None) or error})"
        raise SetError(Problem(where, what, f"check the path; looked from {Path.cwd()}")) from None

    def refuse_constant(word: str) -> Any:
        raise SetError(Problem(where, f"not valid JSON: {word} is not a number"))

    def refuse_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            keys = [key for key, _ in pairs]
            twice = next(key for key in keys if keys.count(key) > 1)
            report.add("", f"the key {twice!r} stands twice in one object: one of the two would be lost")
        return found

    try:
        raw = json.loads(text, parse_constant=refuse_constant, object_pairs_hook=refuse_repeats)
    except json.JSONDecodeError as error:
        raise SetError(
            Problem(f"{where}:{error.lineno}:{error.colno}", f"not valid JSON: {error.msg}")
        ) from None
    except RecursionError:
        raise SetError(Problem(where, "nested too deeply to be a set")) from None
    except ValueError as error:  # a number too long to be read
        raise SetError(Problem(where, f"not valid JSON: {error}")) from None
    if not isinstance(raw, dict):
        raise SetError(
            Problem(where, f"a set is an object with `skill` and `cases`, this is a {_named(raw)}")
        )
    return raw


def _named(value: Any) -> str:
    names = {dict: "object", list: "list", str: "text", bool: "true/false", int: "number", float: "number"}
    return names.get(type(value), "null")


def _kind(raw: Mapping[str, Any], report: _Report) -> str:
    """The kind of set by its shape; only gate sets can be loaded so far."""
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

    from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

    text = Annotated[str, StringConstraints(strip_whitespace=False, pattern=r"\S")]
    config = ConfigDict(strict=True, extra="allow")

    class PatternItem(BaseModel):
        model_config = config
        kind: Literal["includes", "excludes", "verdict"]
        pattern: Annotated[str, Field(min_length=1)]
        flags: str | None = None

    class JudgeItem(BaseModel):
        model_config = config
        kind: Literal["judge"]
        rubric: text

    item = Annotated[PatternItem | JudgeItem, Field(discriminator="kind")]

    class CaseItem(BaseModel):
        model_config = config
        id: text | int
        prompt: text

    fields: Any = {"checks": (Annotated[list[item], Field(min_length=1, alias="assert")], ...)}
    case = create_model("GateCase", __base__=CaseItem, **fields)

    class GateSet(BaseModel):
        model_config = config
        skill: text | None = None
        model: text | None = None
        regex: Literal["js", "python"] = "js"
        max_tokens: Annotated[int, Field(gt=0)] | None = None
        cases: list[case]  # type: ignore[valid-type]

    return GateSet


def _shape(raw: Mapping[str, Any], report: _Report) -> BaseModel | None:
    """Checks types and required keys."""
    from pydantic import ValidationError

    try:
        return _models().model_validate(raw)
    except ValidationError as error:
        _explain(error, report)
        return None


def _explain(error: ValidationError, report: _Report) -> None:
    """Pydantic's errors as places and words that the author of a set knows."""
    seen = set()
    for item in error.errors(include_url=False):
        place = ""
        for part in item["loc"]:
            if isinstance(part, int):
                place += f"[{part}]"
            elif part not in (*KINDS, "str", "int") and not str(part).startswith("constrained"):
                place += f".{part}" if place else part
        if place in seen:  # the other branches of a union say the same again
            continue
        seen.add(place)
        what, fix = _words(item["type"], item.get("ctx", {}), item["input"], item["msg"])
        report.add(place, what, fix)


def _words(kind: str, ctx: Mapping[str, Any], value: Any, message: str) -> tuple[str, str]:
    wants = {
        "string_type": "text",
        "list_type": "a list",
        "int_type": "a whole number",
        "model_type": "an object",
        "dict_type": "an object",
        "model_attributes_type": "an object",
    }
    if kind == "missing":
        return "missing", "add it"
    if kind in wants:
        return f"must be {wants[kind]}, is {_named(value)}: {_clip(value)}", ""
    if kind in ("string_pattern_mismatch", "string_too_short"):
        return "is empty", "write the text"
    if kind == "too_short":
        return (
            "is empty: a case needs at least one check",
            "add a check that the skill's behaviour should pass",
        )
    if kind == "union_tag_invalid":
        return f"unknown kind {ctx.get('tag')!r} of check", f"use one of {', '.join(KINDS)}"
    if kind == "union_tag_not_found":
        return "a check needs a `kind`", f"use one of {', '.join(KINDS)}"
    if kind == "greater_than":
        return f"must be more than {ctx.get('gt')}, is {_clip(value)}", ""
    if kind == "literal_error":
        return f"must be {ctx.get('expected')}, is {_clip(value)}", ""
    return f"{message}: {_clip(value)}", ""


def _clip(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}…"


KNOWN: Mapping[str, frozenset[str]] = {
    "set": frozenset({"skill", "model", "regex", "max_tokens", "cases", "difficultyBasis"}),
    "case": frozenset({"id", "prompt", "difficulty", "assert"}),
    "pattern": frozenset({"kind", "pattern", "flags"}),
    "judge": frozenset({"kind", "rubric"}),
}


def _unknown_keys(raw: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Every key that the format does not have, with the place it stands in."""
    found = [("", key) for key in raw if key not in KNOWN["set"]]
    for index, case in enumerate(_list(raw.get("cases"))):
        if not isinstance(case, dict):
            continue
        found += [(f"cases[{index}].", key) for key in case if key not in KNOWN["case"]]
        for number, check in enumerate(_list(case.get("assert"))):
            if isinstance(check, dict) and check.get("kind") in KINDS:
                known = KNOWN["judge" if check["kind"] == "judge" else "pattern"]
                found += [(f"cases[{index}].assert[{number}].", key) for key in check if key not in known]
    return found


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _cases(raw: Mapping[str, Any], report: _Report, notes: list[str]) -> list[Case]:
    """The cases that can be made; what cannot is already, or gets, reported."""
    dialect = raw.get("regex", "js")
    ids = _Identifiers(report, notes)
    cases = []
    for index, item in enumerate(_list(raw.get("cases"))):
        if not isinstance(item, dict):
            continue
        place = f"cases[{index}]"
        identifier = item.get("id")
        if isinstance(identifier, int) and not isinstance(identifier, bool):
            notes.append(f"{place}.id: the number {identifier} is read as text")
            identifier = str(identifier)
        if isinstance(identifier, str):
            ids.check(identifier, f"{place}.id")
        checks = [
            check
            for number, assertion in enumerate(_list(item.get("assert")))
            if (check := _check(assertion, dialect, f"{place}.assert[{number}]", report.add)) is not None
        ]
        difficulty = _difficulty(item.get("difficulty"), f"{place}.difficulty", notes)
        cases.append(Case(str(identifier), str(item.get("prompt")), tuple(checks), difficulty, item))
    return cases


def _check(item: Any, dialect: Any, place: str, add: Callable[[str, str, str], None]) -> Check | None:
    if not isinstance(item, dict):
        return None
    if item.get("kind") == "judge":
        return JudgeCheck(item["rubric"]) if isinstance(item.get("rubric"), str) else None
    pattern, flags = item.get("pattern"), item.get("flags")
    if not isinstance(pattern, str) or not isinstance(flags, str | None):
        return None
    if item.get("kind") not in PATTERN_KINDS or dialect not in DIALECTS:
        return None
    try:
        return PatternCheck(item["kind"], compile_pattern(pattern, flags, dialect))
    except PatternError as error:
        for problem in error.problems:
            add(f"{place}.pattern", problem.what, problem.fix)
        return None


def _difficulty(value: Any, place: str, notes: list[str]) -> int | None:
    """1, 2 or 3; anything else counts as untagged, as it does for the origin's own tools."""
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (1, 2, 3):
        return int(value)
    if value is not None:
        notes.append(f"{place}: {_clip(value)} is not 1, 2 or 3, so the case counts as untagged")
    return None


class _Identifiers:
    """Case ids must differ, also as file names, and must not look like paths."""

    def __init__(self, report: _Report, notes: list[str]) -> None:
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


def _skill(reference: str | None, file: Path, root: Path, report: _Report, notes: list[str]) -> Path | None:
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
