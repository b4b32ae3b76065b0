"""What a run was asked to do: arguments, environment and the set's own wishes, settled once, before anything runs."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import Any, TypedDict

from .cases import EvalSet
from .conditions import CONDITIONS, Chosen, Given, chosen, problems_of_conditions
from .errors import InputError, Problem
from .runners import BUILT_IN, Runner, choose, create, names

DEFAULT_MODEL = "haiku"
DEFAULT_JUDGE = "sonnet"
DEFAULT_CONCURRENCY = 8
DEFAULT_TIMEOUT_S = 180.0


class Wishes(TypedDict, total=False):
    """What a caller may ask for; `run_set` says what each means."""

    runner: str | Runner
    model: str | None
    judge_model: str | None
    judge_n: int
    n: int | None
    conditions: Given | Chosen
    concurrency: int | None
    timeout_s: float | None
    max_cost_usd: float | None
    max_tokens_total: int | None
    confirm: bool
    max_drop: float | None


@dataclass(frozen=True)
class Settings:
    """The settled settings of one run.

    `model` is the name the run goes by: what was asked for, or the runner's one model. `requested_model` is
    what was asked for in any case. `texts` are those of `conditions` that are not looked up. `warnings` are shown
    with the result.
    """

    runner: Runner
    runner_spec: str
    model: str
    requested_model: str
    judge_runner: Runner
    judge_spec: str
    judge_model: str
    judge_n: int = 1
    n: int = 1
    conditions: tuple[str, ...] = CONDITIONS
    texts: Mapping[str, str] = field(default_factory=dict)
    concurrency: int = DEFAULT_CONCURRENCY
    timeout_s: float = DEFAULT_TIMEOUT_S
    max_cost_usd: float | None = None
    max_tokens_total: int | None = None
    confirm: bool = False
    max_drop: float | None = None
    warnings: tuple[str, ...] = ()
    choice: str = ""

    @property
    def runners(self) -> tuple[Runner, ...]:
        """The runners in use, each once."""
        return (self.runner,) if self.judge_runner is self.runner else (self.runner, self.judge_runner)


def settle(
    eval_set: EvalSet,
    *,
    runner: str | Runner = "auto",
    model: str | None = None,
    judge_model: str | None = None,
    judge_n: int = 1,
    n: int | None = None,
    conditions: Given | Chosen = CONDITIONS,
    concurrency: int | None = None,
    timeout_s: float | None = None,
    max_cost_usd: float | None = None,
    max_tokens_total: int | None = None,
    confirm: bool = False,
    max_drop: float | None = None,
) -> Settings:
    """Argument, else environment (`EVAL_MODEL`, `EVAL_N`, `EVAL_JUDGE_MODEL`), else the set, else the default.

    `judge_model` may name its runner too: `anthropic:sonnet`.
    Raises InputError with all settings that cannot be, and RunnerUnavailable where a runner cannot start.
    """
    env = os.environ
    wishes: Wishes = {
        "judge_n": judge_n, "n": n, "conditions": conditions, "concurrency": concurrency, "timeout_s": timeout_s,
        "max_cost_usd": max_cost_usd, "max_tokens_total": max_tokens_total, "max_drop": max_drop,
        "model": model, "judge_model": judge_model, "runner": runner,
    }  # fmt: skip
    if problems := problems_of(wishes):
        raise InputError(problems)
    spec, reason = choose() if runner == "auto" else (runner, "")
    executor = create(spec) if isinstance(spec, str) else spec
    spec = spec if isinstance(spec, str) else executor.name
    requested = model or env.get("EVAL_MODEL") or eval_set.model or DEFAULT_MODEL
    asked_judge = judge_model or env.get("EVAL_JUDGE_MODEL")
    judge_runner, judge_spec, judge_name = _judge(asked_judge, executor, spec)
    choice = chosen(conditions)
    settled = Settings(
        runner=executor,
        runner_spec=spec,
        model=executor.fixed_model or requested,
        requested_model=requested,
        judge_runner=judge_runner,
        judge_spec=judge_spec,
        judge_model=judge_runner.fixed_model or judge_name,
        judge_n=judge_n,
        n=n or int(env.get("EVAL_N") or 1),
        conditions=choice.names,
        texts=choice.texts,
        concurrency=min(concurrency or DEFAULT_CONCURRENCY, executor.max_concurrency or 10**6),
        timeout_s=float(timeout_s or DEFAULT_TIMEOUT_S),
        max_cost_usd=max_cost_usd,
        max_tokens_total=max_tokens_total,
        confirm=confirm,
        max_drop=max_drop,
        choice=f"runner {spec}: {reason}" if reason else "",
    )
    refuse_if_unkept(max_cost_usd, settled.runners)
    return _with_warnings(settled, eval_set, asked=model or env.get("EVAL_MODEL"))


def refuse_if_unkept(max_cost_usd: float | None, runners: Sequence[Runner]) -> None:
    """Raises InputError where a limit on the cost is asked for and a runner does not say what a call costs."""
    silent = [used.name for used in runners if not used.reports_cost]
    if max_cost_usd is not None and silent:
        what = f"the runner {silent[0]} does not say what a call costs, so this limit could not be kept"
        raise InputError(Problem("max_cost_usd", what, "use max_tokens_total"))


def problems_of(wishes: Mapping[str, Any]) -> list[Problem]:
    """Everything that cannot be in what a caller asks for, `EVAL_N` included; no set and no runner is needed."""
    problems = [
        Problem(name, f"is {wishes[name]!r}: it must be {what}")
        for name, (whole, what) in NUMBERS.items()
        if wishes.get(name) is not None and not _is_number(wishes[name], whole=whole)
    ]
    variable = os.environ.get("EVAL_N") if wishes.get("n") is None else None
    if variable and not re.fullmatch(r"0*[1-9][0-9]{0,8}", variable):
        problems.append(Problem("EVAL_N", f"is {variable!r}: it counts runs a case, a whole number from 1"))
    votes = wishes.get("judge_n", 1)
    if _is_number(votes, whole=True) and votes % 2 == 0:
        problems.append(Problem("judge_n", f"is {votes}: an even number of votes can tie", "use an odd one"))
    drop = wishes.get("max_drop")
    if drop is not None and not (_is_number(drop, whole=False, least=0) and drop <= 1):
        problems.append(Problem("max_drop", f"is {drop!r}: it is a rate from 0 to 1"))
    for name in ("model", "judge_model"):
        value = wishes.get(name)
        if value is not None and not (isinstance(value, str) and value.strip() and value.isprintable()):
            problems.append(Problem(name, f"is {value!r}: it is a model's name"))
    if not isinstance(wishes.get("runner", "auto"), str | Runner):
        problems.append(Problem("runner", f"is {wishes['runner']!r}: it is a runner or the name of one"))
    return problems + problems_of_conditions(wishes.get("conditions", CONDITIONS))


NUMBERS: Mapping[str, tuple[bool, str]] = {
    "n": (True, "a whole number from 1"),
    "judge_n": (True, "a whole number from 1"),
    "repeats": (True, "a whole number from 1"),
    "concurrency": (True, "a whole number from 1"),
    "timeout_s": (False, "more than 0 seconds"),
    "max_cost_usd": (False, "more than 0"),
    "max_tokens_total": (True, "a whole number from 1"),
}


def _is_number(value: object, *, whole: bool, least: float | None = None) -> bool:
    """A finite number above 0, or from `least`; a whole one where that is asked."""
    if isinstance(value, bool) or not isinstance(value, int if whole else int | float):
        return False
    return 0 < value < inf if least is None else least <= value < inf


def named_judge(asked: str) -> tuple[str | None, str]:
    """The runner that a judge's name names, if any, and the model: `anthropic:sonnet`."""
    prefix, colon, rest = asked.partition(":")
    return (prefix, rest) if colon and rest and (prefix in BUILT_IN or prefix in names()) else (None, asked)


