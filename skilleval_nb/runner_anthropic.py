"""The Anthropic API, or any server that speaks its Messages API, through the `anthropic` SDK.

One request is one `messages.create`: one user message, the skill as `system`, no streaming, no tools. The
SDK retries (twice, as the server's retry-after says); a rate limit seen by one call pauses all of them, so
that eight workers do not each run into it. There is no time limit of its own but for connecting: the engine
cancels. Answers are read from the JSON itself, which costs a third less than the SDK's models, and lets an
odd server be told apart from a lost connection.
"""

from __future__ import annotations

import asyncio
import email.utils
import json
import os
import time
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from . import models
from .errors import Problem, RunnerFailure, RunnerUnavailable
from .runners import Runner
from .values import Answer, Request, Usage

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from anthropic import AsyncAnthropic

HOME = "https://api.anthropic.com"
CONNECT_S = 15.0
"""An unreachable host is a lost connection after this long, three times, not a model that is slow."""
RETRIES = 2

_KINDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_NO_SCHEMA = ("output_config", "json_schema", "unknown", "unrecognized", "unexpected", "unsupported")
_NO_SCHEMA_TOO = ("not supported", "not permitted", "extra inputs", "extra field")
_attempts: ContextVar[list[int]] = ContextVar("attempts")


def create(argument: str | None = None) -> Runner:
    """The runner for the key in ANTHROPIC_API_KEY, else ANTHROPIC_AUTH_TOKEN; `argument` is a base URL.

    Without one, ANTHROPIC_BASE_URL is used where it is set. Raises RunnerUnavailable for a missing or
    unusable key or URL, and where the SDK is not installed.
    """
    variable = "ANTHROPIC_API_KEY" if os.environ.get("ANTHROPIC_API_KEY") else "ANTHROPIC_AUTH_TOKEN"
    key = os.environ.get(variable, "").strip()
    if not key:
        raise RunnerUnavailable(
            Problem(
                "",
                "the anthropic runner has no key",
                "set ANTHROPIC_API_KEY (or ANTHROPIC_AUTH_TOKEN), or choose another runner, such as local",
            )
        )
    if not key.isascii() or not key.isprintable() or " " in key:
        raise RunnerUnavailable(
            Problem(variable, "this is not a key", "it holds spaces or special characters")
        )
    where = "anthropic:" if argument else "ANTHROPIC_BASE_URL"
    url = (argument or os.environ.get("ANTHROPIC_BASE_URL") or HOME).strip()
    try:
        usable = urlsplit(url).scheme in ("http", "https") and bool(urlsplit(url).hostname)
    except ValueError:
        usable = False
    if not usable:
        raise RunnerUnavailable(Problem(where, f"{url!r} is not a base URL", "write it as http://host:port"))
    return AnthropicRunner(key, url, bearer=variable == "ANTHROPIC_AUTH_TOKEN")


