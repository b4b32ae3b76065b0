"""JSON and JSON Schemas in the matching process: answers and schemas of strangers, which may be hostile.

It stands alone like `pattern_worker`, which loads this file when the first JSON check comes. Nothing is ever
fetched: a reference finds what the schema itself holds, or the drafts of the standard that the library ships.
Patterns in a schema are those of Python's `re`, as the library has it; `format` is not checked.
"""

from __future__ import annotations

import json
import re
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Fault = tuple[str, str]
    """Where (a JSON path, or empty) and what is wrong."""

FORMAT_LIBRARIES = (
    "fqdn",
    "idna",
    "isoduration",
    "jsonpointer",
    "rfc3339_validator",
    "rfc3986_validator",
    "rfc3987",
    "rfc3987_syntax",
    "uri_template",
    "webcolors",
)
"""What `jsonschema` loads for `format`, where installed; one of them takes seconds."""
_MOST_ERRORS = 50
_MOST_CHARS = 200
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
"""Takes an open one to the end, so that no sign is looked at twice."""
_validators: dict[str, Any] = {}


def prepare() -> None:
    """Loads the library, in this process only: without what it would need for `format`."""
    for name in FORMAT_LIBRARIES:
        sys.modules.setdefault(name, None)  # type: ignore[arg-type] # an import of it then fails, as it may
    sys.set_int_max_str_digits(0)  # the time for a long number is bounded
    import jsonschema  # noqa: F401
    import referencing.jsonschema  # noqa: F401


def text_fault(text: str, schema: str | None) -> Fault | None:
    """What is wrong with a text that should be JSON, and valid against the schema; None: nothing."""
    number = int if schema is not None else str  # a number of a million digits is JSON, and need not be made
    try:
        value = json.loads(text, parse_constant=_refuse, parse_int=number)
    except RecursionError:
        plain = _STRING.sub("", text)
        if plain.count("[") == plain.count("]") and plain.count("{") == plain.count("}"):
            raise
        return "", "not valid JSON: its brackets are not closed"
    except ValueError as error:
        return "", f"not valid JSON: {error}"
    if schema is None:
        return None
    from itertools import islice

    from jsonschema.exceptions import best_match

    found = best_match(islice(_validator(schema).iter_errors(value), _MOST_ERRORS))
    return None if found is None else _fault(found)


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is not a number")


def _fault(error: Any) -> Fault:
    """An error of the library in one line: its own words where they are short, else the rule that is broken."""
    what = error.message
    if len(what) > _MOST_CHARS:
        rule = json.dumps({error.validator: error.validator_value}, default=str)
        what = f"breaks the rule {rule[:_MOST_CHARS]}{'…' if len(rule) > _MOST_CHARS else ''}"
    return error.json_path[:_MOST_CHARS], what


def _validator(schema: str) -> Any:
    if schema not in _validators:
        from jsonschema_specifications import REGISTRY

        content = json.loads(schema)
        _validators[schema] = _draft(content)(content, registry=REGISTRY)
    return _validators[schema]


def _draft(content: Any) -> Any:
    """The validator of the draft that a schema names, the newest where it names none; None: an unknown one."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    if "$schema" not in content:
        return Draft202012Validator
    return validator_for(content, default=None)  # type: ignore[arg-type] # it is given back for an unknown one


def schema_fault(schema: str) -> Fault | None:
    """What is wrong with a JSON Schema: an unknown draft, a breach of its draft, a reference to elsewhere."""
    from jsonschema import FormatChecker, SchemaError

    content = json.loads(schema)
    named = content.get("$schema", "")
    draft = _draft(content) if isinstance(named, str) else None
    if draft is None:
        return "$.$schema", f"is no draft of JSON Schema that is known here: {str(named)[:_MOST_CHARS]!r}"
    checker = FormatChecker(formats=())
    checker.checks("regex", raises=(re.error, OverflowError, RecursionError))(_compiles)
    try:
        draft.check_schema(content, format_checker=checker)
    except SchemaError as error:
        return _fault(error)
    return _open_reference(content)


def _compiles(text: object) -> bool:
    if isinstance(text, str):
        re.compile(text)
    return True


def _open_reference(content: Any) -> Fault | None:
    """The first reference that leads out of the schema, or to nothing in it."""
    from jsonschema_specifications import REGISTRY
    from referencing import Resource
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import DRAFT202012

    root = Resource.from_contents(content, default_specification=DRAFT202012)
    registry = REGISTRY.with_resource(root.id() or "", root).crawl()
    waiting = [(root, registry.resolver_with_root(root))]
    while waiting:
        resource, resolver = waiting.pop()
        if isinstance(resource.contents, dict):
            for key in ("$ref", "$dynamicRef", "$recursiveRef"):
                target = resource.contents.get(key)
                if not isinstance(target, str):
                    continue
                try:
                    resolver.lookup(target)
                except (Unresolvable, ValueError):
                    shown = target[:_MOST_CHARS]
                    return "$", f"has the reference {shown!r}, which leads to nothing in the schema"
        waiting += [(part, resolver.in_subresource(part)) for part in resource.subresources()]
    return None


def answer(text: str, schema: str, what: str) -> Fault | None:
    """What the matching process is asked: to look at a text (`json`) or at a schema itself (`schema`)."""
    return schema_fault(schema) if what == "schema" else text_fault(text, schema or None)
