"""The transcript inspector as a widget: a page that draws and sends commands; all state is in an `Inspection`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anywidget
import traitlets

from .controls import visible
from .inspect_html import inspection_html
from .inspection import Inspection
from .labels import HasFolder
from .paths import page_file
from .transcripts import open_transcripts


def inspect(
    run: HasFolder | str | Path | Any, *, case: str | None = None, runs_dir: str | Path = "runs"
) -> Inspector:
    """Every transcript of a run, both conditions beside each other, one key from the next.

    `run` is a Run, its id, "last", its folder, or a frame of trials as `run.trials` and `load_log(level="trial")`
    give it, also of several runs: then only its trials are shown. `case` is where to begin. Press `?` for the
    keys. Labels and notes are written beside the run at once (`labels.jsonl`).
    Raises RunNotFound where a run's transcripts are not here, InputError where `run` or `case` cannot be.
    """
    return Inspector(Inspection(open_transcripts(run, runs_dir), case))


class Inspector(anywidget.AnyWidget):
    """The widget; `inspection` does what the keys do, followed by `refresh`.

    Where no widget can be shown, it is the static HTML of what it showed first.
    """

    _esm = page_file("page.js") + page_file("inspector.js")
    _css = page_file("page.css") + page_file("inspector.css")
    view = traitlets.Dict().tag(sync=True)
    rows = traitlets.Dict().tag(sync=True)
    systems: traitlets.List[Any] = traitlets.List().tag(sync=True)

    def __init__(self, inspection: Inspection) -> None:
        self.inspection = inspection
        self._turn = 0
        super().__init__(**self._seen())
        self.on_msg(self._on_message)

    def _seen(self) -> dict[str, Any]:
        """What the page draws; `turn` makes each view differ, so that the page hears of every command."""
        self._turn += 1
        found = self.inspection
        return {
            "view": {**found.view(), "turn": self._turn},
            "rows": found.rows_view(),
            "systems": list(found.systems_view()),
        }

    def refresh(self) -> None:
        """Shows the state as it is now."""
        with self.hold_sync():
            for name, value in self._seen().items():
                setattr(self, name, value)

    def _on_message(self, _widget: object, content: Any, _buffers: object) -> None:
        """Commands from a page, in the order of its keys."""
        try:
            self.inspection.handle(content.get("commands") if isinstance(content, dict) else None)
        except Exception as error:  # noqa: BLE001 - in a message handler nobody would hear of it
            self.inspection.said = f"{type(error).__name__}: {error}"
        self.refresh()

    def __repr__(self) -> str:
        """Short and the same each time."""
        name = visible(str(self.inspection.found.sources[0].header["set"]))
        return f"Inspector({name}: {self.inspection.size()})"

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data |= {"text/plain": repr(self), "text/html": inspection_html(self.inspection)}
        return bundle
