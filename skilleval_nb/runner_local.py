"""The runner `local`: a small model inside this process, to try the tool without a key or a network.

The engine is an optional package (`runner_local_engine`); the weights are found by `weights`. Greedy unless
the request asks for samples; a sample repeats exactly by its seed.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import runner_local_engine, weights
from .errors import Problem, RunnerFailure, RunnerUnavailable
from .runners import Runner
from .values import Answer, Request

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping

PINNED_NAME = "smollm2-135m"
PINNED_SYSTEM = "You are a helpful AI assistant named SmolLM, trained by Hugging Face"
"""What the pinned model's chat template puts in where a request has no system text."""
CONTEXT = 8192
SAMPLING: Mapping[str, float] = {"temperature": 0.7, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
_STOP_REASONS = {"stop": "end_turn", "length": "max_tokens"}


def installed() -> bool:
    """Tell whether engine and weights are here, without loading either."""
    return importlib.util.find_spec("xllamacpp") is not None and weights.find() is not None


def create(argument: str | None) -> LocalRunner:
    """Make the runner for a GGUF file, or for the weights that `weights.find` names.

    Raises MissingExtra without the engine, RunnerUnavailable without weights or where either cannot be used.
    """
    engine = runner_local_engine.import_engine()
    path = Path(argument).expanduser() if argument else weights.find()
    if path is None:
        raise RunnerUnavailable(
            Problem("", "the embedded model's weights are not on this machine", "run `skilleval fetch-model`")
        )
    _check_file(path, named=not argument and bool(os.environ.get(weights.VARIABLE)))
    return LocalRunner(path, version=f"xllamacpp {engine.__version__}")


class LocalRunner(Runner):
    """Answers from a GGUF file on this machine; the loaded model is shared and stays for the next run."""

    name = "local"
    max_concurrency = 1
    reports_cost = True
    default_max_tokens = 256

    def __init__(self, path: Path, *, context: int = CONTEXT, version: str | None = None) -> None:
        self.path = path.absolute()  # not resolved: in a blob store the link has the name, not the file
        self.context = context
        self.version = version
        self.pinned = weights.is_pinned(self.path)
        self.fixed_model = PINNED_NAME if self.pinned else self.path.stem.lower()

    def about(self) -> tuple[str, ...]:
        """Name the model, its size and licence, its hidden prompt, and what its figures are worth."""
        size = f"{self.path.stat().st_size / 1e6:.0f} MB on disk"
        if not self.pinned:
            return (
                f"{self.fixed_model}: {size}, {self.path}.",
                "Where a request has no system text, the model's chat template may put in one of its own; each"
                " answer's settings record it.",
            )
        return (
            f"{self.fixed_model}: {weights.PINNED.model}, {size}, licence {weights.PINNED.licence}.",
            "The baseline is not without a prompt: the model's chat template gives it the default system text"
            f" “{PINNED_SYSTEM}”, which a skill replaces.",
            "A model of this size shows how a set, a skill and the gate behave. It cannot tell whether a skill"
            " helps a larger model, and it is not fit to judge.",
        )

    async def answer(self, request: Request) -> Answer:
        """Ask the model, loading it first where it is not yet; a cancelled call stops within half a second.

        Raises RunnerFailure for a model file that does not load, an exceeded context and an engine error.
        """
        limit = request.max_tokens or self.default_max_tokens
        sampling = {**SAMPLING, "seed": request.seed & 0x7FFFFFFF} if request.sampled else {"temperature": 0}
        body = {"messages": _messages(request), "max_tokens": limit, **sampling, **_format(request)}

        def work(stop: threading.Event) -> tuple[str | None, runner_local_engine.Reply]:
            engine = runner_local_engine.shared(self.path, self.context)
            return engine.template_system, engine.ask(body, stop)

        template_system, reply = await runner_local_engine.in_thread(work)
        answer = Answer(
            text="".join(reply.parts),
            model=self.fixed_model,
            stop_reason=_STOP_REASONS.get(reply.finish or "", reply.finish),
            usage=reply.usage,
            usage_reason=None if reply.usage else "the engine reported none",
            cost_usd=0.0,
            latency_s=reply.seconds,
            settings={
                **sampling,
                "threads": runner_local_engine.THREADS,
                "context": self.context,
                "template_system": template_system if request.system is None else None,
            },
        )
        out = reply.usage.output_tokens if reply.usage else None
        if reply.finish == "length" and out is not None and out < limit:
            raise RunnerFailure(
                f"exceeded context: prompt and answer fill it after {out} of {limit} tokens", answer
            )
        return answer


def _messages(request: Request) -> list[dict[str, str]]:
    texts = [("system", request.system), ("user", request.prompt)]
    # the engine takes UTF-8 only: lone surrogates are replaced
    return [
        {"role": role, "content": text.encode("utf-8", "replace").decode("utf-8")}
        for role, text in texts
        if text is not None
    ]


def _format(request: Request) -> dict[str, Any]:
    if request.schema is None:
        return {}
    wanted = {"name": "reply", "schema": dict(request.schema)}
    return {"response_format": {"type": "json_schema", "json_schema": wanted}}


def _check_file(path: Path, *, named: bool) -> None:
    where = f"{path} (named by {weights.VARIABLE})" if named else str(path)
    fix = "give the path of a GGUF file"
    try:
        with path.open("rb") as file:
            magic = file.read(4)
    except OSError as error:
        what = f"the model file cannot be read: {error.strerror or error}"
        raise RunnerUnavailable(Problem(where, what, fix)) from error
    if magic != b"GGUF":
        raise RunnerUnavailable(Problem(where, "this is not a GGUF file", fix))
