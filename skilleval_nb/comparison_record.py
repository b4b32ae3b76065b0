"""A comparison as a record: what flipped, how far the number moved, and what chance explains of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

from .comparison_sides import Shared, Side, cells_of, decision_between, same_run, shared_trials
from .comparison_spent import spent_between
from .gate import CaseCells, Cell, Decision, counted, decide
from .stats import NO_EVIDENCE, Summary, evidence_line, summary, summary_flips
from .values import Gate

SCHEMA = 1
KIND = "comparison"
TO_PASS, TO_FAIL, SAME, UNMEASURED = "to pass", "to fail", "same", "not measured in both"
_KEPT = (
    *(
        "kind",
        "ts",
        "set",
        "setHash",
        "skillHash",
        "regradeOf",
        "runner",
        "model",
        "resolvedModel",
        "delivery",
        "n",
    ),
    *("judgeModel", "resolvedJudgeModel", "judgeHash", "version"),
)


def comparison_record(
    a: Side, b: Side, case_ids: Sequence[str], *, warnings: Sequence[str], max_drop: float | None
) -> tuple[dict[str, Any], Summary]:
    """The record (camelCase keys) of B against A over the cases, and the evidence as numbers.

    `deltaRate`, `gateRange` and all in `evidence` are rates. Where nothing may be claimed, the evidence's verdict is
    `no evidence` and the record's None; `withheld` says why.
    """
    cells = cells_of(a, b, case_ids)
    decision = decide(cells)
    shared = shared_trials(a, b, case_ids)
    clusters = b.clusters(case_ids) or a.clusters(case_ids)
    weighed = summary(a.outcomes(case_ids), b.outcomes(case_ids), clusters)
    withheld = _withheld(shared, decision, weighed)
    record = {
        "kind": KIND,
        "schema": SCHEMA,
        "a": _identity(a),
        "b": _identity(b),
        "graded": decision.graded,
        "errors": decision.errors,
        "aPass": decision.baseline_pass,
        "bPass": decision.skill_pass,
        "deltaRate": decision.delta,
        "gate": decision.gate.value,
        "gateRange": [decision.worst[0], decision.best[0]],
        "runs": 1 if same_run(a, b) else 2,
        "evidence": _evidence(weighed, cells, shared, withheld) if decision.graded else None,
        "shared": {"trials": len(shared.pairs), "ofA": shared.a, "ofB": shared.b, "all": shared.all},
        "graders": _graders(shared),
        "baselines": _baselines(a, b, case_ids),
        "spent": [one.on_disk() for one in spent_between(a, b, case_ids)],
        "maxDrop": max_drop,
        "onlyA": [name for name in a.cases if name not in b.cases],
        "onlyB": [name for name in b.cases if name not in a.cases],
        "warnings": list(warnings),
        "cases": [
            {"id": c.case_id, "flip": _flip(c), "a": _cell(c.baseline), "b": _cell(c.skill)} for c in cells
        ],
    }
    return record, weighed if withheld is None else replace(weighed, verdict=NO_EVIDENCE, scope=None)


def _identity(side: Side) -> dict[str, Any]:
    kept = {name: side.record.get(name) for name in _KEPT}
    return {"runId": side.run_id, "condition": side.condition, **kept}


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "verdict": cell.verdict,
        "passes": cell.passes,
        "measured": cell.measured,
        "planned": cell.planned,
    }


def _flip(cells: CaseCells) -> str:
    if not cells.graded:
        return UNMEASURED
    before, after = cells.baseline.verdict, cells.skill.verdict
    return SAME if before is after else TO_PASS if after else TO_FAIL


def _withheld(shared: Shared, decision: Decision, weighed: Summary) -> str | None:
    """Why nothing is claimed, whatever the numbers are; None: the evidence stands as it is."""
    if shared.all:
        return (
            f"both sides hold the same {counted(len(shared.pairs), 'answer')}, so only grading can move them"
        )
    if weighed.scope is not None and decision.gate is Gate.NOT_MEASURED:
        return f"the gate depends on {counted(weighed.missing_runs, 'unmeasured trial')}"
    return None


def _evidence(
    weighed: Summary, cells: Sequence[CaseCells], shared: Shared, withheld: str | None
) -> dict[str, Any]:
    low, high = weighed.delta_ci or (None, None)
    trials = min(min(one.baseline.planned, one.skill.planned) for one in cells)
    return {
        "verdict": weighed.verdict if withheld is None else None,
        "scope": weighed.scope if withheld is None else None,
        "withheld": withheld,
        "pSet": weighed.p_set,
        "pCases": weighed.p_cases,
        "delta": weighed.delta,
        "deltaLow": low,
        "deltaHigh": high,
        "aRate": weighed.base_rate,
        "bRate": weighed.skill_rate,
        "line": evidence_line(weighed, n_trials=trials, withheld=withheld if shared.all else None),
    }


def _graders(shared: Shared) -> dict[str, Any] | None:
    """Where both sides hold the same answers: how their outcomes moved; None elsewhere, or where none has two."""
    pairs = shared.graded_twice
    if not shared.all or not pairs:
        return None
    up, down = pairs.count((False, True)), pairs.count((True, False))
    found = asdict(summary_flips(len(pairs), up, down))
    low, high = found["flip_ci"]
    return {
        "answers": len(pairs),
        "toPass": up,
        "toFail": down,
        "flipRate": found["flip_rate"],
        "flipLow": low,
        "flipHigh": high,
        "p": found["p"],
    }


def _baselines(a: Side, b: Side, case_ids: Sequence[str]) -> dict[str, Any] | None:
    """How two runs' baselines compare, which no skill has touched; None where that says nothing new."""
    bare_a, bare_b = a.under("baseline"), b.under("baseline")
    if same_run(a, b) or "baseline" in (a.condition, b.condition) or bare_a is None or bare_b is None:
        return None
    found = decision_between(bare_a, bare_b, case_ids)
    if not found.graded or shared_trials(bare_a, bare_b, case_ids).pairs:
        return None
    return {"graded": found.graded, "aPass": found.baseline_pass, "bPass": found.skill_pass}
