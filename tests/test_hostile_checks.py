"""Checks and answers of strangers: nothing hangs, nothing is fetched, nothing undecided passes, and nothing is
called wrong that is only unusual."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from loopback import Loopback, text
from worlds import case, check, project

import skilleval_nb as se
from skilleval_nb.cases import Check, FileCheck, JsonCheck, RegexCheck, SizeCheck, TextCheck
from skilleval_nb.checks import LARGEST_SCHEMA_CHARS, CheckReader, read_checks
from skilleval_nb.grade import grade_patterns
from skilleval_nb.pattern_process import Worker
from skilleval_nb.patterns import Found, Matcher, compile_pattern
from skilleval_nb.values import Grade, Outcome

BEHIND = RegexCheck(compile_pattern("(?<=x)!"))
"""Look-around: always goes to the matching process."""


def grades(answer: str, *checks: Check, files: Path | None = None, limit_s: float = 1.0) -> list[Grade]:
    async def run() -> list[Grade]:
        async with Matcher(limit_s) as matcher:
            return await grade_patterns(checks, answer, matcher, files)

    return asyncio.run(run())


def schema_check(schema: dict[str, Any], *, negated: bool = False) -> JsonCheck:
    """A JSON check that no loader has looked at."""
    return JsonCheck(json.dumps(schema), negated)


def problems_of(*items: dict[str, Any]) -> list[str]:
    found: list[str] = []
    read_checks(list(items), "js", "assert", lambda *words: found.append(" | ".join(words)))
    return found


@pytest.mark.parametrize(
    ("answer", "passed"),
    [
        ("```json\n{}\n```", True),
        ("```\n{}```", False),
        ("````json\r\n{}\r\n````", True),
        ("~~~\n[1]\n~~~~", True),
        ("````\n{}\n```", False),
        ("```\n{}\n~~~", False),
        ("```json\n{}\n```\nDone.", False),
        ("```json\n{}\n```\n```json\n{}\n```", False),
        ("```{}```", False),
        ("```", False),
        ("``\n{}\n``", False),
        ("9" * 5_000, True),
        ("1e999", True),
        ('"\\ud800"', True),
        ("-Infinity", False),
        ("\ufeff{}", False),
        ("[" * 1_500 + '"' + '\\"' * 40_000, False),
        ("[" * 1_500 + '"]"' * 10, False),
    ],
)
def test_what_is_json(answer: str, passed: bool) -> None:
    for schema in (None, "{}"):
        found = grades(answer, JsonCheck(schema), JsonCheck(schema, negated=True))
        assert [grade.passed for grade in found] == [passed, not passed]


@pytest.mark.parametrize(
    "answer",
    [
        "```\n" + " " * 300_000 + "x",
        "`" * 300_000 + "\n{}\n" + "`" * 300_000,
        "[" * 1_500 + '"' + '\\"' * 24_000,
        "```\n" + "\n```x" * 60_000,
        "ß" * 300_000 + "y",
        "\u0130" * 300_000,
    ],
)
def test_no_answer_holds_the_event_loop(answer: str) -> None:
    checks: list[Check] = [
        JsonCheck(),
        TextCheck("icontains", "ssx"),
        TextCheck("equals", "x"),
        SizeCheck("words", most=3),
    ]

    async def run() -> float:
        async with Matcher() as matcher:
            start = time.thread_time()
            await grade_patterns(checks, answer, matcher)
            return time.thread_time() - start

    assert asyncio.run(run()) < 0.5


letters = st.text("aSsßİiIµK\u212a\u1e9e \n", max_size=12)


@given(letters, letters.filter(bool), letters)
def test_text_found_without_regard_to_case_is_quoted_where_it_stands(
    before: str, value: str, after: str
) -> None:
    answer = before + value + after
    (grade,) = grades(answer, TextCheck("icontains", value.swapcase()))
    found = value.swapcase().casefold() in answer.casefold()
    assert grade.passed is found
    if found:
        assert grade.span is not None
        start, end = grade.span
        assert grade.evidence == answer[start:end]
        assert value.swapcase().casefold() in answer[start:end].casefold()
        inner = (answer[start + 1 : end], answer[start : end - 1])
        assert all(value.swapcase().casefold() not in part.casefold() for part in inner)


def test_lines_end_where_a_reader_sees_them_end() -> None:
    for answer, count in (("a\u2028b\x0bc\x1dd", 1), ("a\r\nb\n\nc\n\n", 4), ("\n \n", 0), ("a", 1)):
        (grade,) = grades(answer, SizeCheck("lines", least=count, most=count))
        assert (grade.passed, grade.evidence) == (True, f"{count} line{'s' * (count != 1)}")


undecided = st.one_of(
    st.just(Found(ran_over=True)), st.text(max_size=3).map(lambda words: Found(error=words or "lost"))
)
decided = st.one_of(
    st.just(Found()),
    st.just(Found((0, 1))),
    st.tuples(st.sampled_from(["", "$.a"]), st.just("is wrong")).map(lambda fault: Found(fault=fault)),
)


@given(st.sampled_from(["regex", "json", "schema"]), undecided | decided)
def test_not_inverts_what_is_decided_and_decides_nothing_else(kind: str, found: Found) -> None:
    class Scripted(Matcher):
        async def search_each(self, pairs: Sequence[Any]) -> list[Found]:
            return [found] * len(pairs)

    checks: list[Check] = [
        RegexCheck(BEHIND.pattern, negated)
        if kind == "regex"
        else JsonCheck("{}" * (kind == "schema"), negated)
        for negated in (False, True)
    ]
    plain, opposite = asyncio.run(grade_patterns(checks, "abc", Scripted()))
    if found.ran_over or found.error:
        outcome = Outcome.GRADER_TIMEOUT if found.ran_over else Outcome.GRADER_FAILED
        assert {(grade.passed, grade.outcome) for grade in (plain, opposite)} == {(None, outcome)}
        assert plain.reason == opposite.reason
    else:
        assert plain.passed is not None
        assert opposite.passed is not plain.passed
        assert plain.outcome is opposite.outcome is None


DOUBLING = {
    "$defs": {f"d{k}": {"allOf": [{"$ref": f"#/$defs/d{k + 1}"}] * 2} for k in range(40)} | {"d40": {}},
    "$ref": "#/$defs/d0",
}


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("schema", "answer", "outcome"),
    [
        (DOUBLING, "{}", Outcome.GRADER_TIMEOUT),
        (
            {"uniqueItems": True},
            json.dumps([[k, None] if k % 2 else {"k": k} for k in range(20_000)]),
            Outcome.GRADER_TIMEOUT,
        ),
        ({"patternProperties": {"^(a+)+$": {}}}, json.dumps({"a" * 5_000 + "!": 1}), Outcome.GRADER_TIMEOUT),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#"}}}, "1", Outcome.GRADER_FAILED),
        ({"$dynamicRef": "#"}, "1", Outcome.GRADER_FAILED),
        ({"items": {"$ref": "#"}}, "[" * 900 + "]" * 900, Outcome.GRADER_FAILED),
        ({"multipleOf": 0.1}, "1" + "0" * 400, Outcome.GRADER_FAILED),
        ({"$ref": "nowhere.json"}, "1", Outcome.GRADER_FAILED),
    ],
)
def test_a_schema_that_cannot_be_applied_decides_nothing_and_takes_nothing_with_it(
    schema: dict[str, Any], answer: str, outcome: Outcome, negated: bool
) -> None:
    bad, good = grades(
        answer, schema_check(schema, negated=negated), JsonCheck('{"title": "any"}'), limit_s=0.7
    )
    assert (bad.passed, bad.outcome, bad.evidence) == (None, outcome, None)
    assert bad.reason
    assert len(bad.reason) < 700
    assert good.passed


@pytest.mark.parametrize("keyword", ["$ref", "$dynamicRef"])
def test_nothing_is_fetched_neither_at_load_nor_in_a_trial(keyword: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.2)
        schema = {keyword: f"http://127.0.0.1:{server.getsockname()[1]}/x.json"}
        assert "leads to nothing in the schema" in problems_of({"kind": "json", "schema": schema})[0]
        (grade,) = grades("{}", schema_check(schema))
        assert (grade.passed, grade.outcome) == (None, Outcome.GRADER_FAILED)
        with pytest.raises(TimeoutError):
            server.accept()


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        (
            {
                "$schema": "http://json-schema.org/draft-04/schema",
                "enum": [k if k % 2 else [k] for k in range(12_000)],
            },
            "cannot be checked in time",
        ),
        ({"enum": ["x" * LARGEST_SCHEMA_CHARS]}, "at most 100,000 are taken"),
        ({"properties": {"a": {"pattern": "(?<x>a)"}}}, "is not a 'regex'"),
        ({"$schema": "http://json-schema.org/draft-07/schema"}, None),
        ({"$schema": "http://json-schema.org/draft-07/schema#", "definitions": {"a": {"$ref": "#"}}}, None),
        ({"$schema": "http://["}, "cannot be checked: ValueError"),
        ({"$schema": ["x"]}, "is no draft"),
        ({"$ref": "#/title/x", "title": "t"}, "assert[0].schema | "),
        ({"$id": "http://[", "$ref": "a"}, "assert[0].schema | "),
        ({"$ref": "https://json-schema.org/draft/2020-12/schema"}, None),
    ],
)
def test_schemas_are_looked_at_when_the_set_is_read(schema: dict[str, Any], words: str | None) -> None:
    found = problems_of({"kind": "json", "schema": schema})
    assert bool(found) == (words is not None)
    assert words is None or words in found[0]
    assert all(len(problem) < 800 for problem in found)


def test_a_schema_nested_too_deeply_is_a_problem_of_the_set() -> None:
    schema: dict[str, Any] = {}
    for _ in range(400):
        schema = {"items": schema}
    assert "nested too deeply" in problems_of({"kind": "json", "schema": schema})[0]


def test_all_schemas_of_a_set_are_looked_at_by_one_process(monkeypatch: pytest.MonkeyPatch) -> None:
    started = []
    start = Worker.start

    async def counted(self: Worker) -> None:
        started.append(self)
        await start(self)

    monkeypatch.setattr(Worker, "start", counted)
    found: list[str] = []
    reader = CheckReader("js", lambda *words: found.append(words[0]))
    for k in range(20):
        reader.read([{"kind": "json", "schema": {"minimum": k if k % 2 else "x"}}], f"cases[{k}].assert")
    reader.finish()
    assert found == [f"cases[{k}].assert[0].schema.minimum" for k in range(0, 20, 2)]
    assert len(set(started)) == 1


def test_where_json_cannot_be_checked_patterns_still_are(monkeypatch: pytest.MonkeyPatch) -> None:
    async def cannot(self: Worker) -> None:
        raise ChildProcessError("no such library")

    monkeypatch.setattr(Worker, "know_json", cannot)
    first, found, last = grades("x!", JsonCheck("{}"), BEHIND, JsonCheck("{}", negated=True))
    assert found.passed
    for grade in (first, last):
        assert (grade.passed, grade.outcome) == (None, Outcome.GRADER_FAILED)
        assert "no such library" in str(grade.reason)


def test_a_matching_process_that_was_killed_is_replaced() -> None:
    async def run() -> list[Grade]:
        async with Matcher() as matcher:
            before = await grade_patterns([BEHIND], "x!", matcher)
            assert matcher._worker
            matcher._worker.kill()
            return before + await grade_patterns([JsonCheck("{}"), BEHIND], "x!", matcher)

    assert [grade.passed for grade in asyncio.run(run())] == [True, False, True]


def test_unknown_keys_are_noted_in_the_files_order() -> None:
    notes: list[str] = []
    item = {"kind": "contains", "value": "a", "nott": True, "weight": 1, "b": 2, "a": 3}
    read_checks([item], "js", "assert", lambda *_: None, notes.append)
    assert [note.split(":")[0].removeprefix("assert[0].") for note in notes] == ["nott", "weight", "b", "a"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("kind", ["file_exists", "file_contains"])
def test_only_regular_files_of_the_trial_are_read(kind: str, tmp_path: Path) -> None:
    folder = tmp_path / "trial"
    folder.mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to(folder / "loop")
    (folder / "null").symlink_to("/dev/zero")
    (folder / "up").symlink_to(tmp_path)
    (tmp_path / "secret").write_text("x")
    for name in ("pipe", "loop", "null", "up/secret", "n" * 5_000):
        value = "x" if kind == "file_contains" else None
        (grade,) = grades("", FileCheck(kind, name, value), files=folder)
        assert grade.passed is False, name


def test_a_file_that_may_not_be_looked_at_is_undecided(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, strict: bool = False) -> Path:
        raise PermissionError(13, "no")

    monkeypatch.setattr(Path, "resolve", refuse)
    checks = [
        FileCheck(kind, "a", "x", negated)
        for kind in ("file_exists", "file_contains")
        for negated in (False, True)
    ]
    assert {(g.passed, g.outcome) for g in grades("", *checks, files=tmp_path)} == {
        (None, Outcome.GRADER_FAILED)
    }


def test_a_case_with_a_foreign_check_is_run_not_measured_and_graded_once_that_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    foreign = {"kind": "javascript", "value": "output.length > 1"}
    path = project(tmp_path, case("a", check(), foreign))
    with Loopback(lambda body, _: text("magic" if body.get("system") else "plain")) as server:
        for name, value in server.env.items():
            monkeypatch.setenv(name, value)
        run = se.run_set(path, runner="anthropic", progress=False)
        assert len(server.requests) == 2
        assert run.trials["outcome"].to_list() == ["grader_failed"] * 2
        assert "needs code of another tool" in run.trials["reason"][0]
        assert (run.gate, run.delta) == ("NOT MEASURED", None)
        again = se.regrade(run, checks={"a": [check(), {"kind": "words", "max": 1}]}, progress=False)
        assert len(server.requests) == 2
    assert (again.gate, again.delta) == ("PASS", 1.0)
