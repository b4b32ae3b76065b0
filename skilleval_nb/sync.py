"""Running an async engine from any synchronous place: a cell, a script, pytest, inside a running loop.

The loop lives in a worker thread; the caller's thread shows progress and takes the interrupt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from concurrent.futures import wait
from typing import TypeVar

T = TypeVar("T")
TICK_S = 0.1


def run_sync(main: Callable[[], Awaitable[T]], on_tick: Callable[[], None]) -> T:
    """Runs `main` to its end on a loop of its own; `on_tick` is called here, about ten times a second.

    A KeyboardInterrupt cancels `main`, waits until its `finally` blocks have run, and is raised again.
    """
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal:
        future = portal.start_task_soon(main)
        try:
            while not wait([future], timeout=TICK_S).done:
                on_tick()
        except BaseException:
            future.cancel()
            raise
    return future.result()
