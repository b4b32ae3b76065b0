"""The texts of a skill under work: what is in the editor, in the file, and kept as versions."""

from __future__ import annotations

from difflib import unified_diff
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .skill_file import SkillFile, plain
from .skill_text import SkillRemarks, check_skill, estimated_tokens
from .skills import read_skill
from .versions import Version, Versions

if TYPE_CHECKING:
    import polars as pl


class SkillTexts:
    """A skill's `text` as it is worked on, at first the file's; nothing goes into the file but by `save`.

    Versions are kept under `runs`. Raises SkillError where the file cannot be read.
    """

    def __init__(self, path: Path, runs: Path) -> None:
        self.path = path
        self._file = SkillFile(path)
        self.text = self._file.read()
        self._kept = Versions(runs, path)

    def check(self, text: str | None = None) -> SkillRemarks:
        """What is wrong with a text (None: the session's) and what is worth knowing of it, with places."""
        return check_skill(self.text if text is None else text, self.path)

    def save(self, text: str | None = None) -> Path:
        """Writes a text (None: the session's) to the SKILL.md, in one step, and keeps it as a version.

        Raises SkillChanged where others have changed the file since this session last read or saved it.
        """
        from filelock import FileLock

        taken = self._take(text)
        before = self._file.on_disk()
        if before is not None:
            self._keep(before)
        self._keep(taken)
        with FileLock(self._kept.folder / ".lock"):
            self._file.save(taken)
        return self.path

    def reload(self) -> str:
        """Takes the text that the file has now; the session's own is kept as a version. Raises SkillError."""
        text = self._file.read()
        self._keep(self.text)
        self.text = text
        return text

    @property
    def is_saved(self) -> bool:
        """True where the file holds the session's text."""
        return self._file.on_disk() == self.text

    @property
    def is_changed_outside(self) -> bool:
        """True where others have changed the file since this session last read or saved it."""
        return self._file.changed

    @property
    def versions(self) -> pl.DataFrame:
        """One row a kept text, oldest first.

        `version` is its name: the skill's hash, with a number behind it where another text has the same body.
        `kept` is when (UTC), `characters` count the whole text, `tokens_estimate` the body's at four characters a
        token; `saved` and `current` say which one the file and the session hold.
        """
        import polars as pl

        schema: dict[str, Any] = {
            "version": pl.String, "skill_hash": pl.String, "kept": pl.Datetime("ms", "UTC"), "name": pl.String,
            "characters": pl.Int64, "tokens_estimate": pl.Int64, "saved": pl.Boolean, "current": pl.Boolean,
        }  # fmt: skip
        disk = self._file.on_disk()
        rows = []
        for version in self._kept.all():
            text = self._kept.text_of(version)
            skill = read_skill(text, self.path)
            tokens = estimated_tokens(skill.body)
            here = (text == disk, text == self.text)
            rows.append((version.name, version.hash, version.kept_at, skill.name, len(text), tokens, *here))
        return pl.DataFrame(rows, schema=schema, orient="row")

    def text_of(self, version: str) -> str:
        """The whole text of a version, by its name or a clear beginning of it; raises InputError."""
        return self._kept.text_of(self._kept.find(version))

    def diff(self, version: str, other: str | None = None) -> str:
        """What `version` changed, as a unified diff: against `other`, or the version kept before it (None: nothing).

        Empty where both are the same. Raises InputError where there is no such version.
        """
        found = self._kept.find(version)
        every = self._kept.all()
        at = every.index(found)
        before = self._kept.find(other) if other is not None else every[at - 1] if at else None
        old = "" if before is None else self._kept.text_of(before)
        names = ("nothing" if before is None else before.name, found.name)
        lines = unified_diff(old.splitlines(), self._kept.text_of(found).splitlines(), *names, lineterm="")
        return "\n".join(lines)

    def go_back(self, version: str) -> str:
        """Takes the text of a version; the session's own is kept as a version first. The file stays as it is."""
        text = self.text_of(version)
        self._keep(self.text)
        self.text = text
        return text

    def keep_draft(self) -> None:
        """Puts the text where a crash cannot take it, unless the file or a version holds it."""
        known = self.is_saved or any(
            self._kept.text_of(version) == self.text
            for version in self._kept.all()
            if version.hash == read_skill(self.text, self.path).hash
        )
        if known or not self.text.strip():
            self._kept.drop_draft()
        else:
            self._kept.keep_draft(self.text)

    def adopt_drafts(self) -> list[str]:
        """Makes versions of what earlier editors of this skill left unsaved; the names of those."""
        return [version.name for version in self._kept.adopt_drafts()]

    def _take(self, text: str | None) -> str:
        if text is not None:
            self.text = plain(text)
        return self.text

    def _keep(self, text: str) -> Version | None:
        return self._kept.keep(text) if text.strip() else None

    def keep(self) -> str | None:
        """Keeps the text as a version, by whose name it is found again; None where there is nothing to keep."""
        version = self._keep(self.text)
        return None if version is None else version.name
