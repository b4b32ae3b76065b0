"""The file of recorded answers: JSON Lines that can be read by people and committed.

The first line says which runner the answers come from. Each other line is one call: the whole request, and
the answer or the failure. A request is found by everything that may decide its answer (`QUESTION`), so n
repeats, which differ by seed, get their own answers, and a second replay equals the first. Where one request
stands in the file twice, the later line counts: a resumed or repeated recording mends the file by appending
to it. `label` is for readers and messages alone.
"""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .errors import InputError, Problem
from .values import Answer, Request, Usage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

FORMAT = 1
QUESTION = ("resolvedModel", "system", "prompt", "maxTokens", "seed", "sampled", "schema", "role")
"""The fields of a line that decide which answer a request gets."""

_IDENTITY = ("runner", "fixedModel", "delivery", "baselineSystem")
_KINDS = ("inputTokens", "outputTokens", "cacheReadTokens", "cacheWriteTokens")
_SHOWN = 5


@dataclass
class Index:
    """A recording that has been checked: its header, where each answer stands, and what model names meant.

    `places` maps a fingerprint to the offset of its line; the answers themselves stay in the file.
    `resolved` maps a model as it was asked for to the id that was sent.
    """

    header: Mapping[str, Any] = field(default_factory=dict)
    places: dict[bytes, int] = field(default_factory=dict)
    resolved: dict[str, str] = field(default_factory=dict)


def question(request: Request, resolved_model: str) -> dict[str, Any]:
    """What decides the answer to a request, under the names of the file."""
    values = (
        resolved_model,
        request.system,
        request.prompt,
        request.max_tokens,
        request.seed,
        request.sampled,
        None if request.schema is None else dict(request.schema),
        request.role,
    )
    return dict(zip(QUESTION, values, strict=True))


def fingerprint(entry: Mapping[str, Any]) -> bytes:
    """16 bytes over the question of an entry."""
    text = json.dumps([entry[name] for name in QUESTION], sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def line(entry: Mapping[str, Any]) -> bytes:
    """One line of the file, without this process's API key, should it stand in a prompt or an answer."""
    text = json.dumps(entry, ensure_ascii=False)
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        key = os.environ.get(variable, "").strip()
        if len(key) >= 8:
            text = text.replace(key, "[key]")
    try:
        return text.encode() + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair: only an escape can hold it
        return json.dumps(json.loads(text)).encode() + b"\n"


def answer_on_disk(answer: Answer) -> dict[str, Any]:
    """The answer under the names of the file."""
    usage = answer.usage
    return {
        "text": answer.text,
        "model": answer.model,
        "stopReason": answer.stop_reason,
        "usage": None if usage is None else dict(zip(_KINDS, usage.as_list(), strict=True)),
        "usageReason": answer.usage_reason,
        "costUsd": answer.cost_usd,
        "latencyS": answer.latency_s,
        "calls": answer.calls,
        "data": None if answer.data is None else dict(answer.data),
        "settings": dict(answer.settings),
    }


def answer_from_disk(found: Mapping[str, Any]) -> Answer:
    """The answer of a checked entry."""
    usage = found.get("usage")
    return Answer(
        text=found["text"],
        model=found.get("model"),
        stop_reason=found.get("stopReason"),
        usage=None if usage is None else Usage(*(usage.get(kind) for kind in _KINDS)),
        usage_reason=found.get("usageReason"),
        cost_usd=found.get("costUsd"),
        latency_s=found.get("latencyS"),
        calls=found.get("calls", 1),
        data=found.get("data"),
        settings=found.get("settings") or {},
    )


def load(path: Path) -> Index:
    """Reads and checks a whole recording; raises InputError with the number of each line that is wrong."""
    index = Index()
    problems: list[Problem] = []
    try:
        with path.open("rb") as file:
            place = 0
            for number, data in enumerate(file, 1):
                try:
                    if data.strip():
                        _add(index, parse(data), place)
                except ValueError as error:
                    problems.append(Problem(f"{path}:{number}", f"this is no line of a recording: {error}"))
                    if not index.header:
                        break
                place += len(data)
    except FileNotFoundError:
        fix = f"make one with the runner record:{path}:RUNNER"
        raise InputError(Problem(str(path), "there is no such recording", fix)) from None
    except OSError as error:
        raise InputError(Problem(str(path), f"cannot be read: {error.strerror}")) from None
    if not index.header and not problems:
        problems.append(Problem(str(path), "the recording is empty"))
    if problems:
        more = len(problems) - _SHOWN
        rest = [Problem("", f"and {more} more such lines")] if more > 0 else []
        raise InputError([*problems[:_SHOWN], *rest])
    return index


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """Every call in a recording that has been loaded before."""
    with path.open("rb") as file:
        for data in file:
            if data.strip() and "recording" not in (entry := parse(data)):
                yield entry


def parse(data: bytes) -> dict[str, Any]:
    """The object on a line; raises ValueError in words."""
    try:
        entry = json.loads(data.removeprefix(b"\xef\xbb\xbf"))
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(entry, dict):
        raise ValueError("it is not an object")
    return entry


def differences(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    """How two headers disagree on what must be the same throughout a file; empty where they do not."""
    names = [name for name in _IDENTITY if first.get(name) != second.get(name)]
    return ", ".join(f"{name} {first.get(name)!r} and {second.get(name)!r}" for name in names)


def _add(index: Index, entry: dict[str, Any], place: int) -> None:
    if not index.header or "recording" in entry:
        _check_header(entry)
        if index.header and (found := differences(index.header, entry)):
            raise ValueError(f"two runners in one recording: {found}")
        index.header = index.header or entry
        return
    _check_entry(entry)
    index.places[fingerprint(entry)] = place
    index.resolved[entry["model"]] = entry["resolvedModel"]


def _check_header(entry: Mapping[str, Any]) -> None:
    if "recording" not in entry:
        raise ValueError('the first line has no "recording"')
    if entry["recording"] != FORMAT:
        raise ValueError(f"it is of format {entry['recording']!r}, and this version reads {FORMAT}")
    if not isinstance(entry.get("runner"), str) or not isinstance(entry.get("delivery"), str):
        raise ValueError("runner and delivery must be texts")


def _check_entry(entry: Mapping[str, Any]) -> None:
    missing = [name for name in (*QUESTION, "model", "answer") if name not in entry]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    if not isinstance(entry["model"], str) or not isinstance(entry["resolvedModel"], str):
        raise ValueError("model and resolvedModel must be texts")
    answer = entry["answer"]
    if answer is None:
        if "failure" not in entry:
            raise ValueError("it holds neither an answer nor a failure")
        return
    if not isinstance(answer, dict) or not isinstance(answer.get("text"), str):
        raise ValueError("the answer has no text")
    for name in ("usage", "data", "settings"):
        if not isinstance(answer.get(name) or {}, dict):
            raise ValueError(f"the answer's {name} must be an object or null")
