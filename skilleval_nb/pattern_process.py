"""The child process that matches patterns, as the event loop sees it: frames out, values in, by a deadline."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import TypeVar

from . import pattern_worker

START_S = 30.0
"""How long the child may take to start, or to read a frame."""
_CHUNK = 1 << 16
_JSON_LIBRARIES = (
    "jsonschema",
    "jsonschema_specifications",
    "referencing",
    "rpds",
    "attr",
    "attrs",
    "typing_extensions",
)
_T = TypeVar("_T")


class Worker:
    """The child process and its two pipes.

    The loop watches the pipes; where it cannot (Windows, where only sockets can be watched), a thread waits.
    """

    def __init__(self, limit_s: float, *, threads: bool) -> None:
        import regress

        folder = Path(regress.__file__).parent.parent
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-I",
                "-S",
                pattern_worker.__file__,
                str(folder),
                str(limit_s),
                *_json_folders(),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            start_new_session=True,  # an interrupt at the terminal is ours to handle
        )
        assert self._process.stdin
        assert self._process.stdout
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        self._buffer = bytearray()
        self._answers: list[object] = []
        self._knows_json = False
        self._pool = ThreadPoolExecutor(1) if threads else None
        if not threads:
            os.set_blocking(self._to, False)
            os.set_blocking(self._from, False)

    async def start(self) -> None:
        """Waits until the child can match; raises ChildProcessError where it cannot."""
        try:
            await self.receive(START_S)
        except TimeoutError as error:
            raise ChildProcessError(f"no answer within {START_S:.0f} s") from error

    async def know_json(self) -> None:
        """Has the child load what JSON checks need, on no check's time; raises ChildProcessError."""
        if not self._knows_json:
            await self.send([("", "", "", "prepare")])
            await self.start()
            self._knows_json = True

    async def send(self, value: object) -> None:
        """Writes one frame to the idle child; raises ChildProcessError where it has ended."""
        rest = memoryview(pattern_worker.frame(value))
        deadline = asyncio.get_running_loop().time() + START_S
        try:
            while rest:
                write = partial(os.write, self._to, rest)
                rest = rest[await self._when_ready(self._to, write, deadline) :]
        except OSError as error:  # a time-out here is no pattern's fault
            raise ChildProcessError(str(error)) from error

    async def receive(self, limit_s: float) -> object:
        """The next value; raises TimeoutError where none comes in time, ChildProcessError at the end."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + limit_s
        while not self._answers:
            read = partial(os.read, self._from, _CHUNK)
            data = await self._when_ready(self._from, read, deadline)
            if not data:
                self._process.kill()
                if self._process.wait() == -getattr(signal, "SIGALRM", 0) or loop.time() >= deadline:
                    raise TimeoutError  # the child's own alarm, where this loop came late
                raise ChildProcessError("it ended")
            self._buffer += data
            self._answers = pattern_worker.unframe(self._buffer)
        return self._answers.pop(0)

    def kill(self) -> None:
        """Ends the child; its pipes stay open, so that whoever reads sees the end."""
        self._process.kill()

    def close(self) -> None:
        """Ends the child and waits for it, then closes its pipes."""
        self._process.kill()
        if self._pool:
            self._pool.shutdown()  # a thread in a call on a pipe comes back now, as the child is gone
        with self._process:
            pass

    async def _when_ready(self, fd: int, call: Callable[[], _T], deadline: float) -> _T:
        """What `call` on a pipe returns; raises TimeoutError where the pipe is not ready in time."""
        if self._pool:
            return await self._in_thread(self._pool, call, deadline)
        loop = asyncio.get_running_loop()
        while True:
            try:
                return call()
            except BlockingIOError:  # looked at last, however late this loop comes to it
                if loop.time() >= deadline:
                    raise TimeoutError from None
            ready = loop.create_future()
            (loop.add_writer if fd == self._to else loop.add_reader)(fd, _settle, ready)
            timer = loop.call_at(deadline, _settle, ready)
            try:
                await ready
            finally:
                timer.cancel()
                (loop.remove_writer if fd == self._to else loop.remove_reader)(fd)

    async def _in_thread(self, pool: ThreadPoolExecutor, call: Callable[[], _T], deadline: float) -> _T:
        def quietly() -> _T | OSError:
            try:
                return call()
            except OSError as error:  # nobody may be left to hear it
                return error

        running = asyncio.wrap_future(pool.submit(quietly))
        left = deadline - asyncio.get_running_loop().time()
        if not (await asyncio.wait([running], timeout=max(0.0, left)))[0]:
            raise TimeoutError
        if isinstance(result := running.result(), OSError):
            raise result
        return result


@cache
def _json_folders() -> tuple[str, ...]:
    """Where the libraries for JSON Schemas are, which the child cannot find by itself; nothing is imported."""
    folders: dict[str, None] = {}
    for spec in map(find_spec, _JSON_LIBRARIES):
        places = (spec.submodule_search_locations or [spec.origin or ""]) if spec else []
        folders |= dict.fromkeys(str(Path(place).parent) for place in places)
    return tuple(folders)


def _settle(ready: asyncio.Future[None]) -> None:
    if not ready.done():
        ready.set_result(None)
