"""What one run of the `claude` CLI came to, from what it printed (json or stream-json) and how it ended.

The CLI speaks in the model's place when something goes wrong ("API Error: …", "Unknown command: …"); it
marks such messages with the model `<synthetic>`, and none of their words is ever taken for an answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn

from .errors import RunnerFailure
from .values import Answer, Usage

OWN_WORDS = "<synthetic>"
_KINDS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_OLD_KINDS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_ENDINGS: Mapping[str, str] = {
    "error_max_turns": "the claude CLI stopped at its limit of turns",
    "error_max_budget_usd": "the claude CLI stopped at its budget",
    "error_max_structured_output_retries": "empty answer: no reply followed the schema",
    "error_during_execution": "the claude CLI was interrupted",
}
_STATUSES: Mapping[int, str] = {
    401: "the key or login was refused",
    403: "the key or login was refused",
    404: "unknown model",
    413: "exceeded context",
    429: "rate limit",
    529: "overloaded",
}
_KILLED = (130, 137, 143)
"""What a shell, and the CLI itself, make of SIGINT, SIGKILL and SIGTERM."""
NOT_LOGGED_IN = "not logged in — run `claude` once and log in"
_LOGIN_WORDS = (
    "/login",
    "Not logged in",
    "Invalid API key",
    "Invalid bearer token",
    "Failed to authenticate",
)
_NETWORK_WORDS = ("connect", "econn", "enotfound", "socket", "network", "timed out", "timeout")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
_KEY = re.compile(r"\bsk-[\w-]{6,}")


def events(stdout: bytes) -> list[dict[str, Any]]:
    """The JSON objects that the CLI printed, one a line; anything else, a torn line included, is left out.

    Half of a surrogate pair, which no file can hold, becomes U+FFFD.
    """
    found = []
    for line in stdout.decode("utf-8", "replace").split("\n"):
        if line.lstrip().startswith("{"):
            try:
                event = json.loads(line)
                if "\\ud" in line.lower():
                    whole = json.dumps(event, ensure_ascii=False).encode("utf-16", "surrogatepass")
                    event = json.loads(whole.decode("utf-16", "replace"))
            except (ValueError, RecursionError):
                continue
            found.append(event)
    return found


def read_answer(
    stdout: bytes,
    stderr: bytes,
    status: int,
    *,
    latency_s: float | None = None,
    secrets: Sequence[str] = (),
) -> Answer:
    """The answer of one run that ended with `status` (minus a signal's number, where one ended it).

    A refusal, and an answer cut at the CLI's output limit, are answers with the stop reasons `refusal` and
    `max_tokens`. Raises RunnerFailure for everything else that is no answer, with what was spent on it;
    no reason holds one of `secrets`.
    """
    found = events(stdout)
    result = next((event for event in reversed(found) if event.get("type") == "result"), None)
    if result is None:
        raise RunnerFailure(_without_result(found, stdout, stderr, status, secrets))
    messages = [event for event in found if _is_answer(event)]
    own = [event for event in messages if _message(event).get("model") == OWN_WORDS]
    failed = bool(result.get("is_error"))
    final = result.get("result")
    text = _spoken(found) if messages else ("" if failed or not isinstance(final, str) else final)
    data = result.get("structured_output")
    usage = _usage(result)
    cut = "max_output_tokens" in (result.get("api_error"), own[-1].get("error") if own else None)
    stop = "max_tokens" if failed and cut else result.get("stop_reason")
    answer = Answer(
        text=text,
        model=_model(result, messages),
        stop_reason=stop if isinstance(stop, str) else None,
        usage=usage,
        usage_reason=None if usage else "the CLI reported no usage",
        cost_usd=_cost(result),
        latency_s=latency_s,
        calls=1 + sum(event.get("subtype") == "api_retry" for event in found),
        data=data if isinstance(data, dict) else None,
    )

    def fail(kind: str, *, quote: bool = True) -> NoReturn:
        said = final if isinstance(final, str) else _first(result.get("errors"))
        words = plain_line(said, secrets) if quote else ""
        raise RunnerFailure(f"{kind}: {words}" if words else kind, answer if usage else None)

    subtype = result.get("subtype")
    if subtype != "success":
        fail(_ENDINGS.get(str(subtype), f"the claude CLI ended with {plain_line(str(subtype))}"))
    if stop == "refusal":
        return answer
    if failed and not (cut and text.strip()):
        kind = _api_failure(result, own)
        fail(kind, quote=kind != NOT_LOGGED_IN)
    if result.get("modelUsage") == {} or (messages and len(own) == len(messages)):
        fail("the claude CLI asked no model; it said")
    if not text.strip() and answer.data is None:
        fail("empty answer", quote=False)
    return answer


def plain_line(text: str | bytes, secrets: Iterable[str] = ()) -> str:
    """The first line of `text` that says something: printable, at most 200 characters, with no key in it."""
    if isinstance(text, bytes):
        text = text.decode("utf-8", "replace")
    for secret in secrets:
        text = text.replace(secret, "[key]")
    text = _KEY.sub("[key]", _ESCAPE.sub("", text[:10_000]))
    lines = (
        " ".join("".join(c if c.isprintable() else " " for c in line).split()) for line in text.split("\n")
    )
    line = next((line for line in lines if line), "")
    return line if len(line) <= 200 else f"{line[:199]}…"


def _without_result(
    found: Sequence[object], stdout: bytes, stderr: bytes, status: int, secrets: Sequence[str]
) -> str:
    ending = f"by signal {-status}" if status < 0 else f"exit status {status}"
    if found or status < 0 or status in _KILLED:
        return f"the claude CLI was ended before it answered ({ending})"
    words = plain_line(stderr, secrets) or plain_line(stdout, secrets)
    if not words:
        return f"the claude CLI printed nothing ({ending})"
    if any(word in words for word in _LOGIN_WORDS):
        return f"{NOT_LOGGED_IN} (the CLI said: {words})"
    return f"the claude CLI gave no answer ({ending}): {words}"


def _api_failure(result: Mapping[str, Any], own: Sequence[Mapping[str, Any]]) -> str:
    """Why a result that calls itself a success is an error: by the API's status, else by the CLI's words."""
    status = result.get("api_error_status")
    if isinstance(status, int):
        if result.get("terminal_reason") == "prompt_too_long":
            kind = "exceeded context"
        else:
            other = "server error" if status >= 500 else "the API refused the request"
            kind = _STATUSES.get(status, other)
        return f"{kind} (HTTP {status})"
    words = str(result.get("result"))
    mark = own[-1].get("error") if own else None
    if mark == "authentication_failed" or any(word in words for word in _LOGIN_WORDS):
        return NOT_LOGGED_IN
    if mark == "rate_limit":
        return "rate limit"
    network = any(word in words.lower() for word in _NETWORK_WORDS)
    return "connection failed" if network else "the claude CLI reported an error"


def _is_answer(event: Mapping[str, Any]) -> bool:
    """Whether an event is a message of the model itself, not of an agent that it started."""
    return event.get("type") == "assistant" and event.get("parent_tool_use_id") is None


def _message(event: Mapping[str, Any]) -> Mapping[str, Any]:
    message = event.get("message")
    return message if isinstance(message, dict) else {}


def _blocks(event: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    content = _message(event).get("content")
    return [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []


def _spoken(found: Iterable[Mapping[str, Any]]) -> str:
    """All the text of the model, in order; an answer that the CLI had continued joins without a seam."""
    text, seam = "", ""
    for event in found:
        if _is_answer(event) and _message(event).get("model") != OWN_WORDS:
            said = "".join(
                str(block.get("text", "")) for block in _blocks(event) if block.get("type") == "text"
            )
            if said:
                text, seam = f"{text}{seam if text else ''}{said}", ""
        elif event.get("refusal_retry") or any(b.get("type") == "tool_result" for b in _blocks(event)):
            seam = "\n\n"
    return text


def _usage(result: Mapping[str, Any]) -> Usage | None:
    """The four kinds summed over all models; `usage` is read only where an old CLI has no `modelUsage`."""
    per_model = result.get("modelUsage")
    rows: list[Any] = list(per_model.values()) if isinstance(per_model, dict) else [result.get("usage")]
    names = _KINDS if isinstance(per_model, dict) else _OLD_KINDS
    total = Usage()
    for row in rows:
        counts = [row.get(name) if isinstance(row, dict) else None for name in names]
        total += Usage(*(count if type(count) is int and count >= 0 else None for count in counts))
    return total if any(count is not None for count in total.as_list()) else None


def _cost(result: Mapping[str, Any]) -> float | None:
    """US dollars; None where a model's price is unknown, for which the CLI would take its default's."""
    per_model = result.get("modelUsage")
    rows = per_model.values() if isinstance(per_model, dict) else ()
    cost = result.get("total_cost_usd")
    if any(isinstance(row, dict) and row.get("costBasis") == "unknown" for row in rows):
        return None
    return float(cost) if isinstance(cost, int | float) and not isinstance(cost, bool) else None


def _model(result: Mapping[str, Any], messages: Iterable[Mapping[str, Any]]) -> str | None:
    """The model by its own message, else the one that wrote most."""
    for event in messages:
        name = _message(event).get("model")
        if isinstance(name, str) and name != OWN_WORDS:
            return name
    per_model = result.get("modelUsage")
    if not isinstance(per_model, dict) or not per_model:
        return None

    def written(name: str) -> int:
        row = per_model[name]
        count = row.get("outputTokens") if isinstance(row, dict) else None
        return count if isinstance(count, int) else 0

    return re.sub(r"\[\w+\]$", "", max(per_model, key=written))


def _first(errors: object) -> str:
    return str(errors[0]) if isinstance(errors, list) and errors else ""
