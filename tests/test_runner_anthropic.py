"""The Anthropic runner, through the real SDK, against a Messages API on the loopback."""

from __future__ import annotations

import asyncio
import gc
import json
import subprocess
import sys
import time
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

import pytest
from loopback import KEY, USAGE, Loopback, Reply, hangup, message, raw, sleep, status, text

from skilleval_nb import models, runner_anthropic
from skilleval_nb.errors import RunnerFailure, RunnerUnavailable
from skilleval_nb.values import Answer, Request, Usage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from skilleval_nb.runners import Runner

HAIKU = "claude-haiku-4-5-20251001"
SOON = {"retry-after-ms": "20"}
VARIABLES = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS")


@pytest.fixture(autouse=True)
def _no_settings_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def ask(url: str, *requests: Request) -> list[Answer | RunnerFailure]:
    """What becomes of each request, one after the other."""

    async def all_of_them() -> list[Answer | RunnerFailure]:
        runner = runner_anthropic.AnthropicRunner(KEY, url)
        results: list[Answer | RunnerFailure] = []
        for request in requests:
            try:
                results.append(await runner.answer(request))
            except RunnerFailure as failure:
                results.append(failure)
        await runner.aclose()
        return results

    return asyncio.run(all_of_them())


def outcomes(*replies: Reply | Mapping[str, Any]) -> list[Answer | RunnerFailure]:
    """What becomes of one request for each reply, by one client."""
    with Loopback(lambda body, count: replies[int(body["messages"][0]["content"])]) as server:
        return ask(server.url, *(Request(str(i), "m") for i in range(len(replies))))


def answers(*replies: Reply) -> list[Answer]:
    """The same where all of them are answers."""
    found = outcomes(*replies)
    assert not [result for result in found if isinstance(result, RunnerFailure)]
    return [result for result in found if isinstance(result, Answer)]


def failures(*replies: Reply | Mapping[str, Any]) -> list[RunnerFailure]:
    """The same where all of them are failures."""
    found = outcomes(*replies)
    assert not [result for result in found if isinstance(result, Answer)]
    return [result for result in found if isinstance(result, RunnerFailure)]


def test_an_answer_is_whole_and_says_all_that_the_server_said() -> None:
    blocks = [
        {"type": "thinking", "thinking": "hm"},
        {"type": "text", "text": "first\n"},
        {"type": "text", "text": "second "},
    ]
    with Loopback(lambda body, count: message(blocks)) as server:
        (answer,) = ask(server.url, Request("hi", "haiku"))
    assert isinstance(answer, Answer)
    assert answer.text == "first\nsecond "
    assert answer.model == HAIKU
    assert answer.stop_reason == "end_turn"
    assert answer.usage == Usage(11, 7, 3000, 200)
    assert (answer.usage_reason, answer.cost_usd, answer.data) == (None, None, None)
    assert answer.calls == 1
    assert answer.latency_s is not None
    assert 0 < answer.latency_s < 5
    assert answer.settings == {"max_tokens": 4096}


def test_the_body_holds_what_was_asked_and_nothing_else() -> None:
    with Loopback() as server:
        ask(
            server.url,
            Request("hi", "sonnet", seed=7, sampled=True),
            Request("yo", "x", "Be brief.", max_tokens=9),
        )
    plain, full = (request["body"] for request in server.requests)
    one = [{"role": "user", "content": "hi"}]
    assert plain == {"model": "claude-sonnet-4-6", "max_tokens": 4096, "messages": one}
    two = [{"role": "user", "content": "yo"}]
    assert full == {"model": "x", "max_tokens": 9, "messages": two, "system": "Be brief."}
    assert server.connections == 1


@pytest.mark.parametrize(
    ("asked", "sent"),
    [
        ("haiku", HAIKU),
        ("sonnet", "claude-sonnet-4-6"),
        ("opus", "claude-opus-4-8"),
        ("Haiku", "Haiku"),
        ("deepseek-chat", "deepseek-chat"),
    ],
)
def test_short_names_stand_for_ids(asked: str, sent: str) -> None:
    assert models.resolve(asked) == sent
    assert runner_anthropic.AnthropicRunner(KEY).resolve_model(asked) == sent


