"""A SKILL.md under an editor: read with plain line ends, saved whole or not at all, never over what others wrote."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from .errors import InputError, Problem, SkillChanged, SkillError
from .paths import shown

BOM = b"\xef\xbb\xbf"


class SkillFile:
    r"""One file; `path` may be a link, whose target is then read and saved.

    Texts have the line ends `\n`. A byte-order mark and CRLF line ends of the file are kept when it is saved.
    Raises SkillError where there is no such file or it is not UTF-8 text.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: bytes | None = None
        self.read()

    def read(self) -> str:
        """The text as it is on disk now; what others change from now on is noticed. Raises SkillError."""
        data = self._bytes()
        if data is None:
            raise SkillError(Problem(shown(self.path), "there is no file here any more", "put it back"))
        text = self._text(data)
        self._seen = data
        return text

    def on_disk(self) -> str | None:
        """The text as it is on disk now, only to look at; None where there is none."""
        with suppress(SkillError):
            data = self._bytes()
            return None if data is None else self._text(data)
        return None

    @property
    def changed(self) -> bool:
        """True where the file is not what was last read or saved here."""
        return self._bytes() != self._seen

    def save(self, text: str) -> None:
        """Puts `text` in the file's place, in one step; its mode stays.

        Raises SkillChanged where others have changed the file since it was last read or saved here, InputError where
        it cannot be written; the file is then as it was.
        """
        data = self._data(text)
        target = Path(os.path.realpath(self.path))
        part: Path | None = None
        try:
            self._refuse_if_changed()
            handle, name = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
            part = Path(name)
            with os.fdopen(handle, "wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            state = target.stat()
            part.chmod(stat.S_IMODE(state.st_mode))
            with suppress(OSError, AttributeError):  # only where it may, and only where there are owners
                os.chown(part, state.st_uid, state.st_gid)
            self._refuse_if_changed()
            part.replace(target)
        except OSError as error:
            what = f"could not be saved ({error.strerror}); it is as it was"
            raise InputError(Problem(shown(self.path), what, "make room or make it writable")) from None
        finally:
            if part is not None:
                part.unlink(missing_ok=True)
        self._seen = data

    def _refuse_if_changed(self) -> None:
        if self.changed:
            gone = self._bytes() is None
            what = (
                "is gone" if gone else "was changed by another program after it was last read or saved here"
            )
            fix = (
                "put it back, then reload()"
                if gone
                else "reload() takes the file's text and keeps yours as a version,"
                " which go_back() and save() then put over it"
            )
            raise SkillChanged(Problem(shown(self.path), f"{what}, so it is not saved over", fix))

    def _bytes(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise SkillError(Problem(shown(self.path), f"cannot be read ({error.strerror})")) from None

    def _text(self, data: bytes) -> str:
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            what = f"not UTF-8 text (byte {error.start})"
            raise SkillError(Problem(shown(self.path), what, "save it as UTF-8")) from None
        return plain(text)

    def _data(self, text: str) -> bytes:
        before = self._seen or b""
        ends = before.count(b"\n")
        if ends and before.count(b"\r\n") == ends == before.count(b"\r"):
            text = text.replace("\n", "\r\n")
        try:
            return BOM * before.startswith(BOM) + text.encode()
        except UnicodeEncodeError:
            raise InputError(Problem("text", "holds half a character, which no file can keep")) from None


def plain(text: str) -> str:
    r"""`text` with the line ends `\n`."""
    return text.replace("\r\n", "\n").replace("\r", "\n")
