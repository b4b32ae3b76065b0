"""From a log's lines to the columns of a level: what to decode of a record, and how the columns come out of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import polars as pl

from .columns import COLUMNS, TIME, Column

RUN, RESUMES = "\0run", "\0resumes"
"""Two columns beside those asked for, by which a later record of a run replaces the earlier ones."""

_LINE = pl.col("line")
_RAW_RUN_ID, _RAW_DIR = "runId", "dir"
_PAIR = ("graded", "errors", "baseline_pass", "skill_pass", "baseline_rate", "skill_rate", "delta")
_ROLES = ("executor", "judge")
_LEDGER: Mapping[str, tuple[str, type[pl.DataType]]] = {
    "calls": ("calls", pl.Int64),
    "asked": ("asked", pl.Int64),
    "reported": ("reported", pl.Int64),
    "input_tokens": ("tokens.0", pl.Int64),
    "output_tokens": ("tokens.1", pl.Int64),
    "cache_read_tokens": ("tokens.2", pl.Int64),
    "cache_write_tokens": ("tokens.3", pl.Int64),
    "cost_usd": ("costUsd", pl.Float64),
    "latency_s": ("latencyS", pl.Float64),
}
_HOLDS = {"run": "cases", "case": "results", "result": "trials", "trial": "checks"}
_OWNERS = {
    "run": (),
    "case": ("case", "result"),
    "trial": ("case", "result", "trial"),
    "check": ("case", "result", "trial", "check"),
}
_ALWAYS: Mapping[str, Mapping[str, pl.DataType]] = {  # an empty struct cannot be decoded
    "run": {"kind": pl.String(), _RAW_RUN_ID: pl.String(), _RAW_DIR: pl.String(), "resumes": pl.Int64()},
    "case": {"id": pl.String()},
    "result": {"condition": pl.String()},
    "trial": {"trial": pl.Int64()},
    "check": {"passed": pl.Boolean()},
}


class Decoder:
    """The way from lines to the columns `wanted` of a level; None wants all. `predicate` may use only those."""

    def __init__(
        self,
        level: str,
        kinds: tuple[str, ...],
        wanted: Collection[str] | None = None,
        predicate: pl.Expr | None = None,
    ) -> None:
        self.level = level
        self.kinds = kinds
        self.predicate = predicate
        self.columns = {c.name: c for c in COLUMNS[level] if wanted is None or c.name in wanted}
        self.dtype = self._dtype()

    def sort(self, piece: bytes) -> pl.LazyFrame:
        """The lines of a piece that matter: `shaped` like an object, `again` where the run was resumed.

        A line that is not shaped like an object is kept to be looked at by hand, whatever it is.
        """
        ours = rf'"kind"\s*:\s*"(?:{"|".join(self.kinds)})"'
        return (
            pl.scan_lines(piece)
            .with_columns(
                shaped=_LINE.str.starts_with("{") & _LINE.str.ends_with("}"),
                ours=_LINE.str.contains(ours),
                again=_LINE.str.contains(r'"resumes"\s*:\s*[1-9]'),
            )
            .filter((_LINE != "") & (pl.col("ours") | ~pl.col("shaped")))
        )

    def plan(self, lines: pl.LazyFrame) -> pl.LazyFrame:
        """The rows that come out of lines which all hold one object; `finish` makes the columns of them."""
        record = pl.col("record").struct.field
        frame = lines.select(record=_LINE.str.json_decode(self.dtype))
        frame = frame.filter(record("kind").is_in(self.kinds))
        kept = {RUN: run_id(), RESUMES: record("resumes").fill_null(0)}
        if self.level == "run":
            return frame.select("record", *_named(kept))
        frame = self._opened(frame.select(_named({**self._own(), **kept, "\0case": record("cases")})))
        if self.predicate is not None:
            frame = frame.filter(self.predicate)
        return frame.select(*self.columns, RUN, RESUMES)

    def finish(self, frames: list[pl.DataFrame]) -> list[pl.DataFrame]:
        """The frames of plans with all columns; those of runs are made for all at once, as it is quicker."""
        if self.level != "run" or not frames:
            return frames
        values = {**self._own(), **self._counted()}
        frame = pl.concat(frames).lazy().with_columns(_named(values))
        if self.predicate is not None:
            frame = frame.filter(self.predicate)
        return [frame.select(*self.columns, RUN, RESUMES).collect()]

    def narrow(self, lines: pl.LazyFrame) -> pl.LazyFrame | None:
        """The lines without those that the keys before `cases` rule out already; None where no rule could.

        A column that is null there counts as not known, as its key may stand after the cases.
        """
        values = self._run_values()
        rules = [rule for rule in _conjuncts(self.predicate) if set(rule.meta.root_names()) <= values.keys()]
        used = sorted({name for rule in rules for name in rule.meta.root_names()})
        if not used:
            return None
        parts = _LINE.str.splitn(',"cases":[', 2).struct
        head = pl.when(parts.field("field_1").is_not_null()).then(parts.field("field_0") + "}")
        dtype = pl.Struct({f.name: f.dtype for f in self.dtype.fields if f.name not in ("cases", "usage")})
        known = pl.all_horizontal(values[name][1].is_not_null() for name in used)
        heads = lines.select("line", record=head.str.json_decode(dtype))
        heads = heads.select("line", *(values[name][0].alias(name) for name in used), known=known)
        return heads.filter(~pl.col("known") | pl.all_horizontal(rules)).select("line")

    def _own(self) -> dict[str, pl.Expr]:
        return {name: value for name, (value, _) in self._run_values().items()}

    def _run_values(self) -> dict[str, tuple[pl.Expr, pl.Expr]]:
        """The run's columns that need neither cases nor usage: value, and what the record itself says."""
        found = {}
        for name, column in self.columns.items():
            if name == "run_id":
                found[name] = (run_id(), pl.col("record").struct.field(_RAW_RUN_ID))
            elif column.owner == "run":
                raw = _at(pl.col("record"), column.path)
                found[name] = (_refined(name, raw), raw)
        return found

    def _counted(self) -> dict[str, pl.Expr]:
        """The run's columns that are counted over its cases or summed over its ledger."""
        found: dict[str, pl.Expr] = {}
        if self._wants_pair():
            found |= _pair()
        if self._wants_ledger():
            found |= _ledger()
        return {name: value for name, value in found.items() if name in self.columns}

    def _wants_pair(self) -> bool:
        return self.level == "run" and not self.columns.keys().isdisjoint(_PAIR)

    def _wants_ledger(self) -> bool:
        sums = {f"{role}_{name}" for role in _ROLES for name in _LEDGER} | {"cost_usd"}
        return self.level == "run" and not self.columns.keys().isdisjoint(sums)

    def _opened(self, frame: pl.LazyFrame) -> pl.LazyFrame:
        """From a row a run to a row an item of the level, owner by owner."""
        owners = _OWNERS[self.level]
        for owner, below in zip(owners, (*owners[1:], None), strict=True):
            item, lists = pl.col(f"\0{owner}"), [f"\0{owner}"]
            if owner == "check":
                frame = frame.with_columns(check=pl.int_ranges(1, item.list.len() + 1))
                lists.append("check")
            frame = frame.explode(lists, keep_nulls=False).filter(item.is_not_null())
            found = [
                _refined(name, _at(item, column.path)).alias(name)
                for name, column in self.columns.items()
                if column.owner == owner
            ]
            if owner == "case" and self._wants_check_kind():
                found.append(item.struct.field("checks").alias("\0kinds"))
            if owner == "check" and self._wants_check_kind():
                kinds = pl.col("\0kinds").list
                found.append(kinds.get(pl.col("check") - 1, null_on_oob=True).alias("kind"))
            if below is not None:
                found.append(self._below(owner, item).alias(f"\0{below}"))
            frame = frame.with_columns(found).drop(f"\0{owner}")
        return frame

    def _wants_check_kind(self) -> bool:
        return self.level == "check" and "kind" in self.columns

    def _below(self, owner: str, item: pl.Expr) -> pl.Expr:
        inner = item.struct.field(_HOLDS[owner])
        if self.level != "case":
            return inner
        verdicts = []  # all that the origin's records know of a case
        for condition in ("baseline", "skill"):
            known = {"condition": pl.lit(condition), "verdict": item.struct.field(condition)}
            fields = self._struct("result")
            verdicts.append(pl.struct(_named({n: known.get(n, pl.lit(None, t)) for n, t in fields.items()})))
        return pl.when(inner.is_null()).then(pl.concat_list(verdicts)).otherwise(inner)

    def _dtype(self) -> pl.Struct:
        record = self._struct("run")
        if self._wants_pair():
            flags = pl.Struct({"baseline": pl.Boolean(), "skill": pl.Boolean()})
            record |= {"graded": pl.Int64(), "errors": pl.Int64(), "cases": pl.List(flags)}
        if self._wants_ledger():
            row = _nested({path: dtype() for path, dtype in _LEDGER.values()})
            record["usage"] = pl.List(pl.Struct({"role": pl.String(), **row}))
        below: pl.List | None = None
        owners = ("run", *_OWNERS[self.level])
        for owner in reversed(owners[1:]):
            fields = self._struct(owner)
            if below is not None:
                fields[_HOLDS[owner]] = below
            below = pl.List(pl.Struct(fields))
        if below is not None:
            record["cases"] = below
        return pl.Struct(record)

    def _struct(self, owner: str) -> dict[str, pl.DataType]:
        """What is read of an owner itself, without what it holds."""
        paths = {
            column.path: pl.String() if column.dtype == TIME else dtype_of(column)
            for column in self.columns.values()
            if column.owner == owner
        }
        if owner == "case" and self.level == "case":
            paths |= {"baseline": pl.Boolean(), "skill": pl.Boolean()}
        if owner == "case" and self._wants_check_kind():
            paths["checks"] = pl.List(pl.String())
        return _nested({**_ALWAYS[owner], **paths})


