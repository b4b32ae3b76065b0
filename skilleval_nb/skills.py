"""Reading a SKILL.md: what is injected, what is only described, and what identifies it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import Problem, SkillError

FENCE = re.compile(r"^---[ \t]*$", re.MULTILINE)
DESCRIPTION_LIMIT = 1024


@dataclass(frozen=True)
class Skill:
    r"""A skill as read from its file.

    `body` is what a run injects: the text after the first closing fence, trimmed, line ends as `\n`.
    `hash` (16 hex digits) identifies the body, `file_hash` the whole file. `name` and `description` come
    from the frontmatter and are None where it has none. `notes` are oddities that were read around.
    """

    path: Path
    body: str
    name: str | None = None
    description: str | None = None
    frontmatter: Mapping[str, Any] = field(default_factory=dict, repr=False)
    notes: tuple[str, ...] = ()
    file_hash: str = ""

    @property
    def hash(self) -> str:
        """16 hex digits over the body."""
        return _digest(self.body)

    def __repr__(self) -> str:
        """Short enough for a cell's output."""
        return f"Skill({self.name or self.path.parent.name!r}, {len(self.body)} characters, hash {self.hash})"


def load_skill(path: str | Path) -> Skill:
    """Reads a SKILL.md, or the one in the folder `path`.

    A byte-order mark, CRLF line ends, an unclosed fence and broken YAML are read around and noted.
    Raises SkillError where there is no such file or it is not UTF-8 text.
    """
    file = Path(path)
    if file.is_dir():
        file = next(
            (file / name for name in ("SKILL.md", "skill.md") if (file / name).is_file()), file / "SKILL.md"
        )
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except OSError as error:
        raise SkillError(Problem(str(path), f"no skill can be read here ({error.strerror})")) from None
    except UnicodeDecodeError as error:
        raise SkillError(
            Problem(str(path), f"not UTF-8 text (byte {error.start})", "save it as UTF-8")
        ) from None
    return read_skill(text, file)


def read_skill(text: str, path: Path) -> Skill:
    """The skill that `text` would be as the file `path`; reads nothing from disk."""
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    notes: list[str] = []
    head, body = split_text(text, notes)
    frontmatter = _frontmatter(head, notes) if head is not None else {}
    name, description = frontmatter.get("name"), frontmatter.get("description")
    name = name if isinstance(name, str) else None
    description = description.strip() if isinstance(description, str) else None
    if head is not None and name is None:
        notes.append("the frontmatter has no name")
    if head is not None and not description:
        notes.append("the frontmatter has no description: no host will find this skill by itself")
    if description and len(description) > DESCRIPTION_LIMIT:
        notes.append(f"the description has {len(description)} characters; hosts read {DESCRIPTION_LIMIT}")
    if name is not None and path.name.lower() == "skill.md" and path.parent.name not in ("", name):
        notes.append(f"the name {name!r} is not the folder's name {path.parent.name!r}")
    return Skill(path, body.strip(), name, description, frontmatter, tuple(notes), _digest(text))


def split_text(text: str, notes: list[str]) -> tuple[str | None, str]:
    """Frontmatter and body; frontmatter None where there is none. What is odd goes into `notes`."""
    opening = FENCE.match(text)
    if not opening:
        notes.append("no frontmatter: the whole file is the body")
        return None, text
    closing = FENCE.search(text, opening.end())
    if not closing:
        notes.append("the frontmatter is not closed by a line `---`: the whole file is the body")
        return None, text
    return text[opening.end() : closing.start()], text[closing.end() :]


def _frontmatter(head: str, notes: list[str]) -> dict[str, Any]:
    import yaml

    try:
        loaded = yaml.safe_load(head)
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a date that is none, a thousand brackets
        mark = getattr(error, "problem_mark", None)
        line = f" (line {mark.line + 1} of the file)" if mark else ""
        notes.append(f"the frontmatter is not valid YAML{line}: name and description were read line by line")
        pairs = re.findall(r"^(name|description):[ \t]*(.+?)[ \t]*$", head, re.MULTILINE)
        return {key: value.strip("\"'") for key, value in pairs}
    if loaded is None:
        return {}
    if not isinstance(loaded, dict):
        notes.append("the frontmatter is not a list of `key: value` lines")
        return {}
    return {str(key): value for key, value in loaded.items()}


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
