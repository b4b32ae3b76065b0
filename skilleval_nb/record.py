"""The forms of a trial and of a run on disk: the trial's line, and the record that a run leaves in the log.

A record is always built from a run's header and its trials' lines, be the run finished, interrupted, resumed
or reopened. Keys are camelCase, as the origin's readers expect; what was not measured is null or left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, NamedTuple

from .changes import before_line, change_counts, change_rows
from .gate import CaseCells, Cell, Decision, decide, majority, percent
from .ledger import ledger
from .values import Event, Gate, Grade, Outcome, Trial, TrialKey, Usage

SCHEMA = 1
EVIDENCE_LIMIT = 120
REFERENCE, CANDIDATE = "baseline", "skill"


def _present(**values: Any) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}


class Address(NamedTuple):
    """What a trial is made of: a hash over all that decides its answer, and one over all that grades it."""

    answer: str
    grading: str


def trial_line(trial: Trial, address: Address | None) -> dict[str, Any]:
    """A trial as its line in trials.jsonl: whole text, every grade; `address` says what it can stand in for."""
    answer = trial.answer
    line = {
        "caseId": trial.key.case_id,
        "condition": trial.key.condition,
        "trial": trial.key.trial,
        "attempt": trial.attempt,
        **({"address": address.answer, "grading": address.grading} if address else {}),
        "outcome": trial.outcome.value,
        "calls": trial.calls,
        **_present(reason=trial.reason, endedAt=trial.ended_at, latencyS=_rounded(trial.latency_s)),
    }
    if trial.taken_from is not None:
        line |= {"reused": True, "from": trial.taken_from, "regraded": True}
    if answer is not None:
        usage = answer.usage
        line |= _present(
            model=answer.model,
            stopReason=answer.stop_reason,
            tokens=usage.as_list() if usage else None,
            usageReason=answer.usage_reason,
            costUsd=_rounded(answer.cost_usd, 8),
            settings=dict(answer.settings) or None,
            text=answer.text,
            events=[_event_line(event) for event in answer.events] or None,
        )
    if trial.facts:
        line["facts"] = dict(trial.facts)
    if trial.grades:
        line["checks"] = [_grade_line(grade) for grade in trial.grades]
    return line


def _event_line(event: Event) -> dict[str, Any]:
    return {
        "type": event.type,
        **_present(
            name=event.name or None, text=event.text or None, id=event.id, failed=event.failed or None
        ),
    }


def _grade_line(grade: Grade) -> dict[str, Any]:
    return {
        "kind": grade.kind,
        "passed": grade.passed,
        **_present(
            evidence=grade.evidence,
            span=grade.span,
            outcome=grade.outcome,
            reason=grade.reason,
            reasoning=grade.reasoning,
            quoted=grade.quoted,
            judgeModel=grade.judge_model,
            judgeHash=grade.judge_hash,
            judgeTokens=grade.judge_usage.as_list() if grade.judge_usage else None,
            judgeCostUsd=_rounded(grade.judge_cost_usd, 8),
            judgeLatencyS=_rounded(grade.judge_latency_s),
            judgeCalls=grade.judge_calls,
            kept=grade.kept or None,
            before=before_line(grade.before) if grade.before else None,
        ),
    }


def _rounded(value: float | None, digits: int = 4) -> float | None:
    return None if value is None or not isfinite(value) else round(value, digits)


def key_of(line: Mapping[str, Any]) -> TrialKey:
    """The trial that a line tells of."""
    return TrialKey(str(line["caseId"]), str(line["condition"]), int(line["trial"]))


def is_measured(line: Mapping[str, Any]) -> bool:
    """True where the line's outcome says something about the skill."""
    return line.get("outcome") in (Outcome.PASSED, Outcome.FAILED)


def latest(lines: Iterable[Mapping[str, Any]]) -> dict[TrialKey, Mapping[str, Any]]:
    """The line that counts for each trial: the last measured one, else the last."""
    found: dict[TrialKey, Mapping[str, Any]] = {}
    for line in lines:
        key = key_of(line)
        if key not in found or is_measured(line) or not is_measured(found[key]):
            found[key] = line
    return found


