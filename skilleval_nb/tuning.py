"""Tuning a skill without a widget: edit the text, run only what changed, keep every version with its number."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict

from .cases import EvalSet
from .engine import prepare_job
from .errors import InputError, Problem, RunNotFound, SkillError
from .finder import LOG, resolve_runs_dir
from .job import Job, arun_job, run_job
from .jsonfile import located
from .live import painter_for
from .paths import shown
from .progress import Painter, Progress
from .runners import Runner
from .runs import Run, from_folder, load_run
from .sets import load_set
from .settings import problems_of
from .skills import load_skill, read_skill
from .tune_history import EValue, fresh_evidence, history_frame, runs_of_set
from .tune_texts import SkillTexts
from .versions import Version

if TYPE_CHECKING:
    import polars as pl

    from .comparing import Comparison
    from .execute import Counts


class TuneOptions(TypedDict, total=False):
    """The keyword arguments of a session, for those that hand them on."""

    n: int | None
    runner: str | Runner
    model: str | None
    judge_model: str | None
    judge_n: int
    concurrency: int | None
    timeout_s: float | None
    runs_dir: str | Path
    case_ids: Sequence[str] | None


class TuneSession(SkillTexts):
    r"""A skill under work with one set: its text, its runs and its versions.

    `skill` is a SKILL.md or its folder, which takes the place of the set's own; `set` is read anew for every run.
    The other settings are those of `run_set`; `progress` may be a Painter too. `text` is what the next run takes:
    at first the file's, with the line ends `\n`. Nothing is written to the file but by `save`. Every text that is
    run, saved or left is kept under `runs/versions`, so that the history outlives the kernel.
    Raises InputError (SetError, SkillError) where the skill, the set or a setting cannot be.
    """

    def __init__(
        self,
        skill: str | Path,
        set: str | Path | EvalSet,  # noqa: A002 - the public name of SPEC §3
        *,
        n: int | None = None,
        runner: str | Runner = "auto",
        model: str | None = None,
        judge_model: str | None = None,
        judge_n: int = 1,
        concurrency: int | None = None,
        timeout_s: float | None = None,
        runs_dir: str | Path = "runs",
        case_ids: Sequence[str] | None = None,
        progress: bool | Progress | Painter | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "runner": runner, "model": model, "judge_model": judge_model, "judge_n": judge_n, "n": n,
            "concurrency": concurrency, "timeout_s": timeout_s,
        }  # fmt: skip
        if problems := problems_of(self._settings):
            raise InputError(problems)
        path = load_skill(located(skill)).path.absolute()
        self._set, self._case_ids, self.progress = set, case_ids, progress
        eval_set = self._eval_set(path)
        self.set_name = eval_set.name
        self.runs = resolve_runs_dir(runs_dir, eval_set.root)
        super().__init__(path, self.runs)
        self._paths = {str(eval_set.skill_ref), shown(path.resolve(), eval_set.root)}
        self.last_run: Run | None = None
        self._last: Version | None = None
        self._unfinished: dict[tuple[str, str], str] = {}
        self._one_at_a_time = threading.Lock()
        self._stop: threading.Event | None = None
        self._cancel: Callable[[], object] | None = None
        self._kind: tuple[str, str] | None = None

    # --- runs ----------------------------------------------------------------------------------------------

    def run(self, text: str | None = None, *, fresh: bool = False) -> Run:
        """Keeps a text (None: the session's) as a version and runs what it changes; the result is in the log.

        Measured trials that nothing has changed are reused from earlier runs and marked, the baseline's above all;
        `fresh` runs everything. Each run is a look, and looks are counted. A run that is stopped comes back partial.
        Raises SkillError, before any call, where there is nothing to run.
        """
        return self._conduct(lambda: self._look(text, fresh=fresh))

    async def arun(self, text: str | None = None, *, fresh: bool = False) -> Run:
        """`run` for a running event loop: the same arguments, the same run."""
        with self._alone():
            job = self._look(text, fresh=fresh)
            if isinstance(job, Run):
                return self._done(job)
            loop, task = asyncio.get_running_loop(), asyncio.ensure_future(arun_job(job))
            self._cancel = lambda: loop.call_soon_threadsafe(task.cancel)
            if self._stopped:
                task.cancel()
            try:
                return self._done(await task)
            except asyncio.CancelledError:
                run = self._broken_off(job)
                if self._stopped:
                    return run
                raise

    def confirm(self) -> Run:
        """Settles what the last run said: its very text, the whole set, both conditions afresh, judged alone.

        Looks are counted anew after it. What was stopped is gone on with. Raises InputError where nothing was run.
        """
        return self._conduct(lambda: self._afresh("confirm", confirm=True))

    def top_up(self) -> Run:
        """More trials of the last run's text, both conditions afresh: what `e_value` counts, and a look like others.

        What was stopped is gone on with. Raises InputError where nothing was run.
        """
        return self._conduct(lambda: self._afresh("top_up", case_ids=self._case_ids))

    @property
    def e_value(self) -> EValue:
        """The evidence of the last run's version from `top_up` and `confirm` alone, whatever the number of looks.

        No reused trial counts, and no run that led to the choice of this text.
        """
        version = self._last_run()
        if version is None:
            return EValue(None, None, reason="nothing was run yet")
        return fresh_evidence(self.log, version.hash, self.set_name, self._paths)

    @property
    def last_version(self) -> str | None:
        """The version of the last run, which `confirm` and `top_up` run; None where nothing was run yet."""
        version = self._last_run()
        return None if version is None else version.name

    def stop(self) -> None:
        """Ends the run in progress, from another thread: what is finished is kept, and the next run takes it over."""
        if self._stop is not None:
            self._stop.set()
        if self._cancel is not None:
            self._cancel()

    @property
    def log(self) -> Path:
        """The log that the runs are written to."""
        return self.runs / LOG

    @property
    def history(self) -> pl.DataFrame:
        """One row a run of this skill's file and this set, oldest first, as the log has them.

        `version` is the skill's hash; `saved`: it equals the file's now (null: the file cannot be read). Rates and
        `delta` are those of the gate, over `graded` cases; `delta_low` and `delta_high` the 95 % interval of the
        evidence. `verdict` is the evidence's, null where it is withheld. `baseline_reused` and `skill_reused` count
        trials taken from earlier runs; `input_tokens` (cached or not) and `output_tokens` are what this run's own
        trials took of the model under test, null where none reported them. `partial`: why the run is not complete.
        """
        disk = self._file.on_disk()
        saved = None if disk is None else read_skill(disk, self.path).hash
        return history_frame(self.log, self.set_name, self._paths, saved)

    def compared(self) -> Comparison | None:
        """The last run against the newest run of another version before it, case by case; None where there is none."""
        import polars as pl

        from .comparing import compare

        if self.last_run is None:
            return None
        record = self.last_run.record
        history = self.history
        before_it = history.head(next(iter((history["run_id"] == self.last_run.id).arg_true()), len(history)))
        others = before_it.filter(pl.col("version") != record["skillHash"])
        if others.is_empty():
            return None
        before = load_run(others["run_id"][-1], self.runs)
        shared = {case["id"] for case in before.record["cases"]} & {case["id"] for case in record["cases"]}
        return compare(before, self.last_run, force=True) if shared else None

    # --- inside --------------------------------------------------------------------------------------------

    def _eval_set(self, skill: Path) -> EvalSet:
        """The set as it is now, with this skill in it."""
        found = self._set if isinstance(self._set, EvalSet) else load_set(self._set)
        path = skill.resolve()
        if found.skill_path is not None and found.skill_path.resolve() == path:
            return found
        return replace(found, skill_path=path, skill_ref=shown(path, found.root))

    def _look(self, text: str | None, *, fresh: bool) -> Job | Run:
        taken = self._take(text)
        if stops := self.check(taken).stops:
            raise SkillError(stops)
        version = self._kept.keep(taken)
        return self._job(version, reuse=None if fresh else "unchanged", case_ids=self._case_ids)

    def _afresh(self, kind: str, **settings: Any) -> Job | Run:
        """A job of the last run's text with draws of its own, or the one of its kind that was stopped."""
        version = self._last_run()
        if version is None:
            raise InputError(Problem("", "there is no run of this skill to go on with", "run() first"))
        self._kind = (kind, version.name)
        if (stopped := self._unfinished.pop(self._kind, None)) is not None:
            with suppress(RunNotFound):  # the set has changed since
                return self._job(version, resume=stopped)
        return self._job(version, draw=1 + runs_of_set(self.log, self.set_name), **settings)

    def _last_run(self) -> Version | None:
        """The version of the last run: of this session, else of the log."""
        if self._last is not None:
            return self._last
        kept = {version.name: version for version in self._kept.all()}
        ran = reversed(self.history["version"].to_list())
        return next((kept[name] for name in ran if name in kept), None)

    def _job(self, version: Version, **settings: Any) -> Job | Run:
        given = self._settings["runner"]
        own = {"runner": given} if isinstance(given, Runner) else {}  # what is resumed has its settings
        settled = own if "resume" in settings else self._settings
        painter = painter_for(self.progress)
        job = prepare_job(
            self._eval_set(self.path),
            version=version.path,
            runs_dir=self.runs,
            progress=painter,
            **settled,
            **settings,
        )
        self._last = version
        return job

    @contextmanager
    def _alone(self) -> Iterator[None]:
        if not self._one_at_a_time.acquire(blocking=False):
            raise InputError(
                Problem("", "a run of this session is under way", "stop() it, or wait for its end")
            )
        self._stop, self._kind = threading.Event(), None
        try:
            yield
        finally:
            self._stop = self._cancel = None
            self._one_at_a_time.release()

    def _conduct(self, prepare: Callable[[], Job | Run]) -> Run:
        with self._alone():
            job = prepare()
            if isinstance(job, Run):
                return self._done(job)
            assert self._stop is not None
            job.painter = _Stoppable(job.painter, self._stop)
            try:
                return self._done(run_job(job))
            except KeyboardInterrupt:
                run = self._broken_off(job)
                if self._stopped:
                    return run
                raise

    @property
    def _stopped(self) -> bool:
        return self._stop is not None and self._stop.is_set()

    def _done(self, run: Run) -> Run:
        self.last_run = run
        return run

    def _broken_off(self, job: Job) -> Run:
        """The run as far as it came; it is whole where the stop came too late."""
        job.painter.finish()
        run = from_folder(job.folder.path)
        if self._kind is not None and run.record["partial"]:
            self._unfinished[self._kind] = run.id
        return self._done(run)

    def __repr__(self) -> str:
        """Short and the same each time."""
        return f"TuneSession({self.path.parent.name!r}, {self.set_name!r})"


class _Stoppable(Painter):
    """Hands everything on; once the event is set, a run that is painted is interrupted."""

    def __init__(self, inner: Painter, stop: threading.Event) -> None:
        self._inner, self._stop = inner, stop

    def say(self, line: str) -> None:
        self._inner.say(line)

    def start(self, title: str, counts: Counts) -> None:
        self._inner.start(title, counts)

    def paint(self) -> None:
        self._inner.paint()
        if self._stop.is_set():
            raise KeyboardInterrupt

    def finish(self) -> None:
        self._inner.finish()
