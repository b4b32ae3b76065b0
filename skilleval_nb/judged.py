"""What a judge's known error says about the grades of a run: judged pass rates beside corrected ones."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .agreement import share_words
from .gate import percent, signed
from .judge_log import JudgeError, corrected, known_error


def judge_error(
    header: Mapping[str, Any], cases: list[Mapping[str, Any]], log: Path
) -> dict[str, Any] | None:
    """The error of a run's judge as calibrations measured it, with each condition's judged checks.

    Rates are over judge checks of trials, not over cases; `corrected` (Rogan and Gladen) and its interval are
    null where the judge cannot measure them. None for a run without a judge, or whose judge nobody calibrated.
    """
    model, runner, prompt = (header.get(name) for name in ("resolvedJudgeModel", "judgeRunner", "judgeHash"))
    if not (model and runner and prompt):
        return None
    votes = int(header.get("judgeN") or 1)
    error = known_error(log, judge_model=model, judge_runner=runner, judge_hash=prompt, judge_n=votes)
    if error is None:
        return None
    return {
        **{name: getattr(error, name) for name in ("tp", "fn", "tn", "fp", "n", "ts")},
        "calibrations": list(error.calibrations),
        "sensitivity": error.sensitivity.value,
        "specificity": error.specificity.value,
        "words": str(error),
        "rates": {name: _rate(error, *_judged(cases, name)) for name in header["conditions"]},
    }


def _judged(cases: list[Mapping[str, Any]], condition: str) -> tuple[int, int]:
    """Judge checks passed, and decided, over the trials of a condition."""
    grades = [
        check["passed"]
        for case in cases
        for result in case["results"]
        if result["condition"] == condition
        for trial in result["trials"]
        for kind, check in zip(case["checks"], trial.get("checks", ()), strict=False)
        if kind == "judge" and check.get("passed") is not None
    ]
    return sum(grades), len(grades)


def _rate(error: JudgeError, passed: int, judged: int) -> dict[str, Any]:
    found = corrected(error, passed, judged)
    low, high = (found.ci if found else None) or (None, None)
    return {
        "passed": passed,
        "judged": judged,
        "rate": passed / judged if judged else None,
        "corrected": found.point if found else None,
        "low": low,
        "high": high,
        "j": found.j if found else None,
    }


def judge_lines(record: Mapping[str, Any]) -> list[str]:
    """What is known of a run's judge, and its judged rates corrected for that; nothing where nothing is known."""
    error = record.get("judgeError")
    if not error:
        return []
    lines = [f"judge {record['judgeModel']}: {error['words']}"]
    parts = []
    for condition, rate in error["rates"].items():
        raw = share_words(rate["passed"], rate["judged"])
        if rate["corrected"] is None:
            why = "its error is known in part" if rate["j"] is None else f"J {rate['j']:.2f}"
            fixed = f"corrected: this judge cannot measure it ({why})"
        else:
            span = f"95% CI {percent(rate['low'])}…{percent(rate['high'])}%"
            fixed = f"corrected {percent(rate['corrected'])}% ({span})"
        parts.append(f"{condition} raw {raw}, {fixed}" if rate["judged"] else f"{condition}: none judged")
    moved = _moved(error["rates"])
    return [*lines, f"judged checks: {'; '.join(parts)}{moved}"]


def _moved(rates: Mapping[str, Mapping[str, Any]]) -> str:
    """The judged difference as it would be without the judge's error, where both sides can be corrected."""
    before, after = (rates.get(name) or {} for name in ("baseline", "skill"))
    j = after.get("j")
    if not j or before.get("corrected") is None or after.get("corrected") is None:
        return ""
    raw = after["rate"] - before["rate"]
    return f"; Δ raw {signed(raw)}%, corrected {signed(max(-1.0, min(1.0, raw / j)))}%"
