"""What an editor says of a skill's text: each rule, its place, and what cannot be run."""

from __future__ import annotations

from pathlib import Path

import pytest
from hostile import HOSTILE
from hypothesis import given
from hypothesis import strategies as st
from worlds import SKILL

from skilleval_nb.skill_text import check_skill
from skilleval_nb.skills import load_skill

PATH = Path("/project/skills/magic/SKILL.md")


def text(name: str = "name: magic", description: str = "description: Says it.", body: str = "Say it.") -> str:
    return "\n".join(["---", *filter(None, (name, description)), "---", body, ""])


def test_a_good_skill_has_no_remarks_but_its_size() -> None:
    found = check_skill(SKILL, PATH)
    assert (found.problems, found.remarks, found.stops) == ((), (), ())
    # the body has 27 characters, 7 tokens at four characters each, rounded up
    assert str(found) == (
        "83 characters; the body, which a run injects, has 27, about 7 tokens (estimated at 4 characters a token)"
    )
    assert (found.characters, found.tokens_estimate, found.skill.name) == (83, 7, "magic")


PROBLEMS = {
    "no frontmatter": ("Say it.\n", "line 1 → frontmatter", "is missing"),
    "not first": ("\n" + text(), "line 1 → frontmatter", "is missing"),
    "unclosed": ("---\nname: magic\n", "line 1 → frontmatter", "is not closed"),
    "a colon": (text(description="description: Use: often"), "line 3, column 17", "mapping values"),
    "a bad date": (text("name: magic\nsince: 2024-99-99"), "frontmatter", "month must be"),
    "too deep": (text("name: " + "[" * 3000), "", "is not valid YAML"),
    "a list": (text("- name", ""), "line 2 → frontmatter", "is not a list of"),
    "no name": (text(""), "frontmatter → name", "is missing"),
    "an empty name": (text("name:"), "line 2 → name", "is missing"),
    "a number": (text("name: 12"), "line 2 → name", "is 12, which YAML takes for no text"),
    "another folder": (text("name: other"), "line 2 → name", "but the folder is 'magic'"),
    "capitals": (text("name: Magic"), "line 2 → name", "has capital letters"),
    "odd letters": (text("name: ma_gic x"), "line 2 → name", "holds '_' ' '"),
    "two hyphens": (text("name: ma--gic"), "line 2 → name", "two in a row"),
    "a hyphen last": (text("name: magic-"), "line 2 → name", "ends with a hyphen"),
    "a long name": (text(f"name: {'a' * 65}"), "line 2 → name", "has 65 characters; hosts take 64"),
    "a name twice": (text("name: x\nname: magic"), "line 3 → name", "stands in line 2 too"),
    "no description": (text(description=""), "frontmatter → description", "is missing"),
    "a blank description": (text(description="description: ' '"), "line 3 → description", "is missing"),
    "a true description": (text(description="description: yes"), "line 3 → description", "is True"),
    "a long description": (
        text(description=f"description: {'a' * 1025}"), "line 3 → description", "has 1,025 characters",
    ),
    "an empty body": (text(body=" "), "body", "is empty"),
    "half a character": (text(body="Say\n\ud800"), "line 6", "holds half a character"),
}  # fmt: skip
STOPS = {"unclosed", "an empty body", "half a character"}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_has_its_place_and_a_way_out(name: str) -> None:
    written, where, what = PROBLEMS[name]
    found = check_skill(written, PATH)
    matching = [one for one in found.problems if what in one.what and one.where.startswith(where)]
    assert len(matching) == 1, found
    assert matching[0].fix
    assert bool(found.stops) == (name in STOPS)
    assert set(found.stops) <= set(found.problems)


@pytest.mark.parametrize(
    "written",
    [
        text(f"name: {'a' * 64}"),
        text(description=f"description: {'a' * 1024}"),
        text("name: añejo-2"),
        text(description="description: 'Use: <often>'"),
        text(description="description: >\n  Long\n  lines."),
        text().replace("\n", "\r\n"),
    ],
)
def test_what_the_specification_allows_is_no_problem(written: str) -> None:
    name = check_skill(written, PATH).skill.name
    found = check_skill(written, Path(f"/skills/{name}/SKILL.md"))
    assert found.problems == ()


def test_the_folder_counts_only_for_a_skill_md() -> None:
    assert check_skill(text("name: other"), Path("/x/prompt.md")).problems == ()


def test_a_long_body_and_what_nobody_sees_are_remarked() -> None:
    [found] = check_skill(text(body="word\n" * 501), PATH).remarks
    assert (found.where, found.what[:9]) == ("body", "has 501 l")
    [found] = check_skill(text(body="a" * 20_001), PATH).remarks
    assert "about 5,001 tokens" in found.what
    [found] = check_skill(text(body="a\nb\u202ec"), PATH).remarks
    assert (found.where, found.fix.endswith("b\\u{202e}c")) == ("line 6", True)
    assert "\u202e" not in str(found.fix)


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_only_shown(name: str) -> None:
    said = str(check_skill(text(f"name: {HOSTILE[name]}", body=HOSTILE[name]), PATH))
    assert not {"\x1b", "\u202e", "\x00", "\ud800"} & set(said)


@given(st.text(alphabet=st.sampled_from("---\nname: x'\"[]{}#&*!|>%@\t\r\0é\ud800"), max_size=60))
def test_whatever_is_typed_there_is_an_answer(typed: str) -> None:
    for written in (typed, f"---\n{typed}\n---\n{typed}"):
        found = check_skill(written, PATH)
        assert found.lines()
        assert bool(found.skill.body) or found.stops


def test_a_date_that_is_none_does_not_keep_a_skill_from_being_read(tmp_path: Path) -> None:
    path = tmp_path / "SKILL.md"
    path.write_text(text("name: magic\nsince: 2024-99-99"), encoding="utf-8")
    skill = load_skill(path)
    assert (skill.name, skill.body) == ("magic", "Say it.")
    assert "not valid YAML" in skill.notes[0]
