"""Regular expressions of a set: compiled at load, and matched within a bound.

Neither engine can be interrupted, and both hold the GIL while they work. So a search runs here only where
its worst case is surely small, and otherwise in a child process that is killed when a pattern runs over.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, Self

from .errors import PatternError, Problem
from .json_worker import text_fault
from .pattern_process import Worker
from .pattern_worker import finder

if TYPE_CHECKING:
    from .pattern_worker import Finder

Dialect = Literal["js", "python"]

LIMIT_S = 1.0
"""What one pattern may take on one text, in seconds of wall time."""
FLAGS: dict[Dialect, str] = {"js": "dgimsuvy", "python": "aimsux"}
_LANGUAGE: dict[Dialect, str] = {"js": "JavaScript", "python": "Python"}
_LARGEST = (("characters", "", 10_000), ("alternatives", "|", 1_000), ("Unicode classes", "\\p", 100))
_FRAME_CHARS = 4_000_000
_STEP_S = 20e-9
_INLINE_S = 0.020
_INLINE_CHARS = 50_000


@dataclass(frozen=True, slots=True)
class Pattern:
    """A pattern that compiles: its source without leading inline flags, and all its flags, sorted."""

    source: str
    flags: str
    dialect: Dialect

    def __str__(self) -> str:
        return f"/{_shown(self.source)}/{self.flags}"


@dataclass(frozen=True, slots=True)
class JsonRule:
    """That a text is JSON, and valid against the JSON Schema `source` where that is not empty.

    With the dialect `schema` it is the schema itself that is looked at, and no text.
    """

    source: str = ""
    dialect: Literal["json", "schema"] = "json"
    flags: str = ""


Rule = Pattern | JsonRule
"""What one work item of the child process decides on a text."""


@dataclass(frozen=True, slots=True)
class Found:
    """What a search gave: the first match's place in characters, or None where there is none.

    `fault` is what is wrong with a text that should be JSON: a JSON path (may be empty) and words. `ran_over`
    and `error` say that the search was not finished; the others are then None and mean nothing.
    """

    span: tuple[int, int] | None = None
    fault: tuple[str, str] | None = None
    ran_over: bool = False
    error: str | None = None


def compile_pattern(source: str, flags: str | None = None, dialect: Dialect = "js") -> Pattern:
    """The pattern for a source as its author wrote it; without flags it ignores case.

    Leading inline flags, such as `(?i)` or `(?s-i)`, are added to the given or default ones. Raises
    PatternError where a flag is unknown or repeated, where the source does not compile, and where it is too
    large to be compiled safely; the problem's place is left to the caller.
    """
    for unit, sign, most in _LARGEST:
        if (size := source.lower().count(sign) if sign else len(source)) > most:
            raise _wrong(source, f"has {size:,} {unit}; at most {most:,} are taken", "split it into checks")
    letters = set(_checked_flags(source, flags, dialect) or "i")
    while inline := re.match(r"\(\?([A-Za-z]*)(?:-([A-Za-z]+))?\)", source):
        source = source[inline.end() :]
        letters |= set(_checked_flags(source, inline[1], dialect))
        letters -= set(_checked_flags(source, inline[2], dialect))
    if {"u", "v"} <= letters and dialect == "js":
        raise _wrong(source, "has the flags u and v together", "keep one of them")
    pattern = Pattern(source, "".join(sorted(letters)), dialect)
    if reason := _complaint(pattern):
        raise _wrong(
            source, f"is not a valid {_LANGUAGE[dialect]} regular expression: {reason}", _advice(pattern)
        )
    return pattern


def _checked_flags(source: str, flags: str | None, dialect: Dialect) -> str:
    for letter in flags or "":
        if letter not in FLAGS[dialect]:
            raise _wrong(
                source,
                f"has the flag {letter!r}, which {_LANGUAGE[dialect]} patterns do not have",
                f"the flags are {', '.join(FLAGS[dialect])}",
            )
    if flags and len(set(flags)) < len(flags):
        raise _wrong(source, f"repeats a flag in {flags!r}", "give each flag once")
    return flags or ""


def _complaint(pattern: Pattern) -> str | None:
    """Why a pattern does not compile; None where it does."""
    from regress import RegressError

    try:
        _prepared(pattern)
    except (RegressError, re.error, ValueError, OverflowError, RecursionError) as error:
        if isinstance(error, UnicodeError):
            return "it holds half of a surrogate pair"
        return str(error) or type(error).__name__
    return None


def _advice(pattern: Pattern) -> str:
    if re.search(r"\(\?[A-Za-z]+\)", pattern.source):
        return "inline flags stand at the very start, or around a part: (?i:…)"
    other: Dialect = "python" if pattern.dialect == "js" else "js"
    if _complaint(Pattern(pattern.source, "i", other)) is None:
        return f'it is valid in {_LANGUAGE[other]}: the set may say "regex": "{other}"'
    return ""


def _wrong(source: str, what: str, fix: str) -> PatternError:
    return PatternError(Problem("", f"the pattern /{_shown(source)}/ {what}", fix))


def _shown(source: str) -> str:
    """A source that is safe to print: at most 200 characters, and none that steers a terminal."""
    text = source if len(source) <= 200 else f"{source[:199]}…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)


@lru_cache(maxsize=4096)
def _prepared(pattern: Pattern) -> tuple[Finder, int]:
    """The search function, and up to how many characters of text it may run here."""
    return finder(pattern.source, pattern.flags, pattern.dialect), _inline_up_to(pattern)


def _inline_up_to(pattern: Pattern) -> int:
    """The longest text on which the worst case of a pattern is surely short; -1: none.

    Steps are bounded by starts × ways × length of the source, where an unbounded loop has n + 1 ways, a
    bounded one as many as its bound says, `?` two, and alternatives one each, in their group. Signs are
    counted, not parsed, once escapes and classes are out of the way (from any bracket to the next closing one
    is a class in both dialects, whatever comes after), so that a mistake is on the safe side.
    """
    source = pattern.source
    if {"v", "x"} & set(pattern.flags) or re.search(r"\\[1-9k]", source):
        return -1  # sets of strings, free layout, back-references
    plain = re.sub(r"\[[^\[\]]+\]", "a", re.sub(r"\\.", "a", source, flags=re.DOTALL))
    if re.search(r"\)\s*[*+{]|\(\?(?!:|<\w)", plain):
        return -1  # a repeated group, which may nest loops; look-around and all rarer groups
    bars, groups = plain.count("|"), plain.count("(") + 1
    options = len(re.findall(r"(?<![*+(])\?", plain))
    if bars + options > 60:
        return -1
    ways = 2.0**options * min(2.0**bars, (1 + bars / groups) ** groups)
    for bound in re.findall(r"\{(?:\d*,)?(\d+)\}", plain):
        ways *= float(bound) + 1
    loops = len(re.findall(r"[*+{]", re.sub(r"\{(?:\d*,)?\d+\}", "", plain)))
    steps = _INLINE_S / _STEP_S / ways / max(1, len(source))
    return min(int(steps ** (1 / (1 + loops))) - 1, _INLINE_CHARS)


def _search_here(pairs: Sequence[tuple[Rule, str]]) -> list[Found | None]:
    """What can be answered at once; None where the worker is needed."""
    found: list[Found | None] = []
    start = time.perf_counter()
    for pattern, text in pairs:
        if isinstance(pattern, JsonRule):
            found.append(_json_here(pattern, text))
            continue
        find, up_to = _prepared(pattern)
        if len(text) > up_to or time.perf_counter() - start > _INLINE_S:
            found.append(None)
        else:
            found.append(Found(find(text)))
    return found


def _json_here(rule: JsonRule, text: str) -> Found | None:
    """Whether a text of moderate length is JSON at all; a schema is the worker's."""
    if rule.source or len(text) > _INLINE_CHARS:
        return None
    try:
        return Found(fault=text_fault(text, None))
    except RecursionError:
        return None


