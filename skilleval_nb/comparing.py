"""Two runs, or two conditions of one, against each other: a pinned run and a new one, two skills, two judges."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from .comparable import obstacles, remarks
from .comparison_record import SAME, TO_FAIL, TO_PASS, UNMEASURED, comparison_record
from .comparison_sides import CANDIDATE, REFERENCE, Record, Side, conditions_of, shared_trials
from .comparison_text import comparison_lines, comparison_rows, exit_code_of, held_in
from .errors import InputError, Problem, RunNotFound
from .folder import RunFolder
from .runs import Run, load_run
from .settings import problems_of
from .values import Gate

if TYPE_CHECKING:
    import polars as pl

    from .stats import Summary


class Flips(NamedTuple):
    """Ids of the cases by what became of their verdict from A to B."""

    to_pass: tuple[str, ...]
    to_fail: tuple[str, ...]
    same: tuple[str, ...]
    not_measured: tuple[str, ...]


class Comparison:
    """A candidate B against a reference A over the cases that both have, as `compare` returns it.

    `record` is all of it as plain values (camelCase keys). `evidence` is what `stats.summary` makes of the trials with
    A in the baseline's place; where nothing may be claimed its verdict is `no evidence`, and the record's
    `evidence.withheld` says why. In a notebook a comparison shows itself.
    """

    def __init__(self, record: dict[str, Any], evidence: Summary) -> None:
        self.record = record
        self.evidence = evidence

    @property
    def gate(self) -> Gate:
        """PASS: B passes more cases than A, however unmeasured trials would have ended."""
        return Gate(self.record["gate"])

    @property
    def delta(self) -> float | None:
        """B's rate minus A's over the cases measured in both, in [−1, 1]; None: none was."""
        found: float | None = self.record["deltaRate"]
        return found

    @property
    def held(self) -> bool | None:
        """True where Δ's interval rules out a drop of `max_drop`; None without a limit or a measurement."""
        return held_in(self.record)

    @property
    def exit_code(self) -> int:
        """0 B passes more cases, or where a `max_drop` is given it is held; 1 not so; 3 not measured."""
        return exit_code_of(self.record)

    @property
    def flips(self) -> Flips:
        """The cases that flipped, those that did not, and those that cannot tell."""
        by_flip = {
            word: tuple(case["id"] for case in self.record["cases"] if case["flip"] == word)
            for word in (TO_PASS, TO_FAIL, SAME, UNMEASURED)
        }
        return Flips(*by_flip.values())

    @property
    def warnings(self) -> tuple[str, ...]:
        """What speaks against comparing the two, or may explain a difference."""
        return tuple(self.record["warnings"])

    @property
    def cases(self) -> pl.DataFrame:
        """One row a case: passed and measured trials of each side, verdicts (null: nothing measured), and the flip.

        `flip` is `to pass`, `to fail`, `same` or `not measured in both`.
        """
        import polars as pl

        schema: dict[str, Any] = {
            "case_id": pl.String, "a_passes": pl.Int64, "a_measured": pl.Int64, "b_passes": pl.Int64,
            "b_measured": pl.Int64, "a_verdict": pl.Boolean, "b_verdict": pl.Boolean, "flip": pl.String,
        }  # fmt: skip
        rows = [
            {"case_id": case["id"], "flip": case["flip"]}
            | {
                f"{side}_{name}": case[side][name]
                for side in "ab"
                for name in ("passes", "measured", "verdict")
            }
            for case in self.record["cases"]
        ]
        return pl.DataFrame(rows, schema=schema)

    def lines(self) -> list[str]:
        """The comparison in plain words, its title first."""
        return comparison_lines(self.record)

    def __str__(self) -> str:
        """The result, as the command line prints it."""
        return "\n".join(self.lines())

    def __repr__(self) -> str:
        """The same as text: a comparison is its result."""
        return str(self)

    def _repr_html_(self) -> str:
        from .html import lines_html

        head = ["case", REFERENCE, CANDIDATE, "flip"]
        return lines_html("cases of both runs", self.lines(), head, comparison_rows(self.record))


def compare(
    a: Run | str | Path,
    b: Run | str | Path | None = None,
    *,
    conditions: Sequence[str] | None = None,
    force: bool = False,
    max_drop: float | None = None,
    runs_dir: str | Path = "runs",
) -> Comparison:
    """Compares a candidate `b` with a reference `a`, such as a pinned run; with `a` alone two of its conditions.

    Each is a Run, a run id, a folder or `"last"`. Of two runs the skill conditions are compared, of one run its
    baseline and its skill; `conditions` names the reference's and the candidate's. `max_drop` is a rate: the
    comparison then passes where the interval of Δ rules out so large a drop. Looks are not counted.

    Refused are runs of other cases, with another delivery or another judge (model or prompt), and records that do
    not say; `force` compares over the cases that both have, with the reasons as warnings. Another model, runner or
    set around the same cases is compared and said. Where both sides hold the same answers, graded anew, nothing is
    refused: what differs is the graders' doing, and no skill is given the credit.
    Raises RunNotFound, and InputError with all reasons at once.
    """
    first = _opened(a, runs_dir)
    second = first if b is None else _opened(b, runs_dir)
    if conditions is None:
        conditions = ("baseline", "skill") if b is None else ("skill", "skill")
    problems = [*_problems_of_pair(conditions, (first, second)), *problems_of({"max_drop": max_drop, "n": 1})]
    if problems:
        raise InputError(problems)
    side_a = Side(REFERENCE, first.id, first.record, conditions[0], _header(first))
    side_b = Side(CANDIDATE, second.id, second.record, conditions[1], _header(second))
    case_ids = [name for name in side_a.cases if name in side_b.cases]
    if not case_ids:
        raise InputError(
            Problem(f"{first.id}, {second.id}", "they have no case in common", "compare runs of one set")
        )
    reasons = obstacles(side_a, side_b, case_ids)
    same_answers = shared_trials(side_a, side_b, case_ids).all
    if reasons and not force and not same_answers:
        raise InputError(
            [*reasons, Problem("", "these runs do not compare", "force=True compares them all the same")]
        )
    warnings = [f"{reason.where}: {reason.what}" for reason in reasons] + remarks(side_a, side_b, case_ids)
    return Comparison(*comparison_record(side_a, side_b, case_ids, warnings=warnings, max_drop=max_drop))


def _opened(run: Run | str | Path, runs_dir: str | Path) -> Run:
    return run if isinstance(run, Run) else load_run(run, runs_dir)


def _header(run: Run) -> Record | None:
    try:
        return None if run.folder is None else RunFolder(run.folder).read_header()
    except RunNotFound:
        return None


def _problems_of_pair(conditions: Any, runs: tuple[Run, Run]) -> list[Problem]:
    if isinstance(conditions, str) or not isinstance(conditions, Sequence) or len(conditions) != len(runs):
        what = f"is {conditions!r}: it names the reference's condition and the candidate's"
        return [Problem("conditions", what, 'such as ("skill", "skill")')]
    known = [conditions_of(run.record) for run in runs]
    return [
        Problem(run.id, f"has no condition {name!r}", f"it has {', '.join(of_run)}")
        for run, name, of_run in zip(runs, conditions, known, strict=True)
        if name not in of_run
    ]
