"""What an agent is: a runner that can also work, with tools, in a folder; and the registry that finds one by name.

An agent turns one `Work` into one `Worked`. It knows nothing of suites, sandboxes' contents, grading or logs.
Third parties join by the entry-point group `skilleval_nb.agents`: a name and a callable without arguments that
returns an `Agent`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from .runners import Runner
from .values import Answer


class Confinement(Protocol):
    """What keeps a process inside its folders; `level` names how well: `bubblewrap` or `none`."""

    level: str

    def wrap(
        self, argv: Sequence[str], *, cwd: Path, writable: Sequence[Path], readable: Sequence[Path]
    ) -> list[str]:
        """The command that runs `argv` in `cwd`, able to write only below `writable`.

        `readable` are files and folders that it must see although they lie in what is hidden otherwise.
        """


@dataclass(frozen=True)
class Work:
    """One process of an agent: a task, or with `role` `grader` a grading, which gets no tools.

    `model` None is the provider's own default. The agent works in `cwd`. `place` is an empty folder of its own
    for this process alone: configuration, temporary files, and what it prints (`stdout.txt`, `stderr.txt`, written
    as it comes). A grader's reply follows `schema`, a JSON Schema. `confinement` None: nothing keeps it in.
    """

    prompt: str
    model: str | None
    cwd: Path
    place: Path
    timeout_s: float
    role: str = "executor"
    schema: Mapping[str, Any] | None = None
    confinement: Confinement | None = None
    label: str = ""


@dataclass(frozen=True)
class Worked:
    """How the process ended.

    With `failure` None `answer` is what came: its whole text, its usage with a reason where there is none, the
    model that answered, `data` where the reply followed the schema, and the events in order. Otherwise `failure`
    says what went wrong in plain words and `timed_out` whether it was the limit; `answer` is then what there was of
    one, or None. `argv` and `env_names` say how the process was started (no key is in either), `status` how it
    ended (minus the number of a signal; None: never started), `sandbox` which confinement held: that of `Work`, or
    the provider's own.
    """

    answer: Answer | None
    failure: str | None = None
    timed_out: bool = False
    argv: tuple[str, ...] = ()
    env_names: tuple[str, ...] = ()
    status: int | None = None
    wall_s: float | None = None
    sandbox: str = "none"


class Agent(Runner):
    """A provider of a suite: `name` is what `--agent` says; `agentic` is False where it has no tools."""

    delivery = "read"
    agentic: bool = True

    @abstractmethod
    async def work(self, work: Work) -> Worked:
        """One process from its start to its end, within `work.timeout_s`; never raises for what it does.

        When the limit is reached or this is cancelled, the process and all that came of it are ended:
        SIGTERM to the group, a grace, SIGKILL, then a sweep.
        """
