"""`ablate`: what each section of a skill is worth, by leaving out one at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any, Unpack

from .cases import EvalSet
from .conditions import BASELINE, SKILL
from .controls import visible
from .engine import RunOptions, run_set, set_and_skill
from .errors import InputError, Problem
from .folder import RunFolder
from .gate import counted, signed, span
from .record import result_of
from .runs import Run
from .sections import Section, sections_of, top_level
from .skills import Skill
from .text import measured_line, rate_words, title_line

if TYPE_CHECKING:
    import polars as pl


class Ablation:
    """One run with baseline, the skill, and the skill without each of its sections.

    `frame` ranks the sections, `run` is the run with all its conditions. In a notebook it shows the ranking.
    """

    def __init__(self, run: Run, sections: Sequence[Section]) -> None:
        self.run = run
        self._rows = _ranked(run.record, sections)

    @property
    def frame(self) -> pl.DataFrame:
        """One row a section, the most valuable first.

        `delta` is the skill's pass rate minus that of the skill without the section: the mean of the cases'
        differences over `cases`, those measured under both, with the ends of its 95 % interval; null: no such
        case. `p_set` asks whether chance explains it on these prompts, `p_adjusted` the same with all sections
        counted (Holm). `verdict` goes by `p_adjusted`: `improves` (the section helps), `no evidence` or
        `regresses` (it harms); null where nothing was measured, or unmeasured trials could turn it round.
        `tokens` is what the section adds to the input of a trial, cached or not, on average over the cases
        that report both; null: none does. `characters` are those of the section, its heading included.
        """
        import polars as pl

        schema: dict[str, Any] = {
            "section": pl.String, "level": pl.Int64, "characters": pl.Int64, "tokens": pl.Float64,
            "delta": pl.Float64, "delta_low": pl.Float64, "delta_high": pl.Float64, "p_set": pl.Float64,
            "p_adjusted": pl.Float64, "verdict": pl.String, "cases": pl.Int64,
        }  # fmt: skip
        return pl.DataFrame(self._rows, schema=schema)

    def lines(self) -> list[str]:
        """What was run, and how the sections are ranked; without the ranking itself."""
        record = self.run.record
        number = counted(len(self._rows), "section")
        told = [
            f"ablation of {title_line(record)}",
            rate_words(record),
            f"{number} by Δ, the skill minus the skill without it; p adjusted for {number} (Holm)",
        ]
        if record["cases"]:
            told.append(measured_line(record))
        if record.get("partial"):
            told.append(f"warning: partial ({record['partial']}): resume the run {self.run.id}")
        told += [f"warning: {warning}" for warning in record.get("warnings") or ()]
        return [" ".join(visible(line).splitlines()) for line in told]

    def __str__(self) -> str:
        """The ranking as text, a line a section."""
        cells = [[*HEAD], *(_words(row, len(self.run.record["cases"])) for row in self._rows)]
        widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
        rows = ["   ".join(map(str.ljust, row, widths)).rstrip() for row in cells]
        title, rates, ranked, *rest = self.lines()
        return "\n".join([title, rates, ranked, *(f"  {row}" for row in rows), *rest])

    def __repr__(self) -> str:
        """The same as text: an ablation is its ranking."""
        return str(self)

    def _repr_html_(self) -> str:
        from .html import lines_html

        rows = [_words(row, len(self.run.record["cases"])) for row in self._rows]
        return lines_html("sections of the skill", self.lines(), HEAD, rows)


HEAD = ("section", "Δ", "95% CI", "input tokens a trial", "characters", "evidence")


def ablate(
    set: str | Path | EvalSet,  # noqa: A002 - as `run_set` has it
    *,
    level: int | None = None,
    **options: Unpack[RunOptions],
) -> Ablation:
    """Runs a set with baseline, the skill, and the skill without each of its sections, and ranks the sections.

    Each section is a condition of its own, so the number of calls grows with them. `level` is that of the
    headings, from 1 to 6; None: the highest that several headings have. A section goes with all that stands
    below it. What sections are worth does not add up: two that say the same are worth nothing apart. Takes the
    options of `run_set` but `conditions`; with `resume` the sections are those of the run that goes on.

    Raises InputError before any call where the skill has no such section, and as `run_set` does.
    """
    if "conditions" in options:
        raise InputError(Problem("conditions", "an ablation has its own", "use run_set"))
    if options.get("resume") is not None:
        if level is not None:
            what = "a run that is resumed has its sections already"
            raise InputError(Problem("level", what, "leave one of them out"))
        run = run_set(set, **options)
        return Ablation(run, _sections_of_run(run))
    eval_set, skill = set_and_skill(set, options.get("skill_path"))
    sections = _sections(skill, level)
    options["conditions"] = [BASELINE, SKILL, *(section.condition for section in sections)]
    return Ablation(run_set(eval_set, **options), sections)


def _sections(skill: Skill, level: int | None) -> list[Section]:
    """The sections of a level, or of the highest that several have."""
    sections = sections_of(skill.body)
    name = skill.path.name
    if not sections:
        what = "the skill has no headings, so there is no section to leave out"
        raise InputError(Problem(name, what, "give its parts headings (## …)"))
    wanted = top_level(sections) if level is None else level
    if wanted is None:
        what = "the skill is one section, and without it there is only baseline"
        raise InputError(Problem(name, what, "give its parts headings (## …)"))
    found = [section for section in sections if section.level == wanted]
    if not found:
        levels = ", ".join(map(str, sorted({section.level for section in sections})))
        raise InputError(Problem("level", f"the skill has no heading of level {level!r}", f"of {levels}"))
    return found


def _sections_of_run(run: Run) -> list[Section]:
    """The sections that a run has left out; raises InputError where it is no ablation."""
    conditions = run.record["conditions"]
    systems = RunFolder(run.folder).read_header().get("systems", {}) if run.folder else {}
    found = [s for s in sections_of(systems.get(SKILL) or "") if s.condition in conditions]
    if not found:
        raise InputError(Problem("resume", f"the run {run.id} has left out no section", "start a new one"))
    return found


def _ranked(record: Mapping[str, Any], sections: Sequence[Section]) -> list[dict[str, Any]]:
    """The rows of the frame."""
    from .stats import ALPHA, NO_EVIDENCE, holm

    entries = {entry["condition"]: entry for entry in record.get("comparisons") or ()}
    found = [entries.get(section.condition, {}) for section in sections]
    rows = []
    for section, entry, adjusted in zip(
        sections, found, holm([entry.get("pSet") for entry in found]), strict=True
    ):
        verdict = entry.get("verdict")
        rows.append(
            {
                "section": section.label,
                "level": section.level,
                "characters": len(section.text),
                "tokens": _tokens(record["cases"], section.condition),
                "delta": entry.get("deltaEstimate"),
                "delta_low": entry.get("deltaLow"),
                "delta_high": entry.get("deltaHigh"),
                "p_set": entry.get("pSet"),
                "p_adjusted": adjusted,
                "verdict": NO_EVIDENCE if verdict and adjusted is not None and adjusted > ALPHA else verdict,
                "cases": entry.get("graded", 0),
            }
        )
    return sorted(rows, key=lambda row: (row["delta"] is None, -(row["delta"] or 0)))


def _tokens(cases: Sequence[Mapping[str, Any]], condition: str) -> float | None:
    """What a trial's input has more with the skill than under a condition: the mean over the cases that tell."""
    pairs = [(_input(case, SKILL), _input(case, condition)) for case in cases]
    known = [full - part for full, part in pairs if full is not None and part is not None]
    return fmean(known) if known else None


