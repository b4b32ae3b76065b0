"""The sections of a skill: what stands under each of its headings, and the skill without it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, count

from .controls import visible
from .paths import condition_stem

NAME_LIMIT = 60
"""The most characters of a condition's name."""
WITHOUT = "without:"


@dataclass(frozen=True)
class Section:
    """A heading of a Markdown text and all below it, up to the next heading of its level or a higher one.

    `label` tells it from the others: the heading as it is written, cut where it is long, numbered where several
    read alike. `level` is from 1 to 6. It is the lines from `begin` up to `end` of `lines`, the whole text.
    """

    heading: str
    label: str
    level: int
    begin: int
    end: int
    lines: Sequence[str] = field(repr=False)

    @property
    def condition(self) -> str:
        """The condition that leaves it out."""
        return f"{WITHOUT}{self.label}"

    @property
    def text(self) -> str:
        """The section itself, trimmed."""
        return "\n".join(self.lines[self.begin : self.end]).strip()

    @property
    def rest(self) -> str:
        """The whole text without it, trimmed."""
        return "\n".join([*self.lines[: self.begin], *self.lines[self.end :]]).strip()


def sections_of(body: str) -> list[Section]:
    """Every section in order, those inside others too; what stands in code, quotes, lists or HTML is no heading."""
    from markdown_it import MarkdownIt

    tokens = MarkdownIt("commonmark").disable("inline").parse(body)
    found = [
        (int(token.tag[1]), token.map[0], tokens[at + 1].content)
        for at, token in enumerate(tokens)
        if token.type == "heading_open" and token.level == 0 and token.map
    ]
    lines = body.split("\n")
    headings = [_said(heading) for _, _, heading in found]
    ends: list[int] = []
    open_end: dict[int, int] = {}  # where the next heading of each level begins
    for level, begin, _ in reversed(found):
        ends.append(min((at for other, at in open_end.items() if other <= level), default=len(lines)))
        open_end[level] = begin
    return [
        Section(heading, label, level, begin, end, lines)
        for heading, label, (level, begin, _), end in zip(
            headings, _labels(headings), found, reversed(ends), strict=True
        )
    ]


def named_section(sections: Sequence[Section], name: str) -> Section | None:
    """The one section with this label, else with this heading; None where there is none or more than one."""
    for known in ([s for s in sections if s.label == name], [s for s in sections if s.heading == name]):
        if known:
            return known[0] if len(known) == 1 else None
    return None


def top_level(sections: Sequence[Section]) -> int | None:
    """The highest level with several sections, else with one that is not the whole text; None where there is none."""
    counts = Counter(section.level for section in sections)
    several = [level for level, count in counts.items() if count > 1]
    partial = [section.level for section in sections if section.rest]
    return min(several or partial, default=None)


def _said(heading: str) -> str:
    return " ".join(visible(heading).split()) or "untitled"


def _labels(headings: Sequence[str]) -> list[str]:
    """A label a heading, no two of which would share a file."""
    often, stems = Counter(headings), Counter(_stem(_label(heading)) for heading in headings)
    taken = {stem for stem, times in stems.items() if times == 1}
    numbers: dict[str, Iterator[int]] = {}
    labels = []
    for heading in headings:
        label = _label(heading)
        if stems[_stem(label)] > 1:
            free = numbers.setdefault(heading, count(1) if often[heading] > 1 else chain([0], count(2)))
            label = next(label for number in free if _stem(label := _label(heading, number)) not in taken)
            taken.add(_stem(label))
        labels.append(label)
    return labels


def _label(heading: str, number: int = 0) -> str:
    suffix = f" ({number})" if number else ""
    room = NAME_LIMIT - len(WITHOUT) - len(suffix)
    return (heading if len(heading) <= room else f"{heading[: room - 1].rstrip()}…") + suffix


def _stem(label: str) -> str:
    """What file systems would take for the same name."""
    return condition_stem(f"{WITHOUT}{label}").casefold()
