"""A run in plain words: what the terminal prints, and what a notebook says too."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .besides import besides_lines
from .controls import visible
from .gate import counted, gate_lines, percent, percent_of, rate_line, signed
from .judged import judge_lines
from .record import CANDIDATE, REFERENCE, decision_of
from .values import Gate, Outcome


def title_line(record: Mapping[str, Any]) -> str:
    """Which set, on what, how delivered, how often, and the how-manieth look at it."""
    parts = [str(record["set"]), " ".join(filter(None, (record.get("runner"), record.get("model"))))]
    parts += [record["delivery"]] if record.get("delivery") else []
    parts.append(f"n={record.get('n', 1)}")
    if record.get("regradeOf"):
        parts.insert(1, f"regrade of {record['regradeOf']}")
    if record.get("judgeModel"):
        parts.append(f"judge {record['judgeModel']}")
    look = (record.get("evidence") or {}).get("look")
    if record.get("confirm"):
        parts.append("confirmation")
    elif look:
        parts.append(f"look {look}")
    return " · ".join(parts)


def result_lines(record: Mapping[str, Any]) -> list[str]:
    """The result as SPEC §4 words it: title, rates, gate, and below it what is known besides."""
    lines = [title_line(record), rate_words(record), *besides_lines(record)]
    lines += [*gate_words(record), *fact_lines(record)]
    return [" ".join(visible(line).splitlines()) for line in lines]


def shares(record: Mapping[str, Any]) -> list[tuple[str, str, int, int]]:
    """Condition, its label, cases passed and cases counted, for each condition that was run.

    With both of the gate's conditions the cases that count are those measured in both.
    """
    decision = decision_of(record["cases"])
    if not (missing := _missing(record)):
        return [
            (REFERENCE, "baseline", decision.baseline_pass, decision.graded),
            (CANDIDATE, "with-skill", decision.skill_pass, decision.graded),
        ]
    label = {REFERENCE: "baseline", CANDIDATE: "with-skill"}
    verdicts = {name: [case.get(name) for case in record["cases"]] for name in label if name not in missing}
    return [
        (name, label[name], found.count(True), len(found) - found.count(None))
        for name, found in verdicts.items()
    ]


def delta_words(record: Mapping[str, Any]) -> str:
    """Δ in whole points, or n/a."""
    return rate_line(decision_of(record["cases"])).rpartition("Δ ")[2]


def rate_words(record: Mapping[str, Any]) -> str:
    """The seed's line of pass rates; only what was run, where that is not both conditions."""
    if not _missing(record):
        return rate_line(decision_of(record["cases"]))
    parts = [
        f"{label} {passed}/{counted} ({f'{percent_of(passed, counted)}%' if counted else 'n/a'})"
        for _, label, passed, counted in shares(record)
    ]
    return f"pass rate   {'   '.join(parts) or 'of neither baseline nor skill'}"


def gate_words(record: Mapping[str, Any]) -> list[str]:
    """The gate, and in lines below it what a reader needs to judge it."""
    if missing := _missing(record):
        was = "was" if len(missing) == 1 else "were"
        return [
            f"ship gate: NOT MEASURED — {' and '.join(missing)} {was} not run, and the gate compares the two"
        ]
    return gate_lines(decision_of(record["cases"]))


def _missing(record: Mapping[str, Any]) -> list[str]:
    return [
        name
        for name in (REFERENCE, CANDIDATE)
        if name not in record.get("conditions", (REFERENCE, CANDIDATE))
    ]


def fact_lines(record: Mapping[str, Any]) -> list[str]:
    """What stands below the gate: evidence, what was measured and what it took, warnings."""
    if "trialsPlanned" not in record:  # a record of the origin's
        counted = f"{decision_of(record['cases']).graded}/{len(record['cases'])}"
        return [
            "evidence: not recorded with this run",
            f"measured {counted} cases in both conditions · its trials are not recorded",
        ]
    evidence = record.get("evidence")
    lines = [evidence["line"] if evidence else "evidence: none, as no case was measured in both conditions"]
    if evidence and evidence.get("advice"):
        lines.append(f"advice: {evidence['advice']}")
    if (held := held_line(record)) is not None:
        lines.append(held)
    lines.append(measured_line(record))
    lines += regrade_lines(record)
    lines += judge_lines(record)
    lines += quote_lines(record)
    lines += [f"not measured {number}×: {reason}" for reason, number in _reasons(record)]
    if (reused := record.get("reused")) and not record.get("regradeOf"):
        counts = ", ".join(f"{number} {condition}" for condition, number in reused.items())
        lines.append(f"reused from earlier runs: {counts} trials")
    if record.get("subset"):
        lines.append(f"subset: {len(record['cases'])} of the set's cases were run")
    if record.get("partial"):
        started = record["trialsMeasured"] + record["trialsErrored"]
        lines.append(
            f"partial ({record['partial']}): {started}/{record['trialsPlanned']} trials were started"
        )
    return lines + [f"warning: {warning}" for warning in record.get("warnings") or ()]


