"""Recording a runner and replaying what it answered."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import KEY, Loopback, status

from skilleval_nb import runner_anthropic
from skilleval_nb.errors import InputError, RecordingMissing, RunnerFailure, RunnerUnavailable
from skilleval_nb.runner_replay import RecordRunner, ReplayRunner, create_record, create_replay
from skilleval_nb.runners import Runner
from skilleval_nb.values import Answer, Request, Usage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable


class Echo(Runner):
    """A runner of a third party: answers with the prompt, or as `reply` says."""

    name = "echo"
    version = "echo 1.0"
    delivery = "install"
    baseline_system: str | None = " "
    fixed_model: str | None = "echo-1"
    default_max_tokens = 77
    speciality = "parrots"

    def __init__(self, reply: Callable[[Request], Answer] | None = None) -> None:
        self.reply = reply
        self.closed = 0

    async def answer(self, request: Request) -> Answer:
        if self.reply is None:
            return Answer(f"{request.prompt} {request.seed}", "echo-1", "end_turn", latency_s=0.5)
        return self.reply(request)

    def about(self) -> tuple[str, ...]:
        return ("it echoes",)

    async def aclose(self) -> None:
        self.closed += 1


class Chooser(Echo):
    """One with many models and a short name for one of them."""

    fixed_model = None

    def resolve_model(self, model: str) -> str:
        return {"big": "big-2026"}.get(model, model)


def outcomes(runner: Runner, requests: Iterable[Request]) -> list[Answer | str]:
    """The answer to each request, or the reason why there is none."""

    async def all_of_them() -> list[Answer | str]:
        found: list[Answer | str] = []
        for request in requests:
            try:
                found.append(await runner.answer(request))
            except RunnerFailure as failure:
                found.append(failure.reason)
        await runner.aclose()
        return found

    return asyncio.run(all_of_them())


def texts(runner: Runner, *requests: Request) -> list[str]:
    """The same as texts."""
    return [found if isinstance(found, str) else found.text for found in outcomes(runner, requests)]


ANSWERS = [
    Answer("plain"),
    Answer("", "m", "refusal", Usage(1, 2, 3, 4), None, 0.25, 1.5, 3, {"pass": True}, {"temperature": 0.7}),
    Answer(
        "half \ud800 pair, \u2028 line, \x00 nul, Ünï 🌍\r\n",
        usage=Usage(0),
        usage_reason=None,
        latency_s=0.0,
    ),
    Answer("no usage", usage_reason="the server reported no usage", latency_s=1e-9),
]


@pytest.mark.parametrize("answer", ANSWERS)
def test_what_was_recorded_comes_back_equal(answer: Answer, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    (recorded,) = outcomes(RecordRunner(Echo(lambda request: answer), path), [Request("p\ud800", "m")])
    assert isinstance(recorded, Answer)
    assert outcomes(ReplayRunner(path), [Request("p\ud800", "m")]) == [recorded]
    # a latency that the runner did not take is taken here; nothing else is added
    assert recorded == (replace(answer, latency_s=recorded.latency_s) if answer.latency_s is None else answer)
    assert recorded.latency_s is not None


REQUESTS = st.builds(
    Request,
    prompt=st.text(max_size=20),
    model=st.just("m"),
    system=st.none() | st.text(max_size=5),
    max_tokens=st.none() | st.integers(1, 9),
    seed=st.integers(0, 3),
    sampled=st.booleans(),
    schema=st.none() | st.dictionaries(st.text(max_size=3), st.integers(0, 2), max_size=2),
    role=st.sampled_from(["executor", "judge"]),
    label=st.text(max_size=5),
)


@given(st.lists(REQUESTS, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_every_request_gets_its_own_last_answer_in_any_order(requests: list[Request], random: Any) -> None:
    import tempfile

    numbers = iter(range(len(requests)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "a.jsonl"
        recorded = texts(RecordRunner(Echo(lambda request: Answer(str(next(numbers)))), path), *requests)
        if not requests:
            assert not path.exists()
            return
        expected = {
            repr(replace(request, label="")): text for request, text in zip(requests, recorded, strict=True)
        }
        shuffled = random.sample(requests, len(requests))
        replayed = texts(ReplayRunner(path), *shuffled, *shuffled)
    assert replayed == [expected[repr(replace(request, label=""))] for request in shuffled] * 2


def test_repeats_differ_by_seed_and_a_second_replay_is_the_same(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    repeats = [Request("p", "m", seed=seed, sampled=True) for seed in (5, 6, 7)]
    texts(RecordRunner(Echo(), path), *repeats)
    assert [texts(ReplayRunner(path), *repeats) for _ in range(2)] == [["p 5", "p 6", "p 7"]] * 2
    assert texts(ReplayRunner(path), *reversed(repeats)) == ["p 7", "p 6", "p 5"]


def test_a_failure_is_replayed_and_a_later_answer_mends_it(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    def fail(request: Request) -> Answer:
        raise RunnerFailure("exceeded context", Answer("so far", usage=Usage(9)))

    assert texts(RecordRunner(Echo(fail), path), Request("p", "m")) == ["exceeded context"]
    with pytest.raises(RunnerFailure, match="exceeded context") as caught:
        asyncio.run(ReplayRunner(path).answer(Request("p", "m")))
    assert caught.value.answer == Answer("so far", usage=Usage(9))
    texts(RecordRunner(Echo(), path), Request("p", "m"))
    assert texts(ReplayRunner(path), Request("p", "m")) == ["p 0"]


def test_a_call_that_was_cut_off_is_a_recorded_failure(tmp_path: Path) -> None:
    class Slow(Echo):
        async def answer(self, request: Request) -> Answer:
            await asyncio.sleep(30)
            raise AssertionError

    async def cut() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await RecordRunner(Slow(), tmp_path / "a.jsonl").answer(Request("p", "m"))

    asyncio.run(cut())
    (reason,) = texts(ReplayRunner(tmp_path / "a.jsonl"), Request("p", "m"))
    assert reason == "cut off after 0.0 s when it was recorded"


def test_a_replay_presents_the_recorded_runner(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts(RecordRunner(Echo(), path), Request("p", "anything"))
    replay = create_replay(str(path))
    assert (replay.name, replay.version) == ("replay", "recording of echo 1.0")
    assert (replay.delivery, replay.baseline_system) == ("install", " ")
    assert (replay.fixed_model, replay.default_max_tokens) == ("echo-1", 77)
    assert replay.resolve_model("haiku") == "echo-1"
    assert replay.about() == (f"no model is called: 1 recorded answers of echo in {path}",)
    # a runner with one model answers whatever model is asked for
    assert texts(replay, Request("p", "something else")) == ["p 0"]


def test_a_short_name_and_its_id_are_the_same_question(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts(RecordRunner(Chooser(), path), Request("p", "big"), Request("q", "haiku"))
    replay = ReplayRunner(path)
    assert (replay.resolve_model("big"), replay.resolve_model("haiku")) == ("big-2026", "haiku")
    assert replay.resolve_model("sonnet") == "claude-sonnet-4-6"
    assert texts(replay, Request("p", "big"), Request("p", "big-2026")) == ["p 0", "p 0"]


def test_a_recorder_is_the_runner_itself_in_all_else(tmp_path: Path) -> None:
    inner = Echo()
    runner = RecordRunner(inner, tmp_path / "a.jsonl")
    inner.max_concurrency = 3
    for name in (
        "name",
        "version",
        "delivery",
        "baseline_system",
        "max_concurrency",
        "fixed_model",
        "speciality",
    ):
        assert getattr(runner, name) == getattr(inner, name), name
    assert runner.default_max_tokens == 77
    assert runner.resolve_model("x") == "echo-1"
    assert runner.about() == ("it echoes", f"every answer is recorded in {tmp_path / 'a.jsonl'}")
    with pytest.raises(AttributeError):
        _ = runner.no_such_thing
    texts(runner, Request("p", "m"))
    texts(runner, Request("q", "m"))
    assert inner.closed == 2
    assert texts(ReplayRunner(tmp_path / "a.jsonl"), Request("p", "m"), Request("q", "m")) == ["p 0", "q 0"]


def test_a_recording_can_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    request = Request("Grüß mich", "m", "Be brief.", schema={"type": "object"}, label="hello.skill.1")
    texts(RecordRunner(Echo(), path), request)
    header, line = (json.loads(line) for line in path.read_text(encoding="utf-8").splitlines())
    assert "Grüß mich" in path.read_text(encoding="utf-8")
    assert header == {
        "recording": 1,
        "runner": "echo",
        "version": "echo 1.0",
        "fixedModel": "echo-1",
        "delivery": "install",
        "baselineSystem": " ",
        "defaultMaxTokens": 77,
    }
    assert (line["label"], line["prompt"], line["system"]) == ("hello.skill.1", "Grüß mich", "Be brief.")
    assert (line["model"], line["resolvedModel"], line["schema"]) == ("m", "echo-1", {"type": "object"})
    assert line["answer"]["text"] == "Grüß mich 0"
    assert line["answer"]["usage"] is None


def test_parallel_calls_write_whole_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"

    async def many() -> None:
        runner = RecordRunner(Echo(), path)
        await asyncio.gather(*(runner.answer(Request("x" * 10_000, "m", seed=i)) for i in range(50)))
        await runner.aclose()

    asyncio.run(many())
    assert len(path.read_bytes().splitlines()) == 51
    assert "50 recorded answers" in ReplayRunner(path).about()[0]


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        (
            Request("other", "m", label="one.skill.1"),
            "holds no answer to one.skill.1 (executor, model echo-1)",
        ),
        (Request("other", "m", label="one.skill.1"), "the one under that label has another prompt"),
        (Request("p", "m", "S", seed=1, label="one.skill.1"), "has another system, seed"),
        (
            Request("p", "m", label="one.skill.1", role="judge"),
            "no answer to one.skill.1 (judge, model echo-1)",
        ),
        (Request("what is it?", "m"), "no answer to 'what is it?' (executor"),
        (Request("other", "m"), "record it with the runner record:"),
        (Request("other", "m"), "a.jsonl:echo"),
    ],
)
def test_a_missing_answer_says_which_and_how_to_record_it(asked: Request, words: str, tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    texts(RecordRunner(Echo(), path), Request("p", "m", label="one.skill.1"))
    with pytest.raises(RecordingMissing) as caught:
        asyncio.run(ReplayRunner(path).answer(asked))
    assert words in str(caught.value)
    assert str(caught.value).startswith(str(path))


HEADER = {"recording": 1, "runner": "echo", "delivery": "inject"}
ENTRY: dict[str, Any] = {
    "label": "a",
    "model": "m",
    "resolvedModel": "m",
    "system": None,
    "prompt": "p",
    "maxTokens": None,
    "seed": 0,
    "sampled": False,
    "schema": None,
    "role": "executor",
    "answer": {"text": "hand-made"},
}


def written(path: Path, *lines: object, end: str = "\n") -> Path:
    """A file with these lines; what is no text is written as JSON."""
    path.write_text(
        "\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines) + end,
        encoding="utf-8",
    )
    return path


def test_a_recording_can_be_made_by_hand(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", "\ufeff" + json.dumps(HEADER) + "\r", "", ENTRY, end="")
    assert outcomes(ReplayRunner(path), [Request("p", "m")]) == [Answer("hand-made")]


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (["not json"], "a.jsonl:1: this is no line of a recording: Expecting value"),
        ([ENTRY], 'a.jsonl:1: this is no line of a recording: the first line has no "recording"'),
        ([HEADER | {"recording": 2}], "a.jsonl:1: this is no line of a recording: it is of format 2"),
        ([HEADER | {"delivery": None}], "runner and delivery must be texts"),
        ([HEADER, ENTRY, '{"label": "to'], "a.jsonl:3: "),
        ([HEADER, "[1]"], "a.jsonl:2: this is no line of a recording: it is not an object"),
        ([HEADER, "[" * 100_000], "a.jsonl:2: this is no line of a recording: it is nested too deep"),
        (
            [HEADER, "", {"prompt": "p"}],
            "a.jsonl:3: this is no line of a recording: it lacks resolvedModel, system",
        ),
        ([HEADER, ENTRY | {"answer": None}], "it holds neither an answer nor a failure"),
        ([HEADER, ENTRY | {"answer": {"text": 1}}], "the answer has no text"),
        ([HEADER, ENTRY | {"answer": {"text": "", "usage": [1]}}], "the answer's usage must be an object"),
        ([HEADER, ENTRY | {"model": 1}], "model and resolvedModel must be texts"),
        ([HEADER, HEADER | {"runner": "local"}], "a.jsonl:2: this is no line of a recording: two runners"),
        ([HEADER, *["{"] * 9], "and 4 more such lines"),
        ([""], "the recording is empty"),
    ],
)
def test_a_broken_recording_is_refused_with_its_line(lines: list[object], words: str, tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", *lines)
    with pytest.raises(InputError) as caught:
        ReplayRunner(path)
    assert words in str(caught.value)


def test_a_recording_that_is_not_there_or_no_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"there is no such recording — make one with the runner record:"):
        ReplayRunner(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="cannot be read"):
        ReplayRunner(tmp_path)


def test_a_recording_that_changes_while_it_is_replayed_is_no_answer(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", HEADER, ENTRY)
    replay = ReplayRunner(path)
    written(path, HEADER, ENTRY | {"prompt": "q"})
    with pytest.raises(InputError, match="was changed while it was replayed"):
        asyncio.run(replay.answer(Request("p", "m")))
    path.unlink()
    with pytest.raises(InputError, match="was changed while it was replayed"):
        asyncio.run(replay.answer(Request("p", "m")))


def test_recording_goes_on_in_a_file_of_the_same_runner_only(tmp_path: Path) -> None:
    path = written(tmp_path / "a.jsonl", HEADER, ENTRY, end="")
    before = path.read_bytes()
    with pytest.raises(
        InputError, match="comes from another runner: fixedModel None and 'echo-1', delivery"
    ) as caught:
        RecordRunner(Echo(), path)
    assert "record into another file" in str(caught.value)
    with pytest.raises(InputError, match="no line of a recording"):
        RecordRunner(Echo(), written(tmp_path / "notes.txt", "my notes"))
    assert path.read_bytes() == before

    class Same(Echo):
        delivery, baseline_system, fixed_model = "inject", None, None

    texts(RecordRunner(Same(), path), Request("q", "m"))
    assert texts(ReplayRunner(path), Request("p", "m"), Request("q", "m")) == ["hand-made", "q 0"]


@pytest.mark.parametrize("name", ["no/folder/a.jsonl", "."])
def test_a_file_that_cannot_be_written_is_refused_before_any_call(name: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be written"):
        RecordRunner(Echo(), tmp_path / name)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs the device that is always full")
def test_an_answer_that_cannot_be_recorded_is_a_failure_that_keeps_it(tmp_path: Path) -> None:
    runner = RecordRunner(Echo(), "/dev/full")
    with pytest.raises(
        RunnerFailure, match="the answer could not be recorded in /dev/full: No space left"
    ) as caught:
        asyncio.run(runner.answer(Request("p", "m")))
    assert caught.value.answer is not None
    assert caught.value.answer.text == "p 0"
    asyncio.run(runner.aclose())


def test_no_key_reaches_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    path = tmp_path / "a.jsonl"
    requests = [Request("hi", "haiku"), Request(f"my key is {KEY}", "haiku")]
    with Loopback(
        lambda body, count: status(401, "e", f"no {KEY}") if count == 1 else f"you sent {KEY}"
    ) as server:
        results = texts(RecordRunner(runner_anthropic.create(server.url), path), *requests)
    assert results[0] == "HTTP 401 e: no [key]"
    assert KEY not in path.read_text(encoding="utf-8")
    assert texts(ReplayRunner(path), requests[0]) == ["HTTP 401 e: no [key]"]


@pytest.mark.parametrize(
    ("argument", "path", "inner"),
    [
        ("a.jsonl:replay:b.jsonl", "a.jsonl", "b.jsonl"),
        ("C:\\recordings\\a.jsonl:replay:b.jsonl", "C:\\recordings\\a.jsonl", "b.jsonl"),
        ("a:b.jsonl:replay:b.jsonl", "a:b.jsonl", "b.jsonl"),
        ("a.jsonl:replay:D:c.jsonl", "a.jsonl", "D:c.jsonl"),
        ("replay:replay:b.jsonl", "replay", "b.jsonl"),
        ("a.jsonl:replay:local", "a.jsonl", "local"),
    ],
)
def test_where_the_path_of_a_recording_ends(
    argument: str, path: str, inner: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    written(tmp_path / inner, HEADER, ENTRY)
    runner = create_record(argument)
    assert runner.about() == (
        f"no model is called: 1 recorded answers of echo in {inner}",
        f"every answer is recorded in {path}",
    )


def test_a_recorder_takes_a_runner_with_an_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    with Loopback() as server:
        runner = create_record(f"{tmp_path}/a.jsonl:anthropic:{server.url}")
        assert texts(runner, Request("hi", "haiku")) == ["stub reply"]
    assert server.requests[0]["body"]["model"] == "claude-haiku-4-5-20251001"
    assert texts(ReplayRunner(tmp_path / "a.jsonl"), Request("hi", "haiku")) == ["stub reply"]


@pytest.mark.parametrize("argument", [None, "", "a.jsonl", ":replay:b.jsonl", "anthropic"])
def test_a_recorder_without_file_or_runner_is_refused(argument: str | None) -> None:
    with pytest.raises(
        InputError, match=r"write record:answers\.jsonl:RUNNER, with one of anthropic, claude"
    ):
        create_record(argument)


def test_a_misspelt_runner_is_named() -> None:
    with pytest.raises(InputError, match="there is no runner 'nobody' to record"):
        create_record("a.jsonl:nobody")


def test_what_the_recorded_runner_cannot_do_is_said_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(RunnerUnavailable, match="no key"):
        create_record("a.jsonl:anthropic")
    with pytest.raises(InputError, match=r"write replay:answers\.jsonl"):
        create_replay(None)


def test_two_thousand_answers_are_replayed_in_a_second(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    requests = [
        Request(f"prompt {i} " * 40, "m", "skill " * 700 if i % 2 else None, seed=i) for i in range(2000)
    ]
    texts(RecordRunner(Echo(), path), *requests)
    started = time.process_time()
    found = texts(ReplayRunner(path), *requests)
    assert time.process_time() - started < 1
    assert found[1999] == f"{requests[1999].prompt} 1999"
