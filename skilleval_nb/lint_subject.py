"""What a rule of lint is given and what it says: a set with its skill, and findings."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property

from .cases import Case, Check, EvalSet, PatternCheck, RegexCheck, TextCheck
from .controls import visible
from .phrases import line_of, marked, prose
from .skills import Skill

_OPENS = re.compile(
    r"\b(?:begin|start|open)(?:s|ning)?\b[^.\n]{0,30}\bwith\b|\bfirst (?:line|word|sentence)\b|\bno preamble\b"
    r"|\b(?:only|just) (?:reply|answer|output|return)\b"
    r"|\b(?:reply|answer|output|return)\b[^.\n]{0,20}\b(?:only|nothing else)\b",
    re.IGNORECASE,
)
_GUARD = re.compile(
    r"(?:^|[^a-z])(?:guard|negative|neg|control|unrelated|off-?topic|no-?op|untouched)(?:[^a-z]|$)",
    re.IGNORECASE,
)
_ANCHORED = re.compile(r"\^(?:\(\?:|\()?\\?[\w*#_]")


@dataclass(frozen=True, slots=True)
class Lint:
    """One finding: the rule's name, where (cases and checks, or the set), what is doubtful, and what to do."""

    rule: str
    place: str
    what: str
    fix: str

    def __str__(self) -> str:
        line = f"{self.rule} · {self.place}: {self.what} — {self.fix}"
        return " ".join(visible(line).splitlines())


@dataclass(frozen=True)
class Subject:
    """A set and its skill, read once for all rules; `skill` None: there is none to compare with."""

    eval_set: EvalSet
    skill: Skill | None

    @property
    def cases(self) -> tuple[Case, ...]:
        """The set's cases."""
        return self.eval_set.cases

    def checks(self) -> Iterator[tuple[Case, Check, str]]:
        """Every check with its case and its place in words."""
        for case in self.cases:
            for number, check in enumerate(case.checks, 1):
                yield case, check, place_of(case, number)

    @cached_property
    def said(self) -> str:
        """All words of the skill's body."""
        return line_of(self.skill.body) if self.skill else ""

    @cached_property
    def shown(self) -> tuple[str, ...]:
        """The words of what the skill's body shows word for word."""
        return tuple(map(line_of, marked(self.skill.body))) if self.skill else ()

    @cached_property
    def opens(self) -> bool:
        """True where the skill itself says how an answer begins, or that it holds nothing else."""
        return self.skill is not None and _OPENS.search(prose(self.skill.body)) is not None

    @cached_property
    def usual(self) -> Check | None:
        """The check that half of the cases have, at least three of them; None where they have none in common."""
        found = Counter(
            check for case in self.cases for check in dict.fromkeys(case.checks) if not is_ban(check)
        )
        for check, number in found.most_common(1):
            return check if number >= max(3, len(self.cases) / 2) else None
        return None

    def stays_away(self, case: Case) -> bool:
        """True for what looks like a case where the skill should change nothing."""
        if _GUARD.search(case.id):
            return True
        return self.usual is not None and self.usual not in case.checks


Rule = Callable[[Subject], Iterator[Lint]]


def place_of(case: Case, number: int) -> str:
    """A check's place in words; checks are numbered from 1, as in reports."""
    return f"{case.id} check {number}"


def is_ban(check: Check) -> bool:
    """True for a check that passes where something is not there."""
    return getattr(check, "negated", False) or (isinstance(check, PatternCheck) and check.kind == "excludes")


def begins(check: Check) -> bool:
    """True for a check that looks only at how the answer begins."""
    match check:
        case PatternCheck(kind="verdict"):
            return True
        case TextCheck(kind="starts_with", negated=False):
            return True
        case PatternCheck(kind="includes", pattern=pattern) | RegexCheck(pattern=pattern, negated=False):
            return "m" not in pattern.flags and _ANCHORED.match(pattern.source) is not None
    return False


def together(places: list[str], most: int = 4) -> str:
    """Several places in one, the rest counted."""
    more = f" and {len(places) - most:,} more" if len(places) > most else ""
    return f"{', '.join(places[:most])}{more}"
