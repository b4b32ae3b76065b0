"""Doubts about sets: each recorded fault is found where it is, its near miss is not, and a clean set is clean."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scripted import Scripted
from worlds import case, check, judged, project

import skilleval_nb as se
from skilleval_nb.cases import Case, EvalSet, JudgeCheck, PatternCheck, TextCheck
from skilleval_nb.errors import InputError, SetError, SkillError
from skilleval_nb.lint import lint_set
from skilleval_nb.patterns import compile_pattern
from skilleval_nb.phrases import alternatives, is_negated, line_of, marked

ROOT = Path(__file__).parents[1]
ORIGIN = ROOT.parent / "shared/corpus/Yco-0314__strata/skills/l5-meta/skill-eval/sets"

# --- worlds


def skill(body: str, name: str = "tidy") -> str:
    return f"---\nname: {name}\ndescription: Says how answers are kept tidy.\n---\n\n{body}\n"


TIDY = skill("Keep the answer short.\n\nList each risk with its cause. Never guess a number.")


def clean(*more: dict[str, Any], without: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Six cases in which nothing is to be found, some of them replaced."""
    cases = [
        case("deploy", check(pattern=r"\brollback\b"), prompt="How do we deploy on a Friday?", difficulty=1),
        case(
            "schema",
            check(pattern=r"\block\b"),
            judged("Names the lock."),
            prompt="Add a column.",
            difficulty=2,
        ),
        case("cache", check(pattern=r"\bstale\b"), prompt="Cache the prices.", difficulty=2),
        case("queue", check(pattern=r"\btwice\b"), prompt="Retry a failed job.", difficulty=3),
        case("token", check(pattern=r"\bexpir"), prompt="Keep users signed in.", difficulty=2),
        case(
            "guard-sum",
            check(pattern="4"),
            check("excludes", r"\brisks?\b"),
            prompt="What is 2 + 2?",
            difficulty=1,
        ),
    ]
    return [item for item in cases if item["id"] not in without] + list(more)


def text(kind: str, value: str, **more: Any) -> dict[str, Any]:
    return {"kind": kind, "value": value, **more}


def rules(path: Path, **more: Any) -> list[str]:
    return [found.rule for found in lint_set(path, **more)]


def only(path: Path, rule: str, **more: Any) -> Any:
    found = [lint for lint in lint_set(path, **more) if lint.rule == rule]
    assert len(found) == 1, lint_set(path, **more)
    return found[0]


# --- the report


def test_a_clean_set_gives_nothing(tmp_path: Path) -> None:
    report = lint_set(project(tmp_path, *clean(), skill=TIDY))
    assert (list(report), str(report), repr(report), bool(report)) == (
        [],
        "nothing found",
        "nothing found",
        False,
    )
    assert "nothing found" in report._repr_html_()


def test_a_set_without_cases_is_clean(tmp_path: Path) -> None:
    path = project(tmp_path)
    path.write_text(json.dumps({"skill": "skills/magic/SKILL.md", "cases": []}))
    assert not lint_set(path)


def test_a_finding_says_rule_place_doubt_and_fix_on_one_line(tmp_path: Path) -> None:
    path = project(tmp_path, *clean(case("judged", judged(), prompt="Why?", difficulty=2)), skill=TIDY)
    found = only(path, "judge-alone")
    assert found.place == "judged"
    assert str(found) == f"judge-alone · judged: {found.what} — {found.fix}"
    assert str(lint_set(path)) == str(found)


def test_alike_findings_are_one_and_name_their_places(tmp_path: Path) -> None:
    many = [case(f"only-{k}", judged(), prompt=f"Why {k}?", difficulty=2) for k in range(7)]
    path = project(tmp_path, *clean(*many), skill=TIDY)
    assert only(path, "judge-alone").place == "only-0, only-1, only-2, only-3 and 3 more"


def test_hostile_text_steers_neither_terminal_nor_page(tmp_path: Path) -> None:
    bad = "<img src=x onerror=alert(1)>\x1b[2J\nnext.*"
    path = project(
        tmp_path, *clean(case("x", text("contains", bad), prompt="What?", difficulty=2)), skill=TIDY
    )
    report = lint_set(path)
    assert [found.rule for found in report] == ["regex-in-plain-text"]
    assert "\x1b" not in str(report)
    assert len(str(report).splitlines()) == 1
    assert "<img" not in report._repr_html_()
    assert "&lt;img" in report._repr_html_()