ERRORS = [
    (
        status(429, "rate_limit_error", "slow down", SOON),
        "HTTP 429 rate_limit_error: slow down (after 3 calls)",
    ),
    (status(529, "overloaded_error", "busy", SOON), "HTTP 529 overloaded_error: busy (after 3 calls)"),
    (
        status(529, "overloaded_error", "busy", {"x-should-retry": "false"}),
        "HTTP 529 overloaded_error: busy",
    ),
    (status(500, "api_error", "oh", SOON), "HTTP 500 api_error: oh (after 3 calls)"),
    (status(503, "api_error", "oh", SOON), "HTTP 503 api_error: oh (after 3 calls)"),
    (status(400, "invalid_request_error", "too long"), "HTTP 400 invalid_request_error: too long"),
    (status(401, "authentication_error", "bad key"), "HTTP 401 authentication_error: bad key"),
    (status(404, "not_found_error", "model: m"), "HTTP 404 not_found_error: model: m"),
    (status(413, "request_too_large", "big"), "HTTP 413 request_too_large: big"),
    (
        raw(b"<html>\n Bad \x1b[31mGateway", code=404, content_type="text/html"),
        "HTTP 404: <html> Bad [31mGateway",
    ),
    (raw(b'{"error": "no such model"}', code=404), "HTTP 404: no such model"),
    (raw(b'{"detail": [{"loc": 1}]}', code=422), "HTTP 422: [{'loc': 1}]"),
    (raw(b"", code=403), "HTTP 403"),
]


def test_an_error_is_one_plain_line() -> None:
    found = failures(*(reply for reply, _ in ERRORS))
    assert [failure.reason for failure in found] == [reason for _, reason in ERRORS]
    assert {failure.answer for failure in found} == {None}


def test_a_long_error_is_cut() -> None:
    (reason,) = (failure.reason for failure in failures(status(400, "invalid_request_error", "long " * 1000)))
    assert len(reason) == 300
    assert reason.endswith("…")


def test_lost_and_refused_connections() -> None:
    async def reasons(*urls: str) -> list[str]:
        runners = [runner_anthropic.AnthropicRunner(KEY, url) for url in urls]
        results = await asyncio.gather(
            *(runner.answer(Request("hi", "m")) for runner in runners), return_exceptions=True
        )
        for runner in runners:
            await runner.aclose()
        return [str(result) for result in results]

    with Loopback() as gone:
        pass
    with Loopback(lambda body, count: hangup()) as rude:
        lost, refused = asyncio.run(reasons(rude.url, gone.url))
    assert len(rude.requests) == 3
    assert lost == "connection failed: Server disconnected (after 3 calls)"
    port = gone.url.rpartition(":")[2]
    assert refused.startswith(f"connection failed: Cannot connect to host 127.0.0.1:{port}")
    assert refused.endswith("(after 3 calls)")


def test_retry_after_is_obeyed_and_the_attempts_are_counted() -> None:
    def reply(body: object, count: int) -> Reply:
        return status(429, "rate_limit_error", headers={"retry-after": "1"}) if count == 1 else text("late")

    with Loopback(reply) as server:
        (answer,) = ask(server.url, Request("hi", "m"))
    assert isinstance(answer, Answer)
    assert (answer.text, answer.calls) == ("late", 2)
    assert answer.latency_s is not None
    assert answer.latency_s >= 1
    assert server.requests[1]["at"] - server.requests[0]["at"] >= 1


@pytest.mark.parametrize(
    ("code", "wait"), [(429, {"retry-after": "0.6"}), (529, {"retry-after-ms": "600"}), (429, "date")]
)
def test_one_rate_limit_pauses_every_worker(code: int, wait: Any) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        # a date has whole seconds: two from now is between one and two seconds away
        date = {"retry-after": formatdate(time.time() + 2, usegmt=True)}
        return status(code, "e", headers=date if wait == "date" else wait) if count == 1 else text("ok")

    async def two(server: Loopback) -> tuple[Answer, Answer]:
        runner = runner_anthropic.AnthropicRunner(KEY, server.url)
        first = asyncio.create_task(runner.answer(Request("first", "m")))
        while not server.requests:
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.2)
        second = await runner.answer(Request("second", "m"))
        answers = (await first, second)
        await runner.aclose()
        return answers

    with Loopback(reply) as server:
        first, second = asyncio.run(two(server))
    start, *later = [request["at"] for request in server.requests]
    assert len(later) == 2
    assert min(later) - start >= (0.6 if wait != "date" else 0.9)
    # waiting at the gate is no call
    assert (first.calls, second.calls) == (2, 1)


