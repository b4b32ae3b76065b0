"""What a tuning panel shows of runs and versions, in words: rows of plain texts, for the widget and the static HTML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from .case_view import clean
from .comparison_record import SAME
from .comparison_text import comparison_rows
from .gate import counted, signed, span
from .stats import NO_EVIDENCE, shown_p

if TYPE_CHECKING:
    from .comparing import Comparison

SHORT = 8
"""How many digits of a version's hash are shown."""
HEAD = ("version", "look", "gate", "Δ (95% CI)", "evidence", "tokens of this run", "reused")


def short(version: str) -> str:
    """A version's name, its hash cut."""
    hashed, dash, number = version.partition("-")
    return f"{hashed[:SHORT]}{dash}{number}"


def history_row(row: Mapping[str, Any]) -> list[str]:
    """A row of `TuneSession.history` in words, in the order of `HEAD`."""
    return [
        f"{short(row['version'] or 'not recorded')}{' (saved)' if row['saved'] else ''}",
        "confirmation" if row["confirm"] else "not recorded" if row["look"] is None else str(row["look"]),
        f"{row['gate']}{' (partial)' if row['partial'] else ''}",
        _delta(row),
        _evidence(row),
        _tokens(row),
        _reused(row),
    ]


def _delta(row: Mapping[str, Any]) -> str:
    if row["delta"] is None:
        return "not measured"
    shown = f"{signed(row['delta'])}% of {counted(row['graded'], 'case')}"
    return shown if row["delta_low"] is None else f"{shown} ({span(row['delta_low'], row['delta_high'])})"


def _evidence(row: Mapping[str, Any]) -> str:
    if row["p_set"] is None:
        return "none"
    words = f"{row['verdict'] or 'withheld'} (p {shown_p(row['p_set'])})"
    looked = not row["confirm"] and (row["look"] or 1) > 1 and row["verdict"] not in (None, NO_EVIDENCE)
    return f"{words}; counting the looks p {shown_p(row['p_looks'])}" if looked else words


def _tokens(row: Mapping[str, Any]) -> str:
    if row["input_tokens"] is None:
        return "none reported"
    back = "not reported" if row["output_tokens"] is None else f"{row['output_tokens']:,}"
    return f"in {row['input_tokens']:,}, out {back}"


def _reused(row: Mapping[str, Any]) -> str:
    parts = [f"{row[f'{name}_reused']} {name}" for name in ("baseline", "skill") if row[f"{name}_reused"]]
    return f"{', '.join(parts)} trials" if parts else "none"


def version_words(row: Mapping[str, Any], runs: int) -> str:
    """A row of `TuneSession.versions` in words, for a list to choose from."""
    marks = [word for word in ("saved", "current") if row[word]]
    parts = [
        short(row["version"]),
        f"{row['kept']:%Y-%m-%d %H:%M} UTC",
        counted(row["characters"], "character"),
    ]
    return " · ".join([*parts, counted(runs, "run") if runs else "never run", *marks])


def change_view(compared: Comparison | None) -> dict[str, Any]:
    """What became of each case since the version before: a sentence, and the rows of those that did not stay alike."""
    if compared is None:
        return {"said": "", "rows": []}
    record = compared.record
    rows = [row for row in comparison_rows(record) if row[3] != SAME]
    alike = len(record["cases"]) - len(rows)
    before = short(str(record["a"]["skillHash"]))
    said = f"against the version before ({before}): {len(rows)} of {counted(len(rows) + alike, 'case')} stand otherwise"
    return {"said": said, "rows": clean(rows)}


def difference_lines(diff: str) -> Sequence[tuple[str, str]]:
    """A unified diff as lines with their kind: `ins`, `del`, `head` or nothing."""
    kinds = {"+": "ins", "-": "del", "@": "head"}
    lines = diff.splitlines()
    heads = [("head", clean(line)) for line in lines[:2]]
    return [*heads, *((kinds.get(line[:1], ""), clean(line)) for line in lines[2:])]