def test_a_loaded_set_and_another_skill_are_taken(tmp_path: Path) -> None:
    path = project(tmp_path, *clean(case("echo", check(pattern="cut to size"), difficulty=2)), skill=TIDY)
    assert not lint_set(se.load_set(path))
    other = tmp_path / "other.md"
    other.write_text(skill("Every plan is cut to size."))
    assert rules(path, skill_path=other) == ["skill-echo"]


def test_what_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SetError, match=r"none\.json: no set can be read here"):
        lint_set(tmp_path / "none.json")
    with pytest.raises(SkillError, match=r"none\.md"):
        lint_set(project(tmp_path, *clean()), skill_path=tmp_path / "none.md")


def test_without_a_skill_the_rest_is_still_found(tmp_path: Path) -> None:
    path = project(tmp_path, *clean(case("j", judged(), difficulty=2)), skill=TIDY)
    path.write_text(path.read_text().replace("skills/magic/SKILL.md", "skills/gone/SKILL.md"))
    assert rules(path) == ["judge-alone"]


# --- the faults that the origin recorded


ROUTER = skill(
    "# Router\n\nScore the task. Any one escalate signal wins.\n\nFirst: is the request ambiguous? Name the\n"
    "interpretations and recommend one with a one-line why.",
    "complexity-router",
)


def test_a_verdict_on_line_one_is_found_also_where_the_prompt_asks_for_it(tmp_path: Path) -> None:
    asked = "Classify this task as TRIVIAL or ESCALATE. Put 'VERDICT: <word>' on the first line. TASK: fix a typo."
    typo = case("typo", check("verdict", r"VERDICT:\s*TRIVIAL"), prompt=asked, difficulty=2)
    found = only(project(tmp_path, *clean(typo), skill=ROUTER), "first-line-verdict")
    assert found.place == "typo check 1"
    assert '"^" and the flag "m"' in found.fix


def test_a_banned_phrase_that_the_right_answer_quotes_is_found(tmp_path: Path) -> None:
    body = 'Run the command first. "Should work now" is no evidence.'
    claim = case(
        "claim",
        check(pattern="evidence|run"),
        check("excludes", "should (pass|work)"),
        prompt="I refactored the payment module. The tests should pass now. Can you confirm it?",
        difficulty=2,
    )
    found = only(project(tmp_path, *clean(claim), skill=skill(body)), "excludes-quotable")
    assert found.place == "claim check 2"
    assert '"should pass"' in found.what


def test_an_includes_of_the_skills_own_phrasing_is_found(tmp_path: Path) -> None:
    body = "Code first. Then three short lines.\n\nPattern: `[code] → skipped: [X], add when [Y].`"
    debounce = case("debounce", check(pattern="skipped|add when"), prompt="Debounce the input.", difficulty=2)
    found = only(project(tmp_path, *clean(debounce), skill=skill(body)), "skill-echo")
    assert found.place == "debounce check 1"
    assert '"skipped", "add when"' in found.what


def test_only_easy_and_untagged_sets_are_found(tmp_path: Path) -> None:
    easy = [item | {"difficulty": 1} for item in clean()]
    assert rules(project(tmp_path, *easy, skill=TIDY)) == ["only-easy"]
    for item in easy:
        del item["difficulty"]
    assert rules(project(tmp_path, *easy, skill=TIDY)) == ["only-easy"]
    easy[0]["difficulty"] = 2  # partly tagged, one of them hard: the dark room's own matter
    assert rules(project(tmp_path, *easy, skill=TIDY)) == []


# --- each rule, and its near misses