SCHEMA = {"type": "object", "properties": {"pass": {"type": "boolean"}}, "additionalProperties": False}


def test_a_schema_is_sent_as_output_config() -> None:
    with Loopback(lambda body, count: text('{"pass": true}')) as server:
        (answer,) = ask(server.url, Request("hi", "m", schema=SCHEMA))
    assert server.requests[0]["body"]["output_config"] == {
        "format": {"type": "json_schema", "schema": SCHEMA}
    }
    assert isinstance(answer, Answer)
    assert json.loads(answer.text) == {"pass": True}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (400, "output_config: Extra inputs are not permitted"),
        (400, "Unknown parameter"),
        (422, "unexpected field"),
        (400, "json_schema is not available for this model"),
    ],
)
def test_a_server_without_schemas_is_asked_without_and_remembered(code: int, words: str) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        refused = "output_config" in body and body["model"] == "old"
        return status(code, "invalid_request_error", words) if refused else text("{}")

    old, new = Request("hi", "old", schema=SCHEMA), Request("hi", "new", schema=SCHEMA)
    with Loopback(reply) as server:
        results = ask(server.url, old, old, new)
    assert [result.calls for result in results if isinstance(result, Answer)] == [2, 1, 1]
    assert ["output_config" in request["body"] for request in server.requests] == [True, False, False, True]


def test_another_error_is_not_taken_for_a_refused_schema() -> None:
    with Loopback(lambda body, count: status(400, "invalid_request_error", "prompt is too long")) as server:
        (failure,) = ask(server.url, Request("hi", "m", schema=SCHEMA))
    assert str(failure) == "HTTP 400 invalid_request_error: prompt is too long"
    assert len(server.requests) == 1


def test_a_schema_is_tried_again_where_dropping_it_did_not_help() -> None:
    refusal = status(400, "invalid_request_error", "unknown model")
    with Loopback(lambda body, count: refusal if count < 3 else text("{}")) as server:
        first, second = ask(server.url, *[Request("hi", "m", schema=SCHEMA)] * 2)
    assert str(first) == "HTTP 400 invalid_request_error: unknown model (after 2 calls)"
    assert isinstance(second, Answer)
    assert "output_config" in server.requests[2]["body"]


def test_a_refused_cut_or_empty_answer_comes_as_it_is() -> None:
    found = answers(
        message([], stop_reason="refusal"),
        text("I will not", stop_reason="refusal"),
        text("cut off he", stop_reason="max_tokens"),
        message([]),
    )
    assert [(answer.text, answer.stop_reason) for answer in found] == [
        ("", "refusal"),
        ("I will not", "refusal"),
        ("cut off he", "max_tokens"),
        ("", "end_turn"),
    ]


def test_an_exceeded_context_is_a_failure_that_carries_the_answer() -> None:
    (failure,) = failures(text("so far", stop_reason="model_context_window_exceeded"))
    assert failure.reason == "exceeded context"
    assert failure.answer is not None
    assert failure.answer.text == "so far"
    assert failure.answer.usage == Usage(11, 7, 3000, 200)


def test_usage_that_was_not_reported_is_none_with_a_reason() -> None:
    reports: list[tuple[Any, Usage | None]] = [
        (None, None),
        ({}, None),
        ([11, 7], None),
        ({"input_tokens": "11", "output_tokens": True}, None),
        ({"input_tokens": 3, "output_tokens": 0}, Usage(3, 0, None, None)),
        (USAGE | {"cache_read_input_tokens": None, "output_tokens": -1}, Usage(11, None, None, 200)),
    ]
    found = answers(*(text("ok", usage=usage) for usage, _ in reports))
    assert [answer.usage for answer in found] == [usage for _, usage in reports]
    why = "the server reported no usage"
    assert [answer.usage_reason for answer in found] == [why, why, why, why, None, None]


