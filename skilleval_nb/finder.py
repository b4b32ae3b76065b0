"""Where runs are: the folder that holds them, one run's folder by its id, and a record's run id."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .errors import RunNotFound
from .folder import RunFolder
from .paths import project_root

LOG = "log.jsonl"


def run_id_of(record: Mapping[str, Any]) -> str:
    """A record's run id; for the origin's records the last part of their folder."""
    if "runId" in record:
        return str(record["runId"])
    return str(record.get("dir", "")).rpartition("/")[2]


def resolve_runs_dir(runs_dir: str | Path, root: Path | None = None) -> Path:
    """`runs_dir` as a path; a relative one is relative to the project's root."""
    path = Path(runs_dir)
    return path if path.is_absolute() else (root or project_root(Path.cwd())) / path


def find_folder(id_or_folder: str | Path, runs: Path, set_name: str | None = None) -> Path | None:
    """The folder of a run; of `"last"` the newest one; None where there is none.

    With `set_name` the newest one in which that set was run, not only graded anew.
    """
    if id_or_folder == "last":
        folders = [path.parent for path in runs.glob("*/run.json")] if runs.is_dir() else []
        if set_name is not None:
            folders = [path for path in folders if _ran(path, set_name)]
        return max(folders, key=_age, default=None)
    given = Path(id_or_folder)
    for folder in (given, runs / given, project_root(Path.cwd()) / given):
        if (folder / "run.json").is_file():
            return folder.resolve()
    return None


def _ran(path: Path, set_name: str) -> bool:
    try:
        header = RunFolder(path).read_header()
    except RunNotFound:
        return False
    return header.get("set") == set_name and "regradeOf" not in header


def _age(folder: Path) -> tuple[str, int]:
    """Sorts by stamp, then by the suffix that runs of the same second get."""
    stamp, _, _ = folder.name.partition("-")
    return stamp, (folder / "run.json").stat().st_mtime_ns