ONE: dict[str, Any] = {"difficulty": 2}
FOUND: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "starts_with": (
        "first-line-verdict",
        TIDY,
        [case("a", text("starts_with", "Yes"), prompt="Is it safe?", **ONE)],
    ),
    "anchored includes": ("first-line-verdict", TIDY, [case("a", check(pattern="^Yes"), **ONE)]),
    "rubric asks for what is banned": (
        "excludes-quotable",
        TIDY,
        [case("a", judged("Names the event bus as an option."), check("excludes", "event bus"), **ONE)],
    ),
    "skill says to write what is banned": (
        "excludes-quotable",
        skill('Where nothing is wrong, reply with "Lean already. Ship."'),
        [case("a", check("excludes", "lean already"), **ONE)],
    ),
    "plain text that the prompt says": (
        "excludes-quotable",
        TIDY,
        [
            case(
                "a",
                text("icontains", "LOOKS GOOD", **{"not": True}),
                prompt="It looks good to me. Ship?",
                **ONE,
            )
        ],
    ),
    "code word in prose": (
        "excludes-quotable",
        TIDY,
        [case("a", check("excludes", r"\bfunction \w"), prompt="Write a function that adds.", **ONE)],
    ),
    "three words of the skill": (
        "skill-echo",
        TIDY,
        [case("a", text("contains", "risk with its cause"), **ONE)],
    ),
    "tags of the skill": (
        "skill-echo",
        skill("- `delete:` dead code\n- `stdlib:` hand-rolled\n- `yagni:` one user"),
        [case("a", check(pattern="(stdlib:|yagni:|delete:)"), **ONE)],
    ),
    "a template in a block": (
        "skill-echo",
        skill("End with:\n\n```\nNET LINES: <n>\n```"),
        [case("a", check(pattern=r"net lines:\s*\d+"), **ONE)],
    ),
    "alternation": ("regex-in-plain-text", TIDY, [case("a", text("contains", "skipped|add when"), **ONE)]),
    "word boundary": ("regex-in-plain-text", TIDY, [case("a", text("icontains", r"\bslides\b"), **ONE)]),
    "anything": ("regex-in-plain-text", TIDY, [case("a", text("equals", "VERDICT:.*"), **ONE)]),
    "class": ("regex-in-plain-text", TIDY, [case("a", text("contains", "[a-z]+@"), **ONE)]),
    "anchor": ("regex-in-plain-text", TIDY, [case("a", text("contains", "^Yes"), **ONE)]),
    "same case twice": (
        "duplicate-prompt",
        TIDY,
        [case("a", prompt="Say it.", **ONE), case("b", prompt=" say  it.", **ONE)],
    ),
    "includes and excludes": ("contradicting-checks", TIDY, [case("a", check(), check("excludes"), **ONE)]),
    "regex and its not": (
        "contradicting-checks",
        TIDY,
        [case("a", check("regex"), check("regex") | {"not": True}, **ONE)],
    ),
    "text within the banned": (
        "contradicting-checks",
        TIDY,
        [case("a", text("contains", "Plan B"), text("icontains", "plan", **{"not": True}), **ONE)],
    ),
    "anything passes": ("empty-match", TIDY, [case("a", check(pattern=r"(done)?"), **ONE)]),
    "nothing passes": ("empty-match", TIDY, [case("a", check("excludes", "x*"), **ONE)]),
    "dot star": ("empty-match", TIDY, [case("a", check(pattern=".*", flags="s"), **ONE)]),
    "AND": (
        "rubric-two-in-one",
        TIDY,
        [case("a", check(), judged("Asks one thing AND recommends an answer."), **ONE)],
    ),
    "semicolon": (
        "rubric-two-in-one",
        TIDY,
        [case("a", check(), judged("Names the cause; gives a fix."), **ONE)],
    ),
    "and also": (
        "rubric-two-in-one",
        TIDY,
        [case("a", check(), judged("Is polite and also names a date."), **ONE)],
    ),
    "command": ("prompt-leaks-skill", TIDY, [case("a", prompt="/tidy Sort my notes.", **ONE)]),
    "called a skill": (
        "prompt-leaks-skill",
        TIDY,
        [case("a", prompt="Use the tidy skill on my notes.", **ONE)],
    ),
    "long name": (
        "prompt-leaks-skill",
        skill("Be brief.", "deep-review-loop"),
        [case("a", prompt="Do a deep-review-loop.", **ONE)],
    ),
    "the skill's sentence": (
        "prompt-leaks-skill",
        TIDY,
        [case("a", prompt="Please list each risk with its cause, then stop.", **ONE)],
    ),
    "other tools' code": (
        "unsupported-check",
        TIDY,
        [case("a", {"kind": "javascript", "value": "1"}, **ONE)],
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_a_fault_is_found_and_nothing_else(tmp_path: Path, name: str) -> None:
    rule, skill_text, cases = FOUND[name]
    assert rules(project(tmp_path, *clean(*cases), skill=skill_text)) == [rule]


MISSED: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "skill says how to begin": (
        skill("Begin with the word Please."),
        [case("a", check("verdict", "^Please"), **ONE)],
    ),
    "any line": (TIDY, [case("a", check(pattern="^yes", flags="im"), **ONE)]),
    "a length limit": (TIDY, [case("a", check(pattern=r"^[\s\S]{0,500}$"), **ONE)]),
    "a look ahead": (TIDY, [case("a", check(pattern=r"^(?!.*\bsorry\b)", flags="is"), **ONE)]),
    "an empty line": (TIDY, [case("a", check(pattern="^$", flags="m"), **ONE)]),
    "the prompt bans it too": (
        TIDY,
        [case("a", check("excludes", "event bus"), prompt="Wire it up, but without an event bus.", **ONE)],
    ),
    "the rubric bans it too": (
        TIDY,
        [case("a", judged("Calls it directly, NOT by an event bus."), check("excludes", "event bus"), **ONE)],
    ),
    "the skill bans it too": (
        skill('Never say "should work now".'),
        [case("a", check("excludes", "should work now"), **ONE)],
    ),
    "a guard bans what the skill says": (
        skill('Reply with "Lean already. Ship."'),
        [case("guard-b", check("excludes", "lean already"), **ONE)],
    ),
    "a guard bans the skill's code": (
        skill("Example:\n\n```python\ndef area(width):\n    return width\n```"),
        [case("a", check("excludes", r"\bdef \w"), **ONE)],
    ),
    "a sign": (TIDY, [case("a", check("excludes", "=>"), prompt="Is a => b valid?", **ONE)]),
    "words of the prompt": (
        TIDY,
        [case("a", check(pattern="risk with its cause"), prompt="Tell a risk with its cause.", **ONE)],
    ),
    "other words pass too": (
        skill("Build a `feedback loop`, find the `root cause`."),
        [case("a", check(pattern="feedback loop|root cause|reproduc"), **ONE)],
    ),
    "the word that the skill is for": (
        skill("Say `Please`."),
        [case("a", check(pattern=r"\bPlease\b"), **ONE)],
    ),
    "code, not words": (
        skill("```python\ndef area(width: float) -> float:\n```"),
        [case("a", check(pattern=r"def \w+\([^)]*\w: ?\w[^)]*\) ?->"), **ONE)],
    ),
    "a path": (TIDY, [case("a", text("contains", r"C:\data\notes"), **ONE)]),
    "a type": (TIDY, [case("a", text("contains", "string|null"), **ONE)]),
    "a glob": (TIDY, [case("a", text("contains", "src/*.*"), **ONE)]),
    "same prompt, other checks": (
        TIDY,
        [case("a", prompt="Say it.", **ONE), case("b", check(pattern="else"), prompt="Say it.", **ONE)],
    ),
    "other flags": (TIDY, [case("a", check(flags="m"), check("excludes"), **ONE)]),
    "one demand": (TIDY, [case("a", check(), judged("Names both the cause and the effect."), **ONE)]),
    "what counts as which": (
        TIDY,
        [case("a", check(), judged("Declines. Saying yes is a fail; asking for proof is a pass."), **ONE)],
    ),
    "an everyday word": (
        TIDY,
        [case("a", prompt="Make my tidy desk joke better, and train my tidy skill.", **ONE)],
    ),
    "a hyphen in a name": (skill("Be brief.", "red-team"), [case("a", prompt="Red-team this plan.", **ONE)]),
    "a longer command": (TIDY, [case("a", prompt="/tidy-up the log", **ONE)]),
}


