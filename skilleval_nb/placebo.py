"""A text about nothing that could help, as long as a skill: what it moves, any text would move."""

from __future__ import annotations

from functools import cache
from pathlib import Path


def placebo(length: int) -> str:
    """The first `length` characters of the placebo, cut after a whole word; at least one word.

    It is prose about a valley, a harbour, a house, in sentences that state and ask nothing: it names no task, no
    format and no tone. A skill that is longer than it gets it again from its beginning.
    """
    text = _text()
    whole = f"{text} " * (length // len(text) + 1)
    if whole[length] == " ":
        return whole[:length].rstrip()
    return whole[:length].rpartition(" ")[0].rstrip() or text.partition(" ")[0]


@cache
def _text() -> str:
    return " ".join(Path(__file__).with_name("placebo.txt").read_text(encoding="utf-8").split())
