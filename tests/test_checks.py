"""The checks beyond the seed's four: how they are read, how they grade, and what hostile ones cannot do."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worlds import case, check, judged, project

import skilleval_nb as se
from skilleval_nb.cases import Check, FileCheck, UnsupportedCheck, check_text
from skilleval_nb.checks import read_checks
from skilleval_nb.errors import SetError
from skilleval_nb.grade import grade_patterns
from skilleval_nb.patterns import Matcher
from skilleval_nb.values import Grade, Outcome


def typed(*items: dict[str, Any], dialect: str = "js", suite: bool = False) -> tuple[Check, ...]:
    """The checks of one case; any problem fails the test."""
    problems: list[str] = []
    checks = read_checks(
        list(items), dialect, "assert", lambda *words: problems.append(" ".join(words)), suite=suite
    )
    assert problems == []
    return checks


def problems_of(*items: Any, suite: bool = False) -> list[str]:
    found: list[str] = []
    read_checks(list(items), "js", "assert", lambda *words: found.append(" | ".join(words)), suite=suite)
    return found


async def _grades(checks: tuple[Check, ...], text: str, files: Path | None) -> list[Grade]:
    async with Matcher() as matcher:
        return await grade_patterns(checks, text, matcher, files)


def grade(item: dict[str, Any], text: str, files: Path | None = None) -> Grade:
    (found,) = asyncio.run(_grades(typed(item, suite=files is not None), text, files))
    return found


PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "minimum": 0}},
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("item", "text", "passed", "evidence"),
    [
        ({"kind": "contains", "value": "a.b"}, "xa.by", True, "a.b"),
        ({"kind": "contains", "value": "a.b"}, "xaXby", False, None),
        ({"kind": "contains", "value": "Foo"}, "foo", False, None),
        ({"kind": "icontains", "value": "Foo"}, "a FOO b", True, "FOO"),
        ({"kind": "icontains", "value": "STRASSE"}, "die straße", True, "straße"),
        ({"kind": "equals", "value": "42"}, "\n42 \n", True, "42"),
        ({"kind": "equals", "value": " 42\n"}, "42", True, "42"),
        ({"kind": "equals", "value": "42"}, "42.", False, None),
        ({"kind": "starts_with", "value": "Yes"}, "  Yes, sir", True, "Yes"),
        ({"kind": "starts_with", "value": "Yes"}, "Oh Yes", False, None),
        ({"kind": "regex", "pattern": "^b$", "flags": "m"}, "a\nb\nc", True, "b"),
        ({"kind": "regex", "pattern": "B"}, "abc", True, "b"),
        ({"kind": "regex", "pattern": r"(?P<x>b)", "dialect": "python"}, "abc", True, "b"),
        ({"kind": "regex", "pattern": "z"}, "abc", False, None),
        ({"kind": "lines", "max": 2}, "one\ntwo\n", True, "2 lines"),
        ({"kind": "lines", "max": 2}, "one\ntwo\nthree", False, "3 lines"),
        ({"kind": "lines", "min": 1}, " \n ", False, "0 lines"),
        ({"kind": "words", "min": 2, "max": 3}, "one  two\nthree", True, "3 words"),
        ({"kind": "words", "min": 2}, "one", False, "1 word"),
        ({"kind": "json"}, ' {"a": 1}\n', True, None),
        ({"kind": "json"}, '```json\n{"a": 1}\n```', True, None),
        ({"kind": "json"}, 'Here:\n```json\n{"a": 1}\n```', False, None),
        ({"kind": "json"}, '{"a": NaN}', False, None),
        ({"kind": "json"}, "", False, None),
        ({"kind": "json", "schema": PERSON}, '{"name": "A", "age": 3}', True, None),
        ({"kind": "json", "schema": PERSON}, '{"name": "A", "age": "3"}', False, "$.age"),
        ({"kind": "json", "schema": PERSON}, '{"age": 3}', False, "name"),
    ],
)
def test_what_each_kind_says_and_its_opposite(
    item: dict[str, Any], text: str, passed: bool, evidence: str | None
) -> None:
    plain, opposite = grade(item, text), grade({**item, "not": True}, text)
    assert (plain.passed, opposite.passed) == (passed, not passed)
    if evidence is not None:
        assert evidence in (plain.evidence or "")
        assert opposite.evidence == plain.evidence
    if plain.span is not None:
        assert text[slice(*plain.span)] == plain.evidence


TEXTS = st.text(alphabet='abAB \n.{}[]"1', max_size=30)
ITEMS = st.one_of(
    st.builds(
        lambda kind, value: {"kind": kind, "value": value},
        st.sampled_from(["contains", "icontains", "equals", "starts_with"]),
        st.text(alphabet="abAB.1", min_size=1, max_size=4),
    ),
    st.builds(lambda most: {"kind": "words", "max": most}, st.integers(0, 5)),
    st.builds(lambda least: {"kind": "lines", "min": least}, st.integers(0, 5)),
    st.sampled_from(["a", "b+", "^a", r"\.", "[AB]$"]).map(lambda p: {"kind": "regex", "pattern": p}),
    st.just({"kind": "json"}),
)


@settings(max_examples=150, deadline=None)
@given(ITEMS, TEXTS)
def test_not_inverts_whatever_is_decided(item: dict[str, Any], text: str) -> None:
    assert grade(item, text).passed is (not grade({**item, "not": True}, text).passed)


@pytest.mark.parametrize("negated", [False, True])
@pytest.mark.parametrize(
    ("item", "text", "outcome"),
    [
        ({"kind": "regex", "pattern": "(a+)+$"}, "a" * 50_000 + "!", Outcome.GRADER_TIMEOUT),
        (
            {"kind": "json", "schema": {"type": "string", "pattern": "^(a+)+$"}},
            json.dumps("a" * 5_000 + "!"),
            Outcome.GRADER_TIMEOUT,
        ),
        ({"kind": "json", "schema": {"$ref": "#"}}, "{}", Outcome.GRADER_FAILED),
        ({"kind": "json", "schema": {"type": "array"}}, "[" * 200_000 + "]" * 200_000, Outcome.GRADER_FAILED),
    ],
)
def test_what_a_stranger_writes_hangs_nothing_and_passes_nothing(
    item: dict[str, Any], text: str, outcome: Outcome, negated: bool
) -> None:
    began = time.perf_counter()
    found = grade({**item, "not": negated}, text)
    assert (found.passed, found.outcome) == (None, outcome)
    assert found.reason
    assert time.perf_counter() - began < 10


def test_deep_json_without_a_schema_is_decided_or_said_not_to_be() -> None:
    text = "[" * 100_000 + "]" * 100_000
    found = grade({"kind": "json"}, text)
    assert found.passed is not False
    assert grade({"kind": "json"}, "[" * 100_000).passed is False


@pytest.mark.parametrize(
    "reference",
    [
        "http://127.0.0.1:9/x.json",
        "https://example.org/schema",
        "file:///etc/passwd",
        "other.json",
        "#/$defs/none",
    ],
)
def test_a_reference_that_leads_out_of_the_schema_is_refused_and_never_fetched(reference: str) -> None:
    (problem,) = problems_of({"kind": "json", "schema": {"properties": {"a": {"$ref": reference}}}})
    assert problem.startswith("assert[0].schema | has the reference")
    assert reference in problem


def test_references_inside_a_schema_are_followed() -> None:
    schema = {"$defs": {"n": {"type": "integer"}}, "properties": {"a": {"$ref": "#/$defs/n"}}}
    assert grade({"kind": "json", "schema": schema}, '{"a": 1}').passed is True
    assert grade({"kind": "json", "schema": schema}, '{"a": "1"}').passed is False


@pytest.mark.parametrize(
    ("item", "words"),
    [
        (
            {"kind": "includes", "pattern": "a", "not": True},
            "assert[0].not | `includes` has no `not` | use `excludes`",
        ),
        ({"kind": "excludes", "pattern": "a", "not": False}, "assert[0].not | `excludes` has no `not`"),
        ({"kind": "judge", "rubric": "r", "not": True}, "assert[0].not | `judge` has no `not`"),
        ({"kind": "contains"}, "assert[0].value | missing"),
        ({"kind": "contains", "value": ""}, "assert[0].value | is empty"),
        ({"kind": "contains", "value": 3}, "assert[0].value | must be text, is number: 3"),
        ({"kind": "contains", "value": "a", "not": "yes"}, "assert[0].not | must be true or false"),
        ({"kind": "lines"}, "assert[0] | `lines` needs a `min` or a `max`"),
        ({"kind": "words", "min": 3, "max": 2}, "assert[0].min | is more than `max`: 3 > 2"),
        ({"kind": "words", "max": -1}, "assert[0].max | must be at least 0"),
        ({"kind": "regex", "pattern": "("}, "assert[0].pattern | the pattern /(/ is not a valid JavaScript"),
        (
            {"kind": "regex", "pattern": "a", "dialect": "perl"},
            "assert[0].dialect | must be 'js' or 'python'",
        ),
        ({"kind": "json", "schema": {"type": "strin"}}, "assert[0].schema.type | "),
        ({"kind": "json", "schema": {"pattern": "("}}, "assert[0].schema.pattern | "),
        ({"kind": "json", "schema": {"$schema": "http://x/y"}}, "assert[0].schema.$schema | is no draft"),
        ({"kind": "json", "schema": []}, "assert[0].schema | must be an object"),
        ({"kind": "file_exists", "path": "a"}, "assert[0] | a gate set's trial writes no files"),
        ({"kind": "sniffs"}, "assert[0] | unknown kind 'sniffs' of check | use one of includes, excludes"),
        ({"value": "a"}, "assert[0] | a check needs a `kind`"),
        ("contains", "assert[0] | must be an object"),
    ],
)
def test_a_check_that_cannot_be_says_where_and_why(item: Any, words: str) -> None:
    assert any(problem.startswith(words) for problem in problems_of(item)), problems_of(item)


def test_all_that_is_wrong_with_a_set_is_said_at_once(tmp_path: Path) -> None:
    path = project(
        tmp_path,
        case("a", {"kind": "contains"}, {"kind": "lines"}),
        case("b", {"kind": "json", "schema": {"type": 5}}, {"kind": "sniffs"}, check(pattern="(")),
    )
    with pytest.raises(SetError) as caught:
        se.load_set(path)
    places = sorted(problem.where.rpartition("→ ")[2] for problem in caught.value.problems)
    assert places == [
        "cases[0].assert[0].value",
        "cases[0].assert[1]",
        "cases[1].assert[0].schema.type",
        "cases[1].assert[1]",
        "cases[1].assert[2].pattern",
    ]


@pytest.mark.parametrize("kind", ["javascript", "python", "llm-rubric", "similar", "command", "rouge-n"])
def test_a_kind_that_needs_another_tool_is_read_shown_and_never_passed(kind: str, tmp_path: Path) -> None:
    path = project(tmp_path, case("a", check(), {"kind": kind, "value": "output.length > 3"}))
    found = se.load_set(path)
    assert any(kind in note and "cannot be graded" in note for note in found.notes)
    (unsupported,) = (c for c in found.cases[0].checks if isinstance(c, UnsupportedCheck))
    (result,) = asyncio.run(_grades((unsupported,), "magic output", None))
    assert (result.passed, result.outcome) == (None, Outcome.GRADER_FAILED)
    assert kind in str(result.reason)


def test_equal_checks_have_equal_words_and_no_others() -> None:
    items: list[dict[str, Any]] = [
        check(), check(pattern="magic "), check("excludes"), judged(), judged("Other."),
        {"kind": "regex", "pattern": "magic"}, {"kind": "regex", "pattern": "magic", "not": True},
        {"kind": "regex", "pattern": "magic", "dialect": "python"}, {"kind": "regex", "pattern": "magic", "flags": "m"},
        {"kind": "contains", "value": "a"}, {"kind": "icontains", "value": "a"}, {"kind": "contains", "value": "A"},
        {"kind": "contains", "value": "a", "not": True}, {"kind": "lines", "max": 3}, {"kind": "lines", "min": 3},
        {"kind": "words", "max": 3}, {"kind": "json"}, {"kind": "json", "schema": {}}, {"kind": "json", "not": True},
        {"kind": "javascript", "value": "1"}, {"kind": "javascript", "value": "2"},
    ]  # fmt: skip
    first, second = typed(*items), typed(*items)
    assert first == second
    assert len(set(first)) == len({str(found) for found in first}) == len(items)
    assert all(str(one) == str(other) for one, other in zip(first, second, strict=True))
    assert all("\n" not in check_text(found) and check_text(found) for found in first)


def test_the_hash_of_a_seed_set_is_what_it_was(tmp_path: Path) -> None:
    log = Path(__file__).parents[1] / "runs" / "log.jsonl"
    hashes = {
        record["set"]: record["setHash"]
        for record in map(json.loads, log.read_text().splitlines())
        if record["kind"] == "eval"
    }
    for name in ("typed-python", "polite-rewrite"):
        assert se.load_set(log.parents[1] / "sets" / f"{name}.json").hash == hashes[name]


def test_cluster_and_split_are_read_and_decide_no_result(tmp_path: Path) -> None:
    plain = se.load_set(project(tmp_path, case("a"), case("b")))
    path = project(tmp_path, case("a", cluster="x", split="heldout"), case("b", group="x"))
    found = se.load_set(path)
    assert [(item.cluster, item.split) for item in found.cases] == [("x", "heldout"), ("x", None)]
    assert found.hash == plain.hash
    with pytest.raises(SetError, match="cluster"):
        se.load_set(project(tmp_path, case("a", cluster=3)))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    root = tmp_path / "trial"
    (root / "out").mkdir(parents=True)
    (root / "out" / "plan.md").write_text("# The plan\nstep one", encoding="utf-8")
    (tmp_path / "secret.txt").write_text("key", encoding="utf-8")
    (root / "leak").symlink_to(tmp_path / "secret.txt")
    (root / "inner").symlink_to(root / "out" / "plan.md")
    return root


@pytest.mark.parametrize(
    ("item", "passed"),
    [
        ({"kind": "file_exists", "path": "out/plan.md"}, True),
        ({"kind": "file_exists", "path": "inner"}, True),
        ({"kind": "file_exists", "path": "out"}, False),
        ({"kind": "file_exists", "path": "out/none.md"}, False),
        ({"kind": "file_exists", "path": "leak"}, False),
        ({"kind": "file_contains", "path": "out/plan.md", "value": "step one"}, True),
        ({"kind": "file_contains", "path": "out/plan.md", "value": "step two"}, False),
        ({"kind": "file_contains", "path": "leak", "value": "key"}, False),
        ({"kind": "file_contains", "path": "out/none.md", "value": "x"}, False),
    ],
)
def test_files_of_a_trial(folder: Path, item: dict[str, Any], passed: bool) -> None:
    assert grade(item, "", folder).passed is passed
    assert grade({**item, "not": True}, "", folder).passed is not passed
    assert "key" not in str(grade(item, "", folder).evidence)


def test_a_file_check_without_a_folder_or_with_too_large_a_file_is_undecided(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lost = asyncio.run(_grades((FileCheck("file_exists", "a"),), "", None))
    assert (lost[0].passed, lost[0].outcome) == (None, Outcome.GRADER_FAILED)
    monkeypatch.setattr("skilleval_nb.file_checks.LARGEST_BYTES", 10)
    large = grade(
        {"kind": "file_contains", "path": "out/plan.md", "value": "step one", "not": True}, "", folder
    )
    assert (large.passed, large.outcome) == (None, Outcome.GRADER_FAILED)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../secret.txt", "a/../../b", "C:\\x", "..\\x", "a\\b", "*.md", "a\0b"]
)
def test_a_path_that_could_leave_the_folder_is_refused(path: str) -> None:
    (problem,) = problems_of({"kind": "file_exists", "path": path}, suite=True)
    assert problem.startswith("assert[0].path | ")


def test_text_checks_need_no_process_and_little_time() -> None:
    checks = typed(
        {"kind": "contains", "value": "needle"},
        {"kind": "equals", "value": "x"},
        {"kind": "words", "max": 100},
        {"kind": "json"},
    )

    async def many() -> float:
        async with Matcher() as matcher:
            began = time.perf_counter()
            for _ in range(2_000):
                await grade_patterns(checks, "hay " * 50 + "needle", matcher)
            assert matcher._worker is None
            return time.perf_counter() - began

    assert asyncio.run(many()) < 2
