"""The tuning panel in JupyterLab, in a real browser: edit, run, stop, go back, save; by mouse and by keyboard."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser import Window, chromium, playwright
from lab_server import Lab, serve
from nbformat.v4 import new_code_cell, new_notebook
from worlds import BODY, SKILL, case, project

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
)
ACTS = "<script>window.__acted = 1</script><img src=x onerror='window.__acted = 1'>"
RUNNER = '''
import asyncio
from pathlib import Path

import skilleval_nb as se
from skilleval_nb.tune_widget import tune

class StandIn(se.Runner):
    """Says magic where the skill asks for it; the prompts about later wait for a file."""
    name = "stand-in"
    fixed_model = "none"

    async def answer(self, request):
        while "later" in request.prompt and not Path("go").exists():
            await asyncio.sleep(0.05)
        text = "magic" if "MAGIC" in (request.system or "") else "plain"
        return se.Answer(text + ACTS, model="none", usage=se.Usage(9, 5))
'''
OPEN = "panel = tune({skill!r}, {set!r}, runner=StandIn(), n=3)\npanel"


def notebook(root: Path, name: str) -> None:
    """A project of its own with one notebook."""
    home = root / name
    home.mkdir()
    prompts = {"one": "now", f"two {ACTS}": "now", "three": "later"}
    project(home, *(case(id_, prompt=f"{when}: {id_}") for id_, when in prompts.items()), skill=SKILL)
    cells = [
        f"ACTS = {ACTS!r}\n{RUNNER}",
        OPEN.format(skill="skills/magic", set="sets/magic.json"),
        "print(6 * 7)",
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    nbformat.write(
        new_notebook(cells=[new_code_cell(cell) for cell in cells], metadata=kernel), home / "tune.ipynb"
    )


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for name in ("light", "dark"):
        notebook(root, name)
    return root


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serve(root, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


class Panel(Window):
    """A notebook whose second cell shows a panel."""

    def __init__(self, browser: Any, address: str, width: int = 1300) -> None:
        super().__init__(browser, address, width)
        self.run_all()
        self.box = self.page.locator(".sknb-tune")
        playwright.expect(self.box).to_be_visible(timeout=60_000)
        self.wait_until_idle()
        self.text = self.box.locator("textarea")

    def click(self, name: str) -> None:
        self.box.get_by_role("button", name=name, exact=True).click()

    def has(self, text: str, timeout_s: float = 20) -> None:
        playwright.expect(self.box).to_contain_text(text, timeout=timeout_s * 1000)

    def status(self, text: str) -> None:
        playwright.expect(self.box.locator(".status")).to_contain_text(text, timeout=20_000)

    def type_over(self, old: str, new: str) -> None:
        """Edits by keyboard: what is typed goes in at the end of `old`."""
        self.text.evaluate(
            "(area, old) => { const at = area.value.indexOf(old) + old.length;"
            " area.focus(); area.setSelectionRange(at, at); }",
            old,
        )
        self.page.keyboard.type(new)

    def faults(self) -> list[Any]:
        return [
            (found["id"], found["nodes"][0]["html"][:200], found["nodes"][0]["failureSummary"])
            for found in axe.Axe().run(self.page, context=".sknb-tune").response["violations"]
        ]

    def runs(self) -> Any:
        return self.box.get_by_role("group", name="runs, newest first").locator("tbody tr")


def test_a_skill_is_edited_run_stopped_taken_back_and_saved(
    lab: Lab, browser: Any, root: Path, tmp_path: Path
) -> None:
    home = root / "light"
    skill = home / "skills/magic/SKILL.md"
    lab.theme("Light")
    panel = Panel(browser, lab.page("light/tune.ipynb"))
    panel.has("no run yet")
    assert panel.faults() == []

    # a mistake is said where it is made, and no key reaches the notebook
    panel.type_over("name: magic", " Dd")
    panel.has("problem: line 2 → name: has capital letters")
    panel.page.keyboard.press("Backspace")
    panel.page.keyboard.press("Backspace")
    panel.page.keyboard.press("Backspace")
    playwright.expect(panel.box.locator(".remarks li")).to_have_count(1, timeout=10_000)
    panel.box.get_by_role("button", name="Save").focus()
    for key in ("d", "d", "m", "y", "x"):
        panel.page.keyboard.press(key)
    assert panel.cells.count() == 3

    # a run goes on while cells are free, and stops
    panel.click("Run")
    panel.has("12/18 · 0 errors")
    panel.box.screenshot(path=tmp_path / "light-running.png")
    assert panel.faults() == []
    panel.cells.nth(2).locator(".jp-InputArea-editor").click()
    panel.page.keyboard.press("Control+Enter")
    panel.says("print(6 * 7)", "42", 10)
    panel.click("Stop")
    panel.status("run stopped: 12 of 18 trials are kept")
    (home / "go").touch()

    # Ctrl+Enter runs; what had finished is taken over
    panel.text.focus()
    panel.page.keyboard.press("Control+Enter")
    panel.status("run ended: Δ +100%, PASS")
    playwright.expect(panel.runs()).to_have_count(1)
    playwright.expect(panel.runs().first).to_contain_text("6 baseline, 6 skill trials")
    assert panel.cells.count() == 3

    # an edit runs the skill's trials alone
    panel.type_over(BODY, " Or rather not.")
    panel.click("Run")
    playwright.expect(panel.runs()).to_have_count(2, timeout=20_000)
    playwright.expect(panel.runs().first).to_contain_text("9 baseline trials")
    panel.has("reused from earlier runs: 9 baseline trials")

    # an edit that breaks it: the cases that flipped are named, as text
    panel.text.fill(SKILL.replace("MAGIC", "nothing"))
    panel.has("not saved")
    panel.click("Run")
    playwright.expect(panel.runs()).to_have_count(3, timeout=20_000)
    panel.has("cases with another verdict")
    panel.has(f"two {ACTS}")
    assert panel.box.locator("script, img, svg, iframe, a, mjx-container").count() == 0
    panel.click("Show what it changed")
    playwright.expect(panel.box.locator("pre ins").last).to_have_text("+Answer with the word nothing.")
    assert panel.faults() == []
    panel.box.screenshot(path=tmp_path / "light.png")

    # back to the first by its row; what was typed is kept; the file is as it was
    panel.text.fill(SKILL.replace("MAGIC", "unsaved"))
    panel.runs().last.get_by_role("button").click()
    panel.click("Go back to it")
    panel.status("back at version")
    playwright.expect(panel.text).to_have_value(SKILL)
    assert panel.box.locator("select option").count() == 4
    assert skill.read_text() == SKILL

    # saved by its button, and never over what another program wrote
    panel.type_over(BODY, " Always.")
    panel.click("Save")
    panel.status("saved: SKILL.md")
    assert skill.read_text() == SKILL.replace(BODY, f"{BODY} Always.")
    skill.write_text("---\nname: magic\ndescription: Theirs.\n---\nTheirs.\n")
    panel.type_over(BODY, " Mine.")
    panel.click("Save")
    panel.status("was changed by another program")
    assert "Theirs." in skill.read_text()
    panel.box.screenshot(path=tmp_path / "light-changed.png")
    assert panel.faults() == []
    panel.click("Reload")
    playwright.expect(panel.text).to_have_value(skill.read_text())

    panel.click("Confirm")
    panel.status("confirmation ended: Δ 0%")
    playwright.expect(panel.runs().first).to_contain_text("confirmation")
    panel.page.keyboard.press("Control+s")  # saves the notebook, with the focus where it is
    playwright.expect(panel.page.locator(".jp-mod-dirty")).to_have_count(0, timeout=10_000)
    panel.finish()


def test_the_panel_is_whole_in_the_dark_and_narrow_and_comes_back(
    lab: Lab, browser: Any, root: Path, tmp_path: Path
) -> None:
    (root / "dark/go").touch()
    lab.theme("Dark")
    panel = Panel(browser, lab.page("dark/tune.ipynb"))
    panel.click("Run")
    panel.status("run ended: Δ +100%, PASS")
    panel.text.fill(SKILL.replace("MAGIC", "nothing"))
    panel.click("Run")
    playwright.expect(panel.runs()).to_have_count(2, timeout=20_000)
    panel.runs().first.get_by_role("button").click()
    playwright.expect(panel.box.locator("pre ins")).to_have_count(1)
    colour = panel.box.evaluate("box => getComputedStyle(box).color.match(/[0-9]+/g).slice(0, 3).map(Number)")
    assert min(colour) > 150, "text on the dark theme is light"
    assert panel.faults() == []
    panel.box.screenshot(path=tmp_path / "dark.png")
    panel.page.set_viewport_size({"width": 620, "height": 1000})
    assert panel.faults() == []
    assert panel.box.evaluate("box => box.scrollWidth <= box.clientWidth"), "nothing sticks out"
    panel.box.screenshot(path=tmp_path / "dark-narrow.png")

    # typed and left: the page goes, then the kernel
    panel.text.fill(SKILL.replace("MAGIC", "forgotten"))
    panel.has("not saved")
    panel.cells.nth(1).locator(".jp-InputArea-editor").click()
    panel.page.keyboard.press("Control+Enter")
    playwright.expect(panel.box.locator(".status")).to_contain_text("not saved last time", timeout=30_000)
    assert panel.box.locator("select option").count() == 3
    panel.finish()
