"""Log records as polars frames at four levels, with filters and columns pushed down into the reading of the file.

The file is read in pieces. In each, polars finds the lines of the kinds asked for, drops those that the head of
the record already rules out, and decodes what the wanted columns need, no more. A piece that polars cannot
decode is read again line by line in Python, which leaves out what is broken and says so in a LogWarning.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from .columns import COLUMNS, KINDS, LEVELS, Column
from .decode import RESUMES, RUN, Decoder, fitting
from .errors import InputError, Problem
from .log import Losses, existing_log, json_line, parse_line

PIECE = 2**21


def scan_log(
    path: str | Path = "runs/log.jsonl", level: str = "case", kind: str | None = None
) -> pl.LazyFrame:
    """The log as a lazy frame: filters and column choices decide what is read, and nothing is until `collect`.

    One row a run, case and condition, trial, or check of a trial, in the order of the log; columns as declared
    in `columns`. `kind` is eval (or gate), trigger or suite; None takes all three. Of a resumed run only the
    newest record counts. Lines that cannot be read are left out, and a LogWarning counts and locates them.
    Raises InputError where there is no log, no such level or no such kind.
    """
    reader = _Reader(existing_log(path), _level(level), _kinds(kind))

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        yield from reader.read(columns, predicate, n_rows)

    return register_io_source(source, schema=schema_of(level), is_pure=True)


def load_log(
    path: str | Path = "runs/log.jsonl", level: str = "case", kind: str | None = None
) -> pl.DataFrame:
    """The log as a frame; rows, columns, warnings and errors as `scan_log`."""
    reader = _Reader(existing_log(path), _level(level), _kinds(kind))
    return pl.concat(reader.read(None, None, None), rechunk=False)


def frame_of(records: Iterable[Mapping[str, Any]], level: str) -> pl.DataFrame:
    """The same frame from records in memory; records of kinds without cases are passed over."""
    decoder = Decoder(_level(level), KINDS)
    kept = [record for record in records if record.get("kind") in KINDS]
    lines = pl.DataFrame({"line": [json_line(record) for record in kept]}, schema={"line": pl.String})
    try:
        frame = decoder.plan(lines.lazy()).collect()
    except pl.exceptions.PolarsError:
        fit = [json_line(fitting(record, decoder.dtype)[0]) for record in kept]
        frame = decoder.plan(pl.LazyFrame({"line": fit})).collect()
    frame = pl.concat(decoder.finish([frame]))
    return _newest(frame, _resumed(kept)).select(schema_of(level).names())


def schema_of(level: str) -> pl.Schema:
    """Names and types of a level's columns."""
    return pl.Schema({column.name: _dtype(column) for column in COLUMNS[_level(level)]})


def _dtype(column: Column) -> pl.DataType:
    return pl.Datetime("ms", "UTC") if column.dtype.startswith("Datetime") else getattr(pl, column.dtype)()


def _level(level: str) -> str:
    if level not in LEVELS:
        raise InputError(Problem("level", f"there is no level {level!r}", f"one of {', '.join(LEVELS)}"))
    return level


