"""Finds a pattern in a text: imported for the cheap ones, and run as a child process for the rest.

It stands alone on purpose. The child runs this file under `-I -S`, without site-packages and without this
package: the first argument is the folder that holds `regress`, the second the seconds a pattern may take.

A frame is a length (four bytes, little-endian) and a marshalled value. The child says "ready", then reads
lists of (text, source, flags, dialect) and answers each pattern as soon as it is done, in order: (start, end)
in characters, None where it is not found, or a string that says what went wrong. The dialects `json` and
`schema` take a JSON Schema as the source and answer (place, what is wrong), or None: `json_worker` does the work,
which a frame with the dialect `prepare` loads.
"""

from __future__ import annotations

import marshal
import struct
import sys

TYPE_CHECKING = False  # the child starts faster without the typing module
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Finder = Callable[[str], tuple[int, int] | None]

MEMORY_BYTES = 1 << 30
_GRACE_S = 1.0
_MOST_CHARS = 500
_LENGTH = struct.Struct("<I")
_UNPAIRED = dict.fromkeys(range(0xD800, 0xE000), 0xFFFD)


def frame(value: Any) -> bytes:
    """One value, ready for the pipe."""
    data = marshal.dumps(value)
    return _LENGTH.pack(len(data)) + data


def unframe(buffer: bytearray) -> list[object]:
    """The complete values at the head of `buffer`, which keeps the rest."""
    values = []
    while len(buffer) >= _LENGTH.size:
        end = _LENGTH.size + _LENGTH.unpack_from(buffer)[0]
        if len(buffer) < end:
            break
        values.append(marshal.loads(buffer[_LENGTH.size : end]))  # noqa: S302 # our own child wrote it
        del buffer[:end]
    return values


def finder(source: str, flags: str, dialect: str) -> Finder:
    """A function from a text to the span of the first match, in characters.

    JavaScript patterns match by code points, under any flags; half a surrogate pair in the text counts as
    U+FFFD. Raises what the engine raises for a pattern that does not compile.
    """
    return _python(source, flags) if dialect == "python" else _javascript(source, flags)


def _javascript(source: str, flags: str) -> Finder:
    import regress

    regex = regress.Regex(source, "".join(f for f in flags if f in "imsuv"))
    if "y" in flags:  # only after the source has compiled by itself: `a)(b` would compile inside a group
        regex = regress.Regex(f"(?-m:^)(?:{source})", "".join(f for f in flags if f in "imsuv"))

    def find(text: str) -> tuple[int, int] | None:
        try:
            match = regex.find(text)
        except UnicodeEncodeError:
            text = text.translate(_UNPAIRED)
            match = regex.find(text)
        if match is None:
            return None
        place = match.range()  # in bytes of UTF-8
        if text.isascii():
            return place.start, place.stop
        data = text.encode()
        start = len(data[: place.start].decode())
        return start, start + len(data[place.start : place.stop].decode())

    return find


def _python(source: str, flags: str) -> Finder:
    import re
    import warnings

    bits = 0
    for letter in flags:
        bits |= getattr(re, letter.upper())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        search = re.compile(source, bits).search

    def find(text: str) -> tuple[int, int] | None:
        match = search(text)
        return None if match is None else match.span()

    return find


def _confine() -> None:
    try:
        import resource
    except ImportError:  # not on Windows
        return
    for what, most in ((resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_CORE, 0)):
        hard = resource.getrlimit(what)[1]
        try:
            resource.setrlimit(what, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))
        except (ValueError, OSError):
            continue


def _alarm() -> Callable[[float], None]:
    """A function that ends this process after so many seconds, or 0 for never: no parent, no GIL needed."""
    try:
        from signal import ITIMER_REAL, SIG_DFL, SIGALRM, setitimer, signal
    except ImportError:  # Windows
        import faulthandler

        def set_alarm(seconds: float) -> None:
            if seconds:
                faulthandler.dump_traceback_later(seconds, exit=True)
            else:
                faulthandler.cancel_dump_traceback_later()

        return set_alarm

    def set_timer(seconds: float) -> None:
        setitimer(ITIMER_REAL, seconds)

    signal(SIGALRM, SIG_DFL)
    return set_timer


def _json_worker(folders: list[str]) -> Any:
    """The module beside this file, loaded as one that stands alone."""
    from importlib.machinery import SourceFileLoader
    from importlib.util import module_from_spec, spec_from_loader
    from pathlib import Path

    sys.path += folders
    loader = SourceFileLoader("json_worker", str(Path(__file__).parent / "json_worker.py"))
    spec = spec_from_loader(loader.name, loader)
    assert spec
    module = module_from_spec(spec)
    loader.exec_module(module)
    module.prepare()
    return module


def main(folder: str, limit_s: float, json_folders: list[str]) -> None:
    """Serves until the parent closes the pipe; a pattern that outlives its parent ends by the alarm."""
    sys.path.append(folder)
    import regress  # noqa: F401 # loaded before "ready", so that no pattern pays for it

    _confine()
    alarm = _alarm()
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    finders: dict[tuple[str, str, str], Finder] = {}
    json_worker: Any = None

    def say(value: object) -> None:
        answers.write(frame(value))
        answers.flush()

    say("ready")
    while len(head := requests.read(_LENGTH.size)) == _LENGTH.size:
        for text, source, flags, dialect in marshal.loads(requests.read(_LENGTH.unpack(head)[0])):  # noqa: S302
            if dialect == "prepare":
                json_worker = json_worker or _json_worker(json_folders)
                say("ready")
                continue
            alarm(limit_s + _GRACE_S)
            answer: object
            try:
                if dialect in ("json", "schema"):
                    answer = json_worker.answer(text, source, dialect)
                else:
                    find = finders.get((source, flags, dialect))
                    if find is None:
                        find = finders[source, flags, dialect] = finder(source, flags, dialect)
                    answer = find(text)
            except RecursionError:
                answer = "it is nested too deeply, or refers to itself without end"
            except Exception as error:  # noqa: BLE001 # whatever it is, the next pattern must be tried
                answer = f"{type(error).__name__}: {error}"[:_MOST_CHARS]
            alarm(0)
            say(answer)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), sys.argv[3:])
