"""Which way of showing progress suits the place that a run is started from."""

from __future__ import annotations

import sys

from .progress import Bar, Lines, Painter, Progress, Quiet


def painter_for(progress: bool | Progress | Painter | None) -> Painter:  # noqa: FBT001 - handed on as it came
    """What suits the place: a widget in a notebook, a bar in a terminal, else lines; False: nothing."""
    if isinstance(progress, Painter):
        return progress
    if progress is False:
        return Quiet()
    if callable(progress):
        return Quiet(progress)
    if in_notebook():
        from .widget import Widget

        return Widget()
    return Bar() if sys.stderr.isatty() else Lines()


def in_notebook() -> bool:
    """True in a Jupyter kernel."""
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")
