"""Rules that look at what a run of the set has shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from .cases import Case, Check, PatternCheck, RegexCheck, TextCheck
from .check_rates import CheckClass, check_report
from .errors import InputError, Problem, RunNotFound
from .folder import RunFolder
from .gate import counted
from .lint_checks import LINE_FIX
from .lint_subject import Lint, Subject, begins, is_ban, place_of, together
from .patterns import search_each_now
from .record import CANDIDATE, REFERENCE, latest
from .runs import Run


@dataclass(frozen=True)
class Shown:
    """A run, as far as it is of the set as it stands now."""

    subject: Subject
    run: Run

    @cached_property
    def cases(self) -> Mapping[str, Case]:
        """The cases that the run had with the same prompt and checks; raises InputError where it had none."""
        record, eval_set = self.run.record, self.subject.eval_set
        is_same = record.get("setHash") == eval_set.hash
        ran = {str(case["id"]): case for case in (record["cases"] if is_same else self._header())}
        found = {
            case.id: case
            for case in eval_set.cases
            if case.id in ran and (is_same or _is_same(case, ran[case.id]))
        }
        if not found:
            what = f"has no case of {eval_set.name!r} as the set stands now"
            raise InputError(Problem(self.run.id, what, "run the set again, or give another run"))
        return found

    def _header(self) -> Sequence[Mapping[str, Any]]:
        """The cases as they were run; none where the run's folder is gone."""
        if self.run.folder is None:
            return ()
        with suppress(RunNotFound):
            return list(RunFolder(self.run.folder).read_header()["cases"])
        return ()

    @cached_property
    def easy(self) -> Mapping[str, int]:
        """The cases that pass at baseline in every measured trial, and how many those are."""
        return {
            str(case["id"]): result["measured"]
            for case in self.run.record["cases"]
            for result in case.get("results") or ()
            if result["condition"] == REFERENCE and 0 < result["measured"] == result["passes"]
        }

    def answers(self) -> Iterator[tuple[Case, str, list[Mapping[str, Any]]]]:
        """Every graded answer with its case and its checks' results; none where the run's folder is gone."""
        if self.run.folder is None or not self.run.folder.is_dir():
            return
        for key, line in latest(RunFolder(self.run.folder).lines()).items():
            if key.case_id in self.cases and line.get("checks"):
                yield self.cases[key.case_id], str(line.get("text", "")), line["checks"]


def _is_same(case: Case, ran: Mapping[str, Any]) -> bool:
    return case.prompt == ran["prompt"] and list(case.raw.get("assert", ())) == list(ran["checks"])


def later_lines(shown: Shown) -> tuple[set[str], list[Lint]]:
    """The places of checks of the beginning that graded an answer, and findings for those that look too early.

    Where no answer that failed has it on a later line, the check has done its work. Nothing is found either
    where the skill itself says how an answer begins: then the place is what is tested.
    """
    tried: set[str] = set()
    failed: list[tuple[Check, str, str]] = []
    for case, text, results in shown.answers():
        for number, (check, result) in enumerate(zip(case.checks, results, strict=False), 1):
            if begins(check):
                tried.add(place_of(case, number))
                if result.get("passed") is False and not shown.subject.opens:
                    failed.append((check, place_of(case, number), text.partition("\n")[2]))
    later = _stands_in([(check, rest) for check, _, rest in failed])
    hits: dict[Check, list[bool]] = {}
    places: dict[Check, list[str]] = {}
    for (check, place, _), hit in zip(failed, later, strict=True):
        hits.setdefault(check, []).append(hit)
        if place not in (known := places.setdefault(check, [])):
            known.append(place)
    return tried, [
        Lint(
            "first-line-verdict",
            together(places[check]),
            f"of {counted(len(hit), 'answer')} that failed it, {sum(hit)} had what it looks for on a later line",
            LINE_FIX,
        )
        for check, hit in hits.items()
        if any(hit)
    ]


def _stands_in(pairs: Sequence[tuple[Check, str]]) -> list[bool]:
    """Whether what each check of the beginning looks for begins a line of its text, or stands on one."""
    searched = [
        (replace(check.pattern, flags="".join(sorted({*check.pattern.flags, "m"}))), text)
        for check, text in pairs
        if isinstance(check, PatternCheck | RegexCheck)
    ]
    found = iter(search_each_now(searched) if searched else [])
    return [
        any(line.strip().startswith(check.value.strip()) for line in text.splitlines())
        if isinstance(check, TextCheck)
        else next(found).span is not None
        for check, text in pairs
    ]


def too_easy(shown: Shown) -> Iterator[Lint]:
    """A case that the model passes alone can only get worse by the skill."""
    for name, case in shown.cases.items():
        if (trials := shown.easy.get(name)) and not shown.subject.stays_away(case):
            what = f"passed at baseline in {trials}/{trials} trials: it can show no gain"
            fix = "make it harder, unless it is there to show that the skill does no harm"
            yield Lint("too-easy", name, what, fix)


def always_passes(shown: Shown) -> Iterator[Lint]:
    """A check that passes with and without the skill tells nothing of it."""
    for row in check_report(shown.run).iter_rows(named=True):
        case = shown.cases.get(row["case_id"])
        if case is None or row["class"] != CheckClass.ALWAYS_PASSES or row["case_id"] in shown.easy:
            continue
        if not is_ban(case.checks[row["check"] - 1]):
            counts = (
                f"{side} {row[f'{side}_passed']}/{row[f'{side}_measured']}" for side in (REFERENCE, CANDIDATE)
            )
            what = f"passed in every trial ({', '.join(counts)}): it tells nothing of the skill"
            place = place_of(case, row["check"])
            yield Lint("always-passes", place, what, "demand more of the answer, or drop it")
