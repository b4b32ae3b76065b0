"""Reading checks: from the `assert` list of a case to typed values, with everything that is wrong said at once."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import PureWindowsPath
from typing import TYPE_CHECKING, Any

from .cases import (
    Check,
    FileCheck,
    JsonCheck,
    JudgeCheck,
    PatternCheck,
    RegexCheck,
    SizeCheck,
    TextCheck,
    UnsupportedCheck,
)
from .errors import InputError, PatternError, Problem
from .foreign import foreign
from .patterns import Pattern, check_schemas, compile_pattern
from .shapes import Add, explain, listed, wants

if TYPE_CHECKING:
    from pydantic import BaseModel

DIALECTS = ("js", "python")
INSTEAD_OF_NOT: Mapping[str, str] = {
    "includes": "use `excludes`",
    "excludes": "use `includes`",
    "verdict": "say it in the pattern: ^(?!…)",
    "judge": "say in the rubric what must not be",
}
"""The seed's kinds, which have no `not`, and what to write."""
TEXT_KINDS = ("contains", "icontains", "equals", "starts_with")
SIZE_KINDS = ("lines", "words")
FILE_KINDS = ("file_exists", "file_contains")
KINDS = (*INSTEAD_OF_NOT, "regex", *TEXT_KINDS, "json", *SIZE_KINDS, *FILE_KINDS)

LARGEST_SCHEMA_CHARS = 100_000
"""A schema goes to another process with every answer."""


@cache
def _shapes() -> Mapping[str, type[BaseModel]]:
    """The shape of each kind, made on first use: pydantic is not imported before."""
    from typing import Annotated, Literal

    from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

    class Item(BaseModel):
        model_config = ConfigDict(strict=True, extra="allow")
        kind: str

    def shape(base: type[BaseModel] = Item, **fields: Any) -> type[BaseModel]:
        return create_model("Check", __base__=base, **fields)

    some = Annotated[str, Field(min_length=1)]
    text = Annotated[str, StringConstraints(strip_whitespace=False, pattern=r"\S")]
    count = (Annotated[int, Field(ge=0)] | None, None)
    pattern = shape(pattern=(some, ...), flags=(str | None, None))
    negatable = shape(negated=(bool, Field(default=False, alias="not")))
    regex = shape(
        negatable,
        pattern=(some, ...),
        flags=(str | None, None),
        dialect=(Literal["js", "python"] | None, None),
    )
    schema = (dict[str, Any] | None, Field(default=None, alias="schema"))
    size = shape(negatable, min=count, max=count)
    return {
        "includes": pattern,
        "excludes": pattern,
        "verdict": pattern,
        "judge": shape(rubric=(text, ...)),
        "regex": regex,
        "contains": shape(negatable, value=(some, ...)),
        "icontains": shape(negatable, value=(some, ...)),
        "equals": shape(negatable, value=(text, ...)),
        "starts_with": shape(negatable, value=(text, ...)),
        "json": shape(negatable, schema_=schema),
        "lines": size,
        "words": size,
        "file_exists": shape(negatable, path=(text, ...)),
        "file_contains": shape(negatable, path=(text, ...), value=(some, ...)),
    }


@cache
def _known(kind: str) -> frozenset[str]:
    fields = _shapes()[kind].model_fields
    return frozenset(field.alias or name for name, field in fields.items())


def read_checks(
    raw: object,
    dialect: str,
    place: str,
    add: Add,
    note: Callable[[str], None] | None = None,
    *,
    suite: bool = False,
) -> tuple[Check, ...]:
    """The checks of one case; of several cases, `CheckReader` reads them with less work.

    `raw` is the case's `assert` value, `place` where it stands (`cases[3].assert`), `dialect` that of
    patterns which name none. Whatever is wrong goes to `add`, and the checks are then incomplete; what is worth
    knowing (unknown keys, a check that cannot be graded) goes to `note`. File checks are for a `suite` only.
    """
    reader = CheckReader(dialect, add, note, suite=suite)
    checks = reader.read(raw, place)
    reader.finish()
    return checks


