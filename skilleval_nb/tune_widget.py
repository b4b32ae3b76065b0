"""The tuning panel as a widget: a page that draws and sends commands; all state is in a `TuneDesk`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Unpack

import anywidget
import traitlets

from .cases import EvalSet
from .paths import page_file
from .tune_desk import TuneDesk
from .tuning import TuneOptions, TuneSession


def tune(
    skill: str | Path,
    set: str | Path | EvalSet,  # noqa: A002 - the public name of SPEC §3
    **options: Unpack[TuneOptions],
) -> TunePanel:
    """A place to edit a skill in a notebook: what a change does to each case, and every version with its number.

    `skill` is a SKILL.md or its folder; the options are those of `TuneSession` but for the progress, which the panel
    shows. Runs go on in a thread of their own, so cells stay free; only what changed is run. Nothing is written to
    the file but by the button that saves. `.session` is the session behind it.
    Raises InputError (SetError, SkillError) where the skill, the set or an option cannot be.
    """
    return TunePanel(TuneDesk(TuneSession(skill, set, progress=False, **options)))


class TunePanel(anywidget.AnyWidget):
    """The widget; `desk` does what the buttons do, `session` is what it works with.

    Where no widget can be shown, it is the static HTML of its runs and its last result.
    """

    _esm = page_file("page.js") + page_file("tune_widget.js")
    _css = page_file("page.css") + page_file("tune_widget.css")
    view = traitlets.Dict().tag(sync=True)
    text = traitlets.Dict().tag(sync=True)
    progress = traitlets.Dict().tag(sync=True)

    def __init__(self, desk: TuneDesk) -> None:
        self.desk = desk
        self._turn = 0
        super().__init__(**self._seen())
        desk.show, desk.show_progress = self.refresh, self._show_progress
        self.on_msg(self._on_message)

    @property
    def session(self) -> TuneSession:
        """The session: its text, history and versions."""
        return self.desk.session

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for the end of the run in progress; False where it goes on after `timeout_s`."""
        return self.desk.wait(timeout_s)

    def _seen(self) -> dict[str, Any]:
        """What the page draws; `turn` makes each view differ, so that the page hears of every command."""
        self._turn += 1
        return {
            "view": {**self.desk.view(), "turn": self._turn},
            "text": {"value": self.session.text, "page": self.desk.page},
            "progress": self.desk.progress,
        }

    def refresh(self) -> None:
        """Shows the state as it is now; from any thread."""
        with self.desk.lock, self.hold_sync():
            for name, value in self._seen().items():
                setattr(self, name, value)

    def _show_progress(self) -> None:
        with self.desk.lock:
            self.progress = self.desk.progress

    def _on_message(self, _widget: object, content: Any, _buffers: object) -> None:
        """Text and commands from a page."""
        try:
            self.desk.handle(content)
        except Exception as error:  # noqa: BLE001 - in a message handler nobody would hear of it
            self.desk.said = f"{type(error).__name__}: {error}"
        self.refresh()

    def __repr__(self) -> str:
        """Short."""
        return f"TunePanel({self.desk!r})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        with self.desk.lock:
            self.desk.catch_up()
        self.refresh()
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data |= {"text/plain": repr(self), "text/html": self.desk.html()}
        return bundle
