"""Where things are: the project root, and paths that may not leave it."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .errors import LeavesRoot

ROOT_MARKS = (".git", "pyproject.toml", "AGENTS.md")


def project_root(start: Path) -> Path:
    """The nearest folder from `start` upwards that looks like a project's root, else the working directory."""
    start = start.resolve()
    for folder in (start, *start.parents):
        if any((folder / mark).exists() for mark in ROOT_MARKS):
            return folder
    return Path.cwd()


def search_path(folder: Path, root: Path) -> list[Path]:
    """The folders to look in, first to last: from `folder` up to `root`; both, where neither holds the other."""
    folder = folder.resolve()
    if not folder.is_relative_to(root):
        return [folder, root]
    above = [parent for parent in folder.parents if parent.is_relative_to(root)]
    return [folder, *above]


def find_inside(reference: str, folder: Path, root: Path) -> Path | None:
    """The first existing file for `reference`, from `folder` upwards to `root`, links followed; None if there is none.

    Raises LeavesRoot where the path points outside the root, be it by `..`, by being absolute or by a link.
    """
    allowed = (root, folder.resolve())
    escaped = False
    for base in search_path(folder, root):
        target = (base / reference).resolve()
        if not any(target.is_relative_to(place) for place in allowed):
            escaped = escaped or base == folder.resolve() or target.exists()
        elif target.is_file():
            return target
    if escaped:
        raise LeavesRoot(reference)
    return None


def shown(path: Path, root: Path | None = None) -> str:
    """`path` for people and logs: relative to `root` (or the working directory) where it lies inside, with `/`."""
    base = root or Path.cwd()
    return path.relative_to(base).as_posix() if path.is_relative_to(base) else path.as_posix()


def file_stem(identifier: str) -> str:
    """`identifier` as the stem of a file name: everything but ASCII letters, digits, `_`, `.` and `-` becomes `_`."""
    return re.sub(r"[^A-Za-z0-9_.-]", "_", identifier)


def condition_stem(name: str) -> str:
    """A condition's name as the last part of a transcript's: without a dot, which parts it from the case's.

    Names in other scripts would lose all their letters, so a few hex digits tell them apart.
    """
    stem = file_stem(name).replace(".", "_")
    return stem if name.isascii() else f"{stem}-{hashlib.sha256(name.encode()).hexdigest()[:6]}"


def page_file(name: str) -> str:
    """A script or a style of a widget's page, as it is shipped beside the modules."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")
