"""Log records as polars frames at four levels, with filters and columns pushed down into the reading of the file.

The file is read in pieces. In each, polars finds the lines of the kinds asked for, drops those that the head of
the record already rules out, and decodes what the wanted columns need, no more. A piece that polars cannot
decode is read again line by line in Python, which leaves out what is broken and says so in a LogWarning.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import polars as pl
from polars.io.plugins import register_io_source

from .columns import COLUMNS, KINDS, LEVELS, READABLE
from .decode import RESUMES, RUN, Decoder, dtype_of
from .errors import InputError, Problem
from .log import Losses, existing_log, json_line, parse_line

SLICE = 2**21


def scan_log(
    path: str | Path = "runs/log.jsonl", level: str = "case", kind: str | None = None
) -> pl.LazyFrame:
    """The log as a lazy frame: filters and column choices decide what is read, and nothing is until `collect`.

    One row a run, case and condition, trial, or check of a trial, in the order of the log; columns as declared
    in `columns`. `kind` is eval (or gate), trigger or suite; None takes all three. `regrade` is taken by name
    only: it reads what graded earlier answers anew. Of a resumed run only the newest record counts. Lines that
    cannot be read are left out, and a LogWarning counts and locates them.
    Raises InputError where there is no log, no such level or no such kind.
    """
    read = partial(_read, existing_log(path), _level(level), _kinds(kind))

    def source(
        columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        yield from read(columns, predicate, n_rows)

    return register_io_source(source, schema=schema_of(level), is_pure=True)


def load_log(
    path: str | Path = "runs/log.jsonl", level: str = "case", kind: str | None = None
) -> pl.DataFrame:
    """The log as a frame; rows, columns, warnings and errors as `scan_log`."""
    return pl.concat(_read(existing_log(path), _level(level), _kinds(kind)), rechunk=False)


def frame_of(records: Iterable[Mapping[str, Any]], level: str) -> pl.DataFrame:
    """The same frame from records in memory; records of kinds without cases are passed over."""
    decoder = Decoder(_level(level), READABLE)
    kept = [record for record in records if record.get("kind") in READABLE]
    frames = _tried([decoder.plan(_lines(kept))])
    if frames is None:
        losses = Losses("records in memory")
        fit = [_fitting(record, decoder.dtype) for record in kept]
        losses.nulled.update((number, why) for number, (_, why) in enumerate(fit, 1) if why)
        losses.warn()
        frames = [decoder.plan(_lines(record for record, _ in fit)).collect()]
    frame = pl.concat(decoder.finish(frames))
    return _newest(frame, _resumed(kept)).select(schema_of(level).names())


def schema_of(level: str) -> pl.Schema:
    """Names and types of a level's columns."""
    return pl.Schema({column.name: dtype_of(column) for column in COLUMNS[_level(level)]})


def _lines(records: Iterable[Mapping[str, Any]]) -> pl.LazyFrame:
    return pl.LazyFrame({"line": [json_line(record) for record in records]}, schema={"line": pl.String})


def _level(level: str) -> str:
    if level not in LEVELS:
        raise InputError(Problem("level", f"there is no level {level!r}", f"one of {', '.join(LEVELS)}"))
    return level


def _kinds(kind: str | None) -> tuple[str, ...]:
    if kind is None:
        return KINDS
    found = "eval" if kind == "gate" else kind
    if found not in READABLE:
        known = "one of gate (eval), trigger, suite, regrade"
        raise InputError(Problem("kind", f"there is no kind {kind!r}", known))
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


def _read(
    path: Path,
    level: str,
    kinds: tuple[str, ...],
    columns: Sequence[str] | None = None,
    predicate: pl.Expr | None = None,
    n_rows: int | None = None,
) -> list[pl.DataFrame]:
    """The frames of a log's pieces; at least one, which may be empty. `n_rows` counts before the filter."""
    schema = schema_of(level)
    names = schema.names() if columns is None else list(columns)
    roots = [] if predicate is None else predicate.meta.root_names()
    decoder = Decoder(level, kinds, {*names, *roots}, None if n_rows is not None else predicate)
    job = _Job(path, decoder)
    frames = [_newest(frame, job.best) for frame in job.run()]
    if n_rows is not None and frames:
        head = pl.concat(frames).lazy().head(n_rows)
        frames = [(head if predicate is None else head.filter(predicate)).collect()]
    return [schema.to_frame(eager=True).select(names), *(frame.select(names) for frame in frames)]


