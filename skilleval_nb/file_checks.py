"""Checks of the files that a trial left in its folder: only regular files in it are ever read."""

from __future__ import annotations

from pathlib import Path

from .cases import FileCheck
from .values import Grade, Outcome

LARGEST_BYTES = 10_000_000
"""Larger files are not searched."""
_EVIDENCE_CHARS = 200


def file_exists(check: FileCheck, folder: Path) -> Grade:
    """Whether the trial left a regular file at the check's path."""
    try:
        file, why = _found(check.path, folder)
    except PermissionError:
        return _undecided(check, "cannot be looked at")
    return Grade(check.kind, passed=(file is not None) is not check.negated, evidence=why)


def file_contains(check: FileCheck, folder: Path) -> Grade:
    """Whether that file has the check's text, read as UTF-8; undecided where it is too large to be searched."""
    try:
        file, why = _found(check.path, folder)
        if file is None:
            return Grade(check.kind, passed=check.negated, evidence=why)
        with file.open("rb") as stream:
            data = stream.read(LARGEST_BYTES + 1)
    except OSError as error:
        return _undecided(check, f"cannot be read ({error.strerror})")
    if len(data) > LARGEST_BYTES:
        return _undecided(check, f"has more than {LARGEST_BYTES:,} bytes")
    found = (check.value or "") in data.decode("utf-8", "replace")
    evidence = (check.value or "")[:_EVIDENCE_CHARS] if found else None
    return Grade(check.kind, passed=found is not check.negated, evidence=evidence)


def _undecided(check: FileCheck, why: str) -> Grade:
    reason = f"the file {check.path} {why}"
    return Grade(check.kind, passed=None, outcome=Outcome.GRADER_FAILED, reason=reason)


def _found(path: str, folder: Path) -> tuple[Path | None, str]:
    """The regular file at `path` below `folder`, or None, with the words for either; raises PermissionError."""
    try:
        file = (folder / path).resolve(strict=True)
    except PermissionError:
        raise
    except (OSError, ValueError, RuntimeError):
        return None, f"no file {path}"
    if not file.is_relative_to(folder.resolve()):
        return None, f"{path} leads outside the trial's folder"
    return (file, f"file {path}") if file.is_file() else (None, f"{path} is no file")
