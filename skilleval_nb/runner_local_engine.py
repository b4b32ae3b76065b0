"""A GGUF model loaded into this process: settings, loading, one call, and stopping it at any moment.

One loaded model serves every caller of the same file, one call at a time. The settings were chosen by
measurement: one thread, no prompt cache (it changes greedy texts), passive waiting (spinning stalls on a
busy machine), small batches (the stop flag is looked at between two of them).
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import importlib.util
import json
import os
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from .errors import MissingExtra, Problem, RunnerFailure, RunnerUnavailable
from .values import Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import ModuleType

T = TypeVar("T")

THREADS = 1
_BATCH = 32  # tokens of prompt between two looks at the stop flag: about 0.3 s
_CPUINFO = Path("/proc/cpuinfo")


def import_engine() -> ModuleType:
    """Import the engine's package.

    Raises MissingExtra where it is not installed, RunnerUnavailable where it cannot start on this machine.
    """
    if importlib.util.find_spec("xllamacpp") is None:
        raise MissingExtra("the embedded model's engine", "local")
    if "xllamacpp" not in sys.modules and _lacks_avx2():
        raise RunnerUnavailable(
            Problem(
                "", "the embedded model's engine needs a processor with AVX2", "use another runner or machine"
            )
        )
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # read once, when libgomp loads
    try:
        import xllamacpp
    except ImportError as error:
        remedy = "pip install --force-reinstall xllamacpp"
        if "libgomp" in str(error):
            remedy = (
                "install libgomp: `apt-get install libgomp1` (Debian, Ubuntu), `dnf install libgomp` (Fedora)"
            )
        raise RunnerUnavailable(
            Problem("", f"the embedded model's engine does not start ({error})", remedy)
        ) from error
    module: ModuleType = xllamacpp
    return module


class Reply:
    """What a streamed answer has brought so far; `seconds` is the time in the engine alone."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.finish: str | None = None
        self.usage: Usage | None = None
        self.seconds: float | None = None
        self.error: str | None = None

    def take(self, chunk: Mapping[str, Any]) -> None:
        """Add one chunk."""
        if error := chunk.get("error"):
            self.error = _error_text(error)
        for choice in chunk.get("choices") or ():
            self.parts.append(choice.get("delta", {}).get("content") or "")
            self.finish = choice.get("finish_reason") or self.finish
        if usage := chunk.get("usage"):
            cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens")
            self.usage = Usage(
                input_tokens=usage["prompt_tokens"] - (cached or 0),
                output_tokens=usage["completion_tokens"],
                cache_read_tokens=cached,
            )


class Engine:
    """One loaded model. Raises RunnerFailure where the file does not load."""

    def __init__(self, path: Path, context: int) -> None:
        import secrets

        import xllamacpp

        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx, params.n_parallel = context, 1
        params.cache_prompt, params.cache_ram_mib = False, 0
        params.n_batch = params.n_ubatch = _BATCH
        params.cpuparams.n_threads = params.cpuparams_batch.n_threads = THREADS
        params.verbosity, params.warmup, params.ui = 0, False, False
        key = secrets.token_urlsafe()
        params.api_keys = [key]  # the engine always opens a loopback port; nobody else is to use it
        try:
            self._server = xllamacpp.Server(params)
        except RuntimeError as error:
            what = f"the model file does not load, it may be cut short or too new: {path} ({error})"
            raise RunnerFailure(what) from error
        self._lock = threading.Lock()
        self.template_system = _template_system(self._server.listening_address, key)

    def ask(self, body: Mapping[str, Any], stop: threading.Event) -> Reply:
        """Answer one request; end early, with whatever is there, once `stop` is set.

        Raises RunnerFailure for an exceeded context, a refused request and an unreadable reply.
        """
        reply = Reply()
        broken: list[Exception] = []

        def on_chunk(chunk: Any) -> bool:
            try:
                for part in chunk if isinstance(chunk, list) else [chunk]:
                    reply.take(part)
            except Exception as error:  # noqa: BLE001 - the engine would swallow it; it is raised below
                broken.append(error)
            return bool(broken) or stop.is_set()

        while not self._lock.acquire(timeout=0.1):
            if stop.is_set():
                return reply
        try:
            started = time.perf_counter()
            if not stop.is_set():
                # progress reports call on_chunk while the prompt is read, so that it can be stopped then too
                streamed = {
                    "stream": True,
                    "stream_options": {"include_usage": True},
                    "return_progress": True,
                }
                self._server.handle_chat_completions({**body, **streamed}, on_chunk)
            reply.seconds = time.perf_counter() - started
        except (RuntimeError, ValueError) as error:
            raise RunnerFailure(f"the embedded model's engine refused the request: {error}") from error
        finally:
            self._lock.release()
        if stop.is_set():
            return reply
        if broken:
            raise RunnerFailure(f"the engine's reply could not be read: {broken[0]!r}") from broken[0]
        if reply.error or reply.finish is None:
            raise RunnerFailure(reply.error or "the embedded model's engine ended without an answer")
        return reply


