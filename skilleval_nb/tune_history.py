"""What the log knows of the versions of one skill under one set: their runs in order, and pairs that ran afresh."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .gate import counted
from .log import read_records
from .record import CANDIDATE, REFERENCE, result_of
from .values import Outcome

if TYPE_CHECKING:
    import polars as pl

SETTLED = 40.0
"""The e-value that settles the direction, at 5 % for both together."""
_SENT = ("executor_input_tokens", "executor_cache_read_tokens", "executor_cache_write_tokens")
_SAME = (
    "set",
    "setHash",
    "skill",
    "skillHash",
    "runner",
    "resolvedModel",
    "model",
    "delivery",
    "judgeModel",
    "judgeHash",
)


@dataclass(frozen=True, slots=True)
class EValue:
    """Evidence about one version from pairs of trials that were run afresh; it may be looked at after every pair.

    A pair is the same trial of the same case in both conditions of one run. `value` speaks for a rise and `fall` for
    a fall; `SETTLED` or more settles it. None, with a `reason`, where no pair counts.
    """

    value: float | None
    fall: float | None
    wins: int = 0
    losses: int = 0
    pairs: int = 0
    runs: int = 0
    reason: str | None = None

    def __str__(self) -> str:
        if self.value is None or self.fall is None:
            return f"e-value: none, as {self.reason}"
        best, word = max((self.value, "a rise"), (self.fall, "a fall"))
        said = "settled" if best >= SETTLED else f"{SETTLED:.0f} settles it"
        return (
            f"e-value {best:.3g} for {word} ({said}): skill alone passed {self.wins}, baseline alone {self.losses}"
            f" of {counted(self.pairs, 'fresh pair')} in {counted(self.runs, 'run')}"
        )


def history_frame(log: Path, set_name: str, skills: Iterable[str], saved_hash: str | None) -> pl.DataFrame:
    """One row a run of a set with a skill (by any of its paths), oldest first; see `TuneSession.history`."""
    import polars as pl

    from .frames import scan_log, schema_of

    reused = [pl.col(name).fill_null(0) for name in ("baseline_reused", "skill_reused")]
    sent = pl.sum_horizontal(_SENT)
    columns = [
        *("ts", "run_id"),
        pl.col("skill_hash").alias("version"),
        (pl.col("skill_hash") == saved_hash).alias("saved"),
        *("look", "delta", "delta_low", "delta_high", "p_set", "p_looks"),
        pl.col("evidence").alias("verdict"),
        *("gate", "baseline_rate", "skill_rate", "graded"),
        *reused,
        pl.when(pl.any_horizontal(pl.col(name).is_not_null() for name in _SENT))
        .then(sent)
        .alias("input_tokens"),
        pl.col("executor_output_tokens").alias("output_tokens"),
        *("confirm", "partial", "set_hash", "runner", "model", "judge_model", "n"),
    ]
    rows = scan_log(log, "run", "gate") if log.exists() else pl.LazyFrame(schema=schema_of("run"))
    own = (pl.col("set") == set_name) & pl.col("skill").is_in(list(skills))
    return rows.filter(own).select(columns).collect().sort("ts", maintain_order=True)


def runs_of_set(log: Path, set_name: str) -> int:
    """How many runs of a set the log holds, whatever their skill."""
    import polars as pl

    from .frames import scan_log

    if not log.exists():
        return 0
    return int(
        scan_log(log, "run", "gate").filter(pl.col("set") == set_name).select(pl.len()).collect().item()
    )


def fresh_evidence(log: Path, skill_hash: str, set_name: str, skills: Iterable[str]) -> EValue:
    """The e-value of a version from its runs of draws of their own, as its newest run was set up."""
    from .stats import e_value

    records = _newest(log, skill_hash, set_name, set(skills))
    known = [record for record in records if _identity(record) == _identity(records[-1])]
    wins = losses = pairs = 0
    seen: set[int] = set()
    for record in known:
        draw = record.get("draw") or 0
        if draw == 0 or draw in seen:  # the same draws again are no new evidence
            continue
        seen.add(draw)
        for before, after in _pairs(record):
            pairs += 1
            wins += after and not before
            losses += before and not after
    if pairs:
        return EValue(e_value(wins, losses), e_value(losses, wins), wins, losses, pairs, len(seen))
    return EValue(None, None, reason=_reason(known, bool(seen)))


def _reason(known: list[dict[str, Any]], started: bool) -> str:  # noqa: FBT001 - private
    if started:
        return "no pair of its fresh runs was measured in both conditions"
    reused = sum(bool((record.get("reused") or {}).get(REFERENCE)) for record in known)
    said = f" ({reused} of them with a baseline reused from earlier runs)" if reused else ""
    return (
        f"{counted(len(known), 'run')} of this version{said} only looked at it: top_up() runs both conditions"
        " afresh, and only such runs count"
    )


def _newest(log: Path, skill_hash: str, set_name: str, skills: set[str]) -> list[dict[str, Any]]:
    """The newest record of every run of a version, in the log's order."""
    found: dict[str, dict[str, Any]] = {}
    if log.exists():
        for record in read_records(log, ["eval"], contains=json.dumps(skill_hash)):
            own = record.get("skillHash") == skill_hash and record.get("set") == set_name
            if own and record.get("skill") in skills:
                found[str(record.get("runId"))] = record
    return list(found.values())


def _identity(record: Mapping[str, Any]) -> list[Any]:
    return [record.get(name) for name in _SAME]


def _pairs(record: Mapping[str, Any]) -> Iterable[tuple[bool, bool]]:
    """Baseline and skill of every trial that both conditions measured in this run itself."""
    for case in record["cases"]:
        sides = [_measured(result_of(case, condition)) for condition in (REFERENCE, CANDIDATE)]
        for number in sides[0].keys() & sides[1].keys():
            yield sides[0][number], sides[1][number]


def _measured(result: Mapping[str, Any] | None) -> dict[int, bool]:
    words = {Outcome.PASSED: True, Outcome.FAILED: False}
    return {
        trial["trial"]: words[trial["outcome"]]
        for trial in (result["trials"] if result else ())
        if trial["outcome"] in words and not trial.get("reused")
    }