def check_schemas(schemas: Sequence[str], limit_s: float = LIMIT_S) -> list[Found]:
    """Looks at each JSON Schema, given as JSON text; `fault` is what is wrong with it."""
    return search_each_now([(JsonRule(schema, "schema"), "") for schema in schemas], limit_s)


def search_now(patterns: Sequence[Pattern], text: str, limit_s: float = LIMIT_S) -> list[Found]:
    """`Matcher.search` for code without an event loop; a worker is started and ended where one is needed."""
    return search_each_now([(pattern, text) for pattern in patterns], limit_s)


def search_each_now(pairs: Sequence[tuple[Rule, str]], limit_s: float = LIMIT_S) -> list[Found]:
    """`Matcher.search_each` for code without an event loop: all pairs by one worker at most."""

    async def search() -> list[Found]:
        async with Matcher(limit_s) as matcher:
            return await matcher.search_each(pairs)

    with ThreadPoolExecutor(1) as pool:  # the caller's thread may be running a loop already
        return pool.submit(lambda: asyncio.run(search())).result()


@dataclass(slots=True, eq=False)
class _Job:
    pattern: Rule
    text: str
    found: Found | None = None


class Matcher:
    """Searches within a bound, by one child process that is started when first needed; one per run.

    It is used from one event loop, by any number of tasks. A pattern that runs over loses only itself. The
    worker does one pattern at a time: what waits together goes to it together, in one frame.
    """

    def __init__(self, limit_s: float = LIMIT_S, *, threads: bool = os.name == "nt") -> None:
        self.limit_s = limit_s
        self._threads = threads
        self._worker: Worker | None = None
        self._waiting: list[_Job] = []
        self._turn = asyncio.Lock()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def search(self, patterns: Sequence[Pattern], text: str) -> list[Found]:
        """Looks for each pattern in `text`; one result a pattern, in their order."""
        return await self.search_each([(pattern, text) for pattern in patterns])

    async def search_each(self, pairs: Sequence[tuple[Rule, str]]) -> list[Found]:
        """Looks for each pattern in its own text; one result a pair, in their order."""
        found = _search_here(pairs)
        jobs = {k: _Job(*pairs[k]) for k, answer in enumerate(found) if answer is None}
        if jobs:
            await self._queue(list(jobs.values()))
        return [answer or jobs[k].found or Found(error="not searched") for k, answer in enumerate(found)]

    async def aclose(self) -> None:
        """Ends the worker, and what waits for it with an error; safe to call twice."""
        self._closed = True
        if self._worker:
            self._worker.kill()  # whoever has the turn sees it end
        async with self._turn:
            self._drop()

    async def _queue(self, jobs: list[_Job]) -> None:
        """Waits until all are done: whoever has the turn serves everything that waits by then."""
        self._waiting += jobs
        try:
            while any(job.found is None for job in jobs):
                async with self._turn:
                    if any(job.found is None for job in jobs):
                        await self._serve(self._take())
        except BaseException:
            self._waiting = [job for job in self._waiting if job not in jobs]
            raise

    def _take(self) -> list[_Job]:
        """The next batch: what waits, up to some megabytes of text."""
        size, count = 0, 0
        for count, job in enumerate(self._waiting):
            size += len(job.text) if not count or job.text is not self._waiting[count - 1].text else 0
            if count and size > _FRAME_CHARS:
                break
        else:
            count = len(self._waiting)
        batch, self._waiting = self._waiting[:count], self._waiting[count:]
        return batch

    async def _serve(self, batch: list[_Job]) -> None:
        try:
            while batch:
                await self._round(batch)
        except BaseException:  # cancelled in the middle: answers of this frame may still be under way
            self._drop()
            self._waiting[:0] = batch
            raise

    async def _round(self, batch: list[_Job]) -> None:
        """One frame to one worker: takes from `batch` what is done, up to a pattern that ends the worker."""
        fresh = self._worker is None
        try:
            worker = await self._started()
        except OSError as error:
            self._drop()
            for job in batch:
                job.found = Found(error=f"the matching process cannot start: {error}")
            batch.clear()
            return
        if any(isinstance(job.pattern, JsonRule) for job in batch):
            try:
                await worker.know_json()
            except OSError as error:
                self._drop()
                if fresh:  # patterns need none of it, and get another worker
                    for job in batch:
                        if isinstance(job.pattern, JsonRule):
                            job.found = Found(error=f"JSON Schemas cannot be checked here: {error}")
                    batch[:] = [job for job in batch if job.found is None]
                return
        job = batch[0]
        try:
            await worker.send([(j.text, j.pattern.source, j.pattern.flags, j.pattern.dialect) for j in batch])
            while batch:
                job = batch[0]
                answer = await worker.receive(self.limit_s)
                job.found = Found(error=answer) if isinstance(answer, str) else _found(answer)
                del batch[0]
        except TimeoutError:
            self._drop()
            job.found = Found(ran_over=True)
            del batch[0]
        except OSError:
            self._drop()
            if fresh:  # an older worker's end may have had any cause: the pattern is tried once more
                job.found = Found(error="the matching process ended; the check may need too much memory")
                del batch[0]

    async def _started(self) -> Worker:
        if self._closed:
            raise ChildProcessError("the matcher is closed")
        if self._worker is None:
            self._worker = Worker(self.limit_s, threads=self._threads)
            await self._worker.start()
        return self._worker

    def _drop(self) -> None:
        worker, self._worker = self._worker, None
        if worker:
            worker.close()


def _found(answer: object) -> Found:
    match answer:
        case (int(start), int(end)):
            return Found((start, end))
        case (str(where), str(what)):
            return Found(fault=(where, what))
    return Found()
