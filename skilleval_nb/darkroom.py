"""Is a set hard enough to show anything? A set of easy cases only is a dark room: nothing can be seen in it."""

from __future__ import annotations

from dataclasses import dataclass

from .cases import EvalSet

HARD = 2


@dataclass(frozen=True, slots=True)
class Coverage:
    """How a set's cases are tagged: `untagged`, `darkroom`, `partial` or `ok`, and what to do about it."""

    verdict: str
    easy: int
    realistic: int
    adversarial: int
    untagged: int

    @property
    def text(self) -> str:
        """The tags counted, and the advice."""
        counts = (
            f"{self.easy} easy, {self.realistic} realistic, {self.adversarial} adversarial,"
            f" {self.untagged} untagged"
        )
        advice = {
            "untagged": "no case has a difficulty: tag them 1 (toy), 2 (realistic) or 3 (adversarial)",
            "darkroom": "a dark room: no case is of difficulty 2 or more, so the set can reveal nothing",
            "partial": "some cases have no difficulty: tag them too",
            "ok": "every case is tagged and at least one is of difficulty 2 or more",
        }
        return f"{counts} — {advice[self.verdict]}"


def coverage(eval_set: EvalSet) -> Coverage:
    """The tags of a set's cases."""
    tags = [case.difficulty for case in eval_set.cases]
    untagged = tags.count(None)
    if untagged == len(tags):
        verdict = "untagged"
    elif not any(tag is not None and tag >= HARD for tag in tags):
        verdict = "darkroom"
    else:
        verdict = "partial" if untagged else "ok"
    return Coverage(verdict, tags.count(1), tags.count(2), tags.count(3), untagged)
