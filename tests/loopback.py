"""A Messages API on 127.0.0.1 for tests and benches: real HTTP, no model.

In a test, with any reply that the test likes:

    with Loopback(lambda body, count: text("yes")) as server:
        ...  # a client pointed at server.url
    assert server.requests[0]["body"]["model"] == "m"

In a bench, in its own process, so that its CPU is not the client's: `with LoopbackProcess() as server`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import TracebackType

USAGE: dict[str, Any] = {
    "input_tokens": 11,
    "output_tokens": 7,
    "cache_read_input_tokens": 3000,
    "cache_creation_input_tokens": 200,
}
KEY = "sk-loopback-0123456789"


@dataclass(frozen=True)
class Reply:
    """One HTTP response, or the lack of one; `payload` without a model echoes the request's."""

    payload: Mapping[str, Any] | bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    hangup: bool = False


def message(
    content: Sequence[Mapping[str, Any]],
    *,
    stop_reason: str = "end_turn",
    usage: Mapping[str, Any] | None = USAGE,
) -> Reply:
    """An assistant message with these content blocks; `usage=None` leaves the field out."""
    payload: dict[str, Any] = {
        "id": "msg_loopback",
        "type": "message",
        "role": "assistant",
        "content": list(content),
        "stop_reason": stop_reason,
        "stop_sequence": None,
    }
    return Reply(payload if usage is None else payload | {"usage": usage})


def text(words: str, *, stop_reason: str = "end_turn", usage: Mapping[str, Any] | None = USAGE) -> Reply:
    """An assistant message with one text block."""
    return message([{"type": "text", "text": words}], stop_reason=stop_reason, usage=usage)


def status(code: int, kind: str, words: str | None = None, headers: Mapping[str, str] | None = None) -> Reply:
    """An error as the API writes it."""
    error = {"type": "error", "error": {"type": kind, "message": kind if words is None else words}}
    return Reply(error, code, headers or {})


def hangup() -> Reply:
    """The connection is closed with no answer."""
    return Reply(hangup=True)


def sleep(seconds: float, reply: Reply | None = None) -> Reply:
    """The same reply, so much later; only the one who asked waits."""
    return replace(reply or text("stub reply"), delay=seconds)


def raw(payload: bytes, *, code: int = 200, content_type: str = "application/json") -> Reply:
    """Any bytes as the body."""
    return Reply(payload, code, {"content-type": content_type})


def judge_json(passed: bool, reasoning: str = "because", evidence: str = "") -> str:
    """What a judge answers, as text."""
    return json.dumps({"reasoning": reasoning, "evidence": evidence, "pass": passed})


Replier = Callable[[dict[str, Any], int], "Reply | str | Mapping[str, Any]"]


class Loopback:
    """The server, in a thread of this process.

    `reply(body, count)` is called for each request, `count` from 1; what it returns is a Reply, a text, or
    a whole response body. `requests` holds, in order of arrival, {"at", "path", "headers",
    "body"}: `at` by time.monotonic, header names in lower case.
    """

    def __init__(self, reply: Replier | None = None) -> None:
        self.requests: list[dict[str, Any]] = []
        self.connections = 0
        self.reply = reply
        self._loop = asyncio.new_event_loop()
        self._open: set[asyncio.Transport] = set()
        self._server = self._loop.run_until_complete(
            self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0)
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def env(self) -> dict[str, str]:
        """The variables that point a client at this server."""
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.url}

    def answer(self, request: dict[str, Any]) -> Reply:
        """The reply to one parsed request."""
        self.requests.append(request)
        if request["path"].partition("?")[0] != "/v1/messages":
            return status(404, "not_found_error", request["path"])
        if self.reply is None:
            return text("stub reply")
        made = self.reply(request["body"], len(self.requests))
        if isinstance(made, Reply):
            return made
        return text(made) if isinstance(made, str) else Reply(made)

    def __enter__(self) -> Loopback:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(5)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for transport in list(self._open):
            transport.abort()
        await self._server.wait_closed()


class _Connection(asyncio.Protocol):
    """One keep-alive connection; a request that comes before the last is answered waits its turn."""

    def __init__(self, server: Loopback) -> None:
        self.server = server
        self.buffer = b""
        self.busy = False
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1
        self.server._open.add(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self.transport:
            self.server._open.discard(self.transport)
        self.transport = None

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        self.next()

    def next(self) -> None:
        head, found, rest = self.buffer.partition(b"\r\n\r\n")
        if self.busy or not found:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        size = int(headers.get("content-length", 0))
        if len(rest) < size:
            return
        self.buffer, self.busy = rest[size:], True
        body = json.loads(rest[:size] or b"{}")
        reply = self.server.answer(
            {"at": time.monotonic(), "path": first.split(" ")[1], "headers": headers, "body": body}
        )
        if reply.delay:
            asyncio.get_running_loop().call_later(reply.delay, self.send, reply, body)
        else:
            self.send(reply, body)

    def send(self, reply: Reply, body: Mapping[str, Any]) -> None:
        self.busy = False
        if not self.transport:
            return
        if reply.hangup:
            self.transport.abort()
            return
        payload = reply.payload
        if not isinstance(payload, bytes):
            if payload.get("type") == "message":
                payload = {"model": body.get("model"), **payload}
            payload = json.dumps(payload).encode()
        headers = {"content-type": "application/json", "content-length": len(payload), **reply.headers}
        lines = [
            f"HTTP/1.1 {reply.status} -",
            *(f"{name}: {value}" for name, value in headers.items()),
            "\r\n",
        ]
        self.transport.write("\r\n".join(lines).encode() + payload)
        if self.buffer:
            self.next()


class LoopbackProcess:
    """The same server with one fixed text, in a child process: for benches."""

    def __init__(self, words: str = "stub reply", *, delay: float = 0.0) -> None:
        self._command = [sys.executable, __file__, "--text", words, "--delay", str(delay)]
        self._child: subprocess.Popen[str] | None = None
        self.url = ""

    @property
    def env(self) -> dict[str, str]:
        """The variables that point a client at this server."""
        return {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": self.url}

    def __enter__(self) -> LoopbackProcess:
        self._child = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._child.stdout
        self.url = self._child.stdout.readline().strip()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._child
        self._child.communicate(timeout=5)


def main() -> None:
    """Serves until standard input ends, so that no server outlives its bench."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--text", default="stub reply")
    parser.add_argument("--delay", type=float, default=0.0)
    options = parser.parse_args()
    reply = sleep(options.delay, text(options.text))
    with Loopback(lambda body, count: reply) as server:
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main()