def _input(case: Mapping[str, Any], condition: str) -> float | None:
    """The mean input of a case's trials, cached or not."""
    trials = (result_of(case, condition) or {}).get("trials", ())
    tokens = [trial["tokens"] for trial in trials if trial.get("tokens")]
    known = [read + (hit or 0) + (write or 0) for read, _, hit, write in tokens if read is not None]
    return fmean(known) if known else None


def _words(row: Mapping[str, Any], total: int) -> list[str]:
    """A row of the ranking, under `HEAD`."""
    tokens = "not reported" if row["tokens"] is None else f"{row['tokens']:+,.0f}".replace("-", "−")
    size = f"{row['characters']:,}"
    if row["delta"] is None:
        return [row["section"], "not measured", "", tokens, size, "no case measured under both"]
    change = f"{signed(row['delta'])}%"
    return [
        row["section"],
        change,
        span(row["delta_low"], row["delta_high"]),
        tokens,
        size,
        _evidence(row, total),
    ]


def _evidence(row: Mapping[str, Any], total: int) -> str:
    from .stats import shown_p

    over = "" if row["cases"] == total else f", {row['cases']} of {counted(total, 'case')}"
    p = f"(p {shown_p(row['p_set'])}, adjusted {shown_p(row['p_adjusted'])}{over})"
    return f"{row['verdict'] or 'withheld, depends on unmeasured trials'} {p}"
