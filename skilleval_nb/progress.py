"""Live progress: one bar in a terminal, one widget in a notebook, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import IO, Any

from .execute import Counts

Progress = Callable[[Counts], None]


class Painter(ABC):
    """Shows how far a run is; `paint` is called about ten times a second and draws as often as it likes."""

    @abstractmethod
    def say(self, line: str) -> None:
        """Shows a line that stays."""

    @abstractmethod
    def start(self, title: str, counts: Counts) -> None:
        """Begins."""

    @abstractmethod
    def paint(self) -> None:
        """Brings what is shown up to date."""

    @abstractmethod
    def finish(self) -> None:
        """Ends, whatever happened."""


def status(counts: Counts, elapsed_s: float) -> str:
    """`12/18 · 1 error · tokens 512 in, 230 out · about 20 s left`."""
    parts = [f"{counts.done}/{counts.total}", f"{counts.errors} error{'' if counts.errors == 1 else 's'}"]
    if counts.tokens_in or counts.tokens_out:
        parts.append(f"tokens {counts.tokens_in} in, {counts.tokens_out} out")
    left = seconds_left(counts, elapsed_s)
    if left is not None and counts.done < counts.total:
        parts.append(f"about {_duration(left)} left")
    return " · ".join(parts)


def seconds_left(counts: Counts, elapsed_s: float) -> float | None:
    """Time left at the pace so far; None before the first trial of this session has ended."""
    here = counts.done - counts.started_with
    return (counts.total - counts.done) * elapsed_s / here if here > 0 else None


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"


class Quiet(Painter):
    """Shows nothing, or hands the counts to a function of the user's."""

    def __init__(self, function: Progress | None = None) -> None:
        self.function = function
        self.counts = Counts()
        self._seen = -1

    def say(self, line: str) -> None:
        """Nothing is shown."""

    def start(self, title: str, counts: Counts) -> None:
        """Hands on the counts as they are before the first trial."""
        self.counts = counts
        self.paint()

    def paint(self) -> None:
        """Calls the function when a trial has ended since the last call."""
        if self.function is not None and self.counts.done != self._seen:
            self._seen = self.counts.done
            try:
                self.function(self.counts)
            except Exception as error:  # noqa: BLE001 - what shows a run must not end it
                self.function = None
                print(f"progress: {type(error).__name__}: {error}; not called again", file=sys.stderr)

    def finish(self) -> None:
        """One last call, with the final counts."""
        self.paint()


class Lines(Painter):
    """For logs and pipes: a line at the start and every `every_s` seconds, nothing that moves."""

    def __init__(self, stream: IO[str] | None = None, every_s: float = 15.0) -> None:
        self.stream = stream
        self.every_s = every_s
        self.counts = Counts()
        self._began = self._last = 0.0

    def say(self, line: str) -> None:
        """Prints the line to the stream, standard error by default."""
        print(line, file=self.stream or sys.stderr, flush=True)

    def start(self, title: str, counts: Counts) -> None:
        """Begins to count the time."""
        self.counts = counts
        self._began = self._last = time.monotonic()

    def paint(self) -> None:
        """Prints a line when it is time for one."""
        now = time.monotonic()
        if now - self._last >= self.every_s:
            self._last = now
            self.say(status(self.counts, now - self._began))

    def finish(self) -> None:
        """Nothing is left to clear."""


class Bar(Painter):
    """A bar in a terminal, gone when the run ends."""

    def __init__(self) -> None:
        from rich.console import Console

        self.console = Console(stderr=True, highlight=False)
        self.counts = Counts()
        self._bar: Any = None
        self._began = 0.0

    def say(self, line: str) -> None:
        """Prints above the bar."""
        self.console.print(line, markup=False, soft_wrap=True)

    def start(self, title: str, counts: Counts) -> None:
        """Draws the bar for the first time."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        self.counts = counts
        self._began = time.monotonic()
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24))
        self._bar = Progress(
            *columns, TextColumn("{task.fields[status]}", markup=False), console=self.console, transient=True,
            refresh_per_second=5,
        )  # fmt: skip
        self._task = self._bar.add_task(title, total=counts.total or 1, status=status(counts, 0.0))
        self._bar.start()

    def paint(self) -> None:
        """Moves the bar; it redraws itself five times a second."""
        text = status(self.counts, time.monotonic() - self._began)
        self._bar.update(self._task, completed=self.counts.done, status=text)

    def finish(self) -> None:
        """Takes the bar away."""
        if self._bar is not None:
            self._bar.stop()