class CheckReader:
    """Reads the checks of a set's cases: `read` for each case, then `finish` once.

    `unknown` is told the place and the name of each unknown key; without it they are noted.
    """

    def __init__(
        self,
        dialect: str,
        add: Add,
        note: Callable[[str], None] | None = None,
        unknown: Callable[[str, str], None] | None = None,
        *,
        suite: bool = False,
    ) -> None:
        self._dialect = dialect
        self._add = add
        self._note = note or (lambda _: None)
        self._unknown = unknown or self._note_unknown
        self._suite = suite
        self._schemas: dict[str, list[str]] = {}

    def read(self, raw: object, place: str) -> tuple[Check, ...]:
        """The checks of one case that can be made; the schemas in them are looked at by `finish`."""
        if not isinstance(raw, list):
            self._add(place, wants("a list", raw), "")
        elif not raw:
            what = "is empty: a case needs at least one check"
            self._add(place, what, "add a check that the skill's behaviour should pass")
        checks = []
        for number, item in enumerate(listed(raw)):
            try:
                checks.append(self._item(item, f"{place}[{number}]"))
            except InputError as error:
                for problem in error.problems:
                    self._add(problem.where, problem.what, problem.fix)
        return tuple(check for check in checks if check is not None)

    def finish(self) -> None:
        """Checks all JSON Schemas that were read, together, in a process that cannot hang this one."""
        found = check_schemas(list(self._schemas)) if self._schemas else []
        for places, result in zip(self._schemas.values(), found, strict=True):
            for place in places:
                if result.fault:
                    where, what = result.fault
                    self._add(f"{place}{where.removeprefix('$')}", what, "correct the JSON Schema")
                elif result.ran_over:
                    self._add(place, "cannot be checked in time", "make the JSON Schema smaller")
                elif result.error:
                    self._add(place, f"cannot be checked: {result.error}", "")
        self._schemas.clear()

    def _item(self, item: Any, place: str) -> Check | None:
        """One check; None where the reason is reported already. Raises InputError."""
        if not isinstance(item, dict):
            raise _wrong(place, wants("an object", item))
        kind = item.get("kind")
        if kind is None:
            raise _wrong(place, "a check needs a `kind`", f"use one of {', '.join(KINDS)}")
        if not isinstance(kind, str):
            raise _wrong(f"{place}.kind", wants("text", kind))
        if kind not in KINDS:
            return self._foreign(kind, item, place)
        for key in item:
            if key not in _known(kind) and not (key == "not" and kind in INSTEAD_OF_NOT):
                self._unknown(f"{place}.", key)
        if kind in INSTEAD_OF_NOT and "not" in item:
            self._add(f"{place}.not", f"`{kind}` has no `not`", INSTEAD_OF_NOT[kind])
        if not self._shaped(kind, item, place):
            return None
        return self._made(kind, item, place)

    def _foreign(self, kind: str, item: dict[str, Any], place: str) -> Check:
        why = foreign(kind)
        if why is None:
            raise _wrong(place, f"unknown kind {kind!r} of check", f"use one of {', '.join(KINDS)}")
        self._note(f"{place}: kind {kind!r} {why}: this case cannot be graded")
        return UnsupportedCheck(kind, _as_json(item, place), why)

    def _shaped(self, kind: str, item: dict[str, Any], place: str) -> bool:
        from pydantic import ValidationError

        try:
            _shapes()[kind].model_validate(item)
        except ValidationError as error:
            explain(error, self._add, place)
            return False
        return True

    def _made(self, kind: str, item: dict[str, Any], place: str) -> Check | None:
        """The check of an item whose shape is right."""
        negated = item.get("not", False)
        if kind == "judge":
            return JudgeCheck(item["rubric"])
        if kind in TEXT_KINDS:
            return _text_check(kind, item["value"], place, negated=negated)
        if kind in SIZE_KINDS:
            return _size_check(kind, item, place, negated=negated)
        if kind in FILE_KINDS:
            if not self._suite:
                raise _wrong(place, "a gate set's trial writes no files; this check is for suites")
            return FileCheck(kind, _inner_path(item["path"], place), item.get("value"), negated)
        if kind == "json":
            schema = item.get("schema")
            if schema is None:
                return JsonCheck(None, negated)
            text = _as_json(schema, f"{place}.schema")
            if len(text) > LARGEST_SCHEMA_CHARS:
                what = f"has {len(text):,} characters; at most {LARGEST_SCHEMA_CHARS:,} are taken"
                raise _wrong(f"{place}.schema", what, "check less of the answer")
            self._schemas.setdefault(text, []).append(f"{place}.schema")
            return JsonCheck(text, negated)
        dialect = item.get("dialect") or self._dialect
        if dialect not in DIALECTS:  # reported where the set names it
            return None
        pattern = _pattern(item, dialect, place)
        return RegexCheck(pattern, negated) if kind == "regex" else PatternCheck(kind, pattern)

    def _note_unknown(self, place: str, key: str) -> None:
        self._note(f"{place}{key}: unknown key, kept and not used")


def _wrong(place: str, what: str, fix: str = "") -> InputError:
    return InputError(Problem(place, what, fix))


def _pattern(item: dict[str, Any], dialect: Any, place: str) -> Pattern:
    try:
        return compile_pattern(item["pattern"], item.get("flags"), dialect)
    except PatternError as error:
        raise InputError(
            Problem(f"{place}.pattern", problem.what, problem.fix) for problem in error.problems
        ) from None


def _text_check(kind: str, value: str, place: str, *, negated: bool) -> TextCheck:
    if kind == "starts_with" and value[0].isspace():
        what = "begins with white space, which no answer does once it is trimmed"
        raise _wrong(f"{place}.value", what, "remove it")
    return TextCheck(kind, value, negated)


def _size_check(kind: str, item: dict[str, Any], place: str, *, negated: bool) -> SizeCheck:
    least, most = item.get("min"), item.get("max")
    if least is None and most is None:
        raise _wrong(place, f"`{kind}` needs a `min` or a `max`", "add one")
    if least is not None and most is not None and least > most:
        raise _wrong(f"{place}.min", f"is more than `max`: {least} > {most}", "correct one of them")
    return SizeCheck(kind, least, most, negated)


def _inner_path(path: str, place: str) -> str:
    """A relative path with `/` that names one file below the trial's folder."""
    where, windows = f"{place}.path", PureWindowsPath(path)
    if path.startswith("/") or windows.drive or windows.root:
        raise _wrong(where, f"{path!r} is not relative", "begin at the trial's folder")
    if ".." in windows.parts:  # separates by both kinds of slash
        raise _wrong(where, f"{path!r} leads outside the trial's folder", "remove the `..`")
    if "\\" in path or not path.isprintable():
        raise _wrong(where, f"{path!r} is not a portable path", "separate by `/`")
    if set(path) & set("*?"):
        raise _wrong(where, f"{path!r} is a pattern of names", "name one file")
    return path


def _as_json(value: object, place: str) -> str:
    """`value` as JSON text, always in the same spelling."""
    try:
        return json.dumps(value, sort_keys=True)
    except RecursionError:
        raise _wrong(place, "is nested too deeply") from None
