"""Recording the answers of any runner, and giving them again without a model; the file is `recording`'s."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import models, recording
from .errors import InputError, Problem, RecordingMissing, RunnerFailure
from .runners import Runner, names
from .runners import create as create_runner

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .values import Answer, Request


def create_replay(argument: str | None) -> Runner:
    """The runner for `replay:PATH`."""
    if not argument:
        raise InputError(Problem("replay", "needs a recording", "write replay:answers.jsonl"))
    return ReplayRunner(argument)


def create_record(argument: str | None) -> Runner:
    """The runner for `record:PATH:RUNNER`, such as `record:answers.jsonl:anthropic:http://127.0.0.1:8080`.

    RUNNER begins at the first part between colons, after the path's own first part, that is a runner's
    name. So a Windows drive stays with the path, and a runner's own colons stay with the runner.
    """
    parts = (argument or "").split(":")
    known = names()
    start = next((i for i, part in enumerate(parts) if i > 0 and part in known), None)
    path = ":".join(parts[:start])
    if start is None and len(parts) > 1 and path.rpartition(":")[0]:
        what = f"there is no runner {parts[-1]!r} to record"
        raise InputError(Problem("record", what, f"use one of {', '.join(known)}"))
    if start is None or not path:
        fix = f"write record:answers.jsonl:RUNNER, with one of {', '.join(known)}"
        raise InputError(Problem("record", "needs a file and the runner to record", fix))
    return RecordRunner(create_runner(":".join(parts[start:])), path)


class ReplayRunner(Runner):
    """Gives the answers of a recording, under the model and delivery that it was made with.

    Raises InputError where the file is missing or broken.
    """

    name = "replay"

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._index = recording.load(self._path)
        header = self._index.header
        self._source: str = header["runner"]
        self.version = f"recording of {header.get('version') or self._source}"
        self.delivery = header["delivery"]
        self.baseline_system = header.get("baselineSystem")
        self.fixed_model = header.get("fixedModel")
        self.default_max_tokens = header.get("defaultMaxTokens") or self.default_max_tokens

    def resolve_model(self, model: str) -> str:
        """The id that the recorded runner sent for `model`."""
        return self.fixed_model or self._index.resolved.get(model) or models.resolve(model)

    def about(self) -> tuple[str, ...]:
        """Where the answers come from."""
        count = len(self._index.places)
        return (f"no model is called: {count} recorded answers of {self._source} in {self._path}",)

    async def answer(self, request: Request) -> Answer:
        """The recorded answer, or the recorded RunnerFailure.

        Raises RecordingMissing where there is neither, and InputError where the file has changed meanwhile.
        """
        question = recording.question(request, self.resolve_model(request.model))
        wanted = recording.fingerprint(question)
        place = self._index.places.get(wanted)
        if place is None:
            raise RecordingMissing(self._missing(request, question))
        entry = self._read(place, wanted)
        answer = None if entry["answer"] is None else recording.answer_from_disk(entry["answer"])
        if answer is None or "failure" in entry:
            raise RunnerFailure(str(entry["failure"]), answer)
        return answer

    def _read(self, place: int, wanted: bytes) -> dict[str, Any]:
        try:
            with self._path.open("rb") as file:
                file.seek(place)
                entry = recording.parse(file.readline())
            if recording.fingerprint(entry) == wanted:
                return entry
        except (OSError, ValueError, KeyError):
            pass
        raise InputError(
            Problem(str(self._path), "the recording was changed while it was replayed", "run again")
        )

    def _missing(self, request: Request, question: Mapping[str, Any]) -> Problem:
        what = f"holds no answer to {request.label or repr(request.prompt[:40])}"
        what += f" ({request.role}, model {question['resolvedModel']})"
        alike = [
            entry
            for entry in recording.entries(self._path)
            if request.label and (entry.get("label"), entry["role"]) == (request.label, request.role)
        ]
        if alike:
            other = [name for name in recording.QUESTION if alike[-1][name] != question[name]]
            what += f"; the one under that label has another {', '.join(other)}"
        return Problem(str(self._path), what, f"record it with the runner record:{self._path}:{self._source}")


class _Delegated:
    """An attribute that is always the recorded runner's own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, runner: RecordRunner | None, owner: type) -> Any:
        return self if runner is None else getattr(runner.inner, self._name)


