"""Doubts about a set before it is run, or after: faults that other authors of sets have met, found without a model."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from .cases import EvalSet
from .lint_cases import duplicates, few_cases, no_negative, only_easy
from .lint_checks import (
    contradictions,
    empty_match,
    first_line,
    judge_alone,
    regex_in_text,
    two_in_one,
    unsupported,
)
from .lint_subject import Lint, Rule, Subject, together
from .lint_words import echo, leaks, quotable
from .sets import load_set
from .skills import load_skill

if TYPE_CHECKING:
    from .runs import Run

RULES: tuple[Rule, ...] = (
    unsupported,
    contradictions,
    empty_match,
    regex_in_text,
    first_line,
    quotable,
    echo,
    leaks,
    duplicates,
    judge_alone,
    few_cases,
    only_easy,
    no_negative,
    two_in_one,
)
"""What damages a result most comes first."""

NOTHING = "nothing found"


class LintReport(tuple[Lint, ...]):
    """The findings of `lint_set`, worst first; prints itself, and shows itself in a notebook."""

    __slots__ = ()

    def __str__(self) -> str:
        """One line a finding."""
        return "\n".join(map(str, self)) or NOTHING

    def __repr__(self) -> str:
        """The same as text: a report is its findings."""
        return str(self)

    def _repr_html_(self) -> str:
        from .html import line_html

        return "".join(line_html(line) for line in str(self).splitlines())


def lint_set(
    set_or_path: EvalSet | str | Path,
    *,
    skill_path: str | Path | None = None,
    run: Run | str | Path | None = None,
) -> LintReport:
    """Looks for what is known to go wrong with sets; calls no model, and finds are doubts, not errors.

    `skill_path` is a skill to compare with in place of the set's own; where there is neither, the rules that
    need one are left out. With `run` (a run of this set, or what `load_run` takes) its results are looked at too:
    cases that the model passes alone, checks that always pass, verdicts that came on a later line. Alike
    findings are put together: one Lint may name several places.
    Raises SetError or SkillError for what cannot be read, RunNotFound, and InputError where the run has no case
    of the set as it stands.
    """
    eval_set = set_or_path if isinstance(set_or_path, EvalSet) else load_set(set_or_path)
    path = skill_path if skill_path is not None else eval_set.skill_path
    subject = Subject(eval_set, load_skill(path) if path is not None else None)
    if not eval_set.cases:
        return LintReport()
    if run is None:
        return LintReport(_merged(lint for rule in RULES for lint in rule(subject)))
    from .lint_run import Shown, always_passes, later_lines, too_easy
    from .runs import Run, load_run

    shown = Shown(subject, run if isinstance(run, Run) else load_run(run))
    tried, later = later_lines(shown)
    found = [
        lint for rule in RULES for lint in rule(subject) if not (rule is first_line and lint.place in tried)
    ]
    return LintReport([*later, *_merged([*found, *too_easy(shown), *always_passes(shown)])])


def _merged(found: Iterable[Lint]) -> list[Lint]:
    """Findings that differ only in their place, as one."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for lint in found:
        places.setdefault((lint.rule, lint.what, lint.fix), []).append(lint.place)
    return [Lint(rule, together(where), what, fix) for (rule, what, fix), where in places.items()]
