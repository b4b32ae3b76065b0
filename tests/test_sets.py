"""Set files: what is read, and that everything wrong with one is said at once with its place."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worlds import case, check, judged, project

import skilleval_nb as se
from skilleval_nb.cases import JudgeCheck, PatternCheck
from skilleval_nb.errors import InputError, SetError

SHARED = Path(__file__).parents[2] / "shared"
ORIGIN = SHARED / "corpus/Yco-0314__strata/skills/l5-meta/skill-eval/sets"
ORIGIN_SIZES = {
    "complexity-router": (8, 8),
    "debugging": (4, 13),
    "grilling": (4, 11),
    "l0-ponytail": (7, 15),
    "verification-before-completion": (4, 8),
}


def problems(path: Path, **options: Any) -> list[str]:
    """What is wrong with a set, each with its place after the arrow (or `line:column`)."""
    with pytest.raises(SetError) as caught:
        se.load_set(path, **options)
    assert str(path) in str(caught.value)
    return [str(problem).removeprefix(str(path)).removeprefix(" → ") for problem in caught.value.problems]


def test_a_set_is_read_as_the_file_says(tmp_path: Path) -> None:
    path = project(
        tmp_path,
        case("a", check("includes", "x", flags="m"), check("excludes", "y"), judged("z"), difficulty=2),
        case("b", check("verdict", "^yes")),
        model="opus",
        max_tokens=50,
    )
    found = se.load_set(path)
    assert (found.kind, found.name, found.model, found.max_tokens) == ("eval", "magic", "opus", 50)
    assert found.skill_path == tmp_path / "skills/magic/SKILL.md"
    assert [(item.id, item.prompt, item.difficulty) for item in found.cases] == [
        ("a", "Task a.", 2),
        ("b", "Task b.", None),
    ]
    first, second, third = found.cases[0].checks
    assert isinstance(first, PatternCheck)
    assert isinstance(second, PatternCheck)
    assert (first.kind, first.pattern.source, first.pattern.flags) == ("includes", "x", "m")
    assert (second.kind, second.pattern.flags) == ("excludes", "i")
    assert third == JudgeCheck("z")
    assert found.notes == ()


@pytest.mark.skipif(not ORIGIN.is_dir(), reason="the corpus of real sets is not beside this checkout")
@pytest.mark.parametrize("name", sorted(ORIGIN_SIZES))
def test_the_origins_own_sets_load_and_their_missing_skill_is_noted(name: str) -> None:
    found = se.load_set(ORIGIN / f"{name}.json")
    assert (len(found.cases), sum(len(item.checks) for item in found.cases)) == ORIGIN_SIZES[name]
    assert found.skill_path is None
    assert any("was not found" in note for note in found.notes)
    with pytest.raises(InputError, match="was not found"):
        se.plan_set(ORIGIN / f"{name}.json", runner="claude:no-cli-is-started")


def test_everything_wrong_is_said_at_once_with_its_place(tmp_path: Path) -> None:
    path = project(
        tmp_path,
        case("../../x", check("includes", "(")),
        {"id": "same", "prompt": 3, "assert": []},
        case("same", {"kind": "magic"}, {"pattern": "x"}, {"kind": "judge"}, check(flags="q")),
        case("a b", check("includes", 5)),  # type: ignore[arg-type]
        case("a_b"),
        {"id": True, "prompt": " ", "assert": "x"},
        "no case",  # type: ignore[arg-type]
        skill="---\nname: magic\n---\nBody.",
        model=5,
        max_tokens=0,
    )
    places = {text.split(": ")[0] for text in problems(path)}
    assert places == {
        "cases[0].id",
        "cases[0].assert[0].pattern",
        "cases[1].prompt",
        "cases[1].assert",
        "cases[2].id",
        "cases[2].assert[0]",
        "cases[2].assert[1]",
        "cases[2].assert[2].rubric",
        "cases[2].assert[3].pattern",
        "cases[3].assert[0].pattern",
        "cases[4].id",
        "cases[5].id",
        "cases[5].prompt",
        "cases[5].assert",
        "cases[6]",
        "model",
        "max_tokens",
    }


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('{"skill": "x",\n "cases": [,]}', ":2:12"),
        ("", ":1:1"),
        ("[]", ": a set is an object"),
        ('{"cases": [NaN]}', "NaN is not a number"),
        ('{"cases": [], "cases": []}', "'cases' stands twice"),
        ("[" * 100_000, "nested too deeply"),
        ('{"cases": [' + "9" * 5000 + "]}", "not valid JSON"),
        ('{"evals": []}', "looks like a suite"),
        ('{"prompts": []}', "looks like a trigger set"),
        ('{"skill": "x"}', "cases: missing"),
        ('{"cases": {}}', "cases: must be a list, is object"),
    ],
)
def test_broken_files_are_located(tmp_path: Path, text: str, place: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    assert any(place in found for found in problems(path))


def test_a_missing_file_and_bytes_that_are_no_text_are_set_errors(tmp_path: Path) -> None:
    assert "no set can be read here" in problems(tmp_path / "none.json")[0]
    path = tmp_path / "x.json"
    path.write_bytes(b'{"cases": "\xff"}')
    assert "not UTF-8" in problems(path)[0]


@pytest.mark.parametrize("identifier", ["../../x", "..", "a/../b", "/etc/x", "\\\\server\\x", "..\\x", "."])
def test_ids_that_are_paths_are_refused(tmp_path: Path, identifier: str) -> None:
    assert "is a path, not a name" in problems(project(tmp_path, case(identifier)))[0]


@pytest.mark.parametrize("identifier", ["a\nship gate: PASS", "a\x1b[2J", "a\tb", "a\u2028b", "\x00"])
def test_ids_with_control_characters_are_refused(tmp_path: Path, identifier: str) -> None:
    assert "control characters" in problems(project(tmp_path, case(identifier)))[0]


def test_ids_that_only_look_odd_are_taken(tmp_path: Path) -> None:
    ids = ["a/b", "zwölf", "c d", "v1.2", "...", "日本"]
    found = se.load_set(project(tmp_path, *map(case, ids)))
    assert [item.id for item in found.cases] == ids


def test_an_id_longer_than_a_file_name_is_refused(tmp_path: Path) -> None:
    assert "at most 120" in problems(project(tmp_path, case("x" * 121)))[0]


@pytest.mark.parametrize("reference", ["../outside/SKILL.md", "/etc/passwd", "skills/link/SKILL.md"])
def test_a_skill_path_may_not_leave_the_project(tmp_path: Path, reference: str) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "SKILL.md").write_text("secret")
    root = tmp_path / "root"
    root.mkdir()
    path = project(root)
    (root / "skills" / "link").symlink_to(tmp_path / "outside")
    content = json.loads(path.read_text()) | {
        "skill": f"../{reference}" if reference[:2] == ".." else reference
    }
    path.write_text(json.dumps(content))
    assert "leads outside" in problems(path)[0]


def test_the_skill_is_looked_for_from_the_set_upwards_and_the_nearest_wins(tmp_path: Path) -> None:
    path = project(tmp_path)
    assert se.load_set(path).skill_path == tmp_path / "skills/magic/SKILL.md"
    near = tmp_path / "sets" / "skills" / "magic" / "SKILL.md"
    near.parent.mkdir(parents=True)
    near.write_text("near")
    assert se.load_set(path).skill_path == near


@pytest.mark.parametrize("mark", [".git", "pyproject.toml", "AGENTS.md"])
def test_the_root_is_the_nearest_marked_folder(tmp_path: Path, mark: str) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    path = project(inner)
    (inner / "pyproject.toml").unlink()
    (inner / mark).touch()
    (tmp_path / "pyproject.toml").touch()
    assert se.load_set(path).root == inner


def test_a_misspelt_key_is_named_beside_the_error_that_it_causes(tmp_path: Path) -> None:
    path = project(tmp_path, {"id": "a", "promt": "x", "assert": [check()]})
    assert [text.split(" — ")[0] for text in problems(path)] == [
        "cases[0].prompt: missing",
        "cases[0].promt: unknown key",
    ]


def test_unknown_keys_are_kept_and_noted_or_refused_when_strict(tmp_path: Path) -> None:
    path = project(tmp_path, case("a", check(weight=2), colour="c"), owner="me")
    found = se.load_set(path)
    assert found.raw["owner"] == "me"
    assert found.cases[0].raw["colour"] == "c"
    assert len(found.notes) == 3
    places = {text.split(": ")[0] for text in problems(path, strict=True)}
    assert places == {"owner", "cases[0].colour", "cases[0].assert[0].weight"}


@pytest.mark.parametrize(
    ("value", "read"),
    [(1, 1), (3, 3), (2.0, 2), ("2", None), (4, None), (0, None), (True, None), (None, None)],
)
def test_difficulty_counts_only_as_1_2_or_3(tmp_path: Path, value: object, read: int | None) -> None:
    found = se.load_set(project(tmp_path, case("a", difficulty=value)))
    assert found.cases[0].difficulty == read
    assert bool(found.notes) == (read is None and value is not None)


def test_a_number_as_id_is_read_as_text_and_a_missing_skill_is_noted(tmp_path: Path) -> None:
    path = project(tmp_path, case(0))  # type: ignore[arg-type]
    path.write_text(path.read_text().replace("skills/magic", "skills/none"))
    found = se.load_set(path)
    assert found.cases[0].id == "0"
    assert len(found.notes) == 2


def test_the_hash_changes_with_what_decides_a_result_and_with_nothing_else(tmp_path: Path) -> None:
    def hashed(*cases: dict[str, Any], **top: Any) -> str:
        return se.load_set(project(tmp_path, *cases, **top)).hash

    base = hashed(case("a"))
    assert hashed(case("a", difficulty=3), model="opus", difficultyBasis="by hand") == base
    others = [
        hashed(case("b")),
        hashed(case("a", prompt="Else.")),
        hashed(case("a", check(pattern="other"))),
        hashed(case("a", check(flags="m"))),
        hashed(case("a", check("excludes"))),
        hashed(case("a", judged())),
        hashed(case("a", judged("Another rubric."))),
        hashed(case("a"), max_tokens=9),
        hashed(case("a"), regex="python"),
    ]
    assert len({base, *others}) == 10


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
words = st.sampled_from(
    ["skill", "model", "regex", "cases", "id", "prompt", "assert", "kind", "pattern", "rubric", "flags"]
)
shaped = st.recursive(
    json_values | st.sampled_from(["includes", "judge", "(", "js", "../x"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(words, inner, max_size=6),
    max_leaves=30,
)


@given(st.dictionaries(words, shaped, max_size=6))
def test_any_json_is_a_set_or_a_set_error(
    tmp_path_factory: pytest.TempPathFactory, content: dict[str, Any]
) -> None:
    path = tmp_path_factory.getbasetemp() / "any.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    try:
        found = se.load_set(path)
    except SetError as error:
        places = [problem.where for problem in error.problems]
    else:
        places = [str(path)] * all(item.checks for item in found.cases)
    assert places
    assert all(str(path) in place for place in places)
