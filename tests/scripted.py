"""A runner for tests that gives written answers: by prompt, without and with the skill."""

from __future__ import annotations

from collections.abc import Mapping

from skilleval_nb.errors import RunnerFailure
from skilleval_nb.runners import Runner
from skilleval_nb.values import Answer, Request


class Scripted(Runner):
    """Answers a prompt with its first text at baseline and its second with the skill; None is a failure."""

    name = "scripted"
    version = "scripted 1"
    delivery = "inject"
    fixed_model = "script-1"

    def __init__(self, answers: Mapping[str, tuple[str | None, str | None]]) -> None:
        self.answers = answers

    async def answer(self, request: Request) -> Answer:
        """The written answer."""
        text = self.answers[request.prompt][request.system is not None]
        if text is None:
            raise RunnerFailure("no answer is written")
        return Answer(text, "script-1", "end_turn")