def regrade_lines(record: Mapping[str, Any], most: int = 10) -> list[str]:
    """What grading anew has changed, and what the run said with its old grades; nothing for another run."""
    regrade = record.get("regrade")
    if regrade is None:
        return []
    moved = regrade["changed"]
    old = regrade["checks"] - regrade["newChecks"]
    lines = [
        f"judge grades made anew {regrade['judged']}, kept {regrade['kept']} · {len(moved)}/{old} grades changed:"
        f" {regrade['toPass']} to pass, {regrade['toFail']} to fail, {regrade['toUndecided']} to undecided"
        + (f"; {counted(regrade['newChecks'], 'grade')} of new checks" if regrade["newChecks"] else "")
    ]
    if moved:
        named = ", ".join(
            f"{name} {condition} {trial} #{check}" for name, condition, trial, check, *_ in moved[:most]
        )
        more = f" and {len(moved) - most} more" if len(moved) > most else ""
        lines.append(f"changed (case condition trial #check): {named}{more} · all in .changes")
    graded, judge = regrade["graded"], regrade["judgeModel"]
    before = (
        f"baseline {regrade['baselinePass']}/{graded}, with-skill {regrade['skillPass']}/{graded},"
        f" Δ {'n/a' if regrade['delta'] is None else format(regrade['delta'], '+d') + '%'}, {regrade['gate']}"
    )
    return [*lines, f"before: {before}{f' (judge {judge})' if judge else ''}"]


def quote_lines(record: Mapping[str, Any]) -> list[str]:
    """How many of the judge's quotations the answers do not have; nothing where they have them all."""
    quoted = [
        check["quoted"]
        for case in record["cases"]
        for result in case["results"]
        for trial in result["trials"]
        for check in trial.get("checks", ())
        if check.get("quoted") is not None
    ]
    missing = quoted.count(False)
    if not missing:
        return []
    return [
        f"judge: {missing} of {counted(len(quoted), 'quotation')} not found in the answer that was judged"
    ]


def check_words(raw: Mapping[str, Any]) -> str:
    """What a check of a set file asks for beside its kind, in its author's own words."""
    rest = {key: value for key, value in raw.items() if key not in ("kind", "not")}
    if "pattern" in rest:
        said = f"/{rest['pattern']}/{rest.get('flags') or ''}"
    elif len(rest) == 1 and isinstance(only := next(iter(rest.values())), str):
        said = only
    else:
        said = json.dumps(rest, ensure_ascii=False) if rest else ""
    return f"not {said}".strip() if raw.get("not") else said


def opened_as(record: Mapping[str, Any]) -> str:
    """What `load_run` finds the run by: its id, or its folder where that is not in `runs`."""
    folder = str(record.get("dir") or "")
    name = str(record.get("runId") or folder.rpartition("/")[2])
    return name if folder in ("", f"runs/{name}") else folder


def held_line(record: Mapping[str, Any]) -> str | None:
    """Whether the interval excludes a drop as large as `max_drop`; None where no such limit was given."""
    limit = record.get("maxDrop")
    if limit is None:
        return None
    held = is_held(record)
    low = (record.get("evidence") or {}).get("deltaLow")
    if held is None or low is None:
        return f"max drop {percent(limit)}%: not measured"
    verdict = "held" if held else "not held"
    return f"max drop {percent(limit)}%: {verdict} (the interval of Δ begins at {signed(low)}%)"


def is_held(record: Mapping[str, Any]) -> bool | None:
    """True where the lower end of Δ's interval is above −`max_drop`; None without a limit or a measurement."""
    limit, evidence = record.get("maxDrop"), record.get("evidence")
    if limit is None or not evidence or record["gate"] == Gate.NOT_MEASURED:
        return None
    from .stats import held

    return held((evidence["deltaLow"], evidence["deltaHigh"]), limit)


