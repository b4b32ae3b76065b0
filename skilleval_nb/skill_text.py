"""What is wrong with the text of a skill, and what is worth knowing of it, each with its place; for an editor.

The rules are those of agentskills.io. Nothing is read from disk, and nothing is called.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .controls import visible
from .errors import Problem
from .gate import counted
from .skills import DESCRIPTION_LIMIT, FENCE, Skill, read_skill, split_text

NAME_LIMIT = 64
BODY_LINES = 500
BODY_TOKENS = 5_000
CHARACTERS_A_TOKEN = 4
FRONTMATTER = "frontmatter"


@dataclass(frozen=True)
class SkillRemarks:
    """What `check_skill` found in a text, and the `skill` that it would be.

    `problems` are what a host refuses or reads in another way than it is meant, `remarks` are advice. `stops` are
    those of the problems with which there is nothing to run.
    """

    skill: Skill
    characters: int
    problems: tuple[Problem, ...] = ()
    remarks: tuple[Problem, ...] = ()
    stops: tuple[Problem, ...] = ()

    @property
    def tokens_estimate(self) -> int:
        """The body's tokens at four characters a token: an estimate, not a count."""
        return estimated_tokens(self.skill.body)

    @property
    def size(self) -> str:
        """The size in words."""
        return (
            f"{counted(self.characters, 'character')}; the body, which a run injects, has {len(self.skill.body):,},"
            f" about {counted(self.tokens_estimate, 'token')} (estimated at {CHARACTERS_A_TOKEN} characters a token)"
        )

    def lines(self) -> list[str]:
        """Everything in words, one line each; the size comes last."""
        said = [f"problem: {one}" for one in self.problems] + [f"remark: {one}" for one in self.remarks]
        return [" ".join(visible(line).splitlines()) for line in [*said, self.size]]

    def __str__(self) -> str:
        """The lines."""
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        """The same as text."""
        return str(self)


