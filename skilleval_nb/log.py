"""The log: one JSON line a run in `runs/log.jsonl`, appended whole or not at all, read whatever else is in it.

What a record says is `record`'s business; how records become frames is `frames`'.
"""

from __future__ import annotations

import json
import math
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError, LogWarning, Problem, SkillevalError
from .paths import project_root

LOCK_TIMEOUT_S = 60.0
BOM = b"\xef\xbb\xbf"
SHOWN = 5

_SURROGATE = re.compile("[\ud800-\udfff]")
_CASES = b',"cases":['


def append_record(
    path: str | Path,
    record: Mapping[str, Any],
    *,
    named: str = "the run's record",
    then: str = "resume the run: its trials are kept",
) -> None:
    """Add one record as one line, under a lock that all processes share; the folder is made where it is missing.

    What JSON or UTF-8 cannot hold is kept readable: NaN and infinities become null, a lone surrogate U+FFFD.
    Raises SkillevalError where the line could not be written; the log is then as it was. The error calls the
    record as `named` says, and `then` is what to do once the cause is mended.
    """
    from filelock import FileLock, Timeout

    path = Path(path)
    line = (json_line(record) + "\n").encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock", timeout=LOCK_TIMEOUT_S, poll_interval=0.01):
            _append(path, line)
    except Timeout:
        what = f"another process has held its lock for {LOCK_TIMEOUT_S:.0f} s"
        fix = f"end that process, then {then}; the lock is {path.name}.lock"
        raise SkillevalError(str(Problem(str(path), what, fix))) from None
    except OSError as error:
        what = f"{named} could not be written ({error.strerror or error})"
        fix = f"make room or make it writable, then {then}"
        raise SkillevalError(str(Problem(str(path), what, fix))) from error


def _append(path: Path, line: bytes) -> None:
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags, 0o644)
    try:
        size = os.lseek(descriptor, 0, os.SEEK_END)
        if size:
            os.lseek(descriptor, size - 1, os.SEEK_SET)
            if os.read(descriptor, 1) != b"\n":
                line = b"\n" + line
        written = os.write(descriptor, line)
        if written != len(line):  # a full disk: half a line helps nobody
            os.ftruncate(descriptor, size)
            raise OSError(None, f"only {written} of {len(line)} bytes could be written")
    finally:
        os.close(descriptor)


def json_line(record: Mapping[str, Any]) -> str:
    """A record as one line of JSON that every strict reader takes."""
    try:
        line = _dumps(record)
    except ValueError:
        line = _dumps(_finite(record))
    if _SURROGATE.search(line):  # two halves that belong together become the character they mean
        line = line.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return line


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    return value


@dataclass
class Losses:
    """What could not be read of a log, told once, at the end, in one LogWarning."""

    path: Path | str
    left_out: dict[int, str] = field(default_factory=dict)
    nulled: dict[int, str] = field(default_factory=dict)

    def warn(self) -> None:
        """Warn where there is anything to tell."""
        parts = []
        if self.left_out:
            parts.append(f"{_lines(self.left_out)} could not be read and left out: {_places(self.left_out)}")
        if self.nulled:
            parts.append(f"{_lines(self.nulled)} kept with values read as null: {_places(self.nulled)}")
        if parts:
            warnings.warn(f"{self.path}: {'; '.join(parts)}", LogWarning, stacklevel=3)


def _lines(found: Mapping[int, str]) -> str:
    return f"{len(found)} line{'s' * (len(found) != 1)}"


def _places(found: Mapping[int, str]) -> str:
    shown = [f"line {number} ({why})" for number, why in sorted(found.items())[:SHOWN]]
    if len(found) > SHOWN:
        shown.append(f"and {len(found) - SHOWN} more")
    return ", ".join(shown)


def parse_line(raw: bytes) -> tuple[dict[str, Any] | None, str]:
    """The record in a line, and what is wrong with it; (None, "") for a blank line.

    A record with a remark holds a NaN or an infinity, which reads as None.
    """
    text = raw.removeprefix(BOM).strip(b" \t\r\n\0")
    if not text:
        return None, "nothing but NUL bytes" if b"\0" in raw else ""
    constants: list[str] = []
    try:
        value = json.loads(text.decode("utf-8"), parse_constant=constants.append)
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except json.JSONDecodeError as error:
        return None, f"not one JSON object: {error.msg} at column {error.colno}"
    except (ValueError, RecursionError):
        return None, "not JSON that can be read: nested too deep or a number too long"
    if not isinstance(value, dict):
        return None, "JSON, but not an object"
    return value, f"{constants[0]} is not JSON" if constants else ""


