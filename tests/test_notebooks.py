"""The shipped notebooks: committed with their outputs, true on a second run, free of what must not be in git."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from skilleval_nb import weights
from skilleval_nb.runner_local import installed

FOLDER = Path(__file__).parents[1] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE = re.compile(r"(?<![\w.])/(?:tmp|home|root|work|Users|var)/[\w.-]+|[A-Z]:\\\\")
OUTSIDE = re.compile(r"""(?:src|href)=\\?["']https?://|@import|url\(https?:""")


def cells(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in found if cell["cell_type"] == "code"]


def outputs(path: Path) -> list[dict[str, Any]]:
    return [output for cell in cells(path) for output in cell["outputs"]]


def test_there_is_a_tour() -> None:
    assert [path.name for path in NOTEBOOKS][:1] == ["01_run_a_set.ipynb"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_committed_as_it_ran(path: Path) -> None:
    counts = [cell["execution_count"] for cell in cells(path)]
    assert counts == list(range(1, len(counts) + 1))
    assert sum(bool(cell["outputs"]) for cell in cells(path)) >= len(counts) / 2
    assert [output for output in outputs(path) if output["output_type"] == "error"] == []
    assert [output for output in outputs(path) if output.get("name") == "stderr"] == []


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_holds_nothing_of_the_machine_and_asks_no_network(path: Path) -> None:
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert "widgets" not in notebook["metadata"]
    text = json.dumps([cell.get("outputs") for cell in notebook["cells"]])
    assert MACHINE.search(text) is None
    assert OUTSIDE.search(text) is None


@pytest.mark.skipif(
    not installed() or weights.find() is None,
    reason="the embedded model is not here: pip install 'skilleval_nb[local]' and skilleval fetch-model",
)
@pytest.mark.parametrize("again", ["once", "twice"])
def test_the_notebooks_give_what_they_show_run_after_run(again: str) -> None:
    command = [
        sys.executable, "-m", "pytest", "--nbval", "--nbval-current-env", "-q", "-p", "no:cacheprovider",
        "--nbval-sanitize-with=notebooks/sanitize.cfg", "--nbval-cell-timeout=240", "notebooks",
    ]  # fmt: skip
    done = subprocess.run(command, cwd=FOLDER.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{again}: {done.stdout}{done.stderr}"
    code_cells = sum(len(cells(path)) for path in NOTEBOOKS)
    assert f"{code_cells} passed" in done.stdout
