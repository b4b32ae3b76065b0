"""The shipped notebook and an interrupted run, in JupyterLab, driven in a real browser as a person would.

A stand-in runner answers in place of a model, with text that would act if it were ever taken for HTML.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser import Window, chromium, playwright
from lab_server import Lab, serve
from nbformat.v4 import new_code_cell, new_notebook
from worlds import case, project

NOTEBOOK = Path(__file__).parents[1] / "notebooks" / "01_run_a_set.ipynb"
SETS = Path(__file__).parents[1] / "sets"
ACTS = "<script>window.__acted = 1</script><img src=x onerror='window.__acted = 1'>\x1b[31m"
STANDS_IN = f'''
import skilleval_nb as se
from skilleval_nb.values import Answer, Usage

ACTS = {ACTS!r}

class StandIn(se.Runner):
    """Types its functions where a skill asks for it, and knows the two questions that want no code."""
    name = "stand-in"
    fixed_model = "none"

    async def answer(self, request):
        text = "A triangle has 3 sides."
        if "keyword" in request.prompt:
            text = "The keyword return ends a function and gives a value."
        elif "function" in request.prompt:
            text = 'def f(x: int) -> int:\\n    """Do it."""' if request.system else "def f(x): return x"
        return Answer(text + ACTS, model="none", usage=Usage(9, 5))
'''
SLOW = f'''
import asyncio, sys
from skilleval_nb.children import run_child

class Slow(se.Runner):
    """Answers two prompts at once, then hangs in a child process."""
    name = "slow"
    fixed_model = "none"

    async def answer(self, request):
        if "quick" in request.prompt:
            return Answer("magic " + ACTS, model="none", usage=Usage(9, 5))
        await run_child([{sys.executable!r}, "-c", "import time; time.sleep(600)"], env={{}}, cwd=".")
'''


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A server over a copy of the notebook (its runner replaced) and one notebook of our own."""
    root = tmp_path_factory.mktemp("root")
    shutil.copytree(SETS, root / "sets")
    (root / "notebooks").mkdir()
    tour: Any = nbformat.read(NOTEBOOK, as_version=4)
    for cell in tour.cells:
        cell.source = cell.source.replace('runner="local"', "runner=StandIn()")
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    tour.cells.insert(0, new_code_cell(STANDS_IN))
    nbformat.write(tour, root / "notebooks" / "tour.ipynb")
    project(root, *(case(f"quick{ACTS[:-5]}{number}", prompt="quick") for number in range(2)), case("slow"))
    cells = [
        STANDS_IN + SLOW,
        'se.run_set("../sets/magic.json", runner=Slow(), runs_dir="interrupted")',
        'import psutil\nprint("children left:", len(psutil.Process().children(recursive=True)))',
        'run = se.load_run("last", runs_dir="interrupted")\nrun',
    ]
    stop = new_notebook(cells=[new_code_cell(text) for text in cells], metadata=tour.metadata)
    nbformat.write(stop, root / "notebooks" / "stop.ipynb")
    with serve(root, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


def test_the_shipped_notebook_runs_and_shows_its_result_in_both_themes(
    lab: Lab, browser: Any, tmp_path: Path
) -> None:
    lab.theme("Light")
    window = Window(browser, lab.page("notebooks/tour.ipynb"))
    window.run_all()
    window.says("run_set(eval_set", "typed-python: 20/20 trials ended · 0 errors", 60)
    window.says("NBVAL_IGNORE_OUTPUTrun", "ship gate: PASS — skill moves the number")
    window.says("run.transcript", "<script>window.__acted = 1</script>")
    chart = window.output("pass_rates(run)").locator("img")
    playwright.expect(chart).to_be_visible(timeout=30_000)
    assert chart.evaluate("image => image.naturalWidth") > 300
    window.wait_until_idle()
    assert window.page.locator('[data-mime-type="application/vnd.jupyter.stderr"]').count() == 0
    assert window.page.locator('[data-mime-type="application/vnd.jupyter.error"]').count() == 0
    window.output("NBVAL_IGNORE_OUTPUTrun").screenshot(path=tmp_path / "light-result.png")
    window.page.screenshot(path=tmp_path / "light.png")
    window.save()
    window.finish()

    lab.theme("Dark")
    window = Window(browser, lab.page("notebooks/tour.ipynb"))
    result = window.output("NBVAL_IGNORE_OUTPUTrun").locator(".sknb")
    playwright.expect(result).to_be_visible()
    window.says("run_set(eval_set", "typed-python: 20/20 trials ended · 0 errors")
    assert "Error displaying widget" not in window.page.locator(".jp-Notebook").inner_text()
    light = result.evaluate("box => getComputedStyle(box).color.match(/[0-9]+/g).slice(0, 3).map(Number)")
    assert min(light) > 150, "text on the dark theme is light"
    result.screenshot(path=tmp_path / "dark-result.png")
    window.output("pass_rates(run)").screenshot(path=tmp_path / "dark-chart.png")
    window.page.set_viewport_size({"width": 600, "height": 1000})
    result.screenshot(path=tmp_path / "dark-narrow.png")
    window.finish()


def test_an_interrupted_run_keeps_what_it_has_says_how_to_go_on_and_leaves_no_child(
    lab: Lab, browser: Any, tmp_path: Path
) -> None:
    lab.theme("Light")
    window = Window(browser, lab.page("notebooks/stop.ipynb"))
    window.run_all()
    window.says("runner=Slow()", "4/6", 60)
    assert window.output("runner=Slow()").locator(".widget-hprogress, .jupyter-widget-hprogress").count() == 1
    window.output("runner=Slow()").screenshot(path=tmp_path / "progress.png")
    window.page.keyboard.press("Escape")
    began = time.monotonic()
    window.page.locator('.jp-NotebookPanel-toolbar [data-command="notebook:interrupt-kernel"]').first.click()
    window.says("runner=Slow()", re.compile(r"interrupted: 4 of 6 trials are kept; go on with.*resume="))
    window.says("runner=Slow()", "KeyboardInterrupt")
    window.wait_until_idle(10)
    assert time.monotonic() - began < 10
    assert window.output("runner=Slow()").locator(".widget-hprogress, .jupyter-widget-hprogress").count() == 0
    # the cells below were called off with it
    window.cells.nth(2).locator(".jp-InputArea-editor").click()
    window.page.keyboard.press("Shift+Enter")
    window.says("children left", "children left: 0")
    window.page.keyboard.press("Shift+Enter")
    window.says('load_run("last"', "partial (interrupted): 4/6 trials were started")
    window.output('load_run("last"').screenshot(path=tmp_path / "interrupted.png")
    window.finish()
