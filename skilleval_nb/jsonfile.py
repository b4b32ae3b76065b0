"""Reading a JSON file that a person wrote: what is wrong with it, with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from .errors import Problem, SetError
from .paths import project_root
from .shapes import named


class Report:
    """Collects the problems of one file, each once; `where` is how the user named it."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.problems: dict[str, Problem] = {}

    def add(self, place: str, what: str, fix: str = "") -> None:
        """Takes a problem; `place` is where it stands in the file."""
        where = f"{self.where} → {place}" if place else self.where
        self.problems.setdefault(f"{where}\0{what}", Problem(where, what, fix))

    def raise_if_any(self) -> None:
        """Raises SetError with all problems."""
        if self.problems:
            raise SetError(self.problems.values())


def located(path: str | Path) -> Path:
    """The file that `path` names: from a notebook's folder the project's root is meant too."""
    file = Path(path)
    if not file.is_absolute() and not file.exists():
        file = next((p for p in (project_root(Path.cwd()) / file,) if p.exists()), file)
    return file


def parse_object(file: Path, report: Report, noun: str, wanted: str) -> dict[str, Any]:
    """The file as JSON with one object on top; `noun` is what it holds (a set), `wanted` how that looks.

    A key that stands twice in one object is reported. Raises SetError where there is no object to read.
    """
    where = report.where
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        if isinstance(error, UnicodeDecodeError):
            what = f"not UTF-8 text (byte {error.start})"
            raise SetError(Problem(where, what, "save it as UTF-8")) from None
        what = f"no {noun} can be read here ({getattr(error, 'strerror', None) or error})"
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
        place = f"{where}:{error.lineno}:{error.colno}"
        raise SetError(Problem(place, f"not valid JSON: {error.msg}")) from None
    except RecursionError:
        raise SetError(Problem(where, f"nested too deeply to be a {noun}")) from None
    except ValueError as error:  # a number too long to be read
        raise SetError(Problem(where, f"not valid JSON: {error}")) from None
    if not isinstance(raw, dict):
        raise SetError(Problem(where, f"{wanted}, this is a {named(raw)}"))
    return raw