def _kinds(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return KINDS
    found = "eval" if kind == "gate" else kind
    if found not in KINDS:
        raise InputError(Problem("kind", f"there is no kind {kind!r}", "one of gate (eval), trigger, suite"))
    return (found,)


def _resumed(records: Iterable[Mapping[str, Any]]) -> dict[str, int]:
    """The highest `resumes` of each run that was resumed."""
    best: dict[str, int] = {}
    for record in records:
        run_id, resumes = record.get("runId"), record.get("resumes")
        if isinstance(run_id, str) and isinstance(resumes, int) and resumes > 0:
            best[run_id] = max(resumes, best.get(run_id, 0))
    return best


def _newest(frame: pl.DataFrame, best: Mapping[str, int]) -> pl.DataFrame:
    """Leave out what a later record of the same run replaces."""
    if not best:
        return frame
    newest = pl.col(RUN).replace_strict(best, default=0, return_dtype=pl.Int64)
    return frame.filter(pl.col(RESUMES) >= newest)


@dataclass
class _Reader:
    """One log at one level."""

    path: Path
    level: str
    kinds: tuple[str, ...]

    def read(
        self, columns: Sequence[str] | None, predicate: pl.Expr | None, n_rows: int | None
    ) -> list[pl.DataFrame]:
        """The frames of the pieces; at least one, which may be empty."""
        schema = schema_of(self.level)
        names = schema.names() if columns is None else list(columns)
        roots = [] if predicate is None else predicate.meta.root_names()
        decoder = Decoder(self.level, self.kinds, {*names, *roots}, predicate)
        job = _Job(self.path, decoder)
        job.run()
        frames = [schema.to_frame(eager=True).select(names)]
        left = n_rows
        for frame in decoder.finish(job.frames):
            found = _newest(frame, job.best).select(names)
            if left is not None:
                found = found.head(left)
                left -= found.height
            frames.append(found)
        job.losses.warn()
        return frames


@dataclass
class _Job:
    """One pass over a file."""

    path: Path
    decoder: Decoder
    frames: list[pl.DataFrame] = field(default_factory=list)
    best: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.losses = Losses(self.path)

    def run(self) -> None:
        """Read all pieces, as many at a time as polars has threads."""
        pieces = _pieces(self.path)
        while group := list(islice(pieces, pl.thread_pool_size())):
            sorted_ = _collected([self.decoder.sort(piece) for _, piece in group])
            clean = [frame if frame is not None and frame["shaped"].all() else None for frame in sorted_]
            plans = [self.decoder.narrowed_plan(frame.lazy()) for frame in clean if frame is not None]
            found = iter(_collected(plans))
            for (start, piece), lines in zip(group, clean, strict=True):
                frame = None if lines is None else next(found)
                if lines is None or frame is None:
                    self._slowly(start, piece)
                else:
                    self._keep(frame, (parse_line(line.encode())[0] for line in lines.filter("again")["line"]))

    def _keep(self, frame: pl.DataFrame, resumed: Iterable[Mapping[str, Any] | None]) -> None:
        self.frames.append(frame)
        for run_id, resumes in _resumed(record for record in resumed if record is not None).items():
            self.best[run_id] = max(resumes, self.best.get(run_id, 0))

    def _slowly(self, start: int, piece: bytes) -> None:
        """The same by hand: broken lines are left out, values of a wrong type become null."""
        number = _newlines(self.path, start)
        records, lines = [], []
        for raw in piece.split(b"\n"):
            number += 1
            record, remark = parse_line(raw)
            if record is None:
                if remark:
                    self.losses.left_out[number] = remark
            elif record.get("kind") in self.decoder.kinds:
                fit, misfit = fitting(record, self.decoder.dtype)
                if remark := remark or misfit:
                    self.losses.nulled[number] = remark
                records.append(record)
                lines.append(json_line(fit))
        frame = self.decoder.plan(pl.LazyFrame({"line": lines}, schema={"line": pl.String})).collect()
        self._keep(frame, records)


def _pieces(path: Path) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole lines, each with its offset."""
    start = 0
    with path.open("rb") as file:
        while piece := file.read(PIECE):
            piece += file.readline()
            yield start, piece
            start += len(piece)


def _newlines(path: Path, end: int) -> int:
    """How many lines end before an offset."""
    count = 0
    with path.open("rb") as file:
        while end > 0 and (data := file.read(min(PIECE, end))):
            count += data.count(b"\n")
            end -= len(data)
    return count


def _collected(plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame | None]:
    """The frames of several plans at once; None for one that polars cannot finish."""
    try:
        return list(pl.collect_all(plans))
    except pl.exceptions.PolarsError:
        return [_collected_alone(plan) for plan in plans]


def _collected_alone(plan: pl.LazyFrame) -> pl.DataFrame | None:
    try:
        return plan.collect()
    except pl.exceptions.PolarsError:
        return None
