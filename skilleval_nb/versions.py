"""The texts that a skill has had: whole files under `runs/versions/<skill>/`, each written once and never changed.

runs/versions/<skill>/<hash>.md       the first text with this body; the hash is the skill's, as in the log
runs/versions/<skill>/<hash>-2.md     the same body under another frontmatter
runs/versions/<skill>/draft-….md      what an open editor holds; kept as a version when the next one opens
"""

from __future__ import annotations

import os
import re
import secrets
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from .errors import InputError, Problem
from .folder import make_runs_dir
from .paths import file_stem
from .skills import Skill, load_skill, read_skill

FOLDER = "versions"
_NAME = re.compile(r"([0-9a-f]{16})(?:-[1-9][0-9]*)?")
_SHOWN = 10


@dataclass(frozen=True, slots=True)
class Version:
    """One kept text: `name` is what it is asked for by, `hash` the skill's hash, which the log knows it by."""

    name: str
    path: Path
    kept_at: datetime

    @property
    def hash(self) -> str:
        """16 hex digits over the body."""
        return self.name.partition("-")[0]


class Versions:
    """The kept texts of one skill, named after its folder (or its file, if that is no SKILL.md)."""

    def __init__(self, runs: Path, skill: Path) -> None:
        own = skill.parent.name if skill.name.lower() == "skill.md" else skill.stem
        self._runs = runs
        self._skill = skill
        self.folder = runs / FOLDER / (file_stem(own) or "skill")
        self._draft = self.folder / f"draft-{secrets.token_hex(4)}.md"

    def keep(self, text: str) -> Version:
        """The version with this text, written now if there is none; raises InputError where that cannot be."""
        known = {version.name: version for version in self.all()}
        for name in _names(read_skill(text, self._skill)):
            if name not in known:
                self._write(self.folder / f"{name}.md", text)
                known[name] = _version(self.folder / f"{name}.md")
            if self.text_of(known[name]) == text:  # another process may have been faster, with another text
                return known[name]
        raise AssertionError("there is always another name")

    def all(self) -> list[Version]:
        """Every version, in the order in which they were kept."""
        found = [
            _version(path)
            for path in self.folder.glob("*.md")
            if _NAME.fullmatch(path.stem) and path.is_file()
        ]
        return sorted(found, key=lambda version: (version.path.stat().st_mtime_ns, version.name))

    def find(self, name: str) -> Version:
        """The version of a name, or of its beginning if that is clear; raises InputError."""
        every = self.all()
        found = [version for version in every if version.name == name] or [
            version for version in every if name and version.name.startswith(name)
        ]
        if len({version.hash for version in found}) == 1:
            return found[0]
        names = ", ".join(version.name for version in reversed(every[-_SHOWN:]))
        what = (
            f"is kept {len(found)} times by this beginning" if found else "is no kept version of this skill"
        )
        raise InputError(Problem(repr(name), what, f"kept are {names}" if every else "nothing is kept yet"))

    def text_of(self, version: Version) -> str:
        """The whole text, frontmatter and all; raises InputError where it cannot be read any more."""
        try:
            return version.path.read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(Problem(str(version.path), f"cannot be read ({error})")) from None

    def skill_of(self, version: Version) -> Skill:
        """The version as a skill; raises SkillError."""
        return load_skill(version.path)

    def keep_draft(self, text: str) -> None:
        """Puts what an editor holds where a crash cannot take it; the next call replaces it."""
        with self._written(text) as part:
            part.replace(self._draft)

    def drop_draft(self) -> None:
        """Forgets the draft, whose text is kept elsewhere by now."""
        self._draft.unlink(missing_ok=True)

    def adopt_drafts(self) -> list[Version]:
        """Makes versions of the drafts that editors have left behind, one that is open now included."""
        adopted = []
        for path in sorted(self.folder.glob("draft-*.md")):
            with suppress(OSError, UnicodeDecodeError):
                adopted.append(self.keep(path.read_bytes().decode("utf-8")))
                path.unlink()
        return adopted

    def _write(self, path: Path, text: str) -> None:
        """A new file, whole or not at all, later than all that are there; one that exists is left as it is."""
        with self._written(text) as part:
            newest = max((version.path.stat().st_mtime_ns for version in self.all()), default=0)
            if part.stat().st_mtime_ns <= newest:
                os.utime(part, ns=(newest + 1_000_000, newest + 1_000_000))
            try:
                path.hardlink_to(part)
            except FileExistsError:
                return
            except OSError:  # a file system without links
                if not path.exists():
                    part.replace(path)

    @contextmanager
    def _written(self, text: str) -> Iterator[Path]:
        """A file beside the versions that holds the text for certain; gone when the block ends."""
        part: Path | None = None
        try:
            make_runs_dir(self._runs)
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(".part", ".", self.folder)
            part = Path(name)
            part.chmod(0o644)  # as a run's other files
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode())
                file.flush()
                os.fsync(file.fileno())
            yield part
        except UnicodeEncodeError:
            raise InputError(Problem("text", "holds half a character, which no file can keep")) from None
        except OSError as error:
            what = f"a version cannot be kept here ({error.strerror})"
            raise InputError(Problem(str(self.folder), what, "make room, or give another runs_dir")) from None
        finally:
            if part is not None:
                part.unlink(missing_ok=True)


def _names(skill: Skill) -> Iterator[str]:
    """The hash, then the hash with numbers from 2."""
    yield skill.hash
    number = 2
    while True:
        yield f"{skill.hash}-{number}"
        number += 1


def _version(path: Path) -> Version:
    return Version(path.stem, path, datetime.fromtimestamp(path.stat().st_mtime, UTC))