@pytest.mark.parametrize("name", MISSED)
def test_a_near_miss_is_left_alone(tmp_path: Path, name: str) -> None:
    skill_text, cases = MISSED[name]
    assert rules(project(tmp_path, *clean(*cases), skill=skill_text)) == []


def test_few_cases_are_told_with_the_p_that_they_can_reach(tmp_path: Path) -> None:
    path = project(tmp_path, *clean(without=("token", "queue")), skill=TIDY)
    found = only(path, "few-cases")
    assert "4 cases" in found.what
    assert "0.12" in found.what  # 2 · (1/2)⁴ = 0.125: two significant digits, halves to even
    assert "at least 6" in found.fix


def test_variants_of_one_case_count_once(tmp_path: Path) -> None:
    variants = [case(f"v{k}", prompt=f"Variant {k}.", cluster="v", **ONE) for k in range(2)]
    path = project(tmp_path, *clean(*variants, without=("token", "queue")), skill=TIDY)
    assert "5 cases (variants counted once)" in only(path, "few-cases").what


def test_a_set_that_bans_nothing_and_never_rests_is_told(tmp_path: Path) -> None:
    path = project(tmp_path, *clean(case("more", **ONE), without=("guard-sum",)), skill=TIDY)
    assert rules(path) == ["no-negative"]


