"""Reading SKILL.md files as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skilleval_nb.errors import SkillError
from skilleval_nb.skills import load_skill, read_skill

PLAIN = "---\nname: tidy\ndescription: Tidies code.\n---\n\n# Tidy\n\nKeep it short.\n"
BODY = "# Tidy\n\nKeep it short."


def written(folder: Path, data: bytes, name: str = "tidy") -> Path:
    path = folder / name / "SKILL.md"
    path.parent.mkdir()
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "data",
    [
        PLAIN.encode(),
        PLAIN.replace("\n", "\r\n").encode(),
        b"\xef\xbb\xbf" + PLAIN.encode(),
        PLAIN.replace("---\n", "--- \t\n").encode(),
        PLAIN.encode() + b"\n\n  \n",
        b"\xef\xbb\xbf" + PLAIN.replace("\n", "\r\n").encode(),
    ],
    ids=["plain", "crlf", "bom", "spaces after the fences", "blank tail", "bom and crlf"],
)
def test_the_body_is_what_follows_the_frontmatter(tmp_path: Path, data: bytes) -> None:
    skill = load_skill(written(tmp_path, data))
    assert (skill.body, skill.name, skill.description, skill.notes) == (BODY, "tidy", "Tidies code.", ())


def test_equal_bodies_have_equal_hashes_whatever_the_line_ends(tmp_path: Path) -> None:
    one = load_skill(written(tmp_path, PLAIN.encode(), "a"))
    two = load_skill(written(tmp_path, PLAIN.replace("\n", "\r\n").encode(), "b"))
    assert one.hash == two.hash
    assert one.hash != read_skill(PLAIN.replace("short", "long"), Path("SKILL.md")).hash


def test_only_the_first_closing_fence_counts() -> None:
    skill = read_skill("---\nname: a\ndescription: d\n---\none\n---\ntwo\n", Path("SKILL.md"))
    assert skill.body == "one\n---\ntwo"


def test_without_frontmatter_the_whole_file_is_the_body() -> None:
    skill = read_skill("Just do it.\n", Path("SKILL.md"))
    assert skill.body == "Just do it."
    assert "no frontmatter" in skill.notes[0]


def test_an_unclosed_fence_is_read_as_body_and_said() -> None:
    skill = read_skill("---\nname: a\nbody", Path("SKILL.md"))
    assert skill.body == "---\nname: a\nbody"
    assert "not closed" in skill.notes[0]


def test_broken_yaml_still_gives_name_description_and_body() -> None:
    text = '---\nname: a\ndescription: Use when: "x", or y\n---\nBody.\n'
    skill = read_skill(text, Path("a/SKILL.md"))
    assert (skill.name, skill.body) == ("a", "Body.")
    assert skill.description is not None
    assert skill.description.startswith("Use when:")
    assert "not valid YAML (line 3 of the file)" in skill.notes[0]


def test_frontmatter_that_is_no_mapping_is_noted() -> None:
    skill = read_skill("---\n- a\n- b\n---\nBody.\n", Path("SKILL.md"))
    assert skill.body == "Body."
    assert any("key: value" in note for note in skill.notes)


def test_oddities_that_hosts_trip_over_are_noted() -> None:
    long = read_skill(f"---\nname: b\ndescription: {'x' * 1025}\n---\nBody.\n", Path("a/SKILL.md"))
    assert any("1025 characters" in note for note in long.notes)
    assert any("'b' is not the folder's name 'a'" in note for note in long.notes)


def test_a_folder_or_a_lower_case_name_will_do(tmp_path: Path) -> None:
    (tmp_path / "skill.md").write_text(PLAIN)
    assert load_skill(tmp_path).body == BODY


@pytest.mark.parametrize("data", [None, b"\xff\xfe\x00broken"], ids=["missing", "not utf-8"])
def test_what_cannot_be_read_is_a_skill_error_with_its_path(tmp_path: Path, data: bytes | None) -> None:
    path = tmp_path / "SKILL.md" if data is None else written(tmp_path, data)
    with pytest.raises(SkillError, match=r"SKILL\.md"):
        load_skill(path)


@given(st.text())
def test_any_text_is_a_skill_of_some_kind(text: str) -> None:
    skill = read_skill(text, Path("SKILL.md"))
    assert skill.body == skill.body.strip()
    assert len(skill.hash) == 16


@given(st.text(alphabet=st.characters(exclude_characters="\r", codec="utf-8"), min_size=1))
def test_a_body_behind_a_fence_comes_out_trimmed(body: str) -> None:
    assert read_skill(f"---\nname: a\n---\n{body}", Path("SKILL.md")).body == body.strip()
