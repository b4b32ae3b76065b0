"""A run as HTML. `escape` is the one gate to it, so that what a set or a model wrote can never act as HTML.

Meaning sits in words and table headers. Style only adds to it: notebooks that are not trusted, GitHub and mail
strip it. No script, no image, no address to load; colours come from the page, so both themes are readable.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from .besides import besides_lines
from .controls import visible
from .gate import percent_of
from .record import CANDIDATE, REFERENCE, clip
from .text import delta_words, fact_lines, gate_words, opened_as, shares, title_line
from .values import Outcome

ROWS = 30
"""The most cases, or errors, that one table shows."""
NAMES = 12
"""The most cases that a sentence names."""
_RANK = {"flipped to fail": 0, "flipped to pass": 1, "not measured in both": 2}
KINDS = ("input", "output", "cache read", "cache write")

NO_MATH = "tex2jax_ignore mathjax_ignore"
"""The classes that keep MathJax, old and new, from taking what others wrote for formulas."""
STYLE = """<style>
.sknb{color:inherit;font-family:var(--jp-content-font-family,system-ui,sans-serif)}
.sknb{font-size:var(--jp-content-font-size1,14px);line-height:1.5;max-width:64em;overflow-wrap:anywhere}
.sknb.sknb p{margin:.35em 0}
.sknb .sknb-head{font-size:1.05em}
.sknb .sknb-soft{opacity:.85}
.sknb .sknb-more{white-space:pre-wrap;margin-left:1em}
.sknb table.sknb-t{border-collapse:collapse;margin:.4em 0;font-size:inherit;color:inherit;border:0}
.sknb .sknb-t th,.sknb .sknb-t td{text-align:left;vertical-align:baseline;padding:.15em .9em .15em 0;border:0}
.sknb .sknb-t th,.sknb .sknb-t td{background:transparent;max-width:none;white-space:normal}
.sknb.sknb .sknb-t tbody tr,.sknb.sknb .sknb-t tbody tr:hover{background:transparent}
.sknb.sknb .sknb-rates thead{border:0}
.sknb .sknb-t th{font-weight:600}
.sknb .sknb-t caption{text-align:left;opacity:.85;color:inherit;padding:0}
.sknb .sknb-t th[scope=row]{font-weight:400}
.sknb .sknb-lines th,.sknb .sknb-lines td{overflow-wrap:normal}
.sknb .sknb-lines td{white-space:nowrap}
.sknb .sknb-lines tbody th{overflow-wrap:anywhere;min-width:7em}
.sknb .sknb-lines td.sknb-words{white-space:normal;overflow-wrap:anywhere;min-width:13em}
.sknb .sknb-lines thead th{border-bottom:1px solid rgba(128,128,128,.6)}
.sknb .sknb-lines tbody tr+tr>*{border-top:1px solid rgba(128,128,128,.25)}
.sknb .sknb-t td.sknb-n,.sknb .sknb-t th.sknb-n{text-align:right;font-variant-numeric:tabular-nums}
.sknb .sknb-rates td{font-variant-numeric:tabular-nums}
.sknb .sknb-rates.sknb-t th,.sknb .sknb-rates.sknb-t td{white-space:nowrap}
.sknb .sknb-t td.sknb-track{width:min(16em,20vw);vertical-align:middle}
.sknb .sknb-bar{height:.8em;background:rgba(128,128,128,.22);border-radius:2px}
.sknb .sknb-bar>div{height:100%;border-radius:2px;background:#808080}
.sknb .sknb-skill .sknb-bar>div{background:#3a87d8}
.sknb .sknb-gate{border-left:4px solid #808080;padding:.1em 0 .1em .6em}
.sknb .sknb-gate[data-gate="PASS"]{border-color:#3a87d8}
.sknb .sknb-gate[data-gate="REGRESSION"]{border-color:#d55e00}
.sknb .sknb-gate[data-gate="NOT MEASURED"]{border-left-style:dashed}
.sknb .sknb-gate b{letter-spacing:.02em}
.sknb details{margin:.35em 0}
.sknb summary{cursor:pointer}
.sknb .sknb-scroll{overflow-x:auto}
.sknb code{font-family:var(--jp-code-font-family,ui-monospace,monospace);font-size:.93em}
.sknb code{background:rgba(128,128,128,.14);color:inherit;padding:.05em .3em;border-radius:3px}
</style>"""


def escape(text: object) -> str:
    """Anything as text that is safe inside an element and inside a quoted attribute."""
    return html.escape(visible(str(text)), quote=True)


def run_html(record: Mapping[str, Any], *, transcripts: bool = True) -> str:
    """A run's result: what `text.result_lines` says, with bars, the cases and the token ledger.

    Whatever the number of cases, its size is bounded: flips and failures come first, and what is left out is
    counted. `transcripts` False: the run's folder is gone and only the log knows the run.
    """
    parts = [
        _head(record),
        _rates(record),
        *(f"<p>{escape(line)}</p>" for line in besides_lines(record)),
        _gate(record),
        _facts(record),
        _flips(record),
        _cases(record),
        _errors(record),
        _tokens(record),
        _next(record, transcripts=transcripts),
    ]
    return root_html(f"result of {record.get('set')}", "".join(parts))


def root_html(name: str, body: str, style: str = "") -> str:
    """HTML of ours as one output: with its style, a name for screen readers, and kept from MathJax."""
    label = escape(name)
    return f'{STYLE}{style}<div class="sknb {NO_MATH}" role="group" aria-label="{label}">{body}</div>'


def lines_html(
    name: str, lines: Sequence[str], head: Sequence[str] = (), rows: Sequence[Sequence[str]] = ()
) -> str:
    """A result in lines, the first of them its title, and a table below; all of it plain text."""
    title, *rest = lines
    parts = [f'<p class="sknb-head"><b>{escape(title)}</b></p>', *(f"<p>{_said(line)}</p>" for line in rest)]
    if rows:
        count = f"{len(rows):,}" if len(rows) <= ROWS else f"{ROWS} of {len(rows):,}, the frame has all"
        table = _table(head, rows[:ROWS], words_last=True, caption=name)
        parts.append(_folded(f"{name}: {count}", table, is_open=len(rows) <= NAMES))
    return root_html(name, "".join(parts))


def line_html(line: str) -> str:
    """One sentence of ours about a run that is under way, or one that a runner's author wrote."""
    return f'<div class="{NO_MATH}">{_said(line)}</div>'


def _said(line: str) -> str:
    word, colon, rest = line.partition(": ")
    strong = colon and word in ("warning", "interrupted")
    return f"<b>{escape(word)}:</b> {escape(rest)}" if strong else escape(line)


def _head(record: Mapping[str, Any]) -> str:
    name = str(record.get("set"))
    rest = title_line(record).removeprefix(name)
    return f'<p class="sknb-head"><b>{escape(name)}</b>{escape(rest)}</p>'


def _rates(record: Mapping[str, Any]) -> str:
    rows = []
    for condition, label, passed, measured in shares(record):
        share = percent_of(passed, measured) if measured else None
        said = f"{passed}/{measured} ({'n/a' if share is None else f'{share}%'})"
        bar = f'<div class="sknb-bar"><div style="width:{share or 0}%"></div></div>'
        rows.append(
            f'<tr class="sknb-{condition}"><th scope="row">{label}</th><td>{said}</td>'
            f'<td class="sknb-track" aria-hidden="true">{bar}</td></tr>'
        )
    rows.append(f'<tr><th scope="row">Δ</th><td><b>{delta_words(record)}</b></td><td></td></tr>')
    head = '<thead><tr><th scope="col">pass rate</th><th scope="col">cases</th><td></td></tr></thead>'
    return f'<table class="sknb-t sknb-rates">{head}<tbody>{"".join(rows)}</tbody></table>'


def _gate(record: Mapping[str, Any]) -> str:
    first, *more = gate_words(record)
    word, dash, sentence = first.removeprefix("ship gate: ").partition(" — ")
    lines = "".join(f'<p class="sknb-more">{escape(line.strip())}</p>' for line in more)
    return (
        f'<div class="sknb-gate" data-gate="{escape(word)}">'
        f"<p>ship gate: <b>{escape(word)}</b>{dash}{escape(sentence)}</p>{lines}</div>"
    )


def _facts(record: Mapping[str, Any]) -> str:
    """All that the text says below the gate, in its words."""
    return "".join(f"<p>{_said(line)}</p>" for line in fact_lines(record))


def _moved(case: Mapping[str, Any]) -> str:
    """What the skill did to a case, in words; empty where both verdicts are alike."""
    before, after = case.get(REFERENCE), case.get(CANDIDATE)
    if before is None or after is None:
        return "not measured in both"
    if before == after:
        return ""
    return "flipped to pass" if after else "flipped to fail"


def _order(case: Mapping[str, Any]) -> int:
    """Sorts what an author wants to see first to the top."""
    return _RANK.get(_moved(case), 4 if case.get(CANDIDATE) else 3)


def _flips(record: Mapping[str, Any]) -> str:
    lines = []
    for words in ("flipped to fail", "flipped to pass"):
        names = [case["id"] for case in record["cases"] if _moved(case) == words]
        if names:
            shown = ", ".join(f"<b>{escape(clip(name))}</b>" for name in names[:NAMES])
            more = f" and {len(names) - NAMES:,} more" if len(names) > NAMES else ""
            lines.append(f"<p>{words} ({len(names):,}): {shown}{more}</p>")
    return "".join(lines)


def _cases(record: Mapping[str, Any]) -> str:
    cases: Sequence[Mapping[str, Any]] = record["cases"]
    if not cases:
        return ""
    shown = cases
    if len(cases) > ROWS:  # the set's own order up to a screenful; beyond that what matters first
        shown = sorted(cases, key=_order)[:ROWS]
    conditions = record.get("conditions") or [REFERENCE, CANDIDATE]
    tagged = any(case.get("difficulty") is not None for case in cases)
    columns: list[tuple[str, Callable[[Mapping[str, Any]], str]]] = [("case", lambda case: clip(case["id"]))]
    if tagged:
        columns.append(("difficulty", lambda case: str(case.get("difficulty") or "untagged")))
    columns += [(str(name), lambda case, name=name: _verdict(case, name)) for name in conditions]  # type: ignore[misc]
    columns.append(("what happened", _remark))
    rows = [[cell(case) for _, cell in columns] for case in shown]
    title = f"{len(cases):,} case{'' if len(cases) == 1 else 's'}"
    if (left_out := len(cases) - len(rows)) > 0:
        title = f"{len(rows)} of {title}, flips and failures first; {left_out:,} left out: run.cases has all"
    table = _table([name for name, _ in columns], rows, words_last=True)
    return _folded(title, table, is_open=len(cases) <= NAMES)


def _verdict(case: Mapping[str, Any], condition: str) -> str:
    """`✓ pass`, and the counts behind it where they are more than one trial."""
    result = next((item for item in case.get("results") or () if item["condition"] == condition), None)
    verdict = result["verdict"] if result else case.get(condition)
    word = "– not measured" if verdict is None else "✓ pass" if verdict else "✗ fail"
    if result is None or result["planned"] == 1:
        return word
    unmeasured = result["planned"] - result["measured"]
    counts = f" {result['passes']}/{result['measured']}" if result["measured"] else ""
    return f"{word}{counts}{f' ({unmeasured} unmeasured)' if unmeasured else ''}"


def _remark(case: Mapping[str, Any]) -> str:
    """How the case moved, and which checks the skill's answers broke."""
    kinds = case.get("checks") or ()
    result = next((item for item in case.get("results") or () if item["condition"] == CANDIDATE), None)
    trials = [trial["checks"] for trial in result["trials"] if trial.get("checks")] if result else []
    named = []
    for number, kind in enumerate(kinds, 1):
        failed = sum(len(checks) >= number and checks[number - 1].get("passed") is False for checks in trials)
        if failed:
            named.append(f"{number} ({kind})" + (f" in {failed}/{len(trials)}" if len(trials) > 1 else ""))
    plural = "s" if len(named) > 1 else ""
    remarks = [_moved(case), f"skill fails check{plural} {_listed(named)}" if named else ""]
    return "; ".join(filter(None, remarks))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - 4} more" if len(names) > 4 else ""
    return f"{', '.join(names[:4])}{more}"


def _errors(record: Mapping[str, Any]) -> str:
    """Why there is no measurement, trial by trial."""
    rows = [
        [
            clip(case["id"]),
            result["condition"],
            str(trial["trial"]),
            trial["outcome"],
            trial.get("reason") or "",
        ]
        for case in record["cases"]
        for result in case.get("results") or ()
        for trial in result["trials"]
        if trial["outcome"] not in (Outcome.PASSED, Outcome.FAILED)
    ]
    if not rows:
        return ""
    title = f"{len(rows):,} trial{'' if len(rows) == 1 else 's'} without a measurement"
    if len(rows) > ROWS:
        title += f"; the first {ROWS} are shown, run.trials has all"
    table = _table(["case", "condition", "trial", "outcome", "reason"], rows[:ROWS], words_last=True)
    return _folded(title, table, is_open=len(rows) <= NAMES)


def _tokens(record: Mapping[str, Any]) -> str:
    """The ledger, executors and judges apart; a kind that nobody reported says so."""
    usage = record.get("usage")
    if not usage:
        total = record.get("tokens") or {}
        said = ", ".join(f"{name} {total[name]:,}" for name in KINDS[:2] if total.get(name) is not None)
        return f"<p>tokens in all: {said or 'not reported'}</p>"
    rows = []
    for row in usage:
        counts = ["not reported" if count is None else f"{count:,}" for count in row["tokens"] or [None] * 4]
        cost = "not reported" if row.get("costUsd") is None else f"${row['costUsd']:.4f}"
        reported = f"{row['reported']:,} of {row['asked']:,}"
        rows.append([row["role"], row["condition"], *counts, cost, f"{row['calls']:,}", reported])
    head = ["role", "condition", *KINDS, "cost", "calls", "reported"]
    return _folded("token ledger", _table(head, rows, numbers_from=2))


def _next(record: Mapping[str, Any], *, transcripts: bool) -> str:
    """Where the answers are, and what to type to see one."""
    folder = record.get("dir")
    if not record["cases"]:
        return '<p class="sknb-soft">the set has no cases: nothing was run, nothing is kept</p>'
    if not folder or not transcripts:
        return '<p class="sknb-soft">transcripts: not here, only the log knows this run</p>'
    look = ""
    if (answered := _answered(record)) is not None:
        case, condition, trial = answered
        number = f", {trial}" if trial > 1 else ""
        call = f"run.transcript({case!r}, {condition!r}{number})"
        look = f" · one answer: <code>{escape(call)}</code>"
    return (
        f'<p class="sknb-soft">transcripts <code>{escape(folder)}</code> · '
        f"open later: <code>run = se.load_run({escape(repr(opened_as(record)))})</code>{look}</p>"
    )


def _answered(record: Mapping[str, Any]) -> tuple[str, str, int] | None:
    """A trial with an answer to look at: of the case that tells most, and with the skill if there is one."""
    for case in sorted(record["cases"], key=_order):
        for result in reversed(case.get("results") or []):
            for trial in result["trials"]:
                if trial["outcome"] in (Outcome.PASSED, Outcome.FAILED):
                    return case["id"], result["condition"], trial["trial"]
    return None


def _folded(title: str, table: str, *, is_open: bool = False) -> str:
    name = escape(title)
    box = f'<div class="sknb-scroll" role="group" aria-label="{name}" tabindex="0">{table}</div>'
    return f"<details{' open' if is_open else ''}><summary>{name}</summary>{box}</details>"


def _table(
    head: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    numbers_from: int | None = None,
    words_last: bool = False,
    caption: str = "",
) -> str:
    """A table; its first column names the rows, those from `numbers_from` on are figures, the last may be prose."""
    marks = [
        ' class="sknb-n"' if numbers_from is not None and at >= numbers_from else ""
        for at in range(len(head))
    ]
    if words_last:
        marks[-1] = ' class="sknb-words"'
    top = "".join(
        f'<th scope="col"{mark}>{escape(name)}</th>' for name, mark in zip(head, marks, strict=True)
    )
    lines = []
    for first, *rest in rows:
        cells = "".join(f"<td{mark}>{escape(cell)}</td>" for cell, mark in zip(rest, marks[1:], strict=True))
        lines.append(f'<tr><th scope="row">{escape(first)}</th>{cells}</tr>')
    named = f"<caption>{escape(caption)}</caption>" if caption else ""
    return (
        f'<table class="sknb-t sknb-lines">{named}'
        f"<thead><tr>{top}</tr></thead><tbody>{''.join(lines)}</tbody></table>"
    )
