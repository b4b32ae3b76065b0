"""Running the trials of a plan: so many at a time, in order, until they are done or may go on no longer.

Knows nothing of sets, gates, grading or files: what a trial does is `perform`, what becomes of it `on_trial`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from .errors import SkillevalError
from .values import Outcome, Trial, TrialKey


@dataclass
class Counts:
    """How far a run is; read by whatever shows progress, written by the engine alone.

    `done` counts trials that ended in this session or before a resume. `tokens_in` counts all that was sent
    (cached or not), `tokens_out` all that came back, of executors and judges; `unpriced` and `uncounted` are
    calls whose cost or tokens are not known.
    """

    total: int = 0
    done: int = 0
    started_with: int = 0
    passed: int = 0
    failed: int = 0
    errors: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    uncounted: int = 0

    def add(self, trial: Trial) -> None:
        """Counts a trial that has just ended."""
        self.done += 1
        self.passed += trial.outcome is Outcome.PASSED
        self.failed += trial.outcome is Outcome.FAILED
        self.errors += not trial.outcome.measured
        asked = trial.answer if trial.taken_from is None else None
        spent = [(asked.usage, asked.cost_usd)] if asked else []
        judged = [grade for grade in trial.grades if grade.judge_model is not None and not grade.kept]
        for usage, cost in [*spent, *((grade.judge_usage, grade.judge_cost_usd) for grade in judged)]:
            self.cost_usd += cost or 0.0
            self.unpriced += cost is None
            self.uncounted += usage is None
            if usage is not None:
                self.tokens_in += (usage.input_tokens or 0) + (usage.cache_read_tokens or 0)
                self.tokens_in += usage.cache_write_tokens or 0
                self.tokens_out += usage.output_tokens or 0


async def execute(
    keys: Iterable[TrialKey],
    perform: Callable[[TrialKey], Awaitable[Trial]],
    *,
    concurrency: int,
    on_trial: Callable[[Trial], None],
    may_start: Callable[[], bool] = lambda: True,
) -> None:
    """Performs the trials, `concurrency` at a time; none is started once `may_start` says no.

    An unforeseen exception in `perform` is that trial's `runner_error`. Errors meant for the user
    (SkillevalError) and errors of `on_trial` (a full disk) end the run; what is finished stays finished.
    """
    waiting = iter(keys)

    async def worker() -> None:
        for key in waiting:
            if not may_start():
                return
            try:
                trial = await perform(key)
            except SkillevalError:
                raise
            except Exception as error:  # noqa: BLE001 - our own fault must not take the other trials down
                trial = Trial(key, Outcome.RUNNER_ERROR, f"{type(error).__name__}: {error}")
            on_trial(trial)

    try:
        async with asyncio.TaskGroup() as group:
            for _ in range(concurrency):
                group.create_task(worker())
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None