@pytest.mark.parametrize(
    "more",
    [
        case("guard-sum", check(pattern="4"), prompt="What is 2 + 2?", **ONE),
        case("ban", check("excludes", "sorry"), **ONE),
        case("not", text("contains", "sorry", **{"not": True}), **ONE),
    ],
    ids=lambda item: item["id"],
)
def test_a_ban_or_a_case_to_stay_away_from_is_enough(tmp_path: Path, more: dict[str, Any]) -> None:
    assert rules(project(tmp_path, *clean(more, without=("guard-sum",)), skill=TIDY)) == []


def test_a_case_without_the_check_of_all_others_is_one_to_stay_away_from(tmp_path: Path) -> None:
    please = [case(f"p{k}", check(pattern=r"\bplease\b"), check(pattern=f"n{k}"), **ONE) for k in range(5)]
    assert rules(project(tmp_path, *please, case("cat", check(pattern="4"), **ONE), skill=TIDY)) == []
    assert rules(project(tmp_path, *please, case("p6", check(pattern=r"\bplease\b"), **ONE), skill=TIDY)) == [
        "no-negative"
    ]


# --- with a run


def ran(path: Path, answers: dict[str, tuple[str | None, str | None]], **more: Any) -> se.Run:
    return se.run_set(path, runner=Scripted(answers), progress=False, **more)


def routed(tmp_path: Path, second: str) -> tuple[Path, se.Run]:
    """A verdict check that baseline passes and one answer with the skill fails, the verdict on its second line."""
    cases = clean()
    answers: dict[str, tuple[str | None, str | None]] = {
        item["prompt"]: ("no", "rollback lock stale twice expired 4") for item in cases
    }
    verdict = case(
        "route", check("verdict", "^VERDICT: TRIVIAL"), check(pattern="typo"), prompt="Route it.", **ONE
    )
    path = project(tmp_path, *cases, verdict, skill=ROUTER)
    return path, ran(path, answers | {"Route it.": ("VERDICT: TRIVIAL, typo", second)})


def test_a_run_shows_verdicts_on_later_lines(tmp_path: Path) -> None:
    path, run = routed(tmp_path, "I apply the skill.\nVERDICT: TRIVIAL, a typo")
    found = only(path, "first-line-verdict", run=run)
    assert found.place == "route check 1"
    assert found.what == "of 1 answer that failed it, 1 had what it looks for on a later line"


def test_a_run_in_which_the_first_line_was_right_says_nothing_of_it(tmp_path: Path) -> None:
    path, run = routed(tmp_path, "VERDICT: ESCALATE\nbecause of the typo")
    assert "first-line-verdict" in rules(path)
    assert "first-line-verdict" not in rules(path, run=run)


def test_a_run_shows_cases_that_are_too_easy_and_checks_that_always_pass(tmp_path: Path) -> None:
    path = project(
        tmp_path,
        *clean(
            case("easy", check(pattern="sun"), prompt="Look up.", **ONE),
            case("weak", check(pattern="moon"), check(pattern="tide"), prompt="Look down.", **ONE),
        ),
        skill=TIDY,
    )
    answers: dict[str, tuple[str | None, str | None]] = {
        item["prompt"]: ("no", "rollback lock stale twice expired 4") for item in clean()
    }
    answers |= {
        "Look up.": ("the sun", "a sun"),
        "Look down.": ("the moon", "moon and tide"),
        "What is 2 + 2?": ("4", "4"),
    }
    run = ran(
        path, answers, conditions=("baseline", "skill"), case_ids=["easy", "weak", "guard-sum", "cache"]
    )
    assert rules(path) == []
    report = lint_set(path, run=run)
    assert [(found.rule, found.place) for found in report] == [
        ("too-easy", "easy"),
        ("always-passes", "weak check 1"),
    ]
    assert "baseline in 1/1 trials" in report[0].what
    assert "(baseline 1/1, skill 1/1)" in report[1].what
    assert rules(path, run=se.Run(run.record)) == [
        "too-easy",
        "always-passes",
    ]  # its folder is not needed for these


def test_a_run_of_a_set_that_has_changed_counts_for_the_cases_that_have_not(tmp_path: Path) -> None:
    cases = [
        case("sun", check(pattern="sun"), prompt="Look up.", **ONE),
        case("sea", check(pattern="sea"), prompt="Look out.", **ONE),
    ]
    path = project(tmp_path, *clean(*cases), skill=TIDY)
    run = ran(path, {"Look up.": ("sun", "sun"), "Look out.": ("sea", "sea")}, case_ids=["sun", "sea"])
    assert only(path, "too-easy", run=run).place == "sun, sea"
    cases[1]["prompt"] = "Look far out."
    path = project(tmp_path, *clean(*cases), skill=TIDY)
    assert only(path, "too-easy", run=run).place == "sun"
    assert only(path, "too-easy", run=run.folder).place == "sun"
    other = project(tmp_path, *clean(), name="other", skill=TIDY)
    with pytest.raises(InputError, match="no case of 'other'"):
        lint_set(other, run=run)


