"""The values that pass between the layers: frozen, no I/O, cheap to make by the thousand.

None always means "not measured"; it is never a zero.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any


def utc_now() -> str:
    """The moment of the call, as files and log write it."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class Outcome(StrEnum):
    """What became of a trial: the first two are measurements, the rest say why there is none."""

    PASSED = "passed"
    FAILED = "failed"
    EXECUTOR_TIMEOUT = "executor_timeout"
    EXECUTOR_FAILED = "executor_failed"
    GRADER_TIMEOUT = "grader_timeout"
    GRADER_FAILED = "grader_failed"
    GRADER_UNPARSEABLE = "grader_unparseable"
    SKILL_NOT_LOADED = "skill_not_loaded"
    RUNNER_ERROR = "runner_error"

    @property
    def measured(self) -> bool:
        """True for an outcome that says something about the skill."""
        return self is Outcome.PASSED or self is Outcome.FAILED


class Gate(StrEnum):
    """The ship decision of a run."""

    PASS = "PASS"  # noqa: S105 - a verdict
    NO_MOVEMENT = "NO MOVEMENT"
    REGRESSION = "REGRESSION"
    NOT_MEASURED = "NOT MEASURED"


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one or more calls, in the four kinds that providers bill apart; None: not reported."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    cache_read_tokens: int | None = None
    cache_write_tokens: int | None = None

    def as_list(self) -> list[int | None]:
        """Input, output, cache read, cache write."""
        return [
            self.input_tokens,
            self.output_tokens,
            self.cache_read_tokens,
            self.cache_write_tokens,
        ]

    def __add__(self, other: Usage) -> Usage:
        """The sum by kind; a kind that neither side reports stays None."""
        return Usage(
            *(
                None if a is None and b is None else (a or 0) + (b or 0)
                for a, b in zip(self.as_list(), other.as_list(), strict=True)
            )
        )


@dataclass(frozen=True, slots=True)
class Request:
    """One question to a model.

    `model` is what was asked for (an alias or an id). `seed` is derived from case, condition and trial, so
    that repeats differ and still repeat exactly where a runner can sample by seed; `sampled` is False where
    one answer per cell is wanted (n = 1) and a runner that can be greedy should be. `schema` is a JSON
    Schema that the reply must follow. `label` names the trial in messages and recordings.
    """

    prompt: str
    model: str
    system: str | None = None
    max_tokens: int | None = None
    seed: int = 0
    sampled: bool = False
    schema: Mapping[str, Any] | None = None
    role: str = "executor"
    label: str = ""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that an agent did, in its order.

    `type` is `message`, `tool_call`, `tool_result`, `denied` (a permission refused), `file_change` or `error`;
    `name` the tool's or the file's, `text` its input or its words (clipped), `id` pairs a call with its result.
    `failed` is True for a result that is an error.
    """

    type: str
    name: str = ""
    text: str = ""
    id: str | None = None
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: the whole text, and what the provider said about it.

    `model` is the one that answered, by its own word. `stop_reason` uses the Messages API's names.
    `usage` is None with a `usage_reason`. `data` is the parsed object where the provider itself returned
    one for `Request.schema`. `calls` counts the HTTP or CLI attempts. `settings` holds the sampling used.
    `events` are what an agent did on the way.
    """

    text: str
    model: str | None = None
    stop_reason: str | None = None
    usage: Usage | None = None
    usage_reason: str | None = None
    cost_usd: float | None = None
    latency_s: float | None = None
    calls: int = 1
    data: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    events: tuple[Event, ...] = ()


@dataclass(frozen=True, slots=True)
class Grade:
    """One check's result on one trial.

    `passed` is None where the check could not be decided; `outcome` then says what the trial becomes and
    `reason` why. `evidence` is the text that decided: a pattern's match, or the judge's quotation, and
    `span` its place in the answer (character offsets) where it occurs there. `quoted` says of a judge's
    quotation whether the answer has it (None: nothing was quoted). The judge fields are None for a check that
    needs no judge; `judge_hash` is that of the prompt that it was given. When answers are graded anew, `before`
    is the grade that stood there, and `kept` is True where it still stands and cost nothing now.
    """

    kind: str
    passed: bool | None
    evidence: str | None = None
    span: tuple[int, int] | None = None
    outcome: Outcome | None = None
    reason: str | None = None
    reasoning: str | None = None
    quoted: bool | None = None
    judge_model: str | None = None
    judge_hash: str | None = None
    judge_usage: Usage | None = None
    judge_cost_usd: float | None = None
    judge_latency_s: float | None = None
    judge_calls: int | None = None
    before: Grade | None = None
    kept: bool = False


@dataclass(frozen=True, slots=True)
class TrialKey:
    """Names one trial of a run: case, condition, and its number from 1."""

    case_id: str
    condition: str
    trial: int

    def __str__(self) -> str:
        return f"{self.case_id}.{self.condition}.{self.trial}"


@dataclass(frozen=True, slots=True)
class Trial:
    """One execution of one case under one condition, graded.

    `answer` is None where nothing came back. `latency_s` is the executor's wall time with retries and
    pauses, `calls` the attempts of the runner. `attempt` counts from 1 over resumes. `taken_from` is the run
    that the answer comes from, where it is graded anew. `facts` is what a kind of set keeps of a trial besides: a
    small JSON object, which stands in the log too.
    """

    key: TrialKey
    outcome: Outcome
    reason: str | None = None
    answer: Answer | None = None
    grades: tuple[Grade, ...] = ()
    latency_s: float | None = None
    attempt: int = 1
    calls: int = 1
    ended_at: str = ""
    taken_from: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
