"""What a runner is, and the registry that finds one by name.

A runner turns one `Request` into one `Answer` or raises `RunnerFailure`. It knows nothing of sets,
conditions, grading or logs. Time limits and concurrency belong to the engine; retries to the runner.
Third parties join by the entry-point group `skilleval_nb.runners`: a name and a callable that takes the
text after the first colon of the runner's spec (or None) and returns a `Runner`.
"""

from __future__ import annotations

import importlib
import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from .errors import InputError, Problem, RunnerUnavailable
from .values import Answer, Request

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "skilleval_nb.runners"
BUILT_IN: Mapping[str, str] = {
    "anthropic": ".runner_anthropic:create",
    "claude": ".runner_claude:create",
    "local": ".runner_local:create",
    "replay": ".runner_replay:create_replay",
    "record": ".runner_replay:create_record",
}


class Runner(ABC):
    """Base of all runners: implement `answer`, override the rest where it differs."""

    name: str = "runner"
    version: str | None = None
    delivery: str = "inject"
    baseline_system: str | None = None
    """What the baseline is given in place of a skill: None, or the CLI's single space."""
    max_concurrency: int | None = None
    fixed_model: str | None = None
    """The one model this runner has, whatever is asked for; None where the caller chooses."""
    default_max_tokens: int = 4096
    secrets: tuple[str, ...] = ()
    """Keys and passwords that may stand in nothing that is written or shown."""
    reports_cost: bool = False
    """True where answers say what they cost, so that a limit on the cost can be kept."""
    place: str | None = None
    """The host that answers, where the same model may be another one elsewhere."""

    @abstractmethod
    async def answer(self, request: Request) -> Answer:
        """One model call. Raises RunnerFailure for anything that says nothing about the skill."""

    def resolve_model(self, model: str) -> str:
        """The id that is sent for `model`."""
        return self.fixed_model or model

    def about(self) -> tuple[str, ...]:
        """Plain sentences to show once before a run, such as a model's name, size and licence."""
        return ()

    async def aclose(self) -> None:
        """Ends children and connections; safe to call twice."""


def names() -> list[str]:
    """Every runner that can be asked for by name, built-in ones first."""
    return [*BUILT_IN, *sorted(_third_party())]


def _third_party() -> dict[str, Callable[[str | None], Runner]]:
    from importlib.metadata import entry_points

    points = entry_points(group=ENTRY_POINTS)
    return {point.name: partial(_load, point) for point in points if point.name not in BUILT_IN}


def _load(point: EntryPoint, argument: str | None) -> Runner:
    try:
        runner = point.load()(argument)
    except InputError:
        raise
    except Exception as error:
        what = f"the runner {point.name!r} of {point.value} does not start: {type(error).__name__}: {error}"
        raise RunnerUnavailable(Problem("", what)) from error
    if not isinstance(runner, Runner):
        what = f"the runner {point.name!r} of {point.value} is no skilleval_nb.Runner"
        raise RunnerUnavailable(Problem("", what, "ask its author to subclass skilleval_nb.Runner"))
    return runner


def create(spec: str) -> Runner:
    """The runner for a spec such as `local`, `replay:answers.jsonl` or `record:answers.jsonl:local`.

    Raises RunnerUnavailable for an unknown name, and whatever the runner raises where it cannot start.
    """
    name, _, argument = spec.partition(":")
    if home := BUILT_IN.get(name):
        module, _, function = home.partition(":")
        maker = getattr(importlib.import_module(module, __package__), function)
    else:
        maker = _third_party().get(name)
    if maker is None:
        raise RunnerUnavailable(
            Problem("", f"there is no runner {name!r}", f"use one of {', '.join(names())}")
        )
    runner: Runner = maker(argument or None)
    return runner


def choose() -> tuple[str, str]:
    """What `auto` takes here, and why: an API key, else a claude CLI, else the embedded model.

    Raises RunnerUnavailable naming the three ways where none is open.
    """
    for variable in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        if os.environ.get(variable):
            return "anthropic", f"{variable} is set"
    if path := shutil.which("claude"):
        return "claude", f"no API key; {path} is on PATH"
    from . import runner_local

    if runner_local.installed():
        return "local", "no API key and no claude CLI; the embedded model is installed"
    raise RunnerUnavailable(
        Problem(
            "",
            "no model to run: no API key, no claude CLI, no embedded model",
            "set ANTHROPIC_API_KEY, or install and log in to the claude CLI, or"
            " `pip install 'skilleval_nb[local]'` and `skilleval fetch-model`",
        )
    )