# --- real sets


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("modern-js", set()),
        ("thanks-first", set()),
        ("polite-rewrite", set()),
        ("typed-python", set()),
    ],
)
def test_the_shipped_sets(name: str, expected: set[str]) -> None:
    assert set(rules(ROOT / "sets" / f"{name}.json")) == expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("complexity-router", {"only-easy"}),
        ("debugging", {"few-cases", "only-easy", "rubric-two-in-one"}),
        ("grilling", {"few-cases", "only-easy", "rubric-two-in-one"}),
        ("l0-ponytail", {"rubric-two-in-one"}),
        ("verification-before-completion", {"few-cases", "only-easy", "no-negative"}),
    ],
)
def test_the_origins_sets(name: str, expected: set[str]) -> None:
    path = ORIGIN / f"{name}.json"
    if not path.exists():
        pytest.skip("the corpus is not here")
    assert set(rules(path)) == expected


# --- words


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (r"skipped|add when", ["skipped", "add when"]),
        (r"(red[- ]?capable|root\s+cause): \d+", ["red capable: \0", "root cause: \0"]),
        (r"it'?s \*{0,2}done", ["it's done"]),
        (r"(?:re-?)?run\b", ["\0run"]),
        (r"^(?!.*no)yes$", ["\0yes"]),
        (r"a{2,}b+c", ["abc"]),
        (r"\.md\n", [".md "]),
        (r"(a", []),
        (r"a)", []),
        (r"(?P<x>a)(?#b)", []),
        ("(a|b)" * 7, []),
    ],
)
def test_the_literal_part_of_a_pattern(source: str, expected: list[str]) -> None:
    assert alternatives(source) == expected


literals = st.text("ab .'-", min_size=1, max_size=4).map(re.escape)
pieces = st.recursive(
    literals,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: f"(?:{'|'.join(parts)})"),
        inner.map(lambda part: f"(?:{part})+"),
    ),
    max_leaves=6,
)


@given(source=pieces)
def test_a_reading_without_gaps_is_matched_by_its_pattern(source: str) -> None:
    for reading in alternatives(source):
        assert "\0" in reading or re.search(source, reading)


def test_words_are_compared_without_marks_and_case() -> None:
    assert line_of("It’s **Red-capable**: YES!") == " it's red capable yes "


def test_what_a_text_shows_word_for_word() -> None:
    shown = marked('Say `a b` or "c d" or “e f”.\n\n```\ng h\n```\n\n```python\ni = 1\n```\n')
    assert [line_of(part).strip() for part in shown] == ["g h", "a b", "c d", "e f"]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("Do not use |lodash.", True),
        ("It doesn’t need |lodash.", True),
        ("No dates. Use |lodash.", False),
        ("- no dates\n- use |lodash", False),
        ("The tests should |pass now.", False),
    ],
)
def test_a_negation_counts_within_its_sentence(sentence: str, expected: bool) -> None:
    assert is_negated(sentence.replace("|", ""), sentence.index("|")) is expected


anything = st.text(max_size=60)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    prompt=anything,
    value=anything,
    rubric=anything,
    body=anything,
    kind=st.sampled_from(["contains", "icontains", "equals"]),
)
def test_no_text_breaks_it(
    tmp_path: Path, prompt: str, value: str, rubric: str, body: str, kind: str
) -> None:
    file = tmp_path / "SKILL.md"
    file.write_bytes(skill(body).encode())
    pattern = compile_pattern(re.escape(value).replace("-", "\\x2d") or "x", None, "python")
    checks = (
        PatternCheck("excludes", pattern),
        PatternCheck("includes", pattern),
        TextCheck(kind, value, negated=True),
        TextCheck(kind, value),
        JudgeCheck(rubric),
    )
    eval_set = EvalSet("eval", "any", tmp_path / "any.json", tmp_path, (Case("a", prompt, checks),))
    report = lint_set(eval_set, skill_path=file)
    assert "contradicting-checks" in {found.rule for found in report}
    assert len(str(report).splitlines()) == len(report)
