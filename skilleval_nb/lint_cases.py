"""Rules about a set as a whole: what its cases can show together, and what they cannot."""

from __future__ import annotations

from collections.abc import Iterator

from .cases import Case, Check
from .darkroom import coverage
from .gate import counted
from .lint_subject import Lint, Subject, is_ban
from .stats_design import CLAIM_UNITS, shown_p
from .stats_exact import ALPHA, sign_flip_min


def duplicates(subject: Subject) -> Iterator[Lint]:
    """The same case twice counts one behaviour as two."""
    first: dict[tuple[str, frozenset[Check]], Case] = {}
    for case in subject.cases:
        key = (" ".join(case.prompt.lower().split()), frozenset(case.checks))
        if (other := first.setdefault(key, case)) is not case:
            what = f"same prompt and checks as {other.id}: the two count as two results and are one"
            yield Lint("duplicate-prompt", case.id, what, "change or remove one; for repeats there is n")


def few_cases(subject: Subject) -> Iterator[Lint]:
    """Below a number of cases no result reaches beyond these prompts."""
    groups = len({case.cluster or f"\0{case.id}" for case in subject.cases})
    if groups >= CLAIM_UNITS:
        return
    told = counted(groups, "case") + (" (variants counted once)" if groups < len(subject.cases) else "")
    least = shown_p(sign_flip_min(groups))
    what = (
        f"{told}: even if all move the same way, p for similar prompts is {least}, and {ALPHA:g} is wanted:"
        " nothing can be claimed beyond these prompts"
    )
    yield Lint("few-cases", "the set", what, f"write at least {CLAIM_UNITS} cases that differ")


def only_easy(subject: Subject) -> Iterator[Lint]:
    """A set without hard cases, or without tags, cannot show what a skill is worth."""
    verdict = coverage(subject.eval_set).verdict
    if verdict == "untagged":
        what = "no case has a difficulty: whether the set is only easy cannot be told"
        yield Lint("only-easy", "the set", what, "tag the cases 1 (toy), 2 (realistic) or 3 (adversarial)")
    elif verdict == "darkroom":
        what = "no case is of difficulty 2 or more: what a model passes alone cannot show a skill's worth"
        yield Lint("only-easy", "the set", what, "add realistic (2) or adversarial (3) cases")


def no_negative(subject: Subject) -> Iterator[Lint]:
    """A set in which nothing can go too far rewards a skill that overdoes it."""
    if any(is_ban(check) for _, check, _ in subject.checks()) or any(map(subject.stays_away, subject.cases)):
        return
    yield Lint(
        "no-negative",
        "the set",
        "no check bans anything and every case seems to want the skill: one that overdoes it would look best",
        "add a case where the skill should change nothing, or a check of what must not be there",
    )