def _delegated() -> Any:
    return _Delegated()


class RecordRunner(Runner):
    """Passes every call on to `inner` and appends what comes back to the file; in all else it is `inner`.

    A call that was cut off, by a time limit or an interrupt, is recorded as a failure. Raises InputError where
    the file is no recording, comes from another runner, or has no folder to be in.
    """

    name = _delegated()
    version = _delegated()
    delivery = _delegated()
    baseline_system = _delegated()
    max_concurrency = _delegated()
    fixed_model = _delegated()
    default_max_tokens = _delegated()
    secrets = _delegated()
    reports_cost = _delegated()
    place = _delegated()

    def __init__(self, inner: Runner, path: str | Path) -> None:
        self.inner = inner
        self._path = Path(path)
        self._file: int | None = None
        self._before = b""
        """What the next line needs in front of it."""
        if self._path.is_dir() or not self._path.parent.is_dir():
            raise InputError(
                Problem(str(self._path), "cannot be written", "name a file in a folder that exists")
            )
        if not self._path.exists() or not self._path.stat().st_size:
            self._before = recording.line(self._header())
            return
        if found := recording.differences(recording.load(self._path).header, self._header()):
            what = f"comes from another runner: {found}"
            raise InputError(Problem(str(self._path), what, "record into another file"))
        with self._path.open("rb") as file:
            file.seek(-1, os.SEEK_END)
            self._before = b"" if file.read() == b"\n" else b"\n"

    def __getattr__(self, name: str) -> Any:
        if name == "inner":
            raise AttributeError(name)
        return getattr(self.inner, name)

    def resolve_model(self, model: str) -> str:
        """What the recorded runner sends for `model`."""
        return self.inner.resolve_model(model)

    def about(self) -> tuple[str, ...]:
        """What the recorded runner says, and where the recording goes."""
        return (*self.inner.about(), f"every answer is recorded in {self._path}")

    async def answer(self, request: Request) -> Answer:
        """The recorded runner's answer, once it is in the file; its failures alike.

        Raises RunnerFailure with the answer where the file cannot be written any more.
        """
        started = time.perf_counter()
        try:
            answer = await self.inner.answer(request)
        except RunnerFailure as failure:
            self._append(request, failure.answer, failure.reason)
            raise
        except asyncio.CancelledError:
            seconds = time.perf_counter() - started
            with contextlib.suppress(RunnerFailure):  # a full disk does not stop an interrupt
                self._append(request, None, f"cut off after {seconds:.1f} s when it was recorded")
            raise
        if answer.latency_s is None:
            answer = replace(answer, latency_s=time.perf_counter() - started)
        self._append(request, answer)
        return answer

    def _header(self) -> dict[str, Any]:
        return {
            "recording": recording.FORMAT,
            "runner": self.name,
            "version": self.version,
            "fixedModel": self.fixed_model,
            "delivery": self.delivery,
            "baselineSystem": self.baseline_system,
            "defaultMaxTokens": self.default_max_tokens,
        }

    def _append(self, request: Request, answer: Answer | None, failure: str | None = None) -> None:
        entry: dict[str, Any] = {"label": request.label, "model": request.model}
        entry |= recording.question(request, self.inner.resolve_model(request.model))
        entry |= {} if failure is None else {"failure": failure}
        entry["answer"] = None if answer is None else recording.answer_on_disk(answer)
        data = self._before + recording.line(entry)
        try:
            if self._file is None:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
                self._file = os.open(self._path, flags, 0o666)
            written = os.write(self._file, data)
        except OSError as error:
            reason = f"the answer could not be recorded in {self._path}: {error.strerror}"
            raise RunnerFailure(reason, answer) from None
        self._before = b""
        if written < len(data):
            self._before = b"\n"
            raise RunnerFailure(f"the answer could not be recorded in {self._path}: the disk is full", answer)

    async def aclose(self) -> None:
        """Closes the file and the recorded runner."""
        file, self._file = self._file, None
        if file is not None:
            os.close(file)
        await self.inner.aclose()