def read_records(
    path: str | Path, kinds: Iterable[str] | None = None, *, contains: str | None = None
) -> Iterator[dict[str, Any]]:
    """The records of a log in the order of the file, all kinds or some; a resumed run has several.

    `contains` is compared with the raw line, before it is parsed: give the text as JSON spells it. At the end
    one LogWarning counts and locates what could not be read. Raises InputError where there is no such file.
    """
    path = existing_log(path)
    wanted = None if kinds is None else tuple(kinds)
    return _records(path, wanted, (contains or "").encode())


def _records(path: Path, kinds: tuple[str, ...] | None, contains: bytes) -> Iterator[dict[str, Any]]:
    losses = Losses(path)
    with path.open("rb") as file:
        for number, raw in enumerate(file, 1):
            if contains not in raw:
                continue
            record, remark = parse_line(raw)
            if remark:
                (losses.left_out if record is None else losses.nulled)[number] = remark
            if record is not None and (kinds is None or record.get("kind") in kinds):
                yield record
    losses.warn()


def existing_log(path: str | Path) -> Path:
    """The file that `path` names: a relative one is looked for here, then at the project's root.

    Raises InputError where no file is there.
    """
    path = Path(path)
    places = [path] if path.is_absolute() else [path, project_root(Path.cwd()) / path]
    found = next((place for place in places if place.exists()), None)
    if found is None:
        fix = 'run a set first: skilleval run SET, or se.run_set("sets/…")'
        raise InputError(Problem(str(path), f"there is no log here (looked from {Path.cwd()})", fix))
    if found.is_dir():
        raise InputError(
            Problem(str(path), "this is a folder, not a log", f"name the file: {path}/log.jsonl")
        )
    return found


def count_looks(
    path: str | Path,
    *,
    set_hash: str,
    model: str,
    judge_model: str | None,
    delivery: str,
    but: str | None = None,
) -> int:
    """How many runs of this set, model, judge and delivery stand in the log after the last confirmation.

    A run that measured no case in both conditions, or nothing but reused trials (as a regrade does), is no look,
    and only a whole run with a measured gate confirms. A resumed run counts once, by its newest line; the run
    `but` does not count. 0 where there is no log yet.
    """
    path = Path(path)
    if not path.exists():
        return 0
    wanted = (set_hash, model, judge_model, delivery)
    newest: dict[str, tuple[int, bool]] = {}
    needle = json.dumps(set_hash, ensure_ascii=False).encode()
    with path.open("rb") as file:
        for number, raw in enumerate(file):
            if needle not in raw:
                continue
            record = _head(raw)
            if tuple(record.get(key) for key in ("setHash", "model", "judgeModel", "delivery")) != wanted:
                continue
            run_id, resumes = str(record.get("runId", number)), record.get("resumes")
            if run_id == but or record.get("graded") == 0 or _nothing_new(record):
                continue
            if not isinstance(resumes, int):
                resumes = 0
            if run_id not in newest or resumes >= newest[run_id][0]:
                newest.pop(run_id, None)  # it counts where its newest line stands
                newest[run_id] = (resumes, _settles(record))
    looks = 0
    for _, confirm in newest.values():
        looks = 0 if confirm else looks + 1
    return looks


def _nothing_new(record: Mapping[str, Any]) -> bool:
    if "measuredAnew" in record:
        return bool(record["measuredAnew"] == 0)
    reused, measured = record.get("reused"), record.get("trialsMeasured")
    return isinstance(reused, dict) and bool(reused) and sum(reused.values()) == measured


def _settles(record: Mapping[str, Any]) -> bool:
    whole = not record.get("subset") and not record.get("partial")
    return record.get("confirm") is True and whole and record.get("gate") != "NOT MEASURED"


def _head(raw: bytes) -> dict[str, Any]:
    """The keys before a record's cases, which are most of the line; the whole record where that is not safe.

    The bytes `,"cases":[` cannot stand inside a JSON string, and what stands before them closes to an object
    only where the key is the record's own.
    """
    before, mark, after = raw.partition(_CASES)
    if mark and after.rstrip().endswith(b"]}") and b'"confirm"' not in after and b'"resumes"' not in after:
        record, remark = parse_line(before + b"}")
        if (
            record is not None
            and not remark
            and {"setHash", "model", "judgeModel", "delivery"} <= record.keys()
        ):
            return record
    return parse_line(raw)[0] or {}
