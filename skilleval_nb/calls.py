"""One model call under a time limit: what came back, or why nothing did, never an exception for either."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, replace

from .errors import RunnerFailure
from .runners import Runner
from .values import Answer, Request


@dataclass(frozen=True, slots=True)
class Called:
    """The end of a call.

    With `failure` None the answer is to be graded. Otherwise `failure` says what went wrong in plain words,
    `timed_out` whether it was the time limit, and `answer` holds what came back before, if anything did.
    """

    answer: Answer | None
    latency_s: float
    failure: str | None = None
    timed_out: bool = False
    calls: int = 1


async def call(runner: Runner, request: Request, timeout_s: float) -> Called:
    """Asks once, within `timeout_s` of wall time, the runner's retries and pauses included.

    Keys of the runner's that a server echoes are taken out. An empty answer is a failure, unless the model
    refused: a refusal is graded as it stands. An InputError from the runner (a recording that lacks the
    request) passes through: no later call would do better.
    """
    started = time.perf_counter()
    try:
        async with asyncio.timeout(timeout_s):
            answer = await runner.answer(request)
    except TimeoutError:
        seconds = time.perf_counter() - started
        if seconds < timeout_s:
            return Called(None, seconds, "the runner's own connection timed out")
        return Called(None, seconds, f"no answer within {timeout_s:g} s", timed_out=True)
    except RunnerFailure as error:
        seconds = time.perf_counter() - started
        partly = error.answer and _masked(error.answer, runner.secrets)
        return Called(partly, seconds, _without(error.reason, runner.secrets), calls=error.calls)
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        return Called(None, time.perf_counter() - started, "the runner gave the call up")
    seconds = time.perf_counter() - started
    answer = _masked(answer, runner.secrets)
    if answer.latency_s is None:
        answer = replace(answer, latency_s=seconds)
    if not answer.text.strip() and answer.data is None and answer.stop_reason != "refusal":
        stopped = f" (stop reason {answer.stop_reason})" if answer.stop_reason else ""
        return Called(answer, seconds, f"empty answer{stopped}", calls=answer.calls)
    return Called(answer, seconds, calls=answer.calls)


def _masked(answer: Answer, secrets: tuple[str, ...]) -> Answer:
    if any(secret in answer.text for secret in secrets):
        return replace(answer, text=_without(answer.text, secrets))
    return answer


def _without(text: str, secrets: tuple[str, ...]) -> str:
    for secret in secrets:
        text = text.replace(secret, "[key removed]")
    return text
