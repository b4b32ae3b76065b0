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


async def call(runner: Runner, request: Request, timeout_s: float) -> Called:
    """Asks once, within `timeout_s` of wall time, the runner's retries and pauses included.

    An empty answer is a failure, unless the model refused: a refusal is graded as it stands. An InputError
    from the runner (a recording that lacks the request) passes through: no later call would do better.
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
        return Called(error.answer, time.perf_counter() - started, error.reason)
    seconds = time.perf_counter() - started
    if answer.latency_s is None:
        answer = replace(answer, latency_s=seconds)
    if not answer.text.strip() and answer.data is None and answer.stop_reason != "refusal":
        stopped = f" (stop reason {answer.stop_reason})" if answer.stop_reason else ""
        return Called(answer, seconds, f"empty answer{stopped}")
    return Called(answer, seconds)