def build_record(
    header: Mapping[str, Any],
    lines: Iterable[Mapping[str, Any]],
    *,
    look: int = 1,
    duration_s: float | None = None,
    partial: str | None = None,
    resumes: int = 0,
) -> dict[str, Any]:
    """The run's record: a superset of what the origin's readers parse.

    `partial` says why trials were not started (`budget`, `interrupted`); None for a complete run.
    """
    attempts = [{name: value for name, value in line.items() if name != "text"} for line in lines]
    trials = latest(attempts)
    conditions: list[str] = list(header["conditions"])
    cases = [_case(item, conditions, int(header["n"]), trials) for item in header["cases"]]
    decision = decision_of(cases)
    usage = ledger(attempts, conditions)
    tokens = [Usage(*row["tokens"]) for row in usage if row["tokens"]]
    total = sum(tokens[1:], tokens[0]) if tokens else None
    measured = sum(is_measured(line) for line in trials.values())
    planned = len(header["cases"]) * len(conditions) * int(header["n"])
    record = {
        "kind": header.get("kind", "eval"),
        "schema": SCHEMA,
        **{name: header[name] for name in IDENTITY},
        "graded": decision.graded,
        "errors": decision.errors,
        "baselinePass": decision.baseline_pass,
        "skillPass": decision.skill_pass,
        "delta": None if decision.delta is None else percent(decision.delta),
        "gate": decision.gate.value,
        "gateRange": [decision.worst[0], decision.best[0]]
        if {REFERENCE, CANDIDATE} <= {*conditions}
        else None,
        "tokens": total and {"input": total.input_tokens, "output": total.output_tokens},
        "dir": header["dir"],
        **{name: header.get(name) for name in CONTEXT},
        "conditions": conditions,
        "trialsPlanned": planned,
        "trialsMeasured": measured,
        "trialsErrored": len(trials) - measured,
        "measuredAnew": sum(is_measured(line) and not line.get("reused") for line in trials.values()),
        "reused": _counted(line["condition"] for line in trials.values() if line.get("reused")),
        "outcomes": _counted(line["outcome"] for line in trials.values()),
        "stopReasons": _counted(line.get("stopReason") for line in trials.values()),
        "answeredModels": sorted({line["model"] for line in trials.values() if line.get("model")}),
        "usage": usage,
        "evidence": _evidence(cases, decision, int(header["n"]), look, confirm=bool(header.get("confirm"))),
        "durationS": _rounded(duration_s),
        "partial": partial if len(trials) < planned else None,
        "resumes": resumes,
        "lines": len(attempts),
        "cases": cases,
    }
    if "regrade" in header:  # before the cases, which are most of the line
        del record["cases"]
        record["regradeOf"] = header["regradeOf"]
        record["regrade"] = {**header["regrade"], **change_counts(change_rows(trials.values()))}
        record["cases"] = cases
    return record


JUDGE_KEYS = ("quoted", "judgeModel", "judgeTokens", "judgeCostUsd", "judgeLatencyS")
IDENTITY = (
    "runId",
    "ts",
    "set",
    "skill",
    "model",
    "judgeModel",
    "n",
    "setHash",
    "skillHash",
    "judgeHash",
    "runner",
)
CONTEXT = (
    "delivery",
    "requestedModel",
    "resolvedModel",
    "resolvedJudgeModel",
    "judgeRunner",
    "judgeN",
    "runnerVersion",
    "subset",
    "confirm",
    "draw",
    "maxDrop",
    "settings",
    "warnings",
    "version",
    "git",
)


