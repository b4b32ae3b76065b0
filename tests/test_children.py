"""Child processes: fed, read and ended, whatever happens; real processes throughout."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import resource
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from skilleval_nb.children import STDERR_BYTES, ChildResult, end_all, run_child

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="looks for processes in /proc")

ENV = {"PATH": os.environ["PATH"], "LANG": "C.UTF-8"}
HANG = "import time\nwhile True: time.sleep(1)"
DEAF = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{HANG}"
BROOD = f"""
import os, subprocess, sys
me = [sys.executable, '-IS', '-c', {DEAF!r}, sys.argv[1]]
subprocess.Popen(me, stdout=subprocess.DEVNULL)
subprocess.Popen(me, stdout=subprocess.DEVNULL, start_new_session=True)
"""


@pytest.fixture
def mark() -> Iterator[str]:
    """A word that stands in the command line of every process of the test; none may be left."""
    word = uuid.uuid4().hex
    yield word
    left = [] if none_left(word) else running(word)
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == [], "the test left processes behind"


def running(mark: str) -> list[int]:
    """Processes with `mark` in their command line; a zombie has none."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in entry.read_bytes():
                found.append(int(entry.parent.name))
    return found


def deaf(mark: str) -> int:
    """How many of those processes have come to the point where they ignore SIGTERM."""
    count = 0
    for pid in running(mark):
        with contextlib.suppress(OSError):
            ignored = re.search(r"^SigIgn:\s*(\w+)", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
            count += ignored is not None and bool(int(ignored[1], 16) >> (signal.SIGTERM - 1) & 1)
    return count


def none_left(mark: str) -> bool:
    """Whether all are gone, or will be in a moment: a signal takes effect when its process next runs."""
    deadline = time.monotonic() + 10
    while running(mark) and time.monotonic() < deadline:
        time.sleep(0.01)
    return not running(mark)


async def until(done: Callable[[], bool], limit_s: float = 10) -> None:
    deadline = time.monotonic() + limit_s
    while not done():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)


def python(
    code: str, mark: str, *, stdin: bytes = b"", limit: int = 2**26, grace_s: float = 5, owner: object = None
) -> Coroutine[object, object, ChildResult]:
    argv = [sys.executable, "-IS", "-c", code, mark]
    return run_child(argv, stdin=stdin, env=ENV, cwd="/", limit_bytes=limit, grace_s=grace_s, owner=owner)


async def cancel_when(call: Coroutine[object, object, ChildResult], ready: Callable[[], bool]) -> float:
    """Cancels a call once `ready`, and returns how long the cancellation took."""
    task = asyncio.ensure_future(call)
    await until(ready)
    started = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return time.monotonic() - started


def test_status_output_and_working_folder(tmp_path: Path) -> None:
    code = "import os, sys; print(os.getcwd()); print('oh', file=sys.stderr); sys.exit(7)"
    done = asyncio.run(run_child([sys.executable, "-IS", "-c", code], env=ENV, cwd=tmp_path))
    assert (done.status, done.stdout, done.stderr) == (7, f"{tmp_path}\n".encode(), b"oh\n")
    assert 0 < done.wall_s < 60
    assert not done.overflow


def test_a_signal_is_a_negative_status(mark: str) -> None:
    code = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    assert asyncio.run(python(code, mark)).status == -9


def test_the_environment_is_exactly_what_was_given(mark: str) -> None:
    done = asyncio.run(python("import os; print(sorted(os.environ))", mark))
    assert done.stdout == b"['LANG', 'PATH']\n"


@pytest.mark.parametrize("data", [b"", b"one line", b"\0\xff" * 4_000_000])
def test_megabytes_both_ways_do_not_block(data: bytes, mark: str) -> None:
    code = (
        "import sys\nsys.stdout.buffer.write(b'x' * 3000000); sys.stderr.buffer.write(b'e' * 3000000)\n"
        "data = sys.stdin.buffer.read(); sys.stdout.buffer.write(data)"
    )
    done = asyncio.run(python(code, mark, stdin=data))
    assert done.stdout == b"x" * 3_000_000 + data
    assert done.stderr == b"e" * STDERR_BYTES
    assert done.status == 0


def test_a_child_that_reads_nothing_is_no_error(mark: str) -> None:
    assert asyncio.run(python("print(1)", mark, stdin=b"x" * 5_000_000)).stdout == b"1\n"


def test_a_child_that_prints_without_end_is_ended_at_the_limit(mark: str) -> None:
    done = asyncio.run(python("while True: print('y' * 1000)", mark, limit=100_000))
    assert done.overflow
    assert len(done.stdout) == 100_000
    assert done.status == -signal.SIGTERM


def test_cancelling_lets_the_child_clean_up(tmp_path: Path, mark: str) -> None:
    code = (
        "import signal, sys, pathlib\n"
        f"up, swept = pathlib.Path({str(tmp_path / 'up')!r}), pathlib.Path({str(tmp_path / 'swept')!r})\n"
        "def sweep(*_):\n    swept.touch(); sys.exit()\n"
        "signal.signal(signal.SIGTERM, sweep); up.touch()\n"
        "while True: signal.pause()"
    )
    took = asyncio.run(cancel_when(python(code, mark, grace_s=60), (tmp_path / "up").exists))
    assert (tmp_path / "swept").exists()
    assert took < 30