def test_what_is_no_message_is_told_from_a_lost_connection() -> None:
    replies: list[tuple[Reply | dict[str, Any], str]] = [
        (raw(b"<html>login</html>", content_type="text/html"), "<html>login</html>"),
        (raw(b"[1]"), "[1]"),
        (raw(b""), "nothing"),
        (raw(b'\xff{"'), '\ufffd{"'),
        (raw(b'{"type": "error", "error": {"type": "x", "message": "out of credit"}}'), "out of credit"),
        ({"choices": []}, "{'choices': []}"),
        ({"content": ["text"]}, "{'content': ['text']}"),
    ]
    found = failures(*(reply for reply, _ in replies), raw(b"[" * 100_000))
    lead = "the server sent no message but: "
    assert [failure.reason for failure in found[:-1]] == [lead + words for _, words in replies]
    assert found[-1].reason.startswith(lead + "[" * 20)


def test_text_that_no_file_can_hold_is_made_holdable() -> None:
    (answer,) = answers(raw(rb'{"content": [{"type": "text", "text": "a\ud800b \ud83d\ude00"}]}'))
    assert answer.text == "a\ufffdb \U0001f600"
    assert (answer.model, answer.stop_reason) == (None, None)


def test_a_prompt_that_cannot_be_sent_is_a_failure_in_words() -> None:
    with Loopback() as server:
        bad, good = ask(server.url, Request("a\ud800b", "m"), Request("ab", "m"))
    assert isinstance(bad, RunnerFailure)
    assert bad.reason.startswith("the request could not be made: ")
    assert isinstance(good, Answer)
    assert len(server.requests) == 1


def test_a_cancelled_call_leaves_the_runner_usable() -> None:
    limited = status(429, "rate_limit_error", headers={"retry-after": "30"})
    replies = [text("one"), sleep(30), text("two"), limited]

    async def story(url: str) -> list[str]:
        runner = runner_anthropic.AnthropicRunner(KEY, url)
        seen = []
        # well, cut off during the call, well, cut off during the SDK's wait, cut off at the gate
        for limit in (10, 0.3, 10, 0.3, 0.3):
            try:
                async with asyncio.timeout(limit):
                    seen.append((await runner.answer(Request("hi", "m"))).text)
            except TimeoutError:
                seen.append("timeout")
        await runner.aclose()
        return seen

    with Loopback(lambda body, count: replies[count - 1]) as server:
        assert asyncio.run(story(server.url)) == ["one", "timeout", "two", "timeout", "timeout"]
    assert len(server.requests) == 4


def test_eight_workers_share_one_client_and_get_their_own_answers() -> None:
    async def forty(url: str) -> list[Answer]:
        runner = runner_anthropic.AnthropicRunner(KEY, url)
        answers = await asyncio.gather(*(runner.answer(Request(f"n{i}", "m")) for i in range(40)))
        await runner.aclose()
        return answers

    with Loopback(lambda body, count: text(body["messages"][0]["content"])) as server:
        answers = asyncio.run(forty(server.url))
    assert [answer.text for answer in answers] == [f"n{i}" for i in range(40)]
    assert {answer.calls for answer in answers} == {1}


def test_a_runner_can_be_closed_twice_and_used_again_in_another_loop() -> None:
    async def once(runner: Runner) -> str:
        answer = await runner.answer(Request("hi", "m"))
        await runner.aclose()
        await runner.aclose()
        return answer.text

    with Loopback() as server:
        runner = runner_anthropic.AnthropicRunner(KEY, server.url)
        assert [asyncio.run(once(runner)) for _ in range(2)] == ["stub reply"] * 2


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_a_runner_that_was_not_closed_serves_another_loop() -> None:
    with Loopback() as server:
        runner = runner_anthropic.AnthropicRunner(KEY, server.url)
        first = asyncio.run(runner.answer(Request("hi", "m")))
        second = asyncio.run(runner.answer(Request("hi", "m")))
        assert (first.text, second.text) == ("stub reply", "stub reply")
        del runner
        gc.collect()


