"""A real browser for tests: a page with one notebook in JupyterLab, and what no page may have done.

Import it before anything else that the tests need: where there is no browser, it skips the module.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

playwright = pytest.importorskip("playwright.sync_api", reason="needs the package playwright")
if sys.platform == "win32":
    pytest.skip("drives a chromium of the system", allow_module_level=True)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if CHROMIUM is None:
    pytest.skip("needs a browser: apt-get install chromium", allow_module_level=True)
pytest.importorskip("jupyterlab", reason="needs JupyterLab: pip install 'skilleval_nb[lab]'")

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
]
FLAGS += ["--disable-component-update", "--disable-sync"]


@contextmanager
def chromium() -> Iterator[Any]:
    """A browser, closed when the block ends."""
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield started
        started.close()


class Window:
    """A page with one notebook; what it asked the network for is kept."""

    def __init__(self, browser: Any, address: str, width: int = 1200) -> None:
        self.page = browser.new_page(viewport={"width": width, "height": 1000})
        self.outside: list[str] = []
        self.page.on("request", self._note)
        self.page.goto(address, timeout=60_000)
        self.cells = self.page.locator(".jp-Notebook .jp-CodeCell")
        # The status bar says it only after the kernel has answered; the dot in the toolbar is too early.
        self.wait_until_idle()

    def _note(self, request: Any) -> None:
        if not request.url.startswith(("http://127.0.0.1", "ws://127.0.0.1", "data:", "blob:")):
            self.outside.append(request.url)

    def wait_until_idle(self, timeout_s: float = 60) -> None:
        idle = self.page.locator(".jp-StatusBar-TextItem", has_text="| Idle")
        playwright.expect(idle).to_be_visible(timeout=timeout_s * 1000)

    def run_all(self) -> None:
        self.page.locator(".lm-MenuBar-item", has_text="Run").click()
        self.page.locator('.lm-Menu li[data-command="runmenu:run-all"]').click()

    def output(self, source: str) -> Any:
        """The outputs of the cell whose source holds a text."""
        holding = self.page.locator(".jp-InputArea-editor", has_text=source)
        return self.cells.filter(has=holding).first.locator(".jp-OutputArea").first

    def says(self, source: str, text: str | re.Pattern[str], timeout_s: float = 30) -> None:
        playwright.expect(self.output(source)).to_contain_text(text, timeout=timeout_s * 1000)

    def save(self) -> None:
        self.page.keyboard.press("Escape")
        self.page.keyboard.press("Control+s")
        playwright.expect(self.page.locator(".jp-mod-dirty")).to_have_count(0, timeout=10_000)

    def finish(self) -> None:
        """What no page may have done."""
        assert self.page.evaluate("window.__acted") is None, "a model's text ran as a script"
        assert self.outside == []
        self.page.close()
