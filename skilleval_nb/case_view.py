"""One case as plain data for whatever shows it: sentences and texts in parts, nothing that could act.

The widget and the static HTML draw the same data. `clean` is the gate that all of it passes last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest
from typing import Any

from .controls import visible
from .gate import counted
from .marked import Mark, diff_words, hits, marked
from .text import check_words
from .transcripts import Entry, Row, Transcripts

SENTENCE = 2_000
"""The most characters of a reason, a rubric or a judge's reasoning."""
SHORT = 600
"""A prompt of no more characters is not folded."""
EVENTS = 500
SYMBOLS = 40
_KINDS = ("input", "output", "cache read", "cache write")
_PLACED = ("includes", "excludes", "verdict", "regex", "contains", "icontains", "equals", "starts_with")
_STOPS = {"max_tokens": "max_tokens: the answer was cut", "refusal": "refusal: the model refused"}
View = dict[str, Any]


def clean(value: Any) -> Any:
    """The same data with every text harmless to look at: no terminal sequence, nothing invisible, no lone surrogate."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {key: clean(item) for key, item in value.items()}
    return [clean(item) for item in value] if isinstance(value, list | tuple) else value


def verdict_word(passed: bool | None) -> str:  # noqa: FBT001 - a verdict
    """A result as a sign and a word."""
    return "– not measured" if passed is None else "✓ pass" if passed else "✗ fail"


def row_view(found: Transcripts, row: Row, left: str, right: str) -> View:
    """A case in the list: its name, and for each condition a sign a trial and the verdict in words.

    Whether it flipped is said of the two conditions `left` and `right`.
    """
    marks = []
    for condition in found.conditions:
        numbers = [number for name, number in row.entries if name == condition]
        if condition not in found.sources[row.source].header["conditions"]:
            continue
        signs = "".join(_sign(row.entries[condition, number]) for number in sorted(numbers)[:SYMBOLS])
        passes, measured = row.cells.get(condition, (0, 0))
        word = verdict_word(row.verdict(condition)).partition(" ")[2]
        single = int(found.sources[row.source].header["n"]) == 1
        words = word if single or not measured else f"{word} {passes}/{measured}"
        marks.append([condition, signs or "·", words])
    said = [found.label_of(entry) for entry in row.entries.values()]
    labels = [f"{said.count(True)} pass"] * (True in said) + [f"{said.count(False)} fail"] * (False in said)
    return {
        "at": row.at,
        "name": _cut(row.id, 200),
        "run": found.sources[row.source].folder.run_id if len(found.sources) > 1 else "",
        "marks": marks,
        "moved": row.moved(left, right),
        "label": f"labelled {', '.join(labels)}" if labels else "",
    }


def _sign(entry: Entry) -> str:
    return "!" if entry.passed is None else "✓" if entry.passed else "✗"


def prompt_view(row: Row, pattern: re.Pattern[str] | None, limit: int) -> View:
    """The prompt with what was searched for marked."""
    text = str(row.case.get("prompt", ""))
    return {**marked(text, hits(pattern, text), limit), "short": len(text) <= SHORT}


def systems_view(found: Transcripts, source: int, limit: int) -> list[View]:
    """What each condition was given as system text; `said` where there is none."""
    header = found.sources[source].header
    systems = header.get("systems")
    views = []
    for condition in map(str, header["conditions"]):
        text = systems.get(condition) if isinstance(systems, Mapping) else None
        view: View = {"condition": condition, "said": "", "text": None}
        if isinstance(text, str) and text:
            view["text"] = marked(text, (), limit)
        else:
            view["said"] = "no system text" if isinstance(systems, Mapping) else "not recorded"
        views.append(view)
    return views


def side_view(
    found: Transcripts, row: Row, condition: str, trial: int, *, pattern: re.Pattern[str] | None, limit: int
) -> tuple[View, str | None]:
    """One trial under one condition, and its whole answer; raises RunNotFound where its line is gone."""
    entry = row.entries.get((condition, trial))
    view: View = {"condition": condition, "trial": trial, "entry": None, "outcome": "", "passed": None}
    if entry is None:
        return {**view, "absent": _absence(found, row, condition, trial)}, None
    line = found.line(entry)
    text = line.get("text")
    grades = [check for check in line.get("checks") or () if isinstance(check, Mapping)]
    view |= {
        "entry": entry.at,
        "outcome": verdict_word(entry.passed),
        "passed": entry.passed,
        "absent": "" if isinstance(text, str) else "no answer came",
        "facts": list(_facts(entry, line)),
        "answer": None,
        "checks": [
            _check_view(found, entry, number, asked or {}, grade or {}, limit)
            for number, (asked, grade) in enumerate(zip_longest(row.case.get("checks") or (), grades), 1)
        ],
        **_events(line),
        "label": found.label_of(entry),
        "note": found.note_of(entry),
        "can_label": entry.answered,
    }
    if isinstance(text, str):
        view["answer"] = marked(text, [*_check_marks(grades), *hits(pattern, text)], limit)
        view["empty"] = not text
    return view, text if isinstance(text, str) else None


def _absence(found: Transcripts, row: Row, condition: str, trial: int) -> str:
    if condition not in found.sources[row.source].header["conditions"]:
        return f"the run has no condition {condition}"
    if (condition, trial) in row.others:
        return "this trial is not among those that were chosen"
    return "this trial was not started"


def diff_view(left: str | None, right: str | None, limit: int) -> View:
    """Two answers word by word; `said` where there is nothing to compare, or what the comparison leaves out."""
    if left is None or right is None:
        return {"parts": [], "said": "no difference: there are not two answers"}
    parts = diff_words(left[:limit], right[:limit])
    if parts is None:
        return {"parts": [], "said": "the difference is left out: the answers are too long to be compared"}
    said = "" if any(kind for kind, _, _ in parts) else "no difference in words"
    if max(len(left), len(right)) > limit:
        said = f"only the first {limit:,} characters of both are compared"
    return {"parts": parts, "said": said}


def _facts(entry: Entry, line: Mapping[str, Any]) -> Iterator[list[str]]:
    yield ["outcome", str(line["outcome"])]
    if line.get("reason"):
        yield ["reason", _cut(str(line["reason"]), SENTENCE)]
    yield ["model", _cut(str(line.get("model") or "not reported"), 200)]
    yield ["tokens", tokens_words(line.get("tokens")) + _bracketed(line.get("usageReason"))]
    yield ["time", _seconds(line.get("latencyS"))]
    yield ["cost", _dollars(line.get("costUsd"))]
    stop = str(line.get("stopReason") or "not reported")
    yield ["stop reason", _cut(_STOPS.get(stop, stop), 200)]
    if line.get("reused"):
        yield ["reused", f"yes, from {_cut(str(line.get('from') or 'an earlier run'), 200)}"]
    else:
        yield ["reused", "no"]
    yield ["attempt", "; ".join([str(line.get("attempt", 1)), *entry.earlier[:5]])]


def tokens_words(tokens: Sequence[int | None] | None) -> str:
    """The four kinds of tokens; a kind that nobody reported says so."""
    if not tokens or all(count is None for count in tokens):
        return "not reported"
    known = [f"{name} {count:,}" for name, count in zip(_KINDS, tokens, strict=False) if count is not None]
    absent = [name for name, count in zip(_KINDS, tokens, strict=False) if count is None]
    rest = f" ({', '.join(absent)} not reported)" if absent else ""
    return " · ".join(known) + rest


def _seconds(value: float | None) -> str:
    return "not reported" if value is None else f"{value:.2f} s"


def _dollars(value: float | None) -> str:
    return "not reported" if value is None else f"${value:.4f}"


def _bracketed(text: Any) -> str:
    return f" ({_cut(str(text), 200)})" if text else ""


def _check_marks(grades: Sequence[Mapping[str, Any]]) -> Iterator[Mark]:
    for number, grade in enumerate(grades, 1):
        if span := grade.get("span"):
            kind = "quoted" if grade.get("kind") == "judge" else "met" if grade.get("passed") else "broken"
            yield Mark(int(span[0]), int(span[1]), kind, number)


def _check_view(
    found: Transcripts,
    entry: Entry,
    number: int,
    asked: Mapping[str, Any],
    grade: Mapping[str, Any],
    limit: int,
) -> View:
    kind = str(grade.get("kind") or asked.get("kind") or "kind not recorded")
    passed = grade.get("passed")
    word = verdict_word(passed) if passed is not None else "– undecided" if grade else "– not graded"
    judged = kind == "judge"
    says = list(_judge_says(grade) if judged else _says(kind, grade))
    if (span := grade.get("span")) and span[0] >= limit:
        says.append("the place is beyond what is shown of the answer")
    if found.sources[entry.source].header.get("regradeOf") and grade:
        says.append(_regraded(grade, word))
    return {
        "number": number,
        "kind": kind,
        "asks": _cut(check_words(asked), SENTENCE),
        "grade": word,
        "passed": passed,
        "says": says,
        "judged": judged and bool(grade),
        "label": found.label_of(entry, number) if judged else None,
        "note": found.note_of(entry, number) if judged else "",
    }


def _says(kind: str, grade: Mapping[str, Any]) -> Iterator[str]:
    """What decided a check without a judge."""
    evidence, span = grade.get("evidence"), grade.get("span")
    if grade.get("passed") is None:
        if grade.get("reason"):
            yield _cut(str(grade["reason"]), SENTENCE)
    elif span and span[0] == span[1]:
        yield f"found: an empty text at character {span[0] + 1:,}"
    elif span:
        yield f"found at characters {span[0] + 1:,} to {span[1]:,}: “{_cut(str(evidence or ''), 200)}”"
    elif evidence:
        yield f"{'found: ' if kind in _PLACED else ''}{_cut(str(evidence), SENTENCE)}"
    elif kind in _PLACED:
        yield "not found in the answer"


def _judge_says(grade: Mapping[str, Any]) -> Iterator[str]:
    """What a judge said for its grade, and what the grade cost."""
    if grade.get("passed") is None and grade.get("reason"):
        yield _cut(str(grade["reason"]), SENTENCE)
    if grade.get("reasoning"):
        yield f"reasoning: {_cut(str(grade['reasoning']), SENTENCE)}"
    if evidence := grade.get("evidence"):
        quoted = grade.get("quoted")
        where = "" if quoted is None else ", marked in the answer" if quoted else ", not found in the answer"
        yield f"evidence: “{_cut(str(evidence), SENTENCE)}”{where}"
    if model := grade.get("judgeModel"):
        tokens, time = tokens_words(grade.get("judgeTokens")), _seconds(grade.get("judgeLatencyS"))
        cost = _dollars(grade.get("judgeCostUsd"))
        yield f"judge {_cut(str(model), 200)} · tokens {tokens} · time {time} · cost {cost}"


def _regraded(grade: Mapping[str, Any], now: str) -> str:
    before = grade.get("before")
    if not isinstance(before, Mapping):
        return "before: this check is new"
    was = verdict_word(before.get("passed")) if before.get("passed") is not None else "– undecided"
    judge = f" (judge {_cut(str(before['judgeModel']), 200)})" if before.get("judgeModel") else ""
    if grade.get("kept"):
        return f"kept from before{judge}"
    return f"{'before and now' if was == now else 'changed: before'} {was}{judge}{'' if was == now else f', now {now}'}"


def _events(line: Mapping[str, Any]) -> View:
    """What an agent did, in order; empty for a run without an agent."""
    events = [event for event in line.get("events") or () if isinstance(event, Mapping)]
    shown = [
        [
            _cut(str(event.get(name) or ""), SENTENCE if name == "text" else 200)
            for name in ("type", "name", "text")
        ]
        for event in events[:EVENTS]
    ]
    more = len(events) - len(shown)
    return {"events": shown, "events_said": f"{counted(more, 'more event')} left out" if more else ""}


def _cut(text: str, limit: int) -> str:
    if len(text) <= limit:
        return text
    return f"{text[:limit]}… ({len(text) - limit:,} more characters)"
