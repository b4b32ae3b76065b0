"""`skilleval lab`: the notebooks beside the user's own sets, in JupyterLab."""

from __future__ import annotations

import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from .errors import InputError, MissingExtra, Problem

SHIPPED = ("notebooks", "sets")


def shipped(name: str) -> Path:
    """The folder of notebooks or sets that came with the package (or stands beside it in a checkout).

    Raises InputError where the installation lacks it.
    """
    package = Path(__file__).parent
    for folder in (package / "_shipped" / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise InputError(
        Problem(name, "these files did not come with the installation", "install skilleval_nb again")
    )


def copy_notebooks(target: Path) -> tuple[list[Path], list[Path]]:
    """Copies the shipped notebooks, and the sets they use, into `target`; nothing that exists is overwritten.

    Returns what was copied and what was already there.
    """
    copied, kept = [], []
    for name in SHIPPED:
        source = shipped(name)
        for file in sorted(path for path in source.rglob("*") if path.is_file()):
            hidden = any(part.startswith((".", "__")) for part in file.relative_to(source).parts)
            if hidden or file.suffix not in (".ipynb", ".json", ".md"):
                continue
            place = target / name / file.relative_to(source)
            if place.exists():
                kept.append(place)
            else:
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, place)
                copied.append(place)
    return copied, kept


def open_lab(target: Path, arguments: list[str]) -> int:
    """Opens JupyterLab on the first notebook of `target`; returns its exit code once it is closed.

    Raises MissingExtra where JupyterLab is not installed.
    """
    if find_spec("jupyterlab") is None:
        raise MissingExtra("JupyterLab", "lab")
    first = min((target / "notebooks").glob("*.ipynb"), default=None)
    tree = [str(first.relative_to(target))] if first else []
    return subprocess.run(
        [sys.executable, "-m", "jupyterlab", *tree, *arguments], cwd=target, check=False
    ).returncode