def _judge(asked: str | None, executor: Runner, spec: str) -> tuple[Runner, str, str]:
    """The judge's runner, its spec and the model asked for; the executor's runner unless another is named."""
    prefix, model = named_judge(asked or DEFAULT_JUDGE)
    if prefix is None:
        return executor, spec, model
    return (executor if prefix == spec else create(prefix)), prefix, model


def _with_warnings(settings: Settings, eval_set: EvalSet, asked: str | None) -> Settings:
    from dataclasses import replace

    warnings = list(settings.warnings)
    if settings.n % 2 == 0:
        warnings.append(f"n = {settings.n} is even: a case can tie, and a tie is a FAIL in both conditions")
    fixed = settings.runner.fixed_model
    if fixed and asked and asked != fixed:
        warnings.append(f"the runner {settings.runner.name} has one model, {fixed}: {asked!r} was not used")
    if eval_set.judge_checks:
        tested = settings.runner.resolve_model(settings.model)
        warnings += judge_warnings(settings.judge_runner, settings.judge_model, settings.runner.name, tested)
    return replace(settings, warnings=tuple(warnings))


def judge_warnings(judge_runner: Runner, judge_model: str, runner_name: str, tested: str) -> list[str]:
    """What speaks against a judge of answers by the model `tested` on the runner of that name."""
    warnings = []
    if judge_runner.name == "local":
        warnings.append(
            f"{judge_model} grades the judge checks and is not fit to judge: its verdicts are close to"
            " chance; name a judge, such as judge_model='anthropic:sonnet'"
        )
    if judge_runner.name == runner_name and judge_runner.resolve_model(judge_model) == tested:
        warnings.append(f"the judge is the model under test ({tested}): use a stronger one, or another")
    return warnings


def check_runnable(eval_set: EvalSet) -> None:
    """Raises InputError where the set can be read but not run: its skill is not there."""
    if eval_set.skill_path is None:
        named = (
            f"the skill {eval_set.skill_ref!r} was not found"
            if eval_set.skill_ref
            else "the set names no skill"
        )
        fix = "correct `skill` in the set, or give skill_path (--skill)"
        raise InputError(Problem(f"{eval_set.path.name} → skill", named, fix))
