"""Every exception of the package.

SkillevalError
├── InputError             what was asked cannot be done; nothing was run (exit code 2)
│   ├── SetError           a set file: all its problems at once
│   ├── SkillError         a SKILL.md that cannot be read
│   ├── SkillChanged       a SKILL.md that others have changed, so it is not saved over
│   ├── PatternError       a regular expression that does not compile
│   ├── LeavesRoot         a path in a file that points outside the project
│   ├── RunnerUnavailable  no such runner, or it cannot start here
│   ├── MissingExtra       an optional part of the package is not installed
│   ├── RecordingMissing   `replay` was asked for an answer that was never recorded
│   └── RunNotFound        no run under that id or folder, or it cannot be resumed
├── RunnerFailure          one call failed; the engine turns it into the trial's outcome
└── LogWarning             a warning, not an error: lines of the log that could not be read
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .controls import visible

if TYPE_CHECKING:
    from .values import Answer


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with an input: where it stands, what it is, and what to do."""

    where: str
    what: str
    fix: str = ""

    def __str__(self) -> str:
        """One line for people; what files and users have put into it steers no terminal."""
        place = f"{self.where}: " if self.where else ""
        words = f"{place}{self.what}{f' — {self.fix}' if self.fix else ''}"
        return " ".join(visible(words).splitlines())


class SkillevalError(Exception):
    """Base of all errors that are meant to be read by a person."""

    def _render_traceback_(self) -> list[str]:
        """IPython's hook: in a notebook the message is what helps, the frames are noise."""
        return [f"{type(self).__name__}: {self}"]


class InputError(SkillevalError):
    """Bad input, found before any model call; `problems` holds everything that is wrong with it."""

    def __init__(self, problems: str | Problem | Iterable[Problem]) -> None:
        if isinstance(problems, str):
            problems = Problem("", problems)
        self.problems: tuple[Problem, ...] = (problems,) if isinstance(problems, Problem) else tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


class SetError(InputError):
    """A set file is missing, broken, or breaks a rule."""


class SkillError(InputError):
    """A SKILL.md is missing or cannot be read."""


class SkillChanged(InputError):
    """A SKILL.md has been changed by others since it was last read: it is not saved over."""


class PatternError(InputError):
    """A pattern is not a valid regular expression of its dialect."""


class LeavesRoot(InputError):
    """A path from a file points outside the folders that the file may reach."""


class RunnerUnavailable(InputError):
    """No runner of that name, or it cannot start on this machine."""


class MissingExtra(InputError):
    """An optional part of the package is needed and not installed."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(Problem("", f"{what} is not installed", f"pip install 'skilleval_nb[{extra}]'"))


class RecordingMissing(InputError):
    """A recording holds no answer to a request."""


class RunNotFound(InputError):
    """There is no such run, or it cannot be resumed."""


class RunnerFailure(SkillevalError):
    """One call to a model or agent failed for a reason that says nothing about the skill.

    `answer` carries what came back before the failure, so that its tokens are still counted; `calls` counts
    the attempts.
    """

    def __init__(self, reason: str, answer: Answer | None = None, *, calls: int = 1) -> None:
        super().__init__(reason)
        self.reason = reason
        self.answer = answer
        self.calls = calls if answer is None else answer.calls


class LogWarning(UserWarning):
    """Lines of a log or of a run's trials that could not be read and were left out."""