def _named(values: Mapping[str, pl.Expr]) -> list[pl.Expr]:
    return [value.alias(name) for name, value in values.items()]


def dtype_of(column: Column) -> pl.DataType:
    """The type of a column in a frame."""
    found: pl.DataType = pl.Datetime("ms", "UTC") if column.dtype == TIME else getattr(pl, column.dtype)()
    return found


def _nested(paths: Mapping[str, pl.DataType]) -> dict[str, pl.DataType]:
    """Fields from paths: `a.b` is a struct in a struct, `a.0` a place in a list."""
    found: dict[str, Any] = {}
    for path, dtype in paths.items():
        key, _, rest = path.partition(".")
        if rest.isdigit():
            found[key] = pl.List(dtype)
        elif rest:
            found.setdefault(key, {})[rest] = dtype
        else:
            found[key] = dtype
    return {
        key: pl.Struct(_nested(value)) if isinstance(value, dict) else value for key, value in found.items()
    }


def _at(base: pl.Expr, path: str) -> pl.Expr:
    for key in path.split("."):
        base = base.list.get(int(key), null_on_oob=True) if key.isdigit() else base.struct.field(key)
    return base


def _refined(name: str, value: pl.Expr) -> pl.Expr:
    """The column's value from the record's: a time, the origin's word for a gate, what an absent key means."""
    if name == "ts":
        return value.str.to_datetime("%+", time_unit="ms", time_zone="UTC", strict=False)
    if name == "gate":
        return value.replace("ERROR", "NOT MEASURED")
    absent = {"resumes": 0, "reused": False, "attempt": 1}
    return value.fill_null(absent[name]) if name in absent else value


