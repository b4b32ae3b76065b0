"""The log as lines of text, for the terminal; for anything more there is `load_log`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .controls import visible
from .errors import InputError, Problem
from .finder import LOG, resolve_runs_dir, run_id_of
from .gate import signed
from .log import read_records
from .record import decision_of
from .text import shares


def log_lines(runs_dir: str | Path = "runs", *, set_name: str | None = None, limit: int = 20) -> list[str]:
    """One line a run, the newest last: id, runner and model, rates with their denominators, Δ, gate, evidence.

    Raises InputError where there is no log.
    """
    path = resolve_runs_dir(runs_dir) / LOG
    if not path.exists():
        raise InputError(Problem(str(path), "there is no log yet", "run a set first: skilleval run SET"))
    newest: dict[str, str] = {}
    for record in read_records(path, kinds=("eval",)):
        if record.get("cases") and set_name in (None, record.get("set")):
            newest.pop(run_id_of(record), None)  # a resumed run stands once, where it ended
            newest[run_id_of(record)] = _line(record)
    if not newest:
        of = f" of {set_name!r}" if set_name else ""
        raise InputError(Problem(str(path), f"holds no run{of}", "run a set first: skilleval run SET"))
    return list(newest.values())[-limit:]


def _line(record: Mapping[str, Any]) -> str:
    delta = decision_of(record["cases"]).delta
    delta_shown = "n/a" if delta is None else f"{signed(delta)}%"
    evidence = (record.get("evidence") or {}).get("verdict") or "—"
    model = " ".join(filter(None, (record.get("runner"), record.get("model"))))
    found = shares(record)
    rates = " → ".join(f"{passed}/{counted}" for _, _, passed, counted in found)
    rates = rates if len(found) > 1 else f"{found[0][1]} {rates}"
    line = (
        f"{run_id_of(record):<40} {model:<24} n={record.get('n')} {rates:>16} Δ {delta_shown:>5} "
        f"{record.get('gate')!s:<12} {evidence}"
    )
    return " ".join(visible(line).splitlines())
