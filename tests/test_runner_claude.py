"""The claude runner: what it starts, what it lets through, and what it makes of the CLI's output."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections.abc import Coroutine, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fake_claude
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skilleval_nb import runners
from skilleval_nb.calls import call
from skilleval_nb.claude_output import events, plain_line, read_answer
from skilleval_nb.errors import RunnerFailure, RunnerUnavailable
from skilleval_nb.judge import SCHEMA, SYSTEM
from skilleval_nb.runner_claude import create
from skilleval_nb.values import Answer, Request, Usage

CAPTURES = Path(__file__).parents[2] / "shared" / "captures"
posix = pytest.mark.skipif(sys.platform == "win32", reason="the fake CLI is a script with a #! line")


# --- the real CLI's output, where the captures are there -------------------------------------------------

ONE, TWO = Usage(11, 7, 3000, 200), Usage(22, 14, 6000, 400)
"""The stub behind the captures bills each request with these; the expected sums count its requests."""


@dataclass(frozen=True)
class Said:
    text: str
    usage: Usage = ONE
    stop: str = "end_turn"
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Failed:
    reason: str
    usage: Usage | None = None


VERDICT = {"passed": True, "evidence": "ends with Tidied: yes"}
VERDICT_TEXT = '{"passed":true,"evidence":"ends with Tidied: yes"}'
OVERLOADED = Failed("overloaded (HTTP 529): API Error: 529 Overloaded.")
BOTH: Mapping[str, Said | Failed] = {
    "ok": Said("hello there"),
    "ok_stream": Said("hello there"),
    "ok_text": Failed("the claude CLI gave no answer (exit status 0): hello there"),
    "skill_triggered": Said("Done.\nTidied: yes", TWO),
    "skill_probe": Failed(
        "the claude CLI stopped at its limit of turns: Reached maximum number of turns (1)", ONE
    ),
    "skill_not_triggered": Said("4"),
    "skill_needs_permission": Said("Could not.", TWO),
    "skill_unknown": Said("Could not.", TWO),
    "skill_read_as_file": Said("ok", TWO),
    "skill_slash_prompt": Said("ok"),
    "write_denied": Said("done", TWO),
    "write_accepted": Said("done", TWO),
    "schema_ok": Said(VERDICT_TEXT, ONE, "tool_use", VERDICT),
    "schema_absent": Said("still no", TWO),
    "max_turns": Failed(
        "the claude CLI stopped at its limit of turns: Reached maximum number of turns (1)", ONE
    ),
    "max_budget": Failed("the claude CLI stopped at its budget: Reached maximum budget ($0.0001)", ONE),
    "stop_max_tokens": Said("wer", TWO),
    "error_401": Failed("the key or login was refused (HTTP 401): Invalid API key"),
    "error_404_model": Failed(
        "unknown model (HTTP 404): There's an issue with the selected model (claude-nope)."
    ),
    "error_400_too_long": Failed("exceeded context (HTTP 400): Prompt is too long"),
    "error_429": Failed("rate limit (HTTP 429): API Error: Request rejected (429) · slow down"),
    "error_529": OVERLOADED,
    "error_529_stream_retry": OVERLOADED,
    "error_529_text": Failed("the claude CLI gave no answer (exit status 1): API Error: 529 Overloaded."),
    "error_connection": Failed("connection failed: API Error: "),
    "error_not_logged_in": Failed("not logged in — run `claude` once and log in"),
    "error_no_prompt": Failed("the claude CLI gave no answer (exit status 1): Error: Input must be provided"),
    "error_bad_option": Failed(
        "the claude CLI gave no answer (exit status 1): error: unknown option '--no-such-"
    ),
    "killed_sigterm": Failed("the claude CLI was ended before it answered (exit status 143)"),
}
ONLY: Mapping[str, Mapping[str, Said | Failed]] = {
    "claude-2.1.197": {
        "unknown_slash_prompt": Failed("the claude CLI asked no model; it said: Unknown command: /nosuch"),
        "schema_exhausted": Failed("empty answer: no reply followed the schema", Usage(44, 28, 12000, 800)),
        "refusal": Said("", ONE, "refusal"),
        "killed_sigint": Failed("the claude CLI was ended before it answered (exit status 0)"),
        "background_title_request": Said("hello there", TWO),
    },
    "claude-2.1.332": {
        "unknown_slash_prompt": Said("ok"),
        "schema_exhausted": Failed("empty answer: no reply followed the schema", Usage(55, 35, 15000, 1000)),
        "refusal": Said("", TWO, "refusal"),
        "killed_sigint": Failed("the claude CLI was interrupted"),
        "background_title_request": Said("hello there"),
    },
}
MODELS = {"claude-2.1.197": "claude-opus-4-8", "claude-2.1.332": "claude-opus-5-5"}
DOLLARS_A_REQUEST = {"claude-2.1.197": 0.00298, "claude-2.1.332": 0.001784}
captured = pytest.mark.skipif(not CAPTURES.is_dir(), reason="the captures are not part of the project")


@captured
@pytest.mark.parametrize("version", ONLY)
def test_every_capture_has_its_outcome_here(version: str) -> None:
    index = json.loads((CAPTURES / version / "index.json").read_text())
    assert {row["case"] for row in index} == {*BOTH, *ONLY[version]}


@captured
@pytest.mark.parametrize(("version", "case"), [(v, case) for v in ONLY for case in (*BOTH, *ONLY[v])])
def test_captured_output(version: str, case: str) -> None:
    folder = CAPTURES / version
    row = next(row for row in json.loads((folder / "index.json").read_text()) if row["case"] == case)
    errors = folder / f"{case}.stderr.txt"
    stdout, stderr = (folder / row["stdout"]).read_bytes(), errors.read_bytes() if errors.exists() else b""
    expected = {**BOTH, **ONLY[version]}[case]
    if isinstance(expected, Failed):
        with pytest.raises(RunnerFailure) as caught:
            read_answer(stdout, stderr, row["exit_status"])
        assert caught.value.reason.startswith(expected.reason)
        assert (caught.value.answer and caught.value.answer.usage) == expected.usage
        return
    answer = read_answer(stdout, stderr, row["exit_status"])
    got = (answer.text, answer.usage, answer.stop_reason, answer.data)
    assert got == (expected.text, expected.usage, expected.stop, expected.data)
    assert answer.model == MODELS[version]
    requests = (expected.usage.output_tokens or 0) // 7
    assert answer.cost_usd == pytest.approx(requests * DOLLARS_A_REQUEST[version])


# --- output shapes of our own ---------------------------------------------------------------------------


def used(**changes: Any) -> dict[str, Any]:
    row = {
        "inputTokens": 2,
        "outputTokens": 30,
        "cacheReadInputTokens": 400,
        "cacheCreationInputTokens": 5000,
    }
    return row | changes


def result(**fields: Any) -> dict[str, Any]:
    """A result event; the fields named are the ones that matter to a test."""
    base = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "stop_reason": "end_turn",
        "result": "fine",
    }
    return base | {"total_cost_usd": 0.5, "modelUsage": {"model-a": used()}} | fields


def said(*blocks: str | dict[str, Any], model: str = "model-a", **fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
    message = {"role": "assistant", "model": model, "content": content}
    return {"type": "assistant", "message": message, "parent_tool_use_id": None} | fields


def nudge(**fields: Any) -> dict[str, Any]:
    content = [{"type": "text", "text": "Go on."}]
    return {"type": "user", "isSynthetic": True, "message": {"role": "user", "content": content}} | fields


def tool_result() -> dict[str, Any]:
    content = [{"type": "tool_result", "tool_use_id": "t1", "content": "ran"}]
    return {"type": "user", "message": {"role": "user", "content": content}}


def read(*found: dict[str, Any], status: int = 0, secrets: tuple[str, ...] = ()) -> Answer:
    return read_answer("\n".join(map(json.dumps, found)).encode(), b"", status, secrets=secrets)


def failure(*found: dict[str, Any], status: int = 1, secrets: tuple[str, ...] = ()) -> RunnerFailure:
    with pytest.raises(RunnerFailure) as caught:
        read(*found, status=status, secrets=secrets)
    return caught.value


def test_a_plain_answer() -> None:
    assert read(result()) == Answer(
        text="fine",
        model="model-a",
        stop_reason="end_turn",
        usage=Usage(2, 30, 400, 5000),
        cost_usd=0.5,
    )


def test_usage_is_summed_over_models_and_the_writer_is_the_model() -> None:
    usage = {"small": used(outputTokens=1), "big[1m]": used(inputTokens=8)}
    answer = read(result(modelUsage=usage, usage={"input_tokens": 0}))
    assert answer.usage == Usage(10, 31, 800, 10000)
    assert answer.model == "big"


def test_a_kind_that_is_not_reported_is_none() -> None:
    answer = read(result(modelUsage={"m": {"inputTokens": 4, "outputTokens": 5}}))
    assert answer.usage == Usage(4, 5, None, None)


def test_an_old_cli_without_usage_per_model() -> None:
    old = result(usage={"input_tokens": 1, "output_tokens": 2, "cache_read_input_tokens": 3})
    del old["modelUsage"]
    assert read(old).usage == Usage(1, 2, 3, None)
    del old["usage"]
    assert (read(old).usage, read(old).usage_reason) == (None, "the CLI reported no usage")


@pytest.mark.parametrize(
    ("usage", "cost"),
    [
        ({"m": used(costBasis="list")}, 0.5),
        ({"m": used(costBasis="unknown")}, None),
        ({"m": used(costBasis="list"), "n": used(costBasis="unknown")}, None),
    ],
)
def test_a_made_up_price_is_no_cost(usage: dict[str, Any], cost: float | None) -> None:
    assert read(result(modelUsage=usage)).cost_usd == cost


def test_the_whole_text_of_a_stream_and_not_only_its_end() -> None:
    stream = [
        said("First. "),
        said("Second."),
        said({"type": "tool_use", "id": "t1", "name": "X", "input": {}}),
    ]
    answer = read(*stream, tool_result(), said("Third."), result(result="Third."))
    assert answer.text == "First. Second.\n\nThird."


def test_a_continued_answer_has_no_seam() -> None:
    assert read(said("half an ans"), nudge(), said("wer"), result(result="wer")).text == "half an answer"


def test_text_after_a_stopped_response_stands_apart() -> None:
    stream = [said("It begins"), nudge(refusal_retry=True), said("I cannot."), result(result="I cannot.")]
    assert read(*stream).text == "It begins\n\nI cannot."


def test_other_agents_and_thinking_are_not_the_answer() -> None:
    other = said("I am a helper.", parent_tool_use_id="t9")
    assert read(other, said({"type": "thinking", "thinking": "hm"}), said("Yes."), result()).text == "Yes."


def test_retries_are_counted() -> None:
    retry = {"type": "system", "subtype": "api_retry", "attempt": 1}
    assert read(retry, retry, said("ok"), result()).calls == 3


def test_half_a_character_does_not_spoil_the_text() -> None:
    line = json.dumps(result(result="a\ud83db"))
    assert read_answer(line.encode(), b"", 0).text == "a\ufffdb"


def test_a_refusal_is_an_answer_without_the_words_of_the_cli() -> None:
    words = "API Error: this request was flagged"
    refused = result(is_error=True, stop_reason="refusal", result=words)
    for stream in ([refused], [said(words, model="<synthetic>"), refused]):
        answer = read(*stream, status=1)
        assert (answer.text, answer.stop_reason) == ("", "refusal")
        assert answer.usage == Usage(2, 30, 400, 5000)


def test_an_answer_cut_at_the_limit_is_graded_as_it_stands() -> None:
    words = "API Error: the response exceeded the maximum"
    note = said(words, model="<synthetic>", error="max_output_tokens")
    answer = read(said("part one, "), said("part two"), note, result(is_error=True, result=words), status=1)
    assert (answer.text, answer.stop_reason) == ("part one, part two", "max_tokens")
    alone = failure(note, result(is_error=True, result=words))
    assert alone.reason == f"the claude CLI reported an error: {words}"


@pytest.mark.parametrize("text", ["", "  \n"])
def test_an_empty_answer_is_no_answer(text: str) -> None:
    found = failure(result(result=text), status=0)
    assert found.reason == "empty answer"
    assert found.answer is not None
    assert found.answer.usage == Usage(2, 30, 400, 5000)


def test_structured_output_needs_no_text() -> None:
    assert read(result(result="", structured_output={"pass": False})).data == {"pass": False}
    assert read(result(structured_output="no object")).data is None


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "the API refused the request (HTTP 400)"),
        (401, "the key or login was refused (HTTP 401)"),
        (403, "the key or login was refused (HTTP 403)"),
        (404, "unknown model (HTTP 404)"),
        (413, "exceeded context (HTTP 413)"),
        (429, "rate limit (HTTP 429)"),
        (500, "server error (HTTP 500)"),
        (503, "server error (HTTP 503)"),
        (529, "overloaded (HTTP 529)"),
    ],
)
def test_api_errors_by_status(status: int, kind: str) -> None:
    found = failure(result(is_error=True, api_error_status=status, result="It broke.", modelUsage={}))
    assert found.reason == f"{kind}: It broke."
    assert found.answer is None


@pytest.mark.parametrize(
    ("words", "mark", "reason"),
    [
        (
            "API Error: Unable to connect to API (ECONNRESET)",
            "server_error",
            "connection failed: API Error: Unable",
        ),
        ("Please run /login", None, "not logged in — run `claude` once and log in"),
        ("Session gone", "authentication_failed", "not logged in — run `claude` once and log in"),
        ("You have hit your limit", "rate_limit", "rate limit: You have hit your limit"),
        ("Credit balance is too low", "billing_error", "the claude CLI reported an error: Credit balance"),
    ],
)
def test_errors_without_a_status(words: str, mark: str | None, reason: str) -> None:
    note = said(words, model="<synthetic>", error=mark)
    assert failure(note, result(is_error=True, result=words, modelUsage={})).reason.startswith(reason)


def test_an_ending_that_is_not_known_yet_is_a_failure() -> None:
    found = failure(result(subtype="error_of_tomorrow", result=None, errors=["who knows"]))
    assert found.reason == "the claude CLI ended with error_of_tomorrow: who knows"


def test_the_words_of_the_cli_are_never_an_answer() -> None:
    words = "Unknown command: /x"
    for stream in ([said(words, model="<synthetic>")], []):
        found = failure(*stream, result(result=words, modelUsage={}), status=0)
        assert found.reason == f"the claude CLI asked no model; it said: {words}"


@pytest.mark.parametrize(
    ("stdout", "stderr", "status", "reason"),
    [
        (b"", b"", 0, "the claude CLI printed nothing (exit status 0)"),
        (b" \n", b"\n", 3, "the claude CLI printed nothing (exit status 3)"),
        (
            b"Invalid API key\n",
            b"",
            0,
            "not logged in — run `claude` once and log in (the CLI said: Invalid API key)",
        ),
        (b"Failed to authenticate. API Error: 401", b"", 0, "not logged in"),
        (
            b"",
            b"\x1b[31merror:\x1b[0m bad flag\nusage",
            1,
            "the claude CLI gave no answer (exit status 1): error: bad flag",
        ),
        (
            b'{"type": "system"}\n{"type": "assis',
            b"",
            0,
            "the claude CLI was ended before it answered (exit status 0)",
        ),
        (b"", b"", -9, "the claude CLI was ended before it answered (by signal 9)"),
        (b"", b"", 143, "the claude CLI was ended before it answered (exit status 143)"),
        (b"[1, 2]", b"", 0, "the claude CLI gave no answer (exit status 0): [1, 2]"),
        (b"\xff\xfe", b"", 0, "the claude CLI gave no answer"),
    ],
)
def test_no_result_at_all(stdout: bytes, stderr: bytes, status: int, reason: str) -> None:
    with pytest.raises(RunnerFailure) as caught:
        read_answer(stdout, stderr, status)
    assert caught.value.reason.startswith(reason)


def test_a_key_is_in_no_reason() -> None:
    secrets = ("the-very-key-value",)
    words = "401 for the-very-key-value and for sk-ant-api03-AbCd_123"
    found = failure(result(is_error=True, api_error_status=401, result=words, modelUsage={}), secrets=secrets)
    assert found.reason == "the key or login was refused (HTTP 401): 401 for [key] and for [key]"
    with pytest.raises(RunnerFailure) as caught:
        read_answer(b"", b"bad the-very-key-value", 1, secrets=secrets)
    assert caught.value.reason.endswith(": bad [key]")


def test_a_line_is_short_and_printable() -> None:
    assert plain_line("\n \n a\tb\x07c  d\nrest") == "a b c d"
    assert plain_line("x" * 500) == "x" * 199 + "…"
    assert plain_line("ask-ing about risk-assessment") == "ask-ing about risk-assessment"


def test_events_leave_out_what_is_no_object() -> None:
    text = '{"a": 1}\nnoise\n[2]\n{"b": "x\u2028y"}\r\n{"torn": \n' + "{" * 5 + "\n"
    assert events(text.encode()) == [{"a": 1}, {"b": "x\u2028y"}]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
KEYS = (
    *(
        "subtype",
        "is_error",
        "api_error_status",
        "api_error",
        "stop_reason",
        "terminal_reason",
        "result",
        "errors",
    ),
    *("modelUsage", "usage", "total_cost_usd", "structured_output"),
)
EVENTS = st.one_of(
    st.fixed_dictionaries({"type": st.just("result")}, optional=dict.fromkeys(KEYS, JSON)),
    st.fixed_dictionaries({"type": st.just("result")}, optional=dict.fromkeys(KEYS, JSON)).map(
        lambda e: result(**e)
    ),
    st.fixed_dictionaries(
        {"type": st.sampled_from(["assistant", "user"])}, optional={"message": JSON, "error": JSON}
    ),
    st.fixed_dictionaries({"model": JSON, "content": JSON}).map(
        lambda m: {"type": "assistant", "message": m}
    ),
    st.lists(JSON, max_size=3).map(
        lambda blocks: said(*({"type": "text", "text": block} for block in blocks))
    ),
)


@given(st.lists(EVENTS, max_size=4), st.binary(max_size=20), st.integers(-9, 255))
def test_whatever_a_version_prints_is_an_answer_or_a_failure(
    found: list[dict[str, Any]], noise: bytes, status: int
) -> None:
    stdout = noise + b"\n" + "\n".join(map(json.dumps, found)).encode()
    reason, answer = "", None
    try:
        answer = read_answer(stdout, noise, status)
    except RunnerFailure as error:
        reason = error.reason
    assert reason.isprintable()
    if answer is None:
        assert reason
        return
    assert answer.text.strip() or answer.data is not None or answer.stop_reason == "refusal"
    json.dumps([answer.text, answer.model, answer.stop_reason, answer.data], ensure_ascii=False).encode()


# --- a real child ---------------------------------------------------------------------------------------


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on PATH with the fake CLI, a home, and an environment that holds little else."""
    folder, home, temp = tmp_path / "bin", tmp_path / "home", tmp_path / "temp"
    for made in (folder, home, temp):
        made.mkdir()
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {
        "PATH": str(folder),
        "HOME": str(home),
        "LANG": "C.UTF-8",
        "TMPDIR": str(temp),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("tempfile.tempdir", None)
    fake_claude.install(folder)
    yield folder
    assert list(temp.iterdir()) == [], "folders were left behind"


def ask(*requests: Request, path: str | None = None) -> list[Answer]:
    """Asks all at once and closes the runner."""

    async def scenario() -> list[Answer]:
        runner = create(path)
        try:
            return await asyncio.gather(*(runner.answer(request) for request in requests))
        finally:
            await runner.aclose()

    return asyncio.run(scenario())


def reason_of(request: Request) -> str:
    with pytest.raises(RunnerFailure) as caught:
        ask(request)
    return caught.value.reason


@posix
def test_the_executor(fake: Path) -> None:
    body = "Be brief.\r\nAlways.\n"
    [answer] = ask(Request("What is 2 + 2?", "haiku", system=body, max_tokens=99))
    assert answer.latency_s is not None
    assert answer == Answer(
        text="echo: What is 2 + 2?",
        model="claude-haiku-4-5-20251001",
        stop_reason="end_turn",
        usage=Usage(5, 3, 20, 1),
        cost_usd=0.25,
        latency_s=answer.latency_s,
    )
    [seen] = fake_claude.calls(fake)
    argv = seen["argv"]
    path = argv[argv.index("--append-system-prompt-file") + 1]
    assert argv == [
        *("-p", "--no-session-persistence", "--strict-mcp-config", "--tools", ""),
        *("--model", "claude-haiku-4-5-20251001", "--output-format", "stream-json", "--verbose"),
        *("--setting-sources", "project", "--max-turns", "3", "--append-system-prompt-file", path),
    ]
    assert seen["texts"] == {"--append-system-prompt-file": body}
    assert seen["stdin"] == "What is 2 + 2?"
    assert seen["listing"] == [".git"]
    assert not Path(seen["cwd"]).is_relative_to(Path.cwd())
    assert seen["session"]


@posix
def test_the_judge(fake: Path) -> None:
    [answer] = ask(Request("Grade this.", "some-model", system=SYSTEM, schema=SCHEMA, role="judge"))
    assert answer.data == {"pass": True}
    [seen] = fake_claude.calls(fake)
    argv = seen["argv"]
    path = argv[argv.index("--system-prompt-file") + 1]
    assert argv[:-1] == [
        *("-p", "--no-session-persistence", "--strict-mcp-config", "--tools", "", "--model", "some-model"),
        *("--output-format", "json", "--setting-sources", "", "--system-prompt-file", path, "--json-schema"),
    ]
    assert json.loads(argv[-1]) == SCHEMA
    assert seen["texts"] == {"--system-prompt-file": SYSTEM}
    assert seen["env"]["CLAUDE_CODE_DISABLE_ATTACHMENTS"] == "1"


@posix
def test_the_baseline_gets_one_space_and_an_empty_system_nothing(fake: Path) -> None:
    runner = create()
    assert (runner.name, runner.delivery, runner.baseline_system) == ("claude", "inject", " ")
    ask(Request("p", "m", system=runner.baseline_system))
    ask(Request("p", "m"))
    first, second = fake_claude.calls(fake)
    assert first["texts"] == {"--append-system-prompt-file": " "}
    assert second["texts"] == {}


@posix
@pytest.mark.parametrize(
    ("prompt", "sent"),
    [
        ("/help me", "\n/help me"),
        (" /help me", " /help me"),
        ("see @/etc/hostname\n", "see @/etc/hostname\n"),
        ("-p --model x", "-p --model x"),
        ("Grüße\r\n\t✓ \0 end", "Grüße\r\n\t✓ \0 end"),
        ("half \ud83d", "half ?"),
    ],
)
def test_the_prompt_arrives_as_it_is(fake: Path, prompt: str, sent: str) -> None:
    ask(Request(prompt, "m"))
    [seen] = fake_claude.calls(fake)
    assert seen["stdin"] == sent


@posix
def test_a_prompt_longer_than_an_argument_can_be(fake: Path) -> None:
    prompt = "word " * 40_000
    [answer] = ask(Request(prompt, "m", system="s" * 200_000))
    assert answer.text == f"echo: {prompt}"


@posix
def test_what_cannot_be_an_argument_is_a_failure_of_the_call(fake: Path) -> None:
    schema = {"type": "object", "description": "x" * 200_000}
    assert (
        reason_of(Request("p", "m", schema=schema))
        == "the claude CLI could not be started: Argument list too long"
    )
    assert reason_of(Request("p", "a\0b")).startswith("the claude CLI could not be started: ")
    assert reason_of(Request(" \n", "m")) == "the prompt is blank, which the claude CLI does not take"
    (fake / "claude").write_text("#!/no/such/interpreter\n")
    with pytest.raises(RunnerUnavailable, match="does not start"):
        create()


@posix
@pytest.mark.parametrize("key", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"])
def test_with_a_key_only_a_short_list_of_the_environment_goes_in(
    fake: Path, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = {
        key: "key-value-1",
        "ANTHROPIC_BASE_URL": "http://127.0.0.1:9",
        "https_proxy": "http://127.0.0.1:8",
        "TERM": "dumb",
    }
    dropped = {
        "CLAUDECODE": "1",
        "CLAUDE_CODE_ENTRYPOINT": "cli",
        "CLAUDE_CODE_MAX_RETRIES": "99",
        "CLAUDE_CODE_USE_BEDROCK": "1",
        "CLAUDE_CONFIG_DIR": "/of/the/user",
        "CLAUDE_EFFORT": "high",
        "ANTHROPIC_MODEL": "other",
        "OPENAI_API_KEY": "another key",
        "GIT_DIR": "/x",
        "PYTHONPATH": "/x",
        "LC_ALL": "",
    }
    for name, value in (kept | dropped).items():
        monkeypatch.setenv(name, value)
    ask(Request("p", "m"))
    [seen] = fake_claude.calls(fake)
    folder = Path(seen["cwd"]).parent
    assert seen["env"] == {
        **kept,
        **{name: os.environ[name] for name in ("PATH", "HOME", "LANG")},
        "CLAUDE_CONFIG_DIR": str(folder / "config"),
        "CLAUDE_CODE_TMPDIR": str(folder / "tmp"),
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
        "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
        "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
        "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
        "CLAUDE_CODE_MAX_RETRIES": "2",
    }
    assert "key-value-1" not in json.dumps(seen["argv"])


@posix
def test_with_the_users_login_the_configuration_stays_where_it_is(
    fake: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ask(Request("p", "m"))
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/of/the/user")
    ask(Request("p", "m"))
    first, second = fake_claude.calls(fake)
    assert "CLAUDE_CONFIG_DIR" not in first["env"]
    assert first["env"]["HOME"] == os.environ["HOME"]
    assert second["env"]["CLAUDE_CONFIG_DIR"] == "/of/the/user"


@posix
def test_eight_at_once(fake: Path) -> None:
    answers = ask(*(Request(f"number {n}", "m", system="one body") for n in range(16)))
    assert [answer.text for answer in answers] == [f"echo: number {n}" for n in range(16)]
    assert len(fake_claude.calls(fake)) == 16


@posix
def test_version_and_about(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runner = runners.create("claude")
    assert runner.version == "claude 9.8.7"
    assert runner.about()[0] == f"claude 9.8.7 at {fake / 'claude'}, with the CLI's own login"
    assert any("max_tokens is not sent" in line for line in runner.about())
    assert runner.resolve_model("opus") == "claude-opus-4-8"
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-value")
    monkeypatch.setenv("CLAUDE_CODE_USE_VERTEX", "1")
    lines = runners.create(f"claude:{fake / 'claude'}").about()
    assert lines[0].endswith("with the key in ANTHROPIC_API_KEY")
    assert lines[-1].startswith("CLAUDE_CODE_USE_VERTEX is set but not passed on")
    assert "secret-value" not in str(lines)


@posix
def test_no_cli(fake: Path) -> None:
    (fake / "claude").unlink()
    with pytest.raises(RunnerUnavailable, match="no claude CLI on PATH"):
        create()
    with pytest.raises(RunnerUnavailable, match="'/no/such/claude' is no program"):
        create("/no/such/claude")
    other = fake / "claude"
    other.write_text("#!/bin/sh\necho hello\n")
    other.chmod(0o755)
    with pytest.raises(RunnerUnavailable, match="no claude CLI: `--version` says hello"):
        create()


@posix
def test_what_the_child_prints_is_read_by_the_same_rules(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "my-private-key")
    fake_claude.install(fake, stdout="", stderr="error: my-private-key is bad\n", status=1)
    assert (
        reason_of(Request("p", "m")) == "the claude CLI gave no answer (exit status 1): error: [key] is bad"
    )
    fake_claude.install(fake, stdout="Invalid API key · Please run /login\n", status=0)
    assert reason_of(Request("p", "m")).startswith("not logged in — run `claude` once and log in")
    fake_claude.install(fake, stdout="", status=0)
    assert reason_of(Request("p", "m")) == "the claude CLI printed nothing (exit status 0)"


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes outside the group in /proc")
def test_a_hung_cli_is_ended_with_its_children(fake: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake_claude.install(fake, hang=True, brood=True)
    note = fake / "brood.json"

    async def scenario() -> float:
        runner = create()
        task = asyncio.ensure_future(runner.answer(Request("p", "m")))
        while not note.exists():
            await asyncio.sleep(0.01)
            assert not task.done()
        started = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await runner.aclose()
        return time.monotonic() - started

    assert asyncio.run(scenario()) < 5
    deadline = time.monotonic() + 10
    while any(map(alive, json.loads(note.read_text()))):
        assert time.monotonic() < deadline, "processes were left behind"
        time.sleep(0.01)


@posix
def test_the_engines_time_limit(fake: Path) -> None:
    fake_claude.install(fake, hang=True)

    async def scenario() -> tuple[bool, str | None]:
        runner = create()
        called = await call(runner, Request("p", "m"), 0.5)
        await runner.aclose()
        return called.timed_out, called.failure

    assert asyncio.run(scenario()) == (True, "no answer within 0.5 s")


@posix
def test_closing_ends_what_still_runs_and_may_be_done_twice(fake: Path) -> None:
    fake_claude.install(fake, hang=True)

    async def scenario() -> str:
        runner = create()
        await runner.aclose()
        task = asyncio.ensure_future(runner.answer(Request("p", "m")))
        while not fake_claude.calls(fake):
            await asyncio.sleep(0.01)
        await runner.aclose()
        with pytest.raises(RunnerFailure) as caught:
            await task
        await runner.aclose()
        return caught.value.reason

    assert asyncio.run(scenario()) == "the claude CLI was ended before it answered (by signal 15)"


@posix
def test_a_runner_works_on_after_it_was_closed_and_in_another_loop(fake: Path) -> None:
    runner = create()

    async def once(prompt: str) -> str:
        answer = await runner.answer(Request(prompt, "m", system="s"))
        await runner.aclose()
        return answer.text

    asked: list[Coroutine[Any, Any, str]] = [once("one"), once("two")]
    assert [asyncio.run(each) for each in asked] == ["echo: one", "echo: two"]


def alive(pid: int) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False
