"""The exact list of trials of a run: which, in which order, and what they may cost; pure, before a call is made."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from .cases import Case, EvalSet
from .conditions import CONDITIONS, Chosen, Project, alike, systems_of
from .controls import visible
from .errors import InputError, Problem
from .settings import Settings
from .skills import Skill
from .values import Request, TrialKey


@dataclass(frozen=True, slots=True)
class Condition:
    """A named treatment: the system text that the model is given, or None for none."""

    name: str
    system: str | None


@dataclass(frozen=True, repr=False)
class Plan:
    """A set, its conditions and the settings, ready to run.

    Trials are ordered by case, then number, then condition: the conditions alternate, so a provider that
    drifts during a run does not look like a skill, and a case is complete as early as it can be.
    `draw` above 0 samples anew: another seed for every trial, so that a repeat is new evidence on a seeded runner too.
    """

    eval_set: EvalSet
    skill: Skill
    settings: Settings
    conditions: tuple[Condition, ...]
    cases: tuple[Case, ...]
    draw: int = 0

    def trials(self) -> Iterator[TrialKey]:
        """Every trial, in execution order."""
        for case in self.cases:
            for number in range(1, self.settings.n + 1):
                for condition in self.conditions:
                    yield TrialKey(case.id, condition.name, number)

    @property
    def executor_calls(self) -> int:
        """Trials, each of which is one call at least (retries come on top)."""
        return len(self.cases) * len(self.conditions) * self.settings.n

    @property
    def groups(self) -> int:
        """Groups of cases that stand or fall together; a case without a cluster is one of its own."""
        return len({case.cluster or (case.id,) for case in self.cases})

    @property
    def judge_calls(self) -> int:
        """Judge calls where every trial is answered."""
        checks = sum(check.kind == "judge" for case in self.cases for check in case.checks)
        return checks * len(self.conditions) * self.settings.n * self.settings.judge_n

    @property
    def max_tokens(self) -> int:
        """The answer's length limit that is sent."""
        return self.eval_set.max_tokens or self.settings.runner.default_max_tokens

    @property
    def output_tokens_ceiling(self) -> int:
        """No executor can answer with more tokens than this in all."""
        return self.executor_calls * self.max_tokens

    @property
    def input_tokens_estimate(self) -> int:
        """The executors' input in all, at four characters a token: an estimate, not a count."""
        prompts = sum(len(case.prompt) for case in self.cases) * len(self.conditions)
        systems = sum(len(condition.system or "") for condition in self.conditions) * len(self.cases)
        return (prompts + systems) * self.settings.n // 4

    def request(self, case: Case, condition: Condition, key: TrialKey) -> Request:
        """What the executor is asked in one trial."""
        return Request(
            prompt=case.prompt,
            model=self.settings.model,
            system=condition.system,
            max_tokens=self.max_tokens,
            seed=seed_of(key, self.draw),
            sampled=self.settings.n > 1 or self.draw > 0,
            label=str(key),
        )

    def _others(self) -> list[str]:
        """What conditions there are besides the gate's, and the size of their texts."""
        others = [
            f"{condition.name} ({len(condition.system or ''):,} characters)"
            for condition in self.conditions
            if condition.name not in CONDITIONS
        ]
        return [f"besides     {', '.join(others)}"] if others else []

    def __repr__(self) -> str:
        """What a run would do, in a few lines."""
        from .stats import design, plan_advice

        settings, set_name = self.settings, self.eval_set.name
        calls = f"{self.executor_calls} executor calls"
        if self.judge_calls:
            calls += f" + up to {self.judge_calls} judge calls ({settings.judge_model})"
        shape = f"{len(self.cases)} cases × {len(self.conditions)} conditions × {settings.n}"
        limit = "not known before the run: no price is kept here"
        if settings.max_cost_usd:
            limit = f"no new trial after ${settings.max_cost_usd:g} (your limit)"
        lines = [
            f"{set_name} · {settings.runner.name} {settings.model} · {settings.runner.delivery} · n={settings.n}",
            f"calls       {shape} = {calls}, {settings.concurrency} at a time",
            *self._others(),
            f"tokens      in about {self.input_tokens_estimate} (at 4 characters a token), "
            f"out at most {self.output_tokens_ceiling}; the judge's not counted",
            f"cost        {limit}",
        ]
        if self.cases:
            size = (len(self.cases), settings.n)
            lines.append(f"can show    {design(*size, units=self.groups).text}")
            names = [condition.name for condition in self.conditions]
            advised: tuple[str, ...] = ()
            if set(CONDITIONS) <= set(names):
                advised = plan_advice(*size, units=self.groups, conditions=len(names))
            heads = ("advice      ", " " * 12)
            lines += [f"{head}{sentence}" for head, sentence in zip(heads, advised, strict=False)]
        lines += [f"warning     {warning}" for warning in settings.warnings]
        return "\n".join(" ".join(visible(line).splitlines()) for line in lines)


def make_plan(
    eval_set: EvalSet,
    skill: Skill,
    settings: Settings,
    case_ids: Sequence[str] | None = None,
    *,
    draw: int = 0,
) -> Plan:
    """The plan of a run.

    Raises InputError where a case id does not exist, the skill has no body to inject, or a condition cannot be had.
    """
    cases = eval_set.cases
    if isinstance(case_ids, str):
        raise InputError(
            Problem("case_ids", f"is the text {case_ids!r}: it is a list of ids", f"write [{case_ids!r}]")
        )
    if case_ids is not None:
        wanted = list(case_ids)
        known = {case.id for case in cases}
        unknown = [identifier for identifier in wanted if identifier not in known]
        if unknown or not wanted:
            listed = ", ".join(sorted(known)[:20])
            raise InputError(
                Problem(
                    "case_ids",
                    f"no such case: {', '.join(map(repr, unknown)) or 'none named'}",
                    f"of {listed}",
                )
            )
        cases = tuple(case for case in cases if case.id in wanted)
    if not skill.body:
        raise InputError(
            Problem(
                skill.path.name, "the skill has no body, so both conditions would be the same", "write one"
            )
        )
    project = Project(eval_set.path.parent, eval_set.root, skill)
    choice = Chosen(settings.conditions, settings.texts)
    systems = systems_of(choice, project, settings.runner.baseline_system)
    settings = replace(settings, warnings=(*settings.warnings, *alike(systems)))
    conditions = tuple(Condition(name, system) for name, system in systems.items())
    return Plan(eval_set, skill, settings, conditions, cases, draw)


def seed_of(key: TrialKey, draw: int = 0) -> int:
    """A number from 0 to 2³¹ − 1 that depends on the trial's name, and the number of the draw, alone."""
    name = f"{key}@{draw}" if draw else str(key)
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1
