"""Progress in a notebook: a bar that moves while the run lasts, and lines that stay when it is over.

What stays is plain text and static HTML, without a time or a token count, so a saved notebook says something
true and the same run leaves the same output. Only the bar needs the widget; it is closed at the end.
"""

from __future__ import annotations

import time
from typing import Any

import ipywidgets
from IPython.display import display

from .controls import visible
from .execute import Counts
from .html import line_html
from .progress import Painter, status

EVERY_S = 0.25
"""At most this often: a kernel's messages are limited, and four times a second looks alive."""


class Line:
    """A sentence as an output: text in a terminal and in a saved notebook's source, escaped HTML on the page."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return visible(self.text)

    def _repr_html_(self) -> str:
        return line_html(self.text)


class Live(ipywidgets.HBox):  # type: ignore[misc, unused-ignore]
    """The bar and its text; as text or HTML the sentence that was true when the run began."""

    def __init__(self, opening: str, total: int) -> None:
        self.line = Line(opening)
        self.bar = ipywidgets.IntProgress(min=0, max=max(total, 1), layout={"width": "16em"})
        self.text = ipywidgets.Label()
        super().__init__([self.bar, self.text])

    def __repr__(self) -> str:
        return repr(self.line)

    def _repr_mimebundle_(self, **options: Any) -> Any:
        bundle = super()._repr_mimebundle_(**options)
        data = bundle[0] if isinstance(bundle, tuple) else bundle
        if data is not None:
            data |= {"text/plain": repr(self.line), "text/html": self.line._repr_html_()}
        return bundle

    def close(self) -> None:
        """Takes the bar off the page and its parts out of the kernel."""
        for part in (self.bar, self.text):
            for model in (part.layout, part.style, part):
                model.close()
        self.layout.close()
        super().close()


class Widget(Painter):
    """Shows a run in the cell that started it."""

    def __init__(self) -> None:
        self.counts = Counts()
        self._title = ""
        self._live: Live | None = None
        self._began = self._last = 0.0

    def __repr__(self) -> str:
        """Stable: nothing that moves."""
        return "Widget()"

    def say(self, line: str) -> None:
        """Adds a line to the cell's output."""
        display(Line(line))

    def start(self, title: str, counts: Counts) -> None:
        """Shows the bar."""
        self.counts = counts
        self._title = title
        self._began = time.monotonic()
        left = counts.total - counts.done
        opening = f"{title}: {counts.total} trials to run"
        if counts.done:
            opening = f"{title}: {left} of {counts.total} trials left to run"
        self._live = Live(opening, counts.total)
        self._last = 0.0
        display(self._live)
        self.paint()

    def paint(self) -> None:
        """Moves the bar, at most four times a second."""
        now = time.monotonic()
        if self._live is None or now - self._last < EVERY_S:
            return
        self._last = now
        self._live.bar.value = self.counts.done
        self._live.text.value = visible(f"{self._title}  {status(self.counts, now - self._began)}")

    def finish(self) -> None:
        """Puts a line that stays in the bar's place; safe to call again."""
        if self._live is None:
            return
        live, self._live = self._live, None
        live.close()
        counts = self.counts
        errors = f"{counts.errors} error{'' if counts.errors == 1 else 's'}"
        display(Line(f"{self._title}: {counts.done}/{counts.total} trials ended · {errors}"))
