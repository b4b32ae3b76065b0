"""What a tuning panel shows and does, without a widget: commands in, plain data out, runs in a thread of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from .case_view import clean
from .controls import visible
from .errors import SkillevalError
from .execute import Counts
from .gate import counted
from .html import lines_html
from .progress import Painter, status
from .runs import Run
from .text import delta_words, result_lines
from .tune_words import HEAD, change_view, difference_lines, history_row, short, version_words
from .tuning import TuneSession

ROWS = 30
"""The most runs, and versions, that are shown."""
EVERY_S = 0.25
LINES = 4
"""The most lines of what a run said that are shown."""
RUNS: Mapping[str, str] = {
    "run": "run", "fresh": "fresh run", "confirm": "confirmation", "top_up": "run to top up",
}  # fmt: skip


class TuneDesk:
    """A session under somebody's hands.

    `show` is called, from any thread, whenever there is something new to see, `show_progress` for the progress
    alone. `page` names the page that typed last: it has the text already.
    """

    def __init__(self, session: TuneSession) -> None:
        self.session = session
        self.show: Callable[[], None] = lambda: None
        self.show_progress: Callable[[], None] = lambda: None
        self.lock = threading.RLock()
        self.running = ""
        self.progress: dict[str, Any] = {"done": 0, "total": 0, "text": ""}
        self.page = ""
        self.said = ""
        self._lines: list[str] = []
        self._thread: threading.Thread | None = None
        self._difference: dict[str, Any] = {"said": "", "lines": []}
        self._chosen = ""
        self._runs: list[dict[str, Any]] = []
        self._versions: list[dict[str, Any]] = []
        self._changes = change_view(None)
        self._result: list[str] = []
        self._shown: Run | None = None
        session.progress = _DeskPainter(self)
        if left := [name for name in session.adopt_drafts() if session.text_of(name) != session.text]:
            names = ", ".join(map(short, left))
            self.said = (
                f"a text that was not saved last time is kept as version {names}: choose it to go back"
            )
        self._look_again()

    # --- commands ------------------------------------------------------------------------------------------

    def handle(self, content: Any) -> None:
        """What a page sends: its text, if that was edited, and commands; what is none of these is passed over."""
        if not isinstance(content, Mapping):
            return
        with self.lock:
            self.catch_up()
            if isinstance(text := content.get("text"), str):
                self._typed(text, str(content.get("page", "")))
            commands = content.get("commands")
            for command in commands if isinstance(commands, list) else ():
                if isinstance(command, Mapping):
                    try:
                        self._do(command)
                    except SkillevalError as error:
                        self.said = str(error)

    def _typed(self, text: str, page: str) -> None:
        text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.session.text, self.page = text.replace("\r\n", "\n").replace("\r", "\n"), page
        try:
            self.session.keep_draft()
        except SkillevalError as error:
            self.said = str(error)

    def _do(self, command: Mapping[str, Any]) -> None:
        word, version = command.get("do"), str(command.get("version", ""))
        if word in RUNS:
            self._start(str(word))
        elif word == "stop":
            self.session.stop()
            self.said = "stopping: what is finished is kept" if self.running else "nothing is running"
        elif word == "save":
            self.session.save()
            self.said = f"saved: {self.session.path.name}"
            self._look_again()
        elif word == "reload":
            self.session.reload()
            self.page, self.said = "", "the file's text is here; what was here is kept as a version"
            self._look_again()
        elif word == "back":
            self.session.go_back(version)
            self.page, self.said = "", f"back at version {short(version)}; what was here is kept as a version"
            self._look_again()
        elif word == "keep":
            self._keep_aside(str(command.get("text", "")))
        elif word == "choose":
            self._choose(version)

    def _keep_aside(self, text: str) -> None:
        """Keeps what was typed while another text was on its way to the page."""
        mine, self.session.text = self.session.text, text
        try:
            self.session.keep()
        finally:
            self.session.text = mine
        self._look_again()

    def _choose(self, version: str) -> None:
        self._chosen = version
        names = [row["version"] for row in self._versions]
        text = self.session.diff(version)
        before = names[names.index(version) - 1] if version in names[1:] else ""
        said = f"what version {short(version)} changed"
        said += f" against {short(before)}, kept before it" if before else ": it is the first that was kept"
        self._difference = {"said": said if text else f"{said}: nothing", "lines": difference_lines(text)}

    # --- runs ----------------------------------------------------------------------------------------------

    def _start(self, word: str) -> None:
        if self.running:
            self.said = f"a {self.running} is under way: stop it, or wait for its end"
            return
        self.running, self.said, self._lines = RUNS[word], f"{RUNS[word]} begins", []
        last = self.session.last_version if word in ("confirm", "top_up") else None
        if last is not None and self.session.text_of(last) != self.session.text:
            self.said += f": of version {short(last)}, which ran last, not of the text in the editor"
        self.progress = {"done": 0, "total": 0, "text": ""}
        self._thread = threading.Thread(target=self._work, args=(word,), name="skilleval tune", daemon=True)
        self._thread.start()

    def _work(self, word: str) -> None:
        """A run, in its thread: nobody else would hear of an error."""
        name = RUNS[word]
        try:
            run = {
                "run": self.session.run,
                "fresh": lambda: self.session.run(fresh=True),
                "confirm": self.session.confirm,
                "top_up": self.session.top_up,
            }[word]()
            said = self._ended(name, run)
        except SkillevalError as error:
            said = str(error)
        except BaseException as error:  # noqa: BLE001 - it is said where it is seen
            said = f"{type(error).__name__}: {error}"
        with self.lock:
            self.said, self.running = said, ""
            try:
                if self._shown is self.session.last_run:  # nothing ran, but a text may have been kept
                    self._look_again()
                self.catch_up()
            except Exception as error:  # noqa: BLE001 - the same
                self.said += f"; {type(error).__name__}: {error}"
        self.show()

    def _ended(self, name: str, run: Run) -> str:
        if run.record["partial"]:
            done = run.record["trialsMeasured"] + run.record["trialsErrored"]
            planned = counted(run.record["trialsPlanned"], "trial")
            return f"{name} stopped: {done} of {planned} are kept, and the next takes them over"
        return f"{name} ended: Δ {delta_words(run.record)}, {run.gate}"

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the run in progress; False where it goes on."""
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not self.running

    def say(self, line: str) -> None:
        """Shows a line that a run says."""
        with self.lock:
            self._lines = [*self._lines, line][-LINES:]
        self.show()

    # --- what is shown -------------------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Takes in the last run, also one that was started in a cell."""
        if not self.running and self._shown is not self.session.last_run:
            self._shown = self.session.last_run
            self._result = self._result_lines()
            self._changes = change_view(self.session.compared())
            self._look_again()

    def _look_again(self) -> None:
        """Reads history and versions anew."""
        self._runs = self.session.history.to_dicts()
        self._versions = self.session.versions.to_dicts()

    def view(self) -> dict[str, Any]:
        """All but the text: plain data, every text harmless to look at."""
        with self.lock:
            session, found = self.session, self.session.check()
            kept = {row["version"]: row for row in self._versions}
            shown = self._runs[::-1][:ROWS]
            return clean(  # type: ignore[no-any-return]
                {
                    "title": self.title(),
                    "state": self._state(),
                    "changed_outside": session.is_changed_outside,
                    "remarks": found.lines(),
                    "blocked": bool(found.stops),
                    "running": self.running,
                    "said": self.said,
                    "lines": list(self._lines),
                    "result": self._result,
                    "changes": self._changes,
                    "head": list(HEAD),
                    "runs": [
                        {
                            "version": row["version"] if row["version"] in kept else "",
                            "run": row["run_id"],
                            "cells": history_row(row),
                        }
                        for row in shown
                    ],
                    "runs_left_out": len(self._runs) - len(shown),
                    "versions": [
                        [
                            name,
                            version_words(
                                row, sum(run["version"] == row["skill_hash"] for run in self._runs)
                            ),
                        ]
                        for name, row in reversed(kept.items())
                    ],
                    "chosen": self._chosen if self._chosen in kept else next(reversed(kept), ""),
                    "difference": self._difference,
                }
            )

    def title(self) -> str:
        """Which skill, under which set."""
        return f"{self.session.path.parent.name or self.session.path.name} · set {self.session.set_name}"

    def _state(self) -> str:
        if self.session.is_changed_outside:
            return "the file was changed by another program: take its text with reload, which keeps yours as a version"
        return "saved" if self.session.is_saved else "not saved"

    def _result_lines(self) -> list[str]:
        """The last run of this session in words, and what its version's fresh pairs say."""
        run = self.session.last_run
        if run is None:
            return []
        lines = result_lines(run.record)
        if (evidence := self.session.e_value).value is not None:
            lines.append(str(evidence))
        return lines

    def html(self) -> str:
        """The panel as static HTML: state, last result, and the runs, newest first."""
        found = self.session.check()
        lines = [self.title(), f"{self.session.path.name}: {self._state()}", *found.lines(), *self._result]
        rows = [history_row(row) for row in reversed(self._runs)]
        return lines_html(f"runs of {self.title()}", [visible(line) for line in lines], HEAD, rows)

    def __repr__(self) -> str:
        return f"{visible(self.title())}: {counted(len(self._runs), 'run')}"


class _DeskPainter(Painter):
    """Keeps what a run says and how far it is, four times a second at most."""

    def __init__(self, desk: TuneDesk) -> None:
        self._desk = desk
        self._counts = Counts()
        self._began = self._last = 0.0

    def say(self, line: str) -> None:
        self._desk.say(line)

    def start(self, title: str, counts: Counts) -> None:
        self._counts, self._began, self._last = counts, time.monotonic(), 0.0
        self.paint()

    def paint(self) -> None:
        now = time.monotonic()
        if now - self._last >= EVERY_S:
            self._last = now
            self._put(now)

    def finish(self) -> None:
        self._put(time.monotonic())

    def _put(self, now: float) -> None:
        counts = self._counts
        text = visible(status(counts, now - self._began))
        self._desk.progress = {"done": counts.done, "total": counts.total, "text": text}
        self._desk.show_progress()
