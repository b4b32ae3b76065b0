"""Texts in parts: what a check found in them, what a judge quoted, what was searched for; and two texts word by word.

A part is `[kind, checks, text]`: kind is empty for plain text, else one of `KINDS`; `checks` names the checks by
number where the kind is theirs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

KINDS = ("met", "broken", "quoted", "hit", "del", "ins")
"""Found by a check that passed, by one that failed, quoted by a judge, searched for, only left, only right."""
HITS = 500
"""The most places of a search that are marked in one text."""
WORDS = 20_000
"""The most words a side for which a difference is worked out."""
_WORD = re.compile(r"(?:[\u3040-\u30ff\u3400-\u9fff]|[^\W\u3040-\u30ff\u3400-\u9fff]+|[^\w\s]+)\s*|\s+")
Part = list[str]


class Mark(NamedTuple):
    """A place in a text, [start, end), and why it is marked; `check` is 0 where no check marks it."""

    start: int
    end: int
    kind: str
    check: int = 0


def marked(text: str, marks: Iterable[Mark], limit: int) -> dict[str, Any]:
    """The first `limit` characters of a text in parts: `parts`, and `left_out`, the number of the others."""
    shown = text[:limit]
    kept = [mark._replace(end=min(mark.end, len(shown))) for mark in marks if 0 <= mark.start < len(shown)]
    return {
        "parts": list(_parts(shown, [m for m in kept if m.end > m.start])),
        "left_out": len(text) - len(shown),
    }


def _parts(text: str, marks: Sequence[Mark]) -> Iterator[Part]:
    """The text cut wherever a mark begins or ends; where several overlap, a check's goes before a search's."""
    edges: dict[int, tuple[list[Mark], list[Mark]]] = {}
    for mark in marks:
        edges.setdefault(mark.start, ([], []))[0].append(mark)
        edges.setdefault(mark.end, ([], []))[1].append(mark)
    at, active = 0, list[Mark]()
    for edge in sorted(edges):
        if edge > at:
            yield _part(text[at:edge], active)
        at = edge
        begin, end = edges[edge]
        active = [mark for mark in (*active, *begin) if mark not in end]
    if at < len(text):
        yield _part(text[at:], active)


def _part(text: str, active: Sequence[Mark]) -> Part:
    if not active:
        return ["", "", text]
    numbers = sorted({mark.check for mark in active if mark.check})
    return [min(active, key=lambda mark: KINDS.index(mark.kind)).kind, ", ".join(map(str, numbers)), text]


def needle(words: str) -> re.Pattern[str] | None:
    """What is searched for as a pattern: the words as they stand, in any case; None for nothing."""
    return re.compile(re.escape(words), re.IGNORECASE) if words.strip() else None


def hits(pattern: re.Pattern[str] | None, text: str) -> Iterator[Mark]:
    """The places that a search found, at most `HITS`."""
    for _, found in zip(range(HITS), pattern.finditer(text) if pattern else (), strict=False):
        yield Mark(*found.span(), "hit")


def diff_words(left: str, right: str) -> list[Part] | None:
    """Two texts as one in parts: what both have, what only the left has (`del`), only the right (`ins`).

    Words are compared, the white space between them is not; what both have reads as on the right. None where
    a side has more than `WORDS` words. The longest common subsequence is found by bits (Hyyrö 2004), because
    its time is bounded whatever the texts are; difflib's is not.
    """
    before, after = _WORD.findall(left), _WORD.findall(right)
    if max(len(before), len(after)) > WORDS:
        return None
    parts: list[Part] = []
    for same, removed, added in _joined(_runs(before, after)):
        if same:
            parts.append(["", "", "".join(map(_spaced, removed, added))])
            continue
        if removed:
            parts.append(["del", "", "".join(removed)])
        if added:
            parts.append(["ins", "", "".join(added)])
    return parts


def _spaced(before: str, after: str) -> str:
    """A common word as on the right; with the space behind it that only the left may have."""
    return before if before[-1:].isspace() and not after[-1:].isspace() else after


Run = tuple[bool, list[str], list[str]]


def _runs(before: list[str], after: list[str]) -> list[Run]:
    """Stretches of both texts in turn alike and different."""
    pairs = _common([word.strip() for word in before], [word.strip() for word in after])
    runs: list[Run] = []
    i = j = 0
    for at, to in [*pairs, (len(before), len(after))]:
        if at > i or to > j:
            runs.append((False, before[i:at], after[j:to]))
        if at < len(before) or to < len(after):
            if runs and runs[-1][0]:
                runs[-1][1].append(before[at])
                runs[-1][2].append(after[to])
            else:
                runs.append((True, [before[at]], [after[to]]))
        i, j = at + 1, to + 1
    return runs


def _common(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """The places of a longest common subsequence in both."""
    head = 0
    while head < min(len(a), len(b)) and a[head] == b[head]:
        head += 1
    tail = 0
    while tail < min(len(a), len(b)) - head and a[-1 - tail] == b[-1 - tail]:
        tail += 1
    middle = _subsequence(a[head : len(a) - tail], b[head : len(b) - tail])
    return [
        *((at, at) for at in range(head)),
        *((head + at, head + to) for at, to in middle),
        *((len(a) - back, len(b) - back) for back in range(tail, 0, -1)),
    ]


def _subsequence(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    places: dict[str, int] = {}
    for at, word in enumerate(a):
        places[word] = places.get(word, 0) | 1 << at
    every = (1 << len(a)) - 1
    rows = [every]  # a bit of row j is 0 where one more word of `a` is common with the first j of `b`
    for word in b:
        row = rows[-1]
        found = row & places.get(word, 0)
        rows.append(((row + found) | (row - found)) & every)
    pairs = []
    i, j = len(a), len(b)
    while i and j:
        if a[i - 1] == b[j - 1]:
            i, j = i - 1, j - 1
            pairs.append((i, j))
        elif rows[j] >> (i - 1) & 1:
            i -= 1
        else:
            j -= 1
    return pairs[::-1]


def _joined(runs: list[Run]) -> list[Run]:
    """The same without a few common words between two longer changes, which would only tear them apart."""
    kept: list[Run] = []
    for at, run in enumerate(runs):
        same, removed, added = run
        if same:
            inside = 0 < at < len(runs) - 1
            joins = inside and _size(added) <= min(_longer(kept[-1]), _longer(runs[at + 1]))
        else:
            joins = bool(kept) and not kept[-1][0]
        if joins:
            kept[-1] = (False, kept[-1][1] + removed, kept[-1][2] + added)
        else:
            kept.append(run)
    return kept


def _longer(run: Run) -> int:
    return max(_size(run[1]), _size(run[2]))


def _size(words: Sequence[str]) -> int:
    return sum(map(len, words))
