"""A run's folder: its header, one line a trial as it ends, and the transcripts.

    runs/<UTC stamp>-<set>/run.json                   what was asked, with the set and the skill as they were
    runs/<UTC stamp>-<set>/trials.jsonl               one line a trial, written as it ends, never rewritten
    runs/<UTC stamp>-<set>/<case>.<condition>.txt     the answers

A written line survives kill -9. A line torn by a crash is cut off when the run is resumed.
"""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError, LogWarning, Problem, RunNotFound
from .paths import condition_stem, file_stem

if TYPE_CHECKING:
    from filelock import BaseFileLock

HEADER = "run.json"
TRIALS = "trials.jsonl"
NEXT_RUN = "===== next run ====="
IGNORED = "*\n!log.jsonl\n!.gitignore\n"
SECRETS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "OPENAI_API_KEY", "CODEX_API_KEY")


class RunFolder:
    """One run on disk."""

    def __init__(self, path: Path, secrets: Iterable[str] = ()) -> None:
        self.path = path
        self._base = f"{path}{os.sep}"
        self._trials: int | None = None
        self._texts: dict[tuple[str, str], dict[int, tuple[str, str]]] = {}
        self._lock: BaseFileLock | None = None
        keys = {os.environ.get(name, "").strip() for name in SECRETS} | set(secrets)
        # as they are, and as they stand inside a JSON string
        self._secrets = {form for key in keys if len(key) >= 8 for form in (key, json.dumps(key)[1:-1])}

    @classmethod
    def create(cls, runs_dir: Path, set_name: str, now: datetime, secrets: Iterable[str] = ()) -> RunFolder:
        """A new folder that no other run has, also not one that starts at this moment."""
        try:
            make_runs_dir(runs_dir)
            return cls(cls._new(runs_dir, f"{now:%Y%m%dT%H%M%SZ}-{file_stem(set_name)}"), secrets)
        except OSError as error:
            raise _unwritable(runs_dir, error) from None

    @staticmethod
    def _new(runs_dir: Path, base: str) -> Path:
        number = 1
        while True:
            path = runs_dir / (base if number == 1 else f"{base}-{number}")
            try:
                path.mkdir()
                return path
            except FileExistsError:
                number += 1

    @property
    def run_id(self) -> str:
        """The folder's name."""
        return self.path.name

    def lock(self) -> None:
        """Keeps others from running trials into this folder until `close`; raises RunNotFound if one does now."""
        from filelock import FileLock, Timeout

        lock = FileLock(
            self.path / ".lock", thread_local=False
        )  # taken here, given free in the loop's thread
        try:
            lock.acquire(blocking=False)
        except Timeout:
            raise RunNotFound(
                Problem(self.run_id, "is being run by another process", "wait for it to end")
            ) from None
        self._lock = lock

    def write_header(self, header: Mapping[str, Any]) -> None:
        """Writes run.json whole or not at all."""
        part = self.path / f"{HEADER}.part"
        part.write_bytes(self._masked(json.dumps(header, ensure_ascii=True, indent=1)).encode())
        part.replace(self.path / HEADER)

    def read_header(self) -> dict[str, Any]:
        """What run.json holds; raises RunNotFound where that is no run's header."""
        try:
            header = json.loads((self.path / HEADER).read_text(encoding="utf-8"))
            if not isinstance(header, dict) or not {"runId", "arguments", "cases", "setHash"} <= set(header):
                raise ValueError("it is no run's header")
        except (OSError, ValueError) as error:
            where = str(self.path / HEADER)
            raise RunNotFound(Problem(where, f"cannot be read ({error})", "run the set anew")) from None
        return header

    def append(self, line: Mapping[str, Any]) -> None:
        """One trial's line, in one write."""
        if self._trials is None:
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
            self._trials = os.open(self.path / TRIALS, flags, 0o644)
        text = self._masked(json.dumps(line, ensure_ascii=False, separators=(",", ":"), allow_nan=False))
        try:
            data = text.encode()
        except UnicodeEncodeError:  # a lone surrogate in a model's text: only an escape can carry it
            data = self._masked(json.dumps(line, separators=(",", ":"), allow_nan=False)).encode()
        _write_all(self._trials, data + b"\n")

    def close(self) -> None:
        """Writes the transcripts of cells that are not complete, closes the files, and gives the folder free."""
        if self._texts:
            for line in self.lines():  # what was not run again has its answer there
                texts = self._texts.get((line["caseId"], line["condition"]))
                if texts is not None and line["trial"] not in texts:
                    texts[line["trial"]] = (line["outcome"], _answer_of(line))
        for case_id, condition in list(self._texts):
            self._write_transcript(case_id, condition)
        if self._trials is not None:
            os.close(self._trials)
            self._trials = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def lines(self) -> Iterator[dict[str, Any]]:
        """The trials' lines in the order they ended; lines that cannot be read are counted in one LogWarning."""
        for _, line in self.located_lines():
            yield line

    def located_lines(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """The same lines, each with the byte where it begins: `lines_at` reads it again."""
        try:
            file = (self.path / TRIALS).open("rb")
        except FileNotFoundError:
            return
        broken = begin = 0
        with file:
            for raw in file:
                try:
                    line = json.loads(raw)
                    if not isinstance(line, dict):
                        raise ValueError
                except ValueError:
                    broken += 1
                else:
                    yield begin, line
                begin += len(raw)
        if broken:
            message = f"{self.path.name}/{TRIALS}: {broken} line(s) could not be read and were left out"
            warnings.warn(message, LogWarning, stacklevel=2)

    def lines_at(self, begins: Iterable[int]) -> Iterator[dict[str, Any]]:
        """The lines that begin at these bytes; an empty one where no line can be read there any more."""
        with (self.path / TRIALS).open("rb") as file:
            for begin in begins:
                file.seek(begin)
                try:
                    line = json.loads(file.readline())
                except ValueError:
                    line = None
                yield line if isinstance(line, dict) else {}

    def cut_torn_tail(self) -> None:
        """Removes what follows the last newline of the trials' file: half a line, left by a crash."""
        path = self.path / TRIALS
        if not path.exists():
            return
        with path.open("rb+") as file:
            data_end = file.seek(0, os.SEEK_END)
            position, block = data_end, b""
            while position and b"\n" not in block:
                size = min(65536, position)
                position -= size
                file.seek(position)
                block = file.read(size)
            keep = position + block.rfind(b"\n") + 1
            if keep < data_end:
                file.truncate(keep)

    def add_text(self, line: Mapping[str, Any], planned: int) -> None:
        """Takes a trial's line for the transcript, which is written once all `planned` trials are there."""
        texts = self._texts.setdefault((line["caseId"], line["condition"]), {})
        texts[line["trial"]] = (line["outcome"], _answer_of(line))
        if len(texts) == planned:
            self._write_transcript(line["caseId"], line["condition"])

    def _write_transcript(self, case_id: str, condition: str) -> None:
        texts = sorted(self._texts.pop((case_id, condition)).items())
        parts = [texts[0][1][1]]
        for (before, (outcome_before, _)), (number, (outcome, text)) in pairwise(texts):
            above = f"above: trial {before}, {outcome_before}"
            parts.append(f"\n\n{NEXT_RUN} ({above}; below: trial {number}, {outcome})\n\n{text}")
        data = self._masked("".join(parts)).encode("utf-8", "replace")
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)
        file = os.open(
            f"{self._base}{file_stem(case_id)}.{condition_stem(condition)}.txt", flags, 0o644
        )  # half of open()'s price
        try:
            _write_all(file, data)
        finally:
            os.close(file)

    def _masked(self, text: str) -> str:
        """`text` without any key of this process's environment, should a server have echoed one."""
        for secret in self._secrets:
            if secret in text:
                text = text.replace(secret, "[key removed]")
        return text


def make_runs_dir(runs_dir: Path) -> None:
    """The folder of the runs and of their log, with the file that keeps git from all but the log.

    Raises InputError where it cannot be written.
    """
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        ignore = runs_dir / ".gitignore"
        if not ignore.exists():
            ignore.write_text(IGNORED, encoding="utf-8")
    except OSError as error:
        raise _unwritable(runs_dir, error) from None


def _unwritable(runs_dir: Path, error: OSError) -> InputError:
    what = f"a run cannot be written here ({error.strerror})"
    return InputError(Problem(str(runs_dir), what, "give another runs_dir (--runs-dir)"))


def _answer_of(line: Mapping[str, Any]) -> str:
    text = str(line.get("text", ""))
    if text.strip() or line["outcome"] in ("passed", "failed"):
        return text
    return f"[no answer: {line['outcome']}, {line.get('reason')}]"


def _write_all(file: int, data: bytes) -> None:
    """One write, which is what a local file takes; more only where the system takes less at once."""
    while data:
        data = data[os.write(file, data) :]
