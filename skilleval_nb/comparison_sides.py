"""The two sides of a comparison: one condition of a run each, its trials told apart by where they were run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import Any, NamedTuple

from .gate import CaseCells, Decision, decide
from .record import cell_of, clusters_of, is_measured, outcomes_of, result_of

REFERENCE, CANDIDATE = "A", "B"

Record = Mapping[str, Any]
Case = Mapping[str, Any]


class Origin(NamedTuple):
    """Where a trial was run. Time and tokens tell runs apart that took the same id in two places."""

    run_id: str
    case_id: str
    condition: str
    trial: int
    latency_s: float | None
    tokens: tuple[int | None, ...]


@dataclass(frozen=True)
class Side:
    """One condition of one run; `header` is its run.json, None where only the log knows the run."""

    name: str
    run_id: str
    record: Record
    condition: str
    header: Record | None = None

    @cached_property
    def cases(self) -> dict[str, Case]:
        """The record's cases by id, in the set's order."""
        return {str(case["id"]): case for case in self.record["cases"]}

    def outcomes(self, case_ids: Iterable[str]) -> list[list[bool | None]]:
        """True, False or None (not measured) for every planned trial of the cases."""
        return outcomes_of([self.cases[name] for name in case_ids], self.condition)

    def clusters(self, case_ids: Iterable[str]) -> list[str | None] | None:
        """The cluster of each case; None where none has one."""
        return clusters_of([self.cases[name] for name in case_ids])

    def origins(self, case_ids: Iterable[str]) -> dict[Origin, bool | None]:
        """Where each trial was run, and whether it passed; without those that came from a run that is not named."""
        found = {}
        for case_id in case_ids:
            case = self.cases[case_id]
            for trial in self._trials(case):
                if (run_id := self._run_of(trial)) is not None:
                    tokens = tuple(trial.get("tokens") or ())
                    number, latency_s = int(trial["trial"]), trial.get("latencyS")
                    origin = Origin(run_id, case_id, self.condition, number, latency_s, tokens)
                    found[origin] = trial["outcome"] == "passed" if is_measured(trial) else None
        return found

    def unnamed(self, case_ids: Iterable[str]) -> int:
        """How many of its trials were taken from a run that the record does not name."""
        return sum(
            self._run_of(trial) is None for name in case_ids for trial in self._trials(self.cases[name])
        )

    def mean(self, case_id: str, measure: str) -> float | None:
        """The mean of a measure over a case's measured trials that report it; None where none does."""
        trials = filter(is_measured, self._trials(self.cases[case_id]))
        known = [value for trial in trials if (value := _measured(trial, measure)) is not None]
        return fmean(known) if known else None

    def under(self, condition: str) -> Side | None:
        """The same run under another condition; None where that was not run."""
        return replace(self, condition=condition) if condition in conditions_of(self.record) else None

    def _trials(self, case: Case) -> Iterator[Record]:
        """The trials that were started; of the origin's records a verdict is one trial."""
        result = result_of(case, self.condition)
        if result is not None:
            yield from result["trials"]
        elif (verdict := case.get(self.condition)) is not None:
            yield {"trial": 1, "outcome": "passed" if verdict else "failed"}

    def _run_of(self, trial: Record) -> str | None:
        if not trial.get("reused"):
            return self.run_id
        found: str | None = trial.get("from")
        return found


@dataclass(frozen=True, slots=True)
class Shared:
    """Trials that both sides hold, as (passed in A, passed in B), out of the `a` and `b` trials of each side."""

    pairs: tuple[tuple[bool | None, bool | None], ...]
    a: int
    b: int

    @property
    def all(self) -> bool:
        """True where one side has no trial that is not the other's too."""
        return 0 < len(self.pairs) == min(self.a, self.b)

    @property
    def graded_twice(self) -> list[tuple[bool | None, bool | None]]:
        """Those that were measured on both sides."""
        return [pair for pair in self.pairs if None not in pair]


def same_run(a: Side, b: Side) -> bool:
    """True for two conditions of one run; runs of two checkouts may have taken one id, but not at one moment."""
    return a.run_id == b.run_id and a.record.get("ts") == b.record.get("ts")


def shared_trials(a: Side, b: Side, case_ids: Sequence[str]) -> Shared:
    """The trials that are the same ones on both sides: taken over from one run, or graded anew."""
    found_a, found_b = a.origins(case_ids), b.origins(case_ids)
    pairs = tuple((passed, found_b[origin]) for origin, passed in found_a.items() if origin in found_b)
    return Shared(pairs, len(found_a), len(found_b))


def cells_of(a: Side, b: Side, case_ids: Iterable[str]) -> list[CaseCells]:
    """Both sides of each case, A in the baseline's place."""
    return [
        CaseCells(name, cell_of(a.cases[name], a.condition), cell_of(b.cases[name], b.condition))
        for name in case_ids
    ]


def decision_between(a: Side, b: Side, case_ids: Iterable[str]) -> Decision:
    """The gate's decision with A in the baseline's place."""
    return decide(cells_of(a, b, case_ids))


def conditions_of(record: Record) -> list[str]:
    """The conditions that a run has; the origin's records have the two of the gate."""
    return list(record.get("conditions") or ("baseline", "skill"))


def _measured(trial: Record, measure: str) -> float | None:
    if measure in ("latencyS", "costUsd"):
        value: float | None = trial.get(measure)
        return value
    read, out, *cached = trial.get("tokens") or (None, None)
    if measure == "output":
        return out
    sent = [count for count in (read, *cached) if count is not None]
    return sum(sent) if sent else None
