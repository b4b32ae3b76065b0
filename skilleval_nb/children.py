"""Child processes: each in a group of its own, read without a deadlock, and ended whatever happens.

A child that has to end is asked first (SIGTERM to its group), given a grace, then killed, and what it
started is killed with it. It works in any event loop of any thread, and no child outlives the process that
started it, unless that one is killed itself. On Windows there are no groups: the child alone is ended.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import errno
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GRACE_S = 5.0
"""Agents clean up after themselves on SIGTERM (the commands they run are in other sessions), if given time."""
LINGER_S = 0.5
"""How long the output of a child that has ended may stay open in the hands of a process it left behind."""
STDOUT_BYTES = 64 * 2**20
STDERR_BYTES = 2**20


@dataclass(frozen=True, slots=True)
class ChildResult:
    """How a child ended and what it printed.

    `status` is the exit status, or minus the number of the signal that ended it. `overflow` says that the
    child was ended because it printed more than its limit; `stdout` is then cut there. `stderr` keeps its
    first mebibyte.
    """

    status: int
    stdout: bytes
    stderr: bytes
    wall_s: float
    overflow: bool = False


async def run_child(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
    limit_bytes: int = STDOUT_BYTES,
    grace_s: float = GRACE_S,
    owner: object = None,
) -> ChildResult:
    """Runs `argv` (no shell) to its end with exactly `env`, reading `stdin` from a file that holds it all.

    If this coroutine is cancelled the child and its group are ended before the cancellation goes on: within
    `grace_s` and a moment; a second cancellation kills at once. `owner` names children for `end_all`.
    Raises OSError where the child cannot be started.
    """
    loop = asyncio.get_running_loop()
    started = time.perf_counter()
    child = _Child(loop, limit_bytes, owner)
    with tempfile.TemporaryFile() as source:
        source.write(stdin)
        source.seek(0)
        _register(child)
        starting = asyncio.ensure_future(_start(loop, child, argv, source.fileno(), env, cwd))
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            with contextlib.suppress(OSError):
                await starting
                await child.end(grace_s)
            raise
        finally:
            if not child.pid:
                _live.discard(child)
    try:
        await child.finished
    finally:
        await child.end(grace_s)
    return ChildResult(
        status=child.exited.result(),
        stdout=bytes(child.output[1][:limit_bytes]),
        stderr=bytes(child.output[2]),
        wall_s=time.perf_counter() - started,
        overflow=child.overflow,
    )


async def _start(
    loop: asyncio.AbstractEventLoop,
    child: _Child,
    argv: Sequence[str],
    stdin: int,
    env: Mapping[str, str],
    cwd: str | os.PathLike[str],
) -> None:
    group: dict[str, Any] = {"start_new_session": True}
    if sys.platform == "win32":
        group = {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}
    try:
        await loop.subprocess_exec(lambda: child, *argv, stdin=stdin, env=dict(env), cwd=cwd, **group)
    except NotImplementedError:
        problem = "this event loop cannot start processes (on Windows, the selector loop of some notebooks)"
        raise OSError(errno.ENOSYS, problem) from None
    except ValueError as error:  # a zero byte in an argument
        raise OSError(errno.EINVAL, str(error)) from None


class _Child(asyncio.SubprocessProtocol):
    """One child: collects what it prints, and knows the two moments that matter."""

    transport: asyncio.SubprocessTransport

    def __init__(self, loop: asyncio.AbstractEventLoop, limit: int, owner: object) -> None:
        self.exited: asyncio.Future[int] = loop.create_future()
        self.finished: asyncio.Future[None] = loop.create_future()
        """The child is gone and all it printed is here, or it printed too much."""
        self.output: Mapping[int, bytearray] = {1: bytearray(), 2: bytearray()}
        self.overflow = False
        self.owner = owner
        self.parent = os.getpid()
        self.pid = 0
        """0 until it has started."""
        self.doomed = False
        """To be ended as soon as it has started."""
        self._loop = loop
        self._limit = limit

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.SubprocessTransport)
        self.transport = transport
        self.pid = transport.get_pid() or 0
        if self.doomed:
            self.send(_KILL)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        held = self.output[fd]
        if fd == 2:
            held += data[: STDERR_BYTES - len(held)]
        elif len(held) <= self._limit:
            held += data
            if len(held) > self._limit:
                self.overflow = True
                self._finish()

    def process_exited(self) -> None:
        status = self.transport.get_returncode()
        assert status is not None
        if not self.exited.done():
            self.exited.set_result(status)
        # What the child left in its group goes with it. The number is safe to use: it is not given to
        # another process while the group has members, and with none there is nothing to signal.
        self.send(_KILL)
        _live.discard(self)
        self._loop.call_later(LINGER_S, self._finish)

    def connection_lost(self, exc: Exception | None) -> None:
        self._finish()

    def _finish(self) -> None:
        if not self.finished.done():
            self.finished.set_result(None)

    def send(self, number: int) -> None:
        """Signals the whole group, gone or not."""
        if not self.pid:
            return
        if sys.platform == "win32":
            if not self.exited.done():
                self.transport.kill()
        else:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, number)

    async def end(self, grace_s: float) -> None:
        """Ends the child if it still runs, and all that came of it; returns when it is gone."""
        try:
            if not self.exited.done():
                await self._end(grace_s)
        finally:
            self.transport.close()

    async def _end(self, grace_s: float) -> None:
        family = _family(self.pid)
        self.send(signal.SIGTERM)
        impatience: asyncio.CancelledError | None = None
        try:
            await asyncio.wait([self.exited], timeout=grace_s)
        except asyncio.CancelledError as error:
            impatience = error
        if not self.exited.done():
            family |= _family(self.pid)
            self.send(_KILL)
        _kill_family(family)
        # What was killed is gone in a moment, and has to be taken note of while there is a loop to do it.
        await asyncio.wait([self.exited], timeout=GRACE_S)
        if impatience is not None:
            raise impatience


_KILL: int = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
_live: set[_Child] = set()
_at_exit = threading.Event()


def _register(child: _Child) -> None:
    _live.add(child)
    if not _at_exit.is_set():
        _at_exit.set()
        atexit.register(end_all)


def end_all(owner: object = None, *, grace_s: float = 1.0) -> None:
    """Ends every child that still runs, or those of one owner, from any thread and without an event loop."""
    # A fork of this process has the list too, but they are not its children.
    mine = [c for c in list(_live) if c.parent == os.getpid() and (owner is None or c.owner is owner)]
    for child in mine:
        child.doomed = True
    _await(lambda: all(child.pid or child not in _live for child in mine), grace_s)
    mine = [child for child in mine if child.pid]
    families = {child: _family(child.pid) for child in mine}
    for child in mine:
        child.send(signal.SIGTERM)
    _await(lambda: all(_gone(child.pid) for child in mine), grace_s)
    for child in mine:
        child.send(_KILL)
        _kill_family(families[child])
        _live.discard(child)


def _await(done: Callable[[], bool], limit_s: float) -> None:
    deadline = time.monotonic() + limit_s
    while not done() and time.monotonic() < deadline:
        time.sleep(0.01)


def _gone(pid: int) -> bool:
    """Whether a child has ended, without taking its status from the event loop that waits for it."""
    if sys.platform == "win32":
        return True
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return True


def _family(root: int) -> dict[int, int]:
    """All descendants of a process with their start times, whatever their group; Linux only, else none.

    An agent's commands run in sessions of their own, which no signal to the group reaches.
    """
    children: dict[int, list[tuple[int, int]]] = {}
    for entry in Path("/proc").glob("[0-9]*/stat") if sys.platform == "linux" else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            fields = entry.read_bytes().rpartition(b")")[2].split()
            children.setdefault(int(fields[1]), []).append((int(entry.parent.name), int(fields[19])))
    found: dict[int, int] = {}
    parents = [root]
    while parents:
        born = children.get(parents.pop(), [])
        found.update(born)
        parents += [pid for pid, _ in born]
    return found


def _kill_family(family: Mapping[int, int]) -> None:
    """Kills those of a family that still run; the start time tells them from a later owner of the number."""
    for pid, started in family.items():
        with contextlib.suppress(OSError, ValueError, IndexError):
            stat = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
            if int(stat[19]) == started:
                os.kill(pid, _KILL)