@pytest.mark.parametrize("variable", ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"])
def test_no_reason_ever_shows_the_key(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(variable, KEY)
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "x-team: private-team-token")
    echo = json.dumps({"error": {"type": "t", "message": f"{KEY} private-team-token"}}).encode()
    replies = [
        raw(echo, code=401),
        raw(echo),
        raw(KEY.encode()),
        raw(KEY.encode(), code=400),
        raw(b"x" * 1990 + echo),
    ]

    async def reasons(url: str) -> list[str]:
        runner = runner_anthropic.create(url)
        found = []
        for _ in replies:
            with pytest.raises(RunnerFailure) as caught:
                await runner.answer(Request(KEY, "m"))
            failure = caught.value
            assert (failure.__cause__, failure.__context__) == (None, None)
            found.append(f"{failure!r} {failure}")
        await runner.aclose()
        return found

    with Loopback(lambda body, count: replies[count - 1]) as server:
        found = asyncio.run(reasons(server.url))
    assert server.requests[0]["headers"]["x-team"] == "private-team-token"
    assert "HTTP 401 t: [key] [key]" in found[0]
    assert len(found) == len(replies)
    assert not any("sk-loop" in words or "private" in words for words in found)


def used(monkeypatch: pytest.MonkeyPatch, argument: str | None, **variables: str) -> dict[str, str]:
    """The headers of one call of the runner that `create` makes under these variables."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    async def once() -> None:
        runner = runner_anthropic.create(argument)
        await runner.answer(Request("hi", "m"))
        await runner.aclose()

    asyncio.run(once())
    return variables


def test_the_key_and_the_url_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with Loopback() as server, Loopback() as other:
        used(monkeypatch, None, ANTHROPIC_AUTH_TOKEN=f" {KEY}-token\n", ANTHROPIC_BASE_URL=server.url)
        used(monkeypatch, None, ANTHROPIC_API_KEY=KEY)
        used(monkeypatch, f"{other.url}/", ANTHROPIC_BASE_URL="http://127.0.0.1:9")
    token, key = (request["headers"] for request in server.requests)
    assert token["authorization"] == f"Bearer {KEY}-token"
    assert "x-api-key" not in token
    assert key["authorization"] == f"Bearer {KEY}"
    assert key["x-api-key"] == KEY
    assert [request["path"] for request in other.requests] == ["/v1/messages"]


def test_what_the_runner_says_of_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    runner = runner_anthropic.create()
    assert (runner.name, runner.delivery, runner.fixed_model) == ("anthropic", "inject", None)
    assert runner.version is not None
    assert runner.version.startswith("anthropic 2.")
    assert runner.about() == ()
    elsewhere = runner_anthropic.create("http://user:secret@127.0.0.1:8080/base")
    assert elsewhere.about() == ("calls go to http://127.0.0.1:8080",)
    assert KEY not in repr(runner)


@pytest.mark.parametrize(
    ("variables", "argument", "words"),
    [
        ({}, None, "set ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": " "}, None, "set ANTHROPIC_API_KEY"),
        ({"ANTHROPIC_API_KEY": "sk-…cut"}, None, "ANTHROPIC_API_KEY: this is not a key"),
        ({"ANTHROPIC_AUTH_TOKEN": "two words"}, None, "ANTHROPIC_AUTH_TOKEN: this is not a key"),
        ({"ANTHROPIC_API_KEY": KEY}, "localhost:8080", "anthropic:: 'localhost:8080' is not a base URL"),
        ({"ANTHROPIC_API_KEY": KEY}, "http://[", "'http://[' is not a base URL"),
        ({"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": "ftp://x"}, None, "ANTHROPIC_BASE_URL: 'ftp://x'"),
    ],
)
def test_what_cannot_work_is_refused_before_any_call(
    variables: dict[str, str], argument: str | None, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(RunnerUnavailable) as caught:
        runner_anthropic.create(argument)
    assert words in str(caught.value)
    assert "cut" not in str(caught.value)
    assert "two words" not in str(caught.value)


WITHOUT_AIOHTTP = """
import asyncio, sys
sys.modules["aiohttp"] = None
from skilleval_nb import runner_anthropic
from skilleval_nb.values import Request

async def once():
    runner = runner_anthropic.AnthropicRunner("key-of-a-test", sys.argv[1])
    print((await runner.answer(Request("hi", "m"))).text)
    await runner.aclose()

asyncio.run(once())
"""


def test_the_default_transport_serves_where_aiohttp_is_missing() -> None:
    with Loopback() as server:
        command = [sys.executable, "-W", "error", "-c", WITHOUT_AIOHTTP, server.url]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "stub reply\n", done.stderr
    assert server.requests[0]["headers"]["accept-encoding"]


def test_importing_the_runner_loads_nothing_heavy() -> None:
    heavy = "{'anthropic', 'pydantic', 'aiohttp'}"
    code = f"import sys, skilleval_nb.runner_anthropic; print({heavy} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "set()\n"