def run_id() -> pl.Expr:
    """The id of the run; of the origin's records, the last part of their folder."""
    folder = pl.col("record").struct.field(_RAW_DIR).str.extract(r"([^/\\]+)[/\\]*$")
    return pl.coalesce(pl.col("record").struct.field(_RAW_RUN_ID), folder)


def _pair() -> dict[str, pl.Expr]:
    """What the cases measured under both conditions say; recorded numbers stand where no cases are."""
    record, case = pl.col("record").struct.field, pl.element()
    baseline, skill = case.struct.field("baseline"), case.struct.field("skill")
    both = baseline.is_not_null() & skill.is_not_null()

    def count(rule: pl.Expr) -> pl.Expr:
        return record("cases").list.agg(rule.sum()).cast(pl.Int64)

    graded, base, passed = count(both), count(baseline & both), count(skill & both)
    rated = pl.when(graded > 0)
    return {
        "graded": pl.coalesce(graded, record("graded")),
        "errors": pl.coalesce(count(case.is_not_null()) - graded, record("errors")),
        "baseline_pass": base,
        "skill_pass": passed,
        "baseline_rate": rated.then(base / graded),
        "skill_rate": rated.then(passed / graded),
        "delta": rated.then((passed - base) / graded),
    }


def _ledger() -> dict[str, pl.Expr]:
    """The sums over the ledger's rows, by role: of what is known, or null where that is not all of it."""
    row = pl.element()
    called = row.struct.field("calls").fill_null(1) > 0
    sums = {"cost_usd": _whole("costUsd", called)}
    for role in _ROLES:
        mine = row.struct.field("role") == role
        for name, (path, _) in _LEDGER.items():
            if name in ("calls", "asked", "reported"):
                value = _whole(path, mine, none=0)
            elif name == "cost_usd":
                value = _whole(path, mine & called)
            else:
                known = pl.when(mine).then(_at(row, path))
                value = pl.when(known.is_not_null().any()).then(known.sum())
            sums[f"{role}_{name}"] = value
    usage = pl.col("record").struct.field("usage").list
    return {name: usage.agg(value) for name, value in sums.items()}


def _whole(path: str, rows: pl.Expr, *, none: int | None = None) -> pl.Expr:
    """The sum over some rows where every one of them knows its part; `none` where there is no such row."""
    values = pl.when(rows).then(_at(pl.element(), path))
    known = values.is_not_null().sum() == rows.sum()
    return pl.when(rows.any()).then(pl.when(known).then(values.sum())).otherwise(none)


def _conjuncts(predicate: pl.Expr | None) -> list[pl.Expr]:
    """The rules that must all hold, where a predicate is made of such."""
    if predicate is None:
        return []
    parts = predicate.meta.pop()
    for pair in (parts, parts[::-1]):
        if len(pair) == 2 and (pair[0] & pair[1]).meta == predicate:
            return _conjuncts(pair[0]) + _conjuncts(pair[1])
    return [predicate]
