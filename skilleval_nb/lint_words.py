"""Rules about words in common: checks that ban what an answer may quote, or that only the skill's own words pass."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .cases import Case, Check, JudgeCheck, PatternCheck, RegexCheck, TextCheck
from .lint_subject import Lint, Subject, is_ban, place_of
from .patterns import search_each_now
from .phrases import alternatives, is_negated, line_of, phrases, prose, words
from .skills import Skill

LEAKED_WORDS = 6
"""So many words in a row are no chance."""
_TOLD = re.compile(
    r"\b(?:say|reply|answer|respond|write|quote|ask|state|end|begin|start|close)\b[^.\n\"“`]{0,30}"
    r"(?:\"([^\"\n]+)\"|“([^”\n]+)”|`([^`\n]+)`)",
    re.IGNORECASE,
)


def quotable(subject: Subject) -> Iterator[Lint]:
    """A right answer may quote what a check bans: the prompt, the rubric, or what the skill tells it to say."""
    told = _told(subject.skill)
    pairs: list[tuple[Check, str]] = []
    wheres: list[tuple[str, str]] = []
    for case in subject.cases:
        rubrics = "\n\n".join(check.rubric for check in case.checks if isinstance(check, JudgeCheck))
        sources = {"the prompt says": case.prompt, "the rubric asks for": rubrics}
        if not subject.stays_away(case):
            sources["the skill says to write"] = told
        for number, check in enumerate(case.checks, 1):
            for where, text in sources.items() if is_ban(check) else ():
                pairs.append((check, text))
                wheres.append((place_of(case, number), where))
    for (place, where), (_, text), found in zip(wheres, pairs, _places(pairs), strict=True):
        if found is not None and (said := _quoted(text, *found)):
            what = f'{where} "{said}", which this check bans: a right answer may quote it'
            fix = "ban only what no right answer can hold, or leave it to a judge"
            yield Lint("excludes-quotable", place, what, fix)


def _told(skill: Skill | None) -> str:
    """What a skill tells the model to write, quotation by quotation."""
    if skill is None:
        return ""
    text = prose(skill.body)
    found = [span for span in _TOLD.finditer(text) if not is_negated(text, span.end())]
    return "\n\n".join(next(filter(None, span.groups())) for span in found)


def _places(pairs: Sequence[tuple[Check, str]]) -> list[tuple[int, int] | None]:
    """Where each check's pattern or plain text stands in its text; None for kinds that look for neither."""
    searched = [(c.pattern, text) for c, text in pairs if isinstance(c, PatternCheck | RegexCheck)]
    found = iter(search_each_now(searched) if searched else [])
    return [
        next(found).span if isinstance(check, PatternCheck | RegexCheck) else _place(check, text)
        for check, text in pairs
    ]


def _place(check: Check, text: str) -> tuple[int, int] | None:
    if not isinstance(check, TextCheck) or check.kind not in ("contains", "icontains"):
        return None
    flags = re.IGNORECASE if check.kind == "icontains" else 0
    found = re.search(re.escape(check.value), text, flags)
    return found and found.span()


def _quoted(text: str, start: int, end: int) -> str | None:
    """What is found, in whole words; None where it is not prose of two words or more, or is named to be banned."""
    while start > 0 and text[start - 1].isalnum() and text[start].isalnum():
        start -= 1
    while end < len(text) and text[end].isalnum() and text[end - 1].isalnum():
        end += 1
    said = " ".join(text[start:end].split())
    is_prose = len(words(said)) >= 2 and len(said) <= 60 and any(len(word) > 2 for word in words(said))
    return said if is_prose and not is_negated(text, start) else None


def echo(subject: Subject) -> Iterator[Lint]:
    """A check that only the skill's own wording passes tests that wording, not what the skill is for."""
    for case, check, place in subject.checks():
        if subject.skill is not None and not is_ban(check) and (own := _own_words(check, case, subject)):
            shown = ", ".join(f'"{said}"' for said in own)
            what = (
                f"only words of the skill itself pass it ({shown}): it tests the wording, not the behaviour"
            )
            fix = "check for what the skill is to bring about, which an answer can do in other words"
            yield Lint("skill-echo", place, what, fix)


def _own_words(check: Check, case: Case, subject: Subject) -> list[str]:
    """What a check looks for, where all of it is the skill's own wording and the prompt has none; else nothing."""
    match check:
        case PatternCheck(pattern=pattern) | RegexCheck(pattern=pattern):
            readings = alternatives(pattern.source)
        case TextCheck(value=value):
            readings = [value]
        case _:
            return []
    prompt = line_of(case.prompt)
    found = [phrases(reading) for reading in readings]
    if not all(
        parts and all(_is_own(part, subject) and part not in prompt for part in parts) for parts in found
    ):
        return []
    own = list(dict.fromkeys(" ".join("".join(parts).split()) for parts in found))
    size = sum(len(reading.split()) for reading in own)
    return own if size >= (2 if len(own) == 1 else 3) else []  # a single word may be the behaviour itself


def _is_own(phrase: str, subject: Subject) -> bool:
    """True for what the skill shows word for word, or for three words or more in a row of it."""
    return any(phrase in shown for shown in subject.shown) or (
        len(phrase.split()) >= 3 and phrase in subject.said
    )


def leaks(subject: Subject) -> Iterator[Lint]:
    """A prompt that holds the skill's name or its own words gives the baseline a part of the skill."""
    skill = subject.skill
    if skill is None:
        return
    runs = _runs(prose(skill.body))
    name = skill.name or ""
    for case in subject.cases:
        fix = "ask as somebody would who does not know the skill"
        if _names(name, case.prompt):
            what = f'the prompt names the skill ("{name}"), also to the baseline'
            yield Lint("prompt-leaks-skill", case.id, what, fix)
        elif shared := next((run for run in _runs(prose(case.prompt)) if run in runs), None):
            what = f'the prompt holds words of the skill ("{" ".join(shared)}"), which the baseline reads too'
            yield Lint("prompt-leaks-skill", case.id, what, fix)


def _runs(text: str) -> dict[tuple[str, ...], None]:
    """Every run of LEAKED_WORDS words of which three or more mean something, in their order."""
    found = words(text)
    runs = (tuple(found[at : at + LEAKED_WORDS]) for at in range(len(found) - LEAKED_WORDS + 1))
    return dict.fromkeys(run for run in runs if len({word for word in run if len(word) > 3}) >= 3)


def _names(name: str, prompt: str) -> bool:
    """True where a prompt has a skill's name as such: as a command, called a skill, or too long for everyday words."""
    if not name:
        return False
    plain = rf"[\"'`]?{re.escape(name)}[\"'`]?(?![\w-])"
    forms = [
        rf"(?<![\w/.])[/$]{plain}",
        rf"\b(?:the|use|using|with|your|apply|load) {plain} skill\b",
        rf"\bskill[ :]+{plain}",
    ]
    forms += [rf"(?<![\w-]){plain}"] if name.count("-") >= 2 else []
    return re.search("|".join(forms), prompt, re.IGNORECASE) is not None
