"""What a validator says of a file's shape, as places and words that the file's author knows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pydantic import ValidationError

Add = Callable[[str, str, str], None]
"""Takes a problem: its place, what is wrong, and what to do (may be empty)."""

_WANTS = {
    "string_type": "text",
    "list_type": "a list",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "model_type": "an object",
    "dict_type": "an object",
    "model_attributes_type": "an object",
}


def explain(error: ValidationError, add: Add, base: str = "") -> None:
    """Pydantic's errors, one a place below `base`."""
    seen = set()
    for item in error.errors(include_url=False):
        place = base
        for part in item["loc"]:
            if isinstance(part, int):
                place += f"[{part}]"
            elif part not in ("str", "int") and not str(part).startswith("constrained"):
                place += f".{part}" if place else part
        if place in seen:  # the other branches of a union say the same again
            continue
        seen.add(place)
        what, fix = _words(item["type"], item.get("ctx", {}), item["input"], item["msg"])
        add(place, what, fix)


def _words(kind: str, ctx: Mapping[str, Any], value: Any, message: str) -> tuple[str, str]:
    if kind == "missing":
        return "missing", "add it"
    if kind in _WANTS:
        return wants(_WANTS[kind], value), ""
    if kind in ("string_pattern_mismatch", "string_too_short"):
        return "is empty", "write the text"
    if kind == "greater_than":
        return f"must be more than {ctx.get('gt')}, is {clip(value)}", ""
    if kind == "greater_than_equal":
        return f"must be at least {ctx.get('ge')}, is {clip(value)}", ""
    if kind == "literal_error":
        return f"must be {ctx.get('expected')}, is {clip(value)}", ""
    return f"{message}: {clip(value)}", ""


def wants(what: str, value: Any) -> str:
    """The words for a value of the wrong type."""
    return f"must be {what}, is {named(value)}: {clip(value)}"


def named(value: Any) -> str:
    """The type of a JSON value in an author's words."""
    names = {dict: "object", list: "list", str: "text", bool: "true/false", int: "number", float: "number"}
    return names.get(type(value), "null")


def clip(value: Any) -> str:
    """The beginning of a value as JSON."""
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "nested too deeply to be shown"
    return text if len(text) <= 60 else f"{text[:57]}…"


def listed(value: Any) -> list[Any]:
    """`value` where it is a list, else an empty one: its type is reported elsewhere."""
    return value if isinstance(value, list) else []