_engines: dict[tuple[int, Path, int], Engine] = {}
_loading = threading.Lock()
_running: dict[threading.Thread, threading.Event] = {}


def shared(path: Path, context: int) -> Engine:
    """Load a model, or take it where this process has it already."""
    key = (os.getpid(), path, context)  # after a fork the parent's engine has no threads: never use it
    with _loading:
        if key not in _engines:
            _engines[key] = Engine(path, context)
        return _engines[key]


async def in_thread(work: Callable[[threading.Event], T]) -> T:
    """Run `work` in a daemon thread of its own; cancelling sets its event and does not wait for it."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    stop = threading.Event()

    def settle(set_it: Callable[[Any], None], value: object) -> None:
        if not future.done():
            set_it(value)

    def body() -> None:
        end: tuple[Callable[[Any], None], object]
        try:
            end = (future.set_result, work(stop))
        except BaseException as error:  # noqa: BLE001 - it belongs to the awaiting task
            end = (future.set_exception, error)
        _running.pop(thread, None)
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, *end)

    thread = threading.Thread(target=body, name="skilleval-local", daemon=True)
    _running[thread] = stop
    thread.start()
    try:
        return await future
    finally:
        stop.set()


@atexit.register
def _stop_all() -> None:
    """End what a hard stop left running, so that the interpreter does not close under the engine."""
    running = list(_running.items())
    for _, stop in running:
        stop.set()
    for thread, _ in running:
        thread.join(timeout=5)


def _lacks_avx2() -> bool:
    """Tell where it is known; without AVX2 the engine would end the process by an illegal instruction."""
    if sys.platform == "win32":
        import ctypes

        return not ctypes.windll.kernel32.IsProcessorFeaturePresent(40)
    try:
        words = _CPUINFO.read_text(encoding="utf-8", errors="replace").split()
    except OSError:
        return False
    return "flags" in words and "avx2" not in words  # "flags" stands there on x86 only


def _template_system(address: str, key: str) -> str | None:
    """Find the system text that the chat template puts in by itself; "" for none, None for unknown."""
    user, system = "¶user¶", "¶system¶"
    bare = _render(address, key, [{"role": "user", "content": user}])
    given = _render(address, key, [{"role": "system", "content": system}, {"role": "user", "content": user}])
    if bare is None or given is None or given.count(system) != 1:
        return None
    head = bare.partition(user)[0]
    before, _, after = given.partition(user)[0].partition(system)
    if head.startswith(before) and head.endswith(after) and len(head) >= len(before) + len(after):
        return head[len(before) : len(head) - len(after)]
    return ""


def _render(address: str, key: str, messages: list[dict[str, str]]) -> str | None:
    import http.client
    from urllib.parse import urlsplit

    place = urlsplit(address)
    connection = http.client.HTTPConnection(place.hostname or "127.0.0.1", place.port, timeout=5)
    try:
        connection.request(
            "POST",
            "/apply-template",
            json.dumps({"messages": messages}),
            {"Content-Type": "application/json", "Authorization": f"Bearer {key}"},
        )
        response = connection.getresponse()
        prompt = json.loads(response.read()).get("prompt") if response.status == 200 else None
    except (OSError, ValueError, http.client.HTTPException):
        return None
    finally:
        connection.close()
    return prompt if isinstance(prompt, str) else None


def _error_text(error: Mapping[str, Any]) -> str:
    if error.get("type") == "exceed_context_size_error":
        asked, holds = error.get("n_prompt_tokens"), error.get("n_ctx")
        return f"exceeded context: the prompt has {asked} tokens, the model's context holds {holds}"
    return f"the embedded model's engine refused the request: {error.get('message') or error}"