def estimated_tokens(text: str) -> int:
    """Tokens at four characters a token, rounded up: an estimate, not a count."""
    return -(-len(text) // CHARACTERS_A_TOKEN)


def check_skill(text: str, path: Path) -> SkillRemarks:
    """Looks at a text as the file `path`, which it does not read; only its name and its folder's count."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    skill = read_skill(text, path)
    stops = list(_stops(text, skill))
    head, _ = split_text(text, [])
    problems = list(_problems_of_head(head, skill, path)) if head is not None else list(_no_head(text))
    return SkillRemarks(skill, len(text), (*stops, *problems), tuple(_remarks(text, skill)), tuple(stops))


def _stops(text: str, skill: Skill) -> Iterator[Problem]:
    if FENCE.match(text) and split_text(text, [])[0] is None:
        what = "is not closed: hosts find no skill here, and a run would inject it as part of the body"
        yield Problem(f"line 1 → {FRONTMATTER}", what, "end it with a line `---`")
    if not skill.body:
        yield Problem("body", "is empty, so there is nothing to inject", "write what the model is to do")
    for number, line in enumerate(text.split("\n"), 1):
        if any("\ud800" <= letter <= "\udfff" for letter in line):
            yield Problem(f"line {number}", "holds half a character, which no file can keep", "delete it")
            return


def _no_head(text: str) -> Iterator[Problem]:
    if FENCE.match(text):
        return  # it is there, and not closed
    fix = "begin the file with a line `---`, `name: …`, `description: …` and a line `---`"
    if FENCE.match(text.lstrip()):
        fix = "delete what stands before the first `---`: it must be the file's first line"
    yield Problem(f"line 1 → {FRONTMATTER}", "is missing: no host takes this file for a skill", fix)


def _problems_of_head(head: str, skill: Skill, path: Path) -> Iterator[Problem]:
    import yaml

    try:
        node = yaml.compose(head, Loader=yaml.SafeLoader)
        yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        yield _broken(error)
        return
    if node is not None and not isinstance(node, yaml.MappingNode):
        what = "is not a list of `key: value` lines"
        yield Problem(f"line {node.start_mark.line + 1} → {FRONTMATTER}", what, "write `name: …` first")
        return
    places: dict[str, int] = {}
    for key, _ in node.value if node is not None else ():
        name = str(key.value)
        if name in places:
            where = f"line {key.start_mark.line + 1} → {name}"
            yield Problem(where, f"stands in line {places[name]} too: one of the two is lost", "delete one")
        places[name] = key.start_mark.line + 1
    yield from _problems_of_name(skill.frontmatter, places, path)
    yield from _problems_of_description(skill.frontmatter, places)


def _broken(error: Exception) -> Problem:
    mark = getattr(error, "problem_mark", None)
    where = f"line {mark.line + 1}, column {mark.column + 1}" if mark else FRONTMATTER
    detail = str(getattr(error, "problem", None) or error).splitlines()[0]
    fix = "put the value in quotes"
    if "mapping values are not allowed" in detail:
        fix = 'put the value in quotes: it holds ": "'
    return Problem(where, f"is not valid YAML ({detail})", fix)


def _problems_of_name(found: Mapping[str, Any], places: Mapping[str, int], path: Path) -> Iterator[Problem]:
    where = f"line {places['name']} → name" if "name" in places else f"{FRONTMATTER} → name"
    name = found.get("name")
    folder = path.parent.name if path.name.lower() == "skill.md" else ""
    if name is None or name == "":
        yield Problem(where, "is missing", f"add `name: {folder or 'my-skill'}`")
        return
    if not isinstance(name, str):
        yield Problem(where, f"is {name!r}, which YAML takes for no text", "put it in quotes")
        return
    name = unicodedata.normalize("NFKC", name)
    if len(name) > NAME_LIMIT:
        yield Problem(where, f"has {len(name)} characters; hosts take {NAME_LIMIT}", "shorten it")
    odd = dict.fromkeys(letter for letter in name if not (letter.isalnum() or letter == "-"))
    if odd:
        what = f"holds {' '.join(map(repr, list(odd)[:5]))}: only letters, digits and hyphens are taken"
        yield Problem(where, what, "write hyphens instead")
    if name != name.lower():
        yield Problem(where, "has capital letters; hosts take none", f"write {name.lower()}")
    if name.startswith("-") or name.endswith("-") or "--" in name:
        yield Problem(where, "begins or ends with a hyphen, or has two in a row", "use single ones inside")
    if folder and name != unicodedata.normalize("NFKC", folder):
        what = f"is {name!r}, but the folder is {folder!r}: hosts want them alike"
        yield Problem(where, what, f"write {folder}, or rename the folder")


def _problems_of_description(found: Mapping[str, Any], places: Mapping[str, int]) -> Iterator[Problem]:
    line = places.get("description")
    where = f"line {line} → description" if line else f"{FRONTMATTER} → description"
    text = found.get("description")
    if text is None or (isinstance(text, str) and not text.strip()):
        what = "is missing: no host finds this skill by itself"
        yield Problem(where, what, "say what the skill does and when to use it")
    elif not isinstance(text, str):
        yield Problem(where, f"is {text!r}, which YAML takes for no text", "put it in quotes")
    elif len(text.strip()) > DESCRIPTION_LIMIT:
        what = f"has {len(text.strip()):,} characters; hosts read {DESCRIPTION_LIMIT:,}"
        yield Problem(where, what, "shorten it")


def _remarks(text: str, skill: Skill) -> Iterator[Problem]:
    lines, tokens = skill.body.count("\n") + 1, estimated_tokens(skill.body)
    if lines > BODY_LINES or tokens > BODY_TOKENS:
        what = f"has {counted(lines, 'line')} and about {counted(tokens, 'token')}, which every use of the skill takes"
        fix = (
            f"stay below {BODY_LINES} lines and {BODY_TOKENS:,} tokens: move details into files of their own"
        )
        yield Problem("body", what, fix)
    for number, line in enumerate(text.split("\n"), 1):
        if (seen := visible(line)) != line:
            what = "holds characters that nobody sees, or terminal sequences"
            fix = f"delete them if they are not meant: {seen[:80]}"
            yield Problem(f"line {number}", what, fix)
            return