def exit_code(record: Mapping[str, Any]) -> int:
    """0 passed (or nothing to run), 1 measured and not passed, 3 not measured."""
    if not record["cases"]:
        return 0
    if record["gate"] in (Gate.NOT_MEASURED, "ERROR"):
        return 3
    if record.get("maxDrop") is not None:
        return 0 if is_held(record) else 1
    return 0 if record["gate"] == Gate.PASS else 1


def measured_line(record: Mapping[str, Any]) -> str:
    """How much was measured, what flipped, and what it took."""
    planned, measured = record["trialsPlanned"], record["trialsMeasured"]
    parts = [f"measured {measured}/{planned} trials", _errors(record), *_flips(record)]
    parts += _stops(record)
    parts += _tokens(record)
    if record.get("durationS") is not None:
        parts.append(f"{record['durationS']:.0f} s")
    return " · ".join(parts)


def _errors(record: Mapping[str, Any]) -> str:
    count = record["trialsErrored"]
    kinds = {
        name: number
        for name, number in record["outcomes"].items()
        if name not in (Outcome.PASSED, Outcome.FAILED)
    }
    detail = ", ".join(f"{name} {number}" for name, number in kinds.items())
    return f"{count} error{'s' if count != 1 else ''}{f' ({detail})' if detail else ''}"


def _reasons(record: Mapping[str, Any], most: int = 3) -> list[tuple[str, int]]:
    """Why trials have no measurement, the commonest reasons first."""
    found: dict[str, int] = {}
    for case in record["cases"]:
        for result in case["results"]:
            for trial in result["trials"]:
                if trial["outcome"] not in (Outcome.PASSED, Outcome.FAILED):
                    words = f"{trial['outcome']}: {trial.get('reason', 'no reason is known')}"
                    found[words] = found.get(words, 0) + 1
    return sorted(found.items(), key=lambda item: -item[1])[:most]


def _flips(record: Mapping[str, Any]) -> list[str]:
    both = [
        case
        for case in record["cases"]
        if case.get(REFERENCE) is not None and case.get(CANDIDATE) is not None
    ]
    up = [case["id"] for case in both if case[CANDIDATE] and not case[REFERENCE]]
    down = [case["id"] for case in both if case[REFERENCE] and not case[CANDIDATE]]
    if not both:
        return []
    named = ", ".join(down[:5]) + (f" and {len(down) - 5} more" if len(down) > 5 else "")
    return [f"flipped to pass {len(up)}", f"to fail {len(down)}{f': {named}' if down else ''}"]


def _stops(record: Mapping[str, Any]) -> list[str]:
    stops = record.get("stopReasons") or {}
    words = (("max_tokens", "cut at max_tokens"), ("refusal", "refused by the model"))
    return [f"{stops[name]} answers {said}" for name, said in words if stops.get(name)]


def _tokens(record: Mapping[str, Any]) -> list[str]:
    """Input (cached or not) and output by condition; a judge's apart; absence is said."""
    rows = {(row["role"], row["condition"]): row for row in record["usage"]}
    conditions = [name for name in record["conditions"] if rows.get(("executor", name), {}).get("tokens")]
    reported = sum(row["reported"] for row in record["usage"] if row["role"] == "executor")
    asked = sum(row["asked"] for row in record["usage"] if row["role"] == "executor")
    if not asked:
        text = "no executor call"
    elif not conditions:
        text = "tokens not reported"
    else:
        sent = {name: _sent(rows["executor", name]) for name in conditions}
        back = {name: rows["executor", name]["tokens"][1] or 0 for name in conditions}
        text = f"tokens in {_flow(sent)}, out {_flow(back)}"
        if reported < asked:
            text += f" (reported for {reported} of {asked})"
    judged = [row for row in record["usage"] if row["role"] == "judge" and row["tokens"]]
    if judged:
        text += f"; judge in {sum(map(_sent, judged))}, out {sum(row['tokens'][1] or 0 for row in judged)}"
    costs = [row["costUsd"] for row in record["usage"] if row["costUsd"] is not None]
    return [text, *([f"${sum(costs):.4f}"] if sum(costs) else [])]


def _flow(counts: Mapping[str, int]) -> str:
    """From the baseline's number to the skill's, and what the other conditions took."""
    pair = " → ".join(str(number) for name, number in counts.items() if name in (REFERENCE, CANDIDATE))
    rest = ", ".join(f"{name} {n}" for name, n in counts.items() if name not in (REFERENCE, CANDIDATE))
    return f"{pair} ({rest})" if pair and rest else pair or rest


def _sent(row: Mapping[str, Any]) -> int:
    read, _, cache_read, cache_write = row["tokens"]
    return (read or 0) + (cache_read or 0) + (cache_write or 0)