@dataclass
class _Job:
    """One pass over a file."""

    path: Path
    decoder: Decoder
    frames: list[pl.DataFrame] = field(default_factory=list)
    best: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.losses = Losses(self.path)

    def run(self) -> list[pl.DataFrame]:
        """Read the file piece by piece; warn at the end of what could not be read."""
        for start, piece in _pieces(self.path, SLICE * max(4, pl.thread_pool_size())):
            lines = _tried([self.decoder.sort(piece)])
            frames = self._decoded(lines[0]) if lines and lines[0]["shaped"].all() else None
            if lines and frames is not None:
                again = lines[0].filter("again")["line"]
                self._keep(frames, (parse_line(line.encode())[0] for line in again))
            else:
                self._slowly(start, piece)
        self.losses.warn()
        return self.decoder.finish(self.frames)

    def _decoded(self, lines: pl.DataFrame) -> list[pl.DataFrame] | None:
        """The rows of lines, several slices at a time; None where polars cannot decode one of them."""
        narrowed = self.decoder.narrow(lines.lazy())
        found = None if narrowed is None else _tried([narrowed])
        kept = found[0] if found else lines.select("line")
        bounds = [0, *_bounds(kept["line"]), kept.height]
        slices = [kept.slice(at, to - at).lazy() for at, to in pairwise(bounds) if to > at]
        return _tried([self.decoder.plan(lines) for lines in slices])

    def _keep(self, frames: list[pl.DataFrame], resumed: Iterable[Mapping[str, Any] | None]) -> None:
        self.frames.extend(frames)
        for run_id, resumes in _resumed(record for record in resumed if record is not None).items():
            self.best[run_id] = max(resumes, self.best.get(run_id, 0))

    def _slowly(self, start: int, piece: bytes) -> None:
        """The same by hand: broken lines are left out, values of a wrong type become null."""
        number = _newlines(self.path, start)
        records, fits = [], []
        for raw in piece.split(b"\n"):
            number += 1
            record, remark = parse_line(raw)
            if record is None:
                if remark:
                    self.losses.left_out[number] = remark
            elif record.get("kind") in self.decoder.kinds:
                fit, misfit = _fitting(record, self.decoder.dtype)
                if remark := remark or misfit:
                    self.losses.nulled[number] = remark
                records.append(record)
                fits.append(fit)
        self._keep([self.decoder.plan(_lines(fits)).collect()], records)


def _pieces(path: Path, size: int) -> Iterator[tuple[int, bytes]]:
    """The file in pieces of whole lines, each with its offset."""
    start = 0
    with path.open("rb", buffering=0) as file:
        while piece := file.read(size):
            end = piece.rfind(b"\n") + 1
            if 0 < end < len(piece):  # the rest belongs to the next piece
                piece = piece[:end]
                file.seek(start + end)
            while not piece.endswith(b"\n") and (more := file.read(size)):
                end = more.find(b"\n") + 1 or len(more)
                piece += more[:end]
                file.seek(start + len(piece))
            yield start, piece
            start += len(piece)


def _bounds(lines: pl.Series) -> list[int]:
    """Where to cut lines so that a slice is about SLICE bytes: smaller pays for the plan, larger for memory."""
    part = lines.str.len_bytes().cast(pl.Int64).cum_sum() // SLICE
    return [int(at) for at in (part != part.shift(1)).arg_true() if at]


def _newlines(path: Path, end: int) -> int:
    """How many lines end before an offset."""
    count = 0
    with path.open("rb") as file:
        while end > 0 and (data := file.read(min(SLICE, end))):
            count += data.count(b"\n")
            end -= len(data)
    return count


def _tried(plans: Sequence[pl.LazyFrame]) -> list[pl.DataFrame] | None:
    """The frames of several plans at once; None where polars cannot finish one of them."""
    try:
        return list(pl.collect_all(plans))
    except pl.exceptions.PolarsError:
        return None


def _fitting(value: Any, dtype: pl.DataType, path: str = "") -> tuple[Any, str]:
    """`value` cut to what polars can decode as `dtype`, and the first place where it had to become null.

    What polars converts by itself (a number for a text, a fraction for a whole number, one value for a list of
    one) is left to it, so that a record reads the same whichever way it is decoded.
    """
    if value is None:
        return None, ""
    if isinstance(dtype, pl.Struct):
        if not isinstance(value, dict):
            return None, f"{path} is not an object"
        parts = {f.name: _fitting(value.get(f.name), _of(f.dtype), f"{path}.{f.name}") for f in dtype.fields}
        return {name: part for name, (part, _) in parts.items()}, _first(why for _, why in parts.values())
    if isinstance(dtype, pl.List):
        inner = _of(dtype.inner)
        if isinstance(value, dict) or (isinstance(inner, pl.Struct) and not isinstance(value, list)):
            return None, f"{path} is not a list"
        values = value if isinstance(value, list) else [value]
        items = [_fitting(item, inner, f"{path}[{i}]") for i, item in enumerate(values)]
        return [item for item, _ in items], _first(why for _, why in items)
    if dtype == pl.Boolean:
        fits = isinstance(value, bool)
    elif dtype == pl.String:
        fits = isinstance(value, str) or _is_number(value)
    else:
        fits = _is_number(value)
    return (value, "") if fits else (None, f"{path} is not a {_WORDS[type(dtype)]}")


def _is_number(value: Any) -> bool:
    """True for what polars' JSON reader takes as a number; it stops at whole numbers of 128 bits."""
    return (
        math.isfinite(value) if isinstance(value, float) else isinstance(value, int) and abs(value) < 2**100
    )


def _first(remarks: Iterable[str]) -> str:
    return next((remark.removeprefix(".") for remark in remarks if remark), "")


def _of(dtype: Any) -> pl.DataType:
    return dtype if isinstance(dtype, pl.DataType) else dtype()


_WORDS = {pl.Boolean: "true or false", pl.String: "text", pl.Int64: "number", pl.Float64: "number"}
