"""The inspector in JupyterLab and an exported page, in a real browser, with plain and with hostile transcripts."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from browser import Window, chromium, playwright
from hostile import EVERY, HOSTILE, LONG, run_parts
from lab_server import Lab, serve
from nbformat.v4 import new_code_cell, new_notebook, new_output
from run_folders import F, P, case, grade, line, write_run
from worlds import check, judged

from skilleval_nb.export import export_html
from skilleval_nb.inspector import inspect
from skilleval_nb.labels import read_labels

axe = pytest.importorskip(
    "axe_playwright_python.sync_playwright", reason="needs the package axe-playwright-python"
)
PLAIN, EVIL, RELOAD = "20261130T181500Z-plain", "20261130T181500Z-evil", "20261130T181500Z-reload"
OPEN = "from skilleval_nb.inspector import inspect\ninspect({run!r})"
BIG = "big"
FROZEN = """\
import ctypes, os
if os.path.exists('gate'):
    print('frozen', flush=True)
    ctypes.PyDLL(None).open(b'gate', 0)
"""
"""Keeps the interpreter's lock until the test opens the pipe `gate`: a cell that only waits leaves the inspector
alive, as its messages have a thread."""


def answered(name: str, condition: str, outcome: str, trial: int, note: str) -> dict[str, Any]:
    text = (
        f"Dear Ada, {note} from {name}.\n\nA magic day, trial {trial}."
        if outcome == P
        else f"Hi. {note}. Trial {trial}."
    )
    at = text.find("magic")
    found: dict[str, Any] = {"span": [at, at + 5], "evidence": "magic"} if at >= 0 else {}
    checks = [
        grade(passed=at >= 0, **found),
        grade("judge", text.startswith("Dear"), evidence=text[:3], span=[0, 3], quoted=True, reasoning="It greets.",
              judgeModel="j-1", judgeTokens=[9, 8, None, None], judgeLatencyS=0.5),
    ]  # fmt: skip
    return line(name, condition, outcome, text, trial, checks=checks)


def plain_run(root: Path, run: str) -> Path:
    """Twelve cases: the first flips to pass, the second to fail, the others stay."""
    names = [f"case-{number:02}" for number in range(12)]
    outcomes = {names[0]: (F, P), names[1]: (P, F)}
    lines = [
        answered(name, condition, outcome, trial, "so many words")
        for name in names
        for condition, outcome in zip(("baseline", "skill"), outcomes.get(name, (F, F)), strict=True)
        for trial in (1, 2, 3)
    ]
    cases = [
        case(name, check(), judged("It greets the reader."), prompt=f"Write to Ada about {name}.")
        for name in names
    ]
    return write_run(root, cases, lines, run=run, n=3, set="letters", judgeModel="j")


def evil_run(root: Path) -> Path:
    """A case in which everything is hostile, and one with five megabytes in one line."""
    text = EVERY.replace(HOSTILE["lone surrogates"], "")  # a case of such a name cannot be labelled
    cases, lines, header = run_parts(text, EVERY)
    del header["regradeOf"]
    lines += [line(BIG, condition, P, LONG) for condition in ("baseline", "skill")]
    return write_run(root, [*cases, case(BIG)], lines, run=EVIL, **header)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("root")
    for run in (PLAIN, RELOAD):
        plain_run(root, run)
    evil_run(root)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3 (ipykernel)", "language": "python"}}
    for name, run in (("plain", PLAIN), ("evil", EVIL), ("reload", RELOAD)):
        cells = [new_code_cell(OPEN.format(run=run)), new_code_cell(FROZEN)]
        nbformat.write(new_notebook(cells=cells, metadata=kernel), root / f"{name}.ipynb")
    bundle = inspect(root / "runs" / EVIL)._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    saved = new_code_cell(OPEN.format(run=EVIL), outputs=[new_output("display_data", data=data)])
    nbformat.write(new_notebook(cells=[saved], metadata=kernel), root / "saved.ipynb")
    return root


@pytest.fixture(scope="module")
def lab(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with serve(root, tmp_path_factory.mktemp("home")) as server:
        yield server


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


class Look(Window):
    """A notebook whose first cell shows an inspector."""

    def __init__(self, browser: Any, address: str, width: int = 1300) -> None:
        super().__init__(browser, address, width)
        self.run_all()
        self.box = self.page.locator(".sknb-inspector")
        playwright.expect(self.box).to_be_visible(timeout=60_000)
        self.wait_until_idle()
        self.shows("1 of ")  # what is pressed before the kernel has answered is no label
        self.list = self.box.locator(".list")

    def press(self, *keys: str) -> None:
        for key in keys:
            self.page.keyboard.press(key)

    def shows(self, text: str) -> None:
        playwright.expect(self.box.locator(".case")).to_contain_text(text, timeout=30_000)

    def status(self, text: str) -> None:
        playwright.expect(self.box.locator(".status")).to_contain_text(text, timeout=30_000)

    def has_cells(self, number: int) -> None:
        assert self.cells.count() == number, "a key reached the notebook"


def faults(page: Any, place: str) -> list[Any]:
    """What axe finds wrong in a part of the page."""
    return [
        (found["id"], found["nodes"][0]["html"][:200], found["nodes"][0]["failureSummary"])
        for found in axe.Axe().run(page, context=place).response["violations"]
    ]


def test_every_transcript_is_a_key_away_and_a_label_is_in_the_log(
    lab: Lab, browser: Any, root: Path, tmp_path: Path
) -> None:
    lab.theme("Light")
    look = Look(browser, lab.page("plain.ipynb"))
    look.shows("case-00 · 1 of 12 cases · difficulty 1 · trial 1 of 3 · flipped to pass")
    assert faults(look.page, ".sknb-inspector") == []
    look.box.screenshot(path=tmp_path / "light.png")

    look.page.locator(".jp-InputArea-editor").first.click()
    look.press("Escape", "Tab")  # from the notebook into its output by keyboard
    look.list.focus()
    look.press("j", "j", "ArrowDown", "k")
    look.shows("case-02 · 3 of 12 cases")
    look.press("c", "c")
    look.shows("trial 3 of 3")
    look.press("g", "d")
    look.shows("difference from baseline (struck out) to skill (underlined)")
    assert look.box.locator("ins").count() > 0
    assert look.box.locator("del").count() > 0
    assert faults(look.page, ".sknb-inspector") == []
    look.box.screenshot(path=tmp_path / "light-difference.png")
    look.press("d", "f")
    playwright.expect(look.box.locator("[role=option]")).to_have_count(1)
    look.press("f")
    look.shows("case-01 · 1 of 1 case · difficulty 1 · trial 1 of 3 · flipped to fail")
    look.press("?")
    playwright.expect(look.box.locator(".help")).to_be_visible()
    assert faults(look.page, ".sknb-inspector") == []
    look.box.screenshot(path=tmp_path / "light-keys.png")
    look.press("?", "F", "F")
    playwright.expect(look.box.locator("[role=option]")).to_have_count(12)

    look.press("/")
    look.page.keyboard.type("from case-00")
    look.press("Enter")
    playwright.expect(look.box.locator(".bar")).to_contain_text("3 hits in 1 case (3 answers)")
    look.shows("case-00")
    playwright.expect(look.box.locator("mark.hit").first).to_have_text("from case-00")
    look.press("p")
    look.status("saved: pass · case-00 · skill · trial 1")
    look.press("n")
    look.page.keyboard.type("jkdfx: reads well")  # keys in a field are only letters
    look.press("Escape")
    look.status("saved: pass with a note · case-00 · skill · trial 1")
    look.press("ArrowLeft", "x")
    look.status("saved: fail · case-00 · baseline · trial 1")
    look.box.get_by_role("group", name="your label of check 2, skill").get_by_text("fail").click()
    look.status("saved: fail · case-00 · skill · trial 1 · check 2")
    look.press("d", "d", "m", "y")  # notebook shortcuts: delete the cell, make it text
    look.press("u")
    look.status("saved: no label · case-00 · baseline · trial 1")
    look.has_cells(2)
    labels = read_labels(root / "runs" / PLAIN)
    assert [(label.condition, label.trial, label.check, label.passed, label.note) for label in labels] == [
        ("skill", 1, None, True, "jkdfx: reads well"), ("skill", 1, 2, False, ""),
    ]  # fmt: skip

    look.press("/")
    look.box.locator("input").fill("")
    look.press("Enter")
    look.shows("1 of 12 cases")
    os.mkfifo(root / "gate")
    look.cells.nth(1).locator(".jp-InputArea-editor").click()
    look.press("Control+Enter")  # nothing in the kernel moves for a while
    look.says("ctypes", "frozen")
    look.list.focus()
    look.press("j", "x")
    look.status("waiting for the kernel: it is busy, or gone; nothing was labelled")
    look.press("x")
    look.status("not labelled: the case that was asked for is not here yet")
    (root / "gate").write_bytes(b"")
    (root / "gate").unlink()
    look.shows("2 of 12 cases")
    look.press("p")
    look.status("saved: pass · case-01 · baseline · trial 1")
    assert [label.passed for label in read_labels(root / "runs" / PLAIN)] == [True, False, True]
    look.finish()


def test_labels_survive_a_reload_and_the_page_is_whole_in_the_dark_and_narrow(
    lab: Lab, browser: Any, tmp_path: Path
) -> None:
    lab.theme("Light")
    look = Look(browser, lab.page("reload.ipynb"))
    look.list.focus()
    look.press("j")
    look.shows("case-01 · 2 of 12 cases")
    look.press("x")
    look.status("saved: fail · case-01 · skill · trial 1")
    look.press("Control+s")  # with the focus where it is
    playwright.expect(look.page.locator(".jp-mod-dirty")).to_have_count(0, timeout=10_000)
    look.has_cells(2)
    look.finish()

    lab.theme("Dark")
    look = Look(browser, lab.page("reload.ipynb"))
    look.list.focus()
    look.press("j")
    look.shows("case-01 · 2 of 12 cases")
    pressed = look.box.get_by_role("group", name="your label of skill, trial 1").locator(
        "[aria-pressed=true]"
    )
    playwright.expect(pressed).to_have_text("fail")
    colour = look.box.evaluate("box => getComputedStyle(box).color.match(/[0-9]+/g).slice(0, 3).map(Number)")
    assert min(colour) > 150, "text on the dark theme is light"
    assert faults(look.page, ".sknb-inspector") == []
    look.box.screenshot(path=tmp_path / "dark.png")
    look.page.set_viewport_size({"width": 640, "height": 1000})
    assert faults(look.page, ".sknb-inspector") == []
    sides = look.box.locator(".sides > div")
    left, right = (sides.nth(at).bounding_box() for at in (0, 1))
    assert left is not None
    assert right is not None
    assert right["y"] >= left["y"] + left["height"], "the columns stand below each other"
    assert look.box.evaluate("box => box.scrollWidth <= box.clientWidth"), "nothing sticks out"
    look.box.screenshot(path=tmp_path / "dark-narrow.png")
    look.finish()


def test_hostile_transcripts_neither_run_nor_leave_the_page_nor_slow_it(
    lab: Lab, browser: Any, tmp_path: Path
) -> None:
    lab.theme("Light")
    look = Look(browser, lab.page("evil.ipynb"))
    assert look.box.locator("script, img, svg, iframe, a, mjx-container").count() == 0
    look.list.focus()
    look.press("d")
    look.shows("difference from baseline")
    look.press("d", "p")
    look.status("saved: pass")
    for fold in look.box.locator("summary").all():
        fold.click()
    look.shows("<script>window.__acted = 1</script>")
    assert look.box.locator("script, img, svg, iframe, a, mjx-container").count() == 0
    look.page.screenshot(path=tmp_path / "hostile.png")
    look.list.focus()
    look.press("G")
    look.shows("4,980,003 more characters are not shown")
    began = time.monotonic()
    look.press("k", "j", "k", "j", "e")
    look.shows("4,600,003 more characters are not shown")
    assert time.monotonic() - began < 8
    look.has_cells(2)
    look.finish()


def test_a_notebook_that_is_opened_without_its_kernel_shows_the_static_twin(
    lab: Lab, browser: Any, tmp_path: Path
) -> None:
    lab.theme("Light")
    window = Window(browser, lab.page("saved.ipynb"))
    twin = window.page.locator(".jp-OutputArea-output .sknb")
    playwright.expect(twin).to_contain_text("One case is shown here", timeout=30_000)
    for fold in twin.locator("summary").all():
        fold.click()
    assert twin.locator("script, img, svg, iframe, a, mjx-container").count() == 0
    assert faults(window.page, ".jp-OutputArea-output .sknb") == []
    window.page.screenshot(path=tmp_path / "static.png")
    window.finish()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("run", [PLAIN, EVIL], ids=["plain", "hostile"])
def test_an_exported_page_opens_anywhere_and_does_nothing(
    root: Path, browser: Any, tmp_path: Path, run: str, scheme: str
) -> None:
    made = export_html(root / "runs" / run, tmp_path / "page.html")
    page = browser.new_page(viewport={"width": 1100, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.goto(made.as_uri())
    page.locator('a[href="#case-0"]').click()
    for fold in page.locator("#transcripts ~ div summary").all()[:6]:
        fold.click()
    assert page.evaluate("window.__acted") is None
    assert {url.partition("#")[0] for url in asked} == {made.as_uri()}
    assert page.locator("script, img, svg, iframe").count() == 0
    background = page.evaluate(
        "getComputedStyle(document.body).backgroundColor.match(/[0-9]+/g).slice(0, 3).map(Number)"
    )
    assert (max(background) < 100) == (scheme == "dark")
    page.screenshot(path=tmp_path / f"{scheme}.png")
    page.set_viewport_size({"width": 420, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    page.screenshot(path=tmp_path / f"{scheme}-narrow.png")
    page.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_in_an_exported_page(root: Path, browser: Any, tmp_path: Path, scheme: str) -> None:
    """axe needs a script, which the page itself forbids: it looks at the same page without its policy."""
    made = export_html(root / "runs" / PLAIN, tmp_path / "page.html")
    text = made.read_text(encoding="utf-8")
    policy = next(part for part in text.splitlines() if "Content-Security-Policy" in part)
    made.write_text(text.replace(policy, ""), encoding="utf-8")
    page = browser.new_page(color_scheme=scheme)
    page.goto(made.as_uri())
    assert faults(page, "html") == []
    page.close()
