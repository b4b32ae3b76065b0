"""A comparison in plain words, from its record: the terminal and a notebook say the same."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .agreement import share_words
from .comparable import named
from .comparison_record import SAME, TO_FAIL, TO_PASS, UNMEASURED
from .comparison_spent import spent_lines
from .controls import visible
from .gate import CaseCells, Cell, Decision, counted, decide, missing_words, rate_line, signed
from .stats import shown_p
from .text import exit_code, held_line, is_held

Record = Mapping[str, Any]
NAMES = ("A", "B")
_ORDER = (TO_FAIL, TO_PASS, UNMEASURED, SAME)
_HASH = 8
"""How many digits of a hash a title shows."""


def comparison_lines(record: Record) -> list[str]:
    """The comparison in lines, its title first."""
    decision = decision_in(record)
    missing = missing_words(decision)
    evidence = record["evidence"]
    lines = [
        _title(record),
        rate_line(decision, NAMES),
        f"gate, B against A: {decision.gate}{f' — {missing}' if missing else ''}",
        evidence["line"] if evidence else "evidence: none, as no case was measured on both sides",
        *filter(None, (_graders_line(record), held_line(_limited(record)))),
        *_flip_lines(record),
        *([] if record["shared"]["all"] else [*spent_lines(record["spent"]), *_setting_lines(record)]),
    ]
    for name, left_out in zip(NAMES, (record["onlyA"], record["onlyB"]), strict=True):
        if left_out:
            lines.append(f"left out, only in {name} {len(left_out)}: {named(left_out)}")
    lines += [f"warning: {warning}" for warning in record["warnings"]]
    return [" ".join(visible(line).splitlines()) for line in lines]


def comparison_rows(record: Record) -> list[list[str]]:
    """Case, A, B and flip of every case, in words; what flipped comes first."""
    rows = [
        [case["id"], _cell_words(case["a"]), _cell_words(case["b"]), case["flip"]] for case in record["cases"]
    ]
    return sorted(rows, key=lambda row: _ORDER.index(row[3]))


def decision_in(record: Record) -> Decision:
    """The decision that a comparison's record holds, A in the baseline's place."""
    return decide(CaseCells(case["id"], _cell(case["a"]), _cell(case["b"])) for case in record["cases"])


def held_in(record: Record) -> bool | None:
    """True where Δ's interval rules out a drop of `maxDrop`; None without a limit or a measurement."""
    return is_held(_limited(record))


def exit_code_of(record: Record) -> int:
    """0 B passes more cases, or where a `maxDrop` is given such a drop is ruled out; 1 not so; 3 not measured."""
    if record["maxDrop"] is not None and held_in(record) is None:
        return 3
    return exit_code(record)


def _limited(record: Record) -> Record:
    """The record for questions about a drop, which the same answers on both sides cannot settle."""
    return {**record, "evidence": None} if record["shared"]["all"] else record


def _cell(cell: Record) -> Cell:
    return Cell(cell["passes"], cell["measured"], cell["planned"])


def _cell_words(cell: Record) -> str:
    if cell["verdict"] is None:
        return f"– not measured (0/{cell['planned']} trials)"
    return f"{'✓ pass' if cell['verdict'] else '✗ fail'} {cell['passes']}/{cell['measured']}"


def _title(record: Record) -> str:
    sides = [record["a"], record["b"]]
    models = "resolvedModel" if all(side["resolvedModel"] for side in sides) else "model"
    parts = [f"{name} {_side_words(side)}" for name, side in zip(NAMES, sides, strict=True)]
    parts.append(_distinct(" ".join(filter(None, (side["runner"], side[models]))) for side in sides))
    parts.append(_distinct(side["delivery"] for side in sides))
    parts.append(_distinct(f"n={side['n']}" for side in sides if side["n"]))
    return " · ".join(filter(None, parts))


def _side_words(side: Record) -> str:
    words = [side["runId"], side["condition"]]
    if side["skillHash"] and side["condition"] != "baseline":
        words.append(side["skillHash"][:_HASH])
    words += [f"regrade of {side['regradeOf']}"] if side["regradeOf"] else []
    return " ".join([*words, *([side["ts"][:10]] if side["ts"] else [])])


def _distinct(values: Iterable[str | None]) -> str:
    """The value of both sides, or both values where they differ."""
    return " and ".join(dict.fromkeys(filter(None, values)))


def _graders_line(record: Record) -> str | None:
    if (found := record["graders"]) is None:
        return None
    flips = found["toPass"] + found["toFail"]
    share = share_words(flips, found["answers"], (found["flipLow"], found["flipHigh"]))
    return (
        f"graders: of {counted(found['answers'], 'answer')} measured on both sides {found['toPass']} moved to pass,"
        f" {found['toFail']} to fail; flip rate {share}; p {shown_p(found['p'])} for a move one way"
    )


def _flip_lines(record: Record) -> list[str]:
    ids: dict[str, list[str]] = {word: [] for word in _ORDER}
    for case in record["cases"]:
        ids[case["flip"]].append(case["id"])
    lines = [f"flipped {word} {len(ids[word])}{_listed(ids[word])}" for word in (TO_PASS, TO_FAIL)]
    if ids[UNMEASURED]:
        lines.append(f"{UNMEASURED} {len(ids[UNMEASURED])}{_listed(ids[UNMEASURED])}")
    return [*lines, f"{SAME} verdict {len(ids[SAME])}"]


def _listed(names: list[str]) -> str:
    return f": {named(names)}" if names else ""


def _setting_lines(record: Record) -> list[str]:
    """Trials that both sides share, and what two runs that were not interleaved may owe to the model."""
    lines = []
    shared = record["shared"]
    if shared["trials"]:
        lines.append(
            f"{shared['trials']} of A's {shared['ofA']} and B's {counted(shared['ofB'], 'trial')} are the same ones:"
            " they cannot differ, which can only weaken the evidence"
        )
    if record["runs"] == 2:
        lines.append(
            f"A and B were run apart: if the model changed in between, that counts here too{_bare(record)}"
        )
    return lines


def _bare(record: Record) -> str:
    if (found := record["baselines"]) is None:
        return ""
    of_a, of_b = (share_words(found[key], found["graded"]) for key in ("aPass", "bPass"))
    change = (found["bPass"] - found["aPass"]) / found["graded"]
    return f" (their baselines, which no skill touched: A {of_a}, B {of_b}, Δ {signed(change)}%)"
