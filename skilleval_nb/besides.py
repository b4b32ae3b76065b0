"""The conditions besides baseline and skill: what each of them passed, and what the skill adds to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from .gate import CaseCells, Decision, counted, decide, percent_of, signed
from .record import CANDIDATE, REFERENCE, cell_of, clusters_of, outcomes_of
from .values import Gate


def comparisons(cases: Sequence[Mapping[str, Any]], conditions: Sequence[str]) -> list[dict[str, Any]]:
    """One entry a condition that is not the gate's: its rate, and the skill against it as it is against baseline.

    `passed`, `rate` and `delta` (skill minus the condition) are over the `graded` cases, by majority; those are
    the cases measured under the condition and with the skill, or under the condition alone where the skill was
    not run. `deltaEstimate` is the mean of the cases' differences in pass rate, which its interval and the
    p-values are of. `verdict` is None where nothing was graded, and while Δ's sign depends on unmeasured trials.
    """
    others = [name for name in conditions if name not in (REFERENCE, CANDIDATE)]
    return [_comparison(cases, name, against=CANDIDATE in conditions) for name in others]


def _comparison(cases: Sequence[Mapping[str, Any]], name: str, *, against: bool) -> dict[str, Any]:
    pair = decide(
        CaseCells(case["id"], cell_of(case, name), cell_of(case, CANDIDATE if against else name))
        for case in cases
    )
    entry = {
        "condition": name,
        "graded": pair.graded,
        "passed": pair.baseline_pass,
        "rate": pair.baseline_rate,
    }
    return entry | (_weighed(cases, name, pair) if against and pair.graded else dict.fromkeys(_WEIGHED))


_WEIGHED = (
    *("delta", "deltaEstimate", "deltaLow", "deltaHigh"),
    *("verdict", "scope", "pSet", "pCases", "unmeasured"),
)


def _weighed(cases: Sequence[Mapping[str, Any]], name: str, pair: Decision) -> dict[str, Any]:
    from .stats import summary

    result = summary(outcomes_of(cases, name), outcomes_of(cases, CANDIDATE), clusters_of(cases))
    claims = pair.gate is not Gate.NOT_MEASURED or result.scope is None
    low, high = result.delta_ci or (None, None)
    values = (
        *(pair.delta, result.delta, low, high),
        *(result.verdict if claims else None, result.scope if claims else None),
        *(result.p_set, result.p_cases, pair.unmeasured_trials),
    )
    return dict(zip(_WEIGHED, values, strict=True))


def besides_lines(record: Mapping[str, Any]) -> list[str]:
    """The rates of the other conditions in one line, and one line a condition on what the skill adds to it."""
    entries: Sequence[Mapping[str, Any]] = record.get("comparisons") or ()
    if not entries:
        return []
    rates = "   ".join(
        f"{entry['condition']} {_share(entry['passed'], entry['graded'])}" for entry in entries
    )
    width = max(len(entry["condition"]) for entry in entries)
    lines = [f"other conditions   {rates}"]
    if CANDIDATE in record["conditions"]:
        total = len(record["cases"])
        lines += [f"vs {entry['condition']:<{width}}  {against_words(entry, total)}" for entry in entries]
    return lines


def against_words(entry: Mapping[str, Any], total: int) -> str:
    """What the skill adds to a condition, and how far chance explains it; `total` is the number of all cases."""
    if entry["delta"] is None:
        return "not measured: no case under both"
    over = "" if entry["graded"] == total else f" over {entry['graded']} of {counted(total, 'case')}"
    return f"Δ {signed(entry['delta'])}%{over} · {evidence_words(entry)}"


def evidence_words(entry: Mapping[str, Any]) -> str:
    """The evidence in short: `improves on these prompts (p 0.031)`."""
    from .stats import SIMILAR, shown_p

    p = f"p {shown_p(entry['pCases'] if entry['scope'] == SIMILAR else entry['pSet'])}"
    if entry["verdict"] is None:
        return f"withheld, depends on {counted(entry['unmeasured'], 'unmeasured trial')} ({p})"
    scope = f" on {entry['scope']}" if entry["scope"] else ""
    return f"{entry['verdict']}{scope} ({p})"


def _share(passed: int, graded: int) -> str:
    return f"{passed}/{graded} ({f'{percent_of(passed, graded)}%' if graded else 'n/a'})"
