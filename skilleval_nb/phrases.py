"""Words in common: what a pattern says literally, and whether a text says it too.

All of it is approximate on purpose, and errs on the side of finding nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product

MOST = 64
"""The most ways to read a pattern that are followed."""
_GAP = "\0"
_WORD = re.compile(r"\w+(?:'\w+)*")
_NEGATION = re.compile(
    r"\b(?:no|not|non|never|nothing|without|neither|nor|avoid\w*|except|instead|rather|than|refus\w+|fails?|forbid\w*"
    r"|ban(?:s|ned)?|skip|omit|remove|stop|cannot|\w+n't)\b",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"[.!?:;]\s|\n\s*\n|\n\s*[-*\d]")
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)([^\n]*)\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`([^`\n]+)`|\"([^\"\n]+)\"|“([^”\n]+)”")


def words(text: str) -> list[str]:
    """The words of a text, small letters, without marks; hyphens part words."""
    return _WORD.findall(text.lower().replace("’", "'"))


def line_of(text: str) -> str:
    """The words of a text, each between spaces, so that a phrase is found by `in`."""
    return f" {' '.join(words(text))} "


def phrases(text: str) -> list[str]:
    """A pattern's alternative as the phrases between its gaps, in the form of `line_of`."""
    return [line for part in text.split(_GAP) if (line := line_of(part)).strip()]


def prose(markdown: str) -> str:
    """A Markdown text without its fenced blocks."""
    return _FENCE.sub("\n\n", markdown)


def marked(markdown: str) -> list[str]:
    """What a Markdown text shows word for word: code spans, quotations, and blocks that are in no language."""
    blocks = [
        block[3] for block in _FENCE.finditer(markdown) if block[2].strip() in ("", "text", "markdown", "md")
    ]
    spans = (next(filter(None, span.groups())) for span in _SPAN.finditer(prose(markdown)))
    return [*blocks, *spans]


def is_negated(text: str, at: int) -> bool:
    """True where the sentence around `at` says no before it: what follows is banned, not asked for."""
    before = text[max(0, at - 300) : at]
    ends = [end.end() for end in _SENTENCE_END.finditer(before)]
    return _NEGATION.search(before[ends[-1] if ends else 0 :].replace("’", "'")) is not None


def alternatives(source: str) -> list[str]:
    r"""What a pattern can be satisfied by, as far as it is literal; gaps stand for all that is not.

    `(red[- ]?capable|root\s+cause): \d+` gives `red capable: ␀` and `root cause: ␀`. Empty where there are
    more than MOST, or where the pattern is not understood.
    """
    try:
        reader = _Reader(source)
        found = reader.either()
    except (IndexError, ValueError, RecursionError):
        return []
    return [] if reader.at < len(source) or len(found) > MOST else found


class _Reader:
    """A regular expression read from left to right; raises ValueError or IndexError where it cannot be."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.at = 0

    def either(self) -> list[str]:
        """All branches up to the end or a closing bracket."""
        found = self.branch()
        while self.at < len(self.source) and self.source[self.at] == "|":
            self.at += 1
            found = [*found, *self.branch()]
        return found

    def branch(self) -> list[str]:
        found = [""]
        for piece in self._pieces():
            found = [before + after for before, after in product(found, piece)]
            if len(found) > MOST:
                raise ValueError("too many readings")
        return found

    def _pieces(self) -> Iterator[list[str]]:
        while self.at < len(self.source) and self.source[self.at] not in "|)":
            letter = self.source[self.at]
            self.at += 1
            if letter == "(":
                piece = self._group()
            elif letter == "[":
                piece = [self._class()]
            elif letter == "\\":
                piece = [self._escape()]
            else:
                piece = [{".": _GAP, "^": "", "$": ""}.get(letter, letter)]
            yield self._repeated(piece, letter)

    def _group(self) -> list[str]:
        look = re.compile(r"\?(?:<?[=!])").match(self.source, self.at)
        if head := re.compile(r"\?(?:<?[=!]|[:>]|P?<\w+>|[a-z-]+:)").match(self.source, self.at):
            self.at = head.end()
        elif self.source[self.at] == "?":
            raise ValueError("a rare kind of group")
        found = self.either()
        self._take(")")
        return [_GAP] if look else found

    def _take(self, letter: str) -> None:
        if self.source[self.at] != letter:
            raise ValueError(f"no {letter}")
        self.at += 1

    def _class(self) -> str:
        body = re.compile(r"\^?\]?(?:\\.|[^\]\\])*").match(self.source, self.at)
        assert body is not None  # it also matches nothing
        self.at = body.end()
        self._take("]")
        letters = body[0].replace("\\s", " ")
        return " " if letters and set(letters) <= set("-_ .\\t") and " " in letters else _GAP

    def _escape(self) -> str:
        letter = self.source[self.at]
        self.at += 1
        if letter in "bB":
            return ""
        if letter in "sntr":
            return " "
        return _GAP if letter.isalnum() else letter

    def _repeated(self, piece: list[str], first: str) -> list[str]:
        """The piece as its quantifier leaves it: what may be left out is not what is looked for."""
        mark = re.compile(r"[*+?]|\{\d*,?\d*\}").match(self.source, self.at)
        if mark is None:
            return piece
        self.at = mark.end()
        if self.source[self.at : self.at + 1] in ("?", "+"):
            self.at += 1
        if not mark[0].startswith(("*", "?", "{0", "{,")) or piece == [" "]:
            return piece
        if mark[0] == "?" and first not in "([" and len(piece[0]) == 1:
            return piece  # a letter or sign that may be left out: the fuller form is the usual one
        return [_GAP] if first in "([" or piece == [_GAP] else [""]
