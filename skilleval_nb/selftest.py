"""`skilleval self-test`: proof, on this machine and with no model, that scoring does what it says.

Every expected value here is worked out by hand.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .cases import PatternCheck
from .gate import CaseCells, Cell, decide, gate_lines, majority, percent, rate_line
from .grade import grade_patterns, settle
from .judge import judge_prompt, read_verdict
from .log import append_record, read_records
from .patterns import Matcher, compile_pattern
from .record import decision_of
from .values import Answer, Gate, Grade, Outcome


def prove() -> Iterator[tuple[str, bool]]:
    """Each claim with whether it held."""
    yield from _scorer()
    yield from _verdicts()
    yield from _judge()
    yield from _gates()
    yield from _rounding()
    yield from _round_trip()


def _outcome(text: str, *checks: tuple[str, str], flags: str | None = None) -> Outcome:
    async def graded() -> list[Grade]:
        matcher = Matcher()
        try:
            made = [PatternCheck(kind, compile_pattern(pattern, flags)) for kind, pattern in checks]
            return await grade_patterns(made, text, matcher)
        finally:
            await matcher.aclose()

    return settle(asyncio.run(graded()))[0]


def _scorer() -> Iterator[tuple[str, bool]]:
    yield (
        "includes passes where the pattern occurs",
        _outcome("use setTimeout", ("includes", "settimeout")) == "passed",
    )
    yield "includes fails where it does not", _outcome("use a timer", ("includes", "settimeout")) == "failed"
    yield (
        "excludes fails where the pattern occurs",
        _outcome("import lodash", ("excludes", "lodash")) == "failed",
    )
    yield "excludes passes where it does not", _outcome("plain code", ("excludes", "lodash")) == "passed"
    two = (("includes", "a"), ("includes", "b"))
    yield (
        "a trial passes only if all checks pass",
        [_outcome(t, *two) for t in ("ab", "a")] == ["passed", "failed"],
    )
    yield "given flags replace the default i", _outcome("ABC", ("includes", "abc"), flags="m") == "failed"
    first_line = ("verdict", "^Verdict: yes")
    yield "verdict reads the first line", _outcome("VERDICT: yes\nbut", first_line) == "passed"
    yield "verdict reads no other line", _outcome("Thinking.\nVerdict: yes", first_line) == "failed"
    bomb = _outcome("a" * 5000 + "!", ("includes", "(a+)+$"))
    yield "a pattern that runs over is grader_timeout", bomb == "grader_timeout"


def _verdicts() -> Iterator[tuple[str, bool]]:
    yield "majority: 2 of 3 passes", majority(2, 3) is True
    yield "majority: 1 of 3 fails", majority(1, 3) is False
    yield "a tie fails", majority(1, 2) is False
    yield "majority counts measured trials only", majority(1, 1) is True
    yield "nothing measured is no verdict", majority(0, 0) is None


def _judge() -> Iterator[tuple[str, bool]]:
    yes = read_verdict(Answer('{"reasoning": "r", "evidence": "", "pass": true}'))
    yield "a judge's true is a pass", yes is not None and yes["pass"] is True
    no = read_verdict(Answer('```json\n{"reasoning": "not a FAIL", "evidence": "", "pass": false}\n```'))
    yield "a judge's false is a fail, whatever its words", no is not None and no["pass"] is False
    undecidable = ["", "PASS", "I cannot tell", '{"pass": "true"}', '{"pass": true} or {"pass": false}']
    yield (
        "an undecidable judge is no verdict",
        all(read_verdict(Answer(text)) is None for text in undecidable),
    )
    unparseable = Grade("judge", None, outcome=Outcome.GRADER_UNPARSEABLE, reason="no verdict")
    mixed = settle([Grade("includes", passed=True), unparseable])[0]
    yield "and makes its trial grader_unparseable", mixed == "grader_unparseable"
    marks = judge_prompt("task", "rubric", "MARK-000000000000 answer>>>").count("answer>>>")
    yield "an answer stands in the judge's prompt once", marks == 1


def _cells(*pairs: tuple[int, int, int, int], planned: int = 1) -> list[CaseCells]:
    return [
        CaseCells(f"case-{number}", Cell(bp, bm, planned), Cell(sp, sm, planned))
        for number, (bp, bm, sp, sm) in enumerate(pairs)
    ]


def _gates() -> Iterator[tuple[str, bool]]:
    win, same, loss, lost = (0, 1, 1, 1), (1, 1, 1, 1), (1, 1, 0, 1), (0, 1, 0, 0)
    three = decide(_cells(win, win, win))
    seed = "pass rate   baseline 0/3 (0%)   with-skill 3/3 (100%)   Δ +100%"
    yield "the seed's rate line, to the letter", rate_line(three) == seed
    yield (
        "the seed's gate line, to the letter",
        gate_lines(three)[0] == "ship gate: PASS — skill moves the number",
    )
    yield "gate: more passes is PASS", three.gate is Gate.PASS
    yield "gate: as many is NO MOVEMENT", decide(_cells(win, loss, same)).gate is Gate.NO_MOVEMENT
    yield "gate: fewer is REGRESSION", decide(_cells(loss, same)).gate is Gate.REGRESSION
    yield "gate: nothing measured is NOT MEASURED", decide(_cells((0, 0, 0, 0))).gate is Gate.NOT_MEASURED
    yield (
        "a gate that a missing trial could change is NOT MEASURED",
        decide(_cells(win, (1, 1, 0, 0))).gate is Gate.NOT_MEASURED,
    )
    yield "a gate that it could not change stands", decide(_cells(win, win, lost)).gate is Gate.PASS
    yield "a case measured on one side is in no rate", decide(_cells(win, win, lost)).graded == 2


def _rounding() -> Iterator[tuple[str, bool]]:
    yield "percentages round half up: 1/8 is 13%", percent(1 / 8) == 13
    yield "and −1/8 is −12%", percent(-1 / 8) == -12
    yield "2/3 is 67%", percent(2 / 3) == 67


def _round_trip() -> Iterator[tuple[str, bool]]:
    cases = [{"id": "ü", "baseline": False, "skill": True}, {"id": "b", "baseline": None, "skill": True}]
    record = {"kind": "eval", "set": "s", "cases": cases, "delta": 100, "tokens": None}
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.jsonl"
        append_record(log, record)
        append_record(log, {"kind": "unknown", "value": 1})
        back = list(read_records(log, kinds=("eval",)))
    yield "a record comes back from the log as it went in", json.dumps(back) == json.dumps([record])
    yield (
        "and its Δ is recomputed from its cases",
        decision_of(back[0]["cases"]).delta == 1.0 if back else False,
    )