class AnthropicRunner(Runner):
    """Calls one Messages API with one key; the connections are made at the first call, in its event loop.

    `bearer` says that the key is an auth token.
    """

    name = "anthropic"

    def __init__(self, key: str, base_url: str = HOME, *, bearer: bool = False) -> None:
        try:
            import anthropic
        except ImportError:
            problem = Problem(
                "", "the anthropic package is not installed", "pip install 'anthropic[aiohttp]'"
            )
            raise RunnerUnavailable(problem) from None

        self._sdk = anthropic
        self._key = key
        self._url = base_url
        self._bearer = bearer
        self._at_home = urlsplit(base_url).hostname == urlsplit(HOME).hostname
        self.secrets = _secrets(key)
        self._client: AsyncAnthropic | None = None
        self._create: Callable[..., Awaitable[Any]] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed_until = 0.0
        self._without_schema: set[str] = set()
        self.place = urlsplit(base_url).netloc.rpartition("@")[2]
        self.version = f"anthropic {anthropic.__version__}"

    def resolve_model(self, model: str) -> str:
        """The id behind `haiku`, `sonnet` or `opus`; anything else as it is."""
        return models.resolve(model)

    def about(self) -> tuple[str, ...]:
        """Where the prompts go, if not to Anthropic."""
        parts = urlsplit(self._url)
        host = parts.netloc.rpartition("@")[2]
        return () if self._at_home else (f"calls go to {parts.scheme}://{host}",)

    async def answer(self, request: Request) -> Answer:
        """One message, with the SDK's retries.

        Raises RunnerFailure where no message came back; where the context was exceeded, it carries the answer.
        """
        started = time.perf_counter()
        attempts = [0]
        _attempts.set(attempts)
        sdk = self._sdk
        try:
            response = await self._ask(request)
        except (sdk.AnthropicError, ValueError, TypeError, OSError, RuntimeError) as error:
            reason = self._reason(error, attempts[0])
        else:
            message = self._message(response.http_response.content, attempts[0])
            return self._answer(request, message, time.perf_counter() - started, attempts[0])
        # raised out here, so that it does not lead to the SDK's exception and what the server echoed in it
        raise RunnerFailure(reason, calls=max(attempts[0], 1))

    def _answer(self, request: Request, message: dict[str, Any], latency_s: float, calls: int) -> Answer:
        usage, usage_reason = _usage(message.get("usage"))
        stop = message.get("stop_reason")
        model = message.get("model")
        answer = Answer(
            text=_text(message["content"]),
            model=model if isinstance(model, str) else None,
            stop_reason=stop if isinstance(stop, str) else None,
            usage=usage,
            usage_reason=usage_reason,
            latency_s=latency_s,
            calls=calls,
            settings={"max_tokens": request.max_tokens or self.default_max_tokens},
        )
        if stop == "model_context_window_exceeded":
            raise RunnerFailure("exceeded context", answer)
        return answer

    async def _ask(self, request: Request) -> Any:
        create = self._connected()
        model = models.resolve(request.model)
        body: dict[str, Any] = {
            "model": model,
            "max_tokens": request.max_tokens or self.default_max_tokens,
            "messages": [{"role": "user", "content": request.prompt}],
        }
        if request.system:
            body["system"] = request.system
        if request.schema is None or model in self._without_schema:
            return await create(**body)
        form = {"format": {"type": "json_schema", "schema": request.schema}}
        try:
            return await create(**body, output_config=form)
        except self._sdk.APIStatusError as error:
            if not _refuses_schema(error.status_code, error.message):
                raise
        response = await create(**body)
        self._without_schema.add(model)
        return response

    def _connected(self) -> Callable[..., Awaitable[Any]]:
        loop = asyncio.get_running_loop()
        if self._create is None or self._loop is not loop:
            sdk = self._sdk
            try:
                transport = sdk.DefaultAioHttpClient()
            except RuntimeError:  # aiohttp is not installed
                transport = None
            # The origin of these sets sent both headers, and some servers know only the older one.
            both = None if self._at_home or self._bearer else {"x-api-key": self._key}
            self._client = sdk.AsyncAnthropic(
                api_key=None if self._bearer else self._key,
                auth_token=self._key if self._bearer else None,
                base_url=self._url,
                default_headers=both,
                timeout=sdk.Timeout(None, connect=CONNECT_S),
                max_retries=RETRIES,
                http_client=transport,
                middleware=[self._through_the_gate],
                open_telemetry=False,
            )
            self._create = self._client.messages.with_raw_response.create
            self._loop = loop
        return self._create

    async def _through_the_gate(self, request: Any, call_next: Callable[[Any], Awaitable[Any]]) -> Any:
        """Around each attempt: counts it, and keeps it back while the server wants no calls."""
        while (now := time.monotonic()) < self._closed_until:
            pause = self._closed_until - now
            await asyncio.sleep(pause)
        _attempts.get()[0] += 1
        response = await call_next(request)
        if response.status_code in (429, 503, 529) and (wait := _retry_after(response.headers)):
            self._closed_until = max(self._closed_until, time.monotonic() + wait)
        return response

    def _message(self, content: bytes, calls: int) -> dict[str, Any]:
        try:
            message = json.loads(content)
        except (ValueError, RecursionError):
            message = content.decode("utf-8", "replace")
        if isinstance(message, dict) and _is_blocks(message.get("content")):
            return message
        found = self._plain(_words(message) or "nothing")
        raise RunnerFailure(f"the server sent no message but: {found}{_after(calls)}", calls=calls)

    def _reason(self, error: Exception, calls: int) -> str:
        sdk = self._sdk
        if isinstance(error, sdk.APIStatusError):
            kind = f" {error.type}" if error.type else ""
            words = _words(error.body)
            text = f"HTTP {error.status_code}{kind}{f': {words}' if words else ''}"
        elif isinstance(error, sdk.APITimeoutError):
            text = (
                f"connection failed: no answer from {urlsplit(self._url).hostname} within {CONNECT_S:.0f} s"
            )
        elif isinstance(error, sdk.APIConnectionError):
            text = f"connection failed: {error.__cause__ or error}"
        else:
            text = f"the request could not be made: {error}"
        return self._plain(text) + _after(calls)

    def _plain(self, text: str) -> str:
        """One short line with no key in it."""
        for secret in self.secrets:
            text = text.replace(secret, "[key]")
        line = " ".join("".join(c if c.isprintable() else " " for c in text[:2000]).split())
        return line if len(line) <= 300 else f"{line[:299]}…"

    async def aclose(self) -> None:
        """Ends the connections; a later call makes new ones."""
        client, self._client, self._create = self._client, None, None
        if client is not None:
            await client.close()