def _counted(values: Iterable[str | None]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for value in values:
        if value is not None:
            counts[value] = counts.get(value, 0) + 1
    return dict(sorted(counts.items()))


def _case(
    item: Mapping[str, Any], conditions: Sequence[str], n: int, trials: Mapping[TrialKey, Mapping[str, Any]]
) -> dict[str, Any]:
    """One case with its verdict and trials under each condition."""
    results = []
    for condition in conditions:
        lines = [trials.get(TrialKey(item["id"], condition, number)) for number in range(1, n + 1)]
        present = [line for line in lines if line is not None]
        passes = sum(line["outcome"] == Outcome.PASSED for line in present)
        measured = sum(is_measured(line) for line in present)
        results.append(
            {
                "condition": condition,
                "verdict": majority(passes, measured),
                "passes": passes,
                "measured": measured,
                "planned": n,
                "trials": [_compact(line) for line in present],
            }
        )
    verdicts = {result["condition"]: result["verdict"] for result in results}
    return {
        "id": item["id"],
        REFERENCE: verdicts.get(REFERENCE),
        CANDIDATE: verdicts.get(CANDIDATE),
        "difficulty": item.get("difficulty"),
        **_present(cluster=item.get("cluster")),
        "checks": [check["kind"] for check in item["checks"]],
        "results": results,
    }


def _compact(line: Mapping[str, Any]) -> dict[str, Any]:
    """A trial as the log keeps it: no text, evidence no longer than a line."""
    kept = (
        *("trial", "outcome", "reason", "tokens", "latencyS"),
        *("costUsd", "model", "stopReason", "reused", "from", "facts"),
    )
    trial = {name: line[name] for name in kept if line.get(name) is not None}
    if "reason" in trial:
        trial["reason"] = clip(trial["reason"])
    if line.get("attempt", 1) > 1:
        trial["attempt"] = line["attempt"]
    if checks := line.get("checks"):
        trial["checks"] = [
            {"passed": check.get("passed")}
            | {name: clip(check[name]) for name in ("evidence",) if check.get(name)}
            | {name: check[name] for name in JUDGE_KEYS if check.get(name) is not None}
            for check in checks
        ]
    return trial


def clip(text: str, limit: int = EVIDENCE_LIMIT) -> str:
    """`text` on one line, cut to `limit` characters."""
    text = " ".join(text.split())
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def decision_of(cases: Sequence[Mapping[str, Any]]) -> Decision:
    """The gate's decision from a record's cases; the origin's records, which hold only verdicts, too."""
    return decide(
        [CaseCells(case["id"], cell_of(case, REFERENCE), cell_of(case, CANDIDATE)) for case in cases]
    )


def cell_of(case: Mapping[str, Any], condition: str) -> Cell:
    """A record's case under one condition; of the origin's records the verdict counts as one trial."""
    results = case.get("results")
    if results is None:
        verdict = case.get(condition)
        return Cell(passes=int(verdict is True), measured=int(verdict is not None), planned=1)
    for result in results:
        if result["condition"] == condition:
            return Cell(result["passes"], result["measured"], result["planned"])
    return Cell(0, 0, 1)


def _evidence(
    cases: Sequence[Mapping[str, Any]], decision: Decision, n: int, look: int, *, confirm: bool
) -> dict[str, Any] | None:
    """How far chance explains the difference; None where no case was measured in both conditions.

    A run that confirms is judged alone: its line and `pLooks` take no account of earlier looks. While the gate
    depends on unmeasured trials no direction is claimed: `verdict` is then None.
    """
    if not decision.graded:
        return None
    from .stats import advice, evidence_line, looks_p, summary, variance_split

    baseline, skill = (outcomes_of(cases, condition) for condition in (REFERENCE, CANDIDATE))
    result = summary(baseline, skill, clusters_of(cases))
    claims = decision.gate is not Gate.NOT_MEASURED or result.scope is None
    low, high = result.delta_ci or (None, None)
    return {
        "verdict": result.verdict if claims else None,
        "scope": result.scope if claims else None,
        "pSet": result.p_set,
        "pCases": result.p_cases,
        "pLooks": result.p_set if confirm or result.p_set is None else looks_p(p=result.p_set, look=look),
        "look": look,
        "delta": result.delta,
        "deltaLow": low,
        "deltaHigh": high,
        "baselineRate": result.base_rate,
        "skillRate": result.skill_rate,
        "line": evidence_line(result, n_trials=n, look=1 if confirm else look),
        "advice": advice(variance_split(baseline, skill)) if n > 1 else None,
    }


def clusters_of(cases: Sequence[Mapping[str, Any]]) -> list[str | None] | None:
    """The cluster of every case, None for a case that stands alone; None where no case has one."""
    clusters = [case.get("cluster") for case in cases]
    return clusters if any(clusters) else None


def outcomes_of(cases: Sequence[Mapping[str, Any]], condition: str) -> list[list[bool | None]]:
    """True, False or None for every planned trial of every case; of the origin's records the verdict."""
    found = []
    for case in cases:
        result = result_of(case, condition)
        if result is None:
            found.append([case.get(condition)])
            continue
        by_number = {trial["trial"]: trial["outcome"] for trial in result["trials"]}
        words = {Outcome.PASSED: True, Outcome.FAILED: False}
        found.append([words.get(by_number.get(number, "")) for number in range(1, result["planned"] + 1)])
    return found


def result_of(case: Mapping[str, Any], condition: str) -> Mapping[str, Any] | None:
    """What a record's case holds of one condition; None where it was not run, or only its verdict is kept."""
    return next((item for item in case.get("results") or () if item["condition"] == condition), None)
