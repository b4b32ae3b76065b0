"""The short names of models, in one table: what `haiku`, `sonnet` and `opus` stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

ALIASES: Mapping[str, str] = {
    "haiku": "claude-haiku-4-5-20251001",
    "sonnet": "claude-sonnet-4-6",
    "opus": "claude-opus-4-8",
}


def resolve(model: str) -> str:
    """The id that an alias stands for; anything else as it is."""
    return ALIASES.get(model, model)