def _secrets(key: str) -> tuple[str, ...]:
    """What must not be shown: the key, and the values of the SDK's own ANTHROPIC_CUSTOM_HEADERS."""
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines()
    values = {key, key.strip(), *(line.partition(":")[2].strip() for line in lines)}
    return tuple(sorted((value for value in values if len(value) >= 4), key=len, reverse=True))


def _after(calls: int) -> str:
    return f" (after {calls} calls)" if calls > 1 else ""


def _words(body: object) -> str:
    """The message in an error's body, whatever shape a server gives it."""
    for _ in range(3):
        if not isinstance(body, dict):
            break
        body = next((body[name] for name in ("error", "message", "detail") if body.get(name)), str(body))
    return "" if body is None else str(body)


def _refuses_schema(status: int, message: str) -> bool:
    lower = message.lower()
    return status in (400, 422) and any(words in lower for words in (*_NO_SCHEMA, *_NO_SCHEMA_TOO))


def _retry_after(headers: Mapping[str, str]) -> float:
    """Seconds that the server asks to wait, as the SDK reads them; 0 where it does not say."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        value = headers.get(name)
        try:
            return max(0.0, float(value or "") * unit)
        except ValueError:
            pass
    date = email.utils.parsedate_tz(headers.get("retry-after") or "")
    return 0.0 if date is None else max(0.0, email.utils.mktime_tz(date) - time.time())


def _is_blocks(content: object) -> bool:
    return isinstance(content, list) and all(isinstance(block, dict) for block in content)


def _text(blocks: list[dict[str, Any]]) -> str:
    """All the text; half of a surrogate pair, which no file can hold, becomes U+FFFD."""
    found = (block.get("text") for block in blocks if block.get("type") == "text")
    text = "".join(part for part in found if isinstance(part, str))
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _usage(found: object) -> tuple[Usage | None, str | None]:
    counts = [found.get(kind) for kind in _KINDS] if isinstance(found, dict) else []
    counts = [count if type(count) is int and count >= 0 else None for count in counts]
    if all(count is None for count in counts):
        return None, "the server reported no usage"
    return Usage(*counts), None
