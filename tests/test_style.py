"""ruff and the type checker are part of the tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    "words",
    [["ruff", "check"], ["ruff", "format", "--check"], ["mypy"]],
    ids=["ruff check", "ruff format", "mypy --strict"],
)
def test_the_whole_tree_is_clean(words: list[str]) -> None:
    command = [sys.executable, "-m", *words, *([] if words == ["mypy"] else ["."])]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
