"""A run to look at: its numbers as frames, its result as text and HTML, its transcripts one call away."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .changes import CHANGES, change_rows
from .errors import Problem, RunNotFound
from .finder import LOG, find_folder, resolve_runs_dir, run_id_of
from .folder import RunFolder
from .log import read_records
from .record import decision_of, key_of, latest
from .run_record import run_record
from .text import exit_code, opened_as, result_lines
from .values import Gate

if TYPE_CHECKING:
    import polars as pl

    from .inspector import Inspector


class Run:
    """One execution of a set.

    `record` is what the log holds (camelCase keys), `folder` where the transcripts are, or None where only
    the log knows the run. In a notebook a run shows itself.
    """

    def __init__(self, record: Mapping[str, Any], folder: Path | None = None) -> None:
        self.record = record
        self.folder = folder

    @property
    def id(self) -> str:
        """The run's id, which is its folder's name."""
        return run_id_of(self.record)

    @property
    def gate(self) -> Gate:
        """The ship decision; the origin's ERROR reads as NOT MEASURED."""
        word = self.record["gate"]
        return Gate.NOT_MEASURED if word == "ERROR" else Gate(word)

    @property
    def delta(self) -> float | None:
        """Skill rate minus baseline rate over the cases measured in both, in [−1, 1]; None: none was."""
        return decision_of(self.record["cases"]).delta

    @property
    def exit_code(self) -> int:
        """What the command line ends with: 0, 1 or 3."""
        return exit_code(self.record)

    @property
    def cases(self) -> pl.DataFrame:
        """One row a case and condition; columns as `load_log(level="case")`."""
        return self._frame("case")

    @property
    def trials(self) -> pl.DataFrame:
        """One row a trial that was started; columns as `load_log(level="trial")`."""
        return self._frame("trial")

    @property
    def checks(self) -> pl.DataFrame:
        """One row a check of a trial; columns as `load_log(level="check")`."""
        return self._frame("check")

    @property
    def changes(self) -> pl.DataFrame:
        """What grading anew has changed: one row a check of a trial; empty unless this run is a regrade.

        `before` and `after` are the grade (null: not decided), `new` marks checks that were not there before,
        `graded_anew` is False where a judge's grade was kept, `changed` where both grades differ.
        """
        import polars as pl

        lines = (
            () if self.folder is None or "regradeOf" not in self.record else RunFolder(self.folder).lines()
        )
        return pl.DataFrame(change_rows(latest(lines).values()), schema=dict(CHANGES))

    @property
    def check_report(self) -> pl.DataFrame:
        """One row a check of a case: who passes it, and whether it tells the skill from no skill."""
        from .check_rates import check_report

        return check_report(self)

    @property
    def labels(self) -> pl.DataFrame:
        """What people said of this run's answers: one row a labelled trial, or check of one."""
        from .labels import labels_frame

        return labels_frame(self)

    def label(
        self,
        case: str,
        condition: str,
        trial: int,
        passed: bool | None,  # noqa: FBT001 - a verdict, as the columns have it
        *,
        check: int | None = None,
        note: str = "",
    ) -> None:
        """Keeps a person's verdict on a trial, or on check `check` of it, beside the run; None takes it back.

        Raises RunNotFound where the run has no folder or no such trial.
        """
        from .labels import add_label

        add_label(self, case, condition, trial, passed, check=check, note=note)

    def inspect(self) -> Inspector:
        """The run's answers to look through, both conditions side by side, by keyboard or mouse; in a notebook."""
        from .inspector import inspect

        return inspect(self)

    def transcript(self, case: str, condition: str, trial: int = 1) -> str:
        """The whole answer of one trial, as it came.

        Raises RunNotFound where the run has no such trial, the trial has no answer, or its folder is gone.
        """
        if self.folder is None or not self.folder.is_dir():
            raise RunNotFound(
                Problem(
                    self.id, "the transcripts are not here: only the log knows this run", "run the set again"
                )
            )
        lines = [
            line
            for line in RunFolder(self.folder).lines()
            if (line.get("caseId"), line.get("condition"), line.get("trial")) == (case, condition, trial)
        ]
        if not lines:
            known = ", ".join(str(item["id"]) for item in self.record["cases"][:20])
            raise RunNotFound(Problem(self.id, f"no trial {case}.{condition}.{trial}", f"cases: {known}"))
        line = latest(lines)[key_of(lines[0])]
        if "text" not in line:
            raise RunNotFound(
                Problem(self.id, f"{case}.{condition}.{trial} has no answer ({line.get('reason')})")
            )
        return str(line["text"])

    def __str__(self) -> str:
        """The result, as the command line prints it."""
        lines = result_lines(self.record)
        if self.folder is not None:
            lines.append(f'transcripts {self.record["dir"]} · open: se.load_run("{opened_as(self.record)}")')
        return "\n".join(lines)

    def __repr__(self) -> str:
        """The same as text: a run is its result."""
        return str(self)

    def _repr_html_(self) -> str:
        from .html import run_html

        return run_html(self.record, transcripts=self.folder is not None)

    def _frame(self, level: str) -> pl.DataFrame:
        from .frames import frame_of

        return frame_of([dict(self.record)], level)


def load_run(id_or_folder: str | Path, runs_dir: str | Path = "runs") -> Run:
    """Reopens a finished or interrupted run by its id, its folder, or `"last"`.

    A run whose folder is gone is read from the log, without transcripts.
    Raises RunNotFound where neither knows it.
    """
    runs = resolve_runs_dir(runs_dir)
    folder = find_folder(id_or_folder, runs)
    if folder is not None:
        return from_folder(folder)
    if (runs / LOG).exists():
        wanted = str(id_or_folder)
        record = None
        for found in read_records(runs / LOG, contains=None if wanted == "last" else wanted):
            if "cases" in found and wanted in ("last", run_id_of(found)):
                record = found
        if record is not None:
            return Run({**record, "runId": run_id_of(record)})
    raise RunNotFound(
        Problem(
            str(id_or_folder), f"no such run in {runs_dir}", 'see se.load_log(level="run") or `skilleval log`'
        )
    )


def from_folder(folder: Path) -> Run:
    """The run of a folder: the log's record where the run ended by itself, else one made from its trials."""
    run = RunFolder(folder)
    header = run.read_header()
    record = None
    log = folder.parent / LOG
    if log.exists():
        for found in read_records(log, contains=folder.name):
            if run_id_of(found) == folder.name and "cases" in found:
                record = found
    if record is None or record.get("lines") != sum(1 for _ in run.lines()):
        # the run ended by itself never, or has gone on since
        resumes = int(header.get("resumes", 0))
        record = run_record(header, run.lines(), log, partial="interrupted", resumes=resumes)
    return Run(record, folder)