def test_a_deaf_child_is_killed_with_all_it_started(mark: str) -> None:
    call = python(BROOD + DEAF, mark, grace_s=0.1)
    took = asyncio.run(cancel_when(call, lambda: deaf(mark) == 3))
    assert 0.1 <= took < 5
    assert none_left(mark)


def test_what_a_polite_child_leaves_outside_its_group_goes_too(mark: str) -> None:
    call = python(BROOD + HANG, mark, grace_s=60)
    took = asyncio.run(cancel_when(call, lambda: deaf(mark) == 2))
    assert took < 30
    assert none_left(mark)


def test_a_second_cancellation_does_not_wait_for_the_grace(mark: str) -> None:
    async def scenario() -> float:
        task = asyncio.ensure_future(python(DEAF, mark, grace_s=60))
        await until(lambda: deaf(mark) == 1)
        started = time.monotonic()
        task.cancel()
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: running(mark) == [])
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 30


@pytest.mark.parametrize("turns", range(8))
def test_cancelling_at_any_moment_of_the_start_leaves_nothing(turns: int, mark: str) -> None:
    async def scenario() -> None:
        task = asyncio.ensure_future(python(HANG, mark, grace_s=1))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await until(lambda: running(mark) == [])

    asyncio.run(scenario())


def test_a_time_limit_ends_the_child(mark: str) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(0.3):
            await python(HANG, mark)

    with pytest.raises(TimeoutError):
        asyncio.run(scenario())
    assert none_left(mark)


def test_a_grandchild_that_holds_the_output_open_delays_nobody(mark: str) -> None:
    code = (
        "import subprocess, sys; print('done', flush=True)\n"
        f"subprocess.Popen([sys.executable, '-IS', '-c', {HANG!r}, sys.argv[1]])"
    )
    done = asyncio.run(python(code, mark))
    assert (done.status, done.stdout) == (0, b"done\n")
    assert done.wall_s < 30


def test_it_works_in_a_loop_of_another_thread(mark: str) -> None:
    found: list[ChildResult] = []
    worker = threading.Thread(target=lambda: found.append(asyncio.run(python("print('hi')", mark))))
    worker.start()
    worker.join(60)
    assert [(done.status, done.stdout) for done in found] == [(0, b"hi\n")]


def test_many_at_once(mark: str) -> None:
    code = "import sys; print(sys.stdin.read())"

    async def scenario() -> list[ChildResult]:
        return await asyncio.gather(*(python(code, mark, stdin=str(n).encode()) for n in range(12)))

    assert [int(done.stdout) for done in asyncio.run(scenario())] == list(range(12))


@pytest.mark.parametrize(
    "argv", [["/no/such/program"], ["/"], [sys.executable, "a\0b"], [sys.executable, "x" * 200_000]]
)
def test_what_cannot_be_started_is_an_oserror(argv: list[str]) -> None:
    with pytest.raises(OSError, match=r".+"):
        asyncio.run(run_child(argv, env=ENV, cwd="/"))


def test_end_all_ends_the_children_of_one_owner(mark: str) -> None:
    mine, other = object(), object()

    async def scenario() -> tuple[int, int]:
        doomed = asyncio.ensure_future(python(DEAF, mark, owner=mine))
        await until(lambda: deaf(mark) == 1)
        spared = asyncio.ensure_future(python(f"{HANG}", mark + "-spared", owner=other))
        await until(lambda: len(running(mark)) == 2)
        end_all(mine, grace_s=0.05)
        first = await doomed
        assert len(running(mark)) == 1
        end_all(other)
        return first.status, (await spared).status

    assert asyncio.run(scenario()) == (-signal.SIGKILL, -signal.SIGTERM)


def test_no_child_outlives_the_process_that_started_it(mark: str) -> None:
    script = f"""
import asyncio, sys, threading, time
from pathlib import Path
from skilleval_nb.children import run_child
argv = [sys.executable, "-IS", "-c", {HANG!r}, {mark!r}]
call = lambda: asyncio.run(run_child(argv, env={{}}, cwd="/"))
threading.Thread(target=call, daemon=True).start()
while not any(task.read_text() for task in Path("/proc/self/task").glob("*/children")):
    time.sleep(0.01)
print("started")
"""
    argv = [sys.executable, "-c", script]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr
    assert none_left(mark)


def test_a_child_costs_little_processor_time(mark: str) -> None:
    async def scenario() -> None:
        for _ in range(40):
            await run_child(["/bin/true", mark], stdin=b"x" * 10_000, env=ENV, cwd="/")

    before = resource.getrusage(resource.RUSAGE_SELF)
    asyncio.run(scenario())
    after = resource.getrusage(resource.RUSAGE_SELF)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert spent / 40 < 0.010
