"""The inspector without a browser: what it shows, what its commands do, its static twin, and hostile transcripts."""

from __future__ import annotations

import json
import re
import time
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hostile import EVERY, HIDDEN, HOSTILE, LONG, run_parts, texts_in
from run_folders import RUN, F, P, both, case, grade, line, write_run
from worlds import check, judged

from skilleval_nb.controls import visible
from skilleval_nb.errors import InputError, RunNotFound
from skilleval_nb.inspect_html import inspection_html
from skilleval_nb.inspection import MORE, TEXT
from skilleval_nb.inspector import Inspector, inspect
from skilleval_nb.labels import read_labels

ATTRIBUTES = {"aria-label", "class", "dir", "open", "role", "scope", "tabindex"}
VALUES = {
    "class": re.compile(r"(sknb[a-z-]*|tex2jax_ignore|mathjax_ignore)( (sknb[a-z-]*|tex2jax_ignore|mathjax_ignore))*"),
    "dir": re.compile("auto"), "role": re.compile("group"), "scope": re.compile("row|col"), "tabindex": re.compile("0"),
}  # fmt: skip
TAGS = {
    "b", "bdi", "br", "caption", "dd", "del", "details", "div", "dl", "dt", "ins", "li", "mark", "ol", "p", "pre",
    "style", "summary", "sup", "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip


class Page(HTMLParser):
    """What a browser would see."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        if tag not in ("br", "meta"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    def handle_comment(self, data: str) -> None:
        raise AssertionError("there is no comment of ours")

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())


def do(inspector: Inspector, *commands: dict[str, Any]) -> dict[str, Any]:
    """What a page sends, as it comes; the view after it."""
    inspector._handle_custom_msg({"commands": list(commands)}, [])
    return dict(inspector.view)


def names(inspector: Inspector) -> list[str]:
    return [row["name"] for row in inspector.rows["rows"]]


@pytest.fixture
def world(tmp_path: Path) -> Path:
    """Three cases, three trials each: one flips to pass, one to fail, one stays."""
    cases = [
        case(name, check(), judged("It is polite."), prompt=f"Do {name}.") for name in ("up", "down", "same")
    ]
    lines = []
    for name, pattern in (("up", (F, F, P, P, P, F)), ("down", (P, P, P, F, F, F)), ("same", (F,) * 6)):
        for number, outcome in enumerate(pattern):
            condition, trial = ("baseline", "skill")[number // 3], number % 3 + 1
            text = f"{name} under {condition}: a magic answer, trial {trial}"
            checks = [
                grade(passed=outcome == P, evidence="magic", span=[text.index("magic"), text.index("magic") + 5]),
                grade("judge", True, evidence="answer", span=[text.index("answer"), text.index("answer") + 6],
                      quoted=True, reasoning="so it is", judgeModel="j-1", judgeTokens=[9, 8, None, None],
                      judgeLatencyS=0.5),
            ]  # fmt: skip
            lines.append(line(name, condition, outcome, text, trial, checks=checks, costUsd=0.0012))
    return write_run(tmp_path, cases, lines, n=3, judgeModel="j")


# --- what is shown -----------------------------------------------------------------------------------------


def test_the_list_has_a_mark_for_each_trial_and_the_verdicts_in_words(world: Path) -> None:
    rows = inspect(world).rows["rows"]
    assert [(row["name"], row["marks"], row["moved"]) for row in rows] == [
        ("up", [["baseline", "✗✗✓", "fail 1/3"], ["skill", "✓✓✗", "pass 2/3"]], "flipped to pass"),
        ("down", [["baseline", "✓✓✓", "pass 3/3"], ["skill", "✗✗✗", "fail 0/3"]], "flipped to fail"),
        ("same", [["baseline", "✗✗✗", "fail 0/3"], ["skill", "✗✗✗", "fail 0/3"]], ""),
    ]


def test_both_conditions_are_shown_with_all_that_is_known(world: Path) -> None:
    view = inspect(world).view
    left, right = view["sides"]
    assert (view["title"], view["case"]["place"]) == (f"magic · {RUN} · 3 cases, 18 trials", "1 of 3 cases")
    assert [(side["condition"], side["trial"], side["outcome"]) for side in (left, right)] == [
        ("baseline", 1, "✗ fail"), ("skill", 1, "✓ pass"),
    ]  # fmt: skip
    assert right["answer"]["parts"] == [
        ["", "", "up under skill: a "], ["met", "1", "magic"], ["", "", " "], ["quoted", "2", "answer"],
        ["", "", ", trial 1"],
    ]  # fmt: skip
    assert left["answer"]["parts"][1] == ["broken", "1", "magic"]
    assert dict(right["facts"]) == {
        "outcome": "passed", "model": "m-1", "tokens": "input 10 · output 5 (cache read, cache write not reported)",
        "time": "1.00 s", "cost": "$0.0012", "stop reason": "end_turn", "reused": "no", "attempt": "1",
    }  # fmt: skip
    first, second = right["checks"]
    assert (first["grade"], first["asks"], first["says"]) == (
        "✓ pass", "/magic/", ["found at characters 19 to 23: “magic”"],
    )  # fmt: skip
    assert (second["asks"], second["says"]) == (
        "It is polite.",
        [
            "reasoning: so it is", "evidence: “answer”, marked in the answer",
            "judge j-1 · tokens input 9 · output 8 (cache read, cache write not reported) · time 0.50 s"
            " · cost not reported",
        ],
    )  # fmt: skip
    assert [(s["condition"], s["said"]) for s in inspect(world).systems] == [
        ("baseline", "no system text"),
        ("skill", ""),
    ]


def test_what_is_absent_is_said_and_never_a_zero(tmp_path: Path) -> None:
    lines = [
        line("a", "baseline", "executor_failed", None, reason="429", tokens=None, latencyS=None, model=None,
             stopReason=None),
        line("b", "skill", P, ""),
    ]  # fmt: skip
    inspector = inspect(write_run(tmp_path, [case("a"), case("b")], lines, systems=None))
    left, right = inspector.view["sides"]
    assert (left["absent"], left["outcome"], right["absent"]) == (
        "no answer came",
        "– not measured",
        "this trial was not started",
    )
    assert dict(left["facts"]) == {
        "outcome": "executor_failed", "reason": "429", "model": "not reported", "tokens": "not reported",
        "time": "not reported", "cost": "not reported", "stop reason": "not reported", "reused": "no", "attempt": "1",
    }  # fmt: skip
    assert left["checks"] == [] or left["checks"][0]["grade"] == "– not graded"
    assert [system["said"] for system in inspector.systems] == ["not recorded", "not recorded"]
    assert do(inspector, {"do": "step", "by": 1})["sides"][1]["empty"] is True
    assert inspector.rows["rows"][0]["marks"] == [
        ["baseline", "!", "not measured"],
        ["skill", "·", "not measured"],
    ]


def test_grades_say_why_and_where(tmp_path: Path) -> None:
    grades = [
        grade("includes", False), grade("excludes", True), grade("json", False, evidence="$.a: is no number"),
        grade("includes", None, outcome="grader_timeout", reason="the pattern ran over its 1 s"),
        grade("includes", True, evidence="", span=[3, 3]), grade("judge", True, evidence="nowhere", quoted=False),
        grade("includes", True, evidence="far", span=[TEXT + 10, TEXT + 13]), grade("words", False, evidence="9 words"),
    ]  # fmt: skip
    folder = write_run(tmp_path, [case("a")], [line("a", "skill", F, "x" * (TEXT + 100), checks=grades)])
    says = [check["says"] for check in inspect(folder).view["sides"][1]["checks"]]
    assert says == [
        ["not found in the answer"], ["not found in the answer"], ["$.a: is no number"],
        ["the pattern ran over its 1 s"],
        ["found: an empty text at character 4"], ["evidence: “nowhere”, not found in the answer"],
        ["found at characters 20,011 to 20,013: “far”", "the place is beyond what is shown of the answer"], ["9 words"],
    ]  # fmt: skip


def test_a_regrade_shows_each_grade_before_and_after(tmp_path: Path) -> None:
    grades = [
        grade("judge", True, judgeModel="new", before={"passed": False, "judgeModel": "old"}),
        grade("judge", True, judgeModel="new", before={"passed": True, "judgeModel": "old"}),
        grade("judge", True, judgeModel="old", kept=True, before={"passed": True, "judgeModel": "old"}),
        grade("includes", False, span=[0, 1], evidence="x"),
    ]
    folder = write_run(tmp_path, [case("a")], [line("a", "skill", P, "x", checks=grades)], regradeOf="first")
    said = [check["says"][-1] for check in inspect(folder).view["sides"][1]["checks"]]
    assert said == [
        "changed: before ✗ fail (judge old), now ✓ pass", "before and now ✓ pass (judge old)",
        "kept from before (judge old)", "before: this check is new",
    ]  # fmt: skip


def test_events_of_an_agent_are_shown_in_order_and_without_end_they_are_cut(tmp_path: Path) -> None:
    events = [{"type": "tool", "name": "Bash", "text": f"ls {number}"} for number in range(600)]
    folder = write_run(tmp_path, [case("a")], [line("a", "skill", events=events)])
    side = inspect(folder).view["sides"][1]
    assert side["events"][:2] == [["tool", "Bash", "ls 0"], ["tool", "Bash", "ls 1"]]
    assert (len(side["events"]), side["events_said"]) == (500, "100 more events left out")


def test_more_than_two_conditions_can_be_compared(tmp_path: Path) -> None:
    conditions = ["baseline", "skill", "placebo"]
    lines = [line("a", name, P if name == "skill" else F, name) for name in conditions]
    folder = write_run(tmp_path, [case("a")], lines, conditions=conditions)
    inspector = inspect(folder)
    assert (inspector.view["conditions"], inspector.view["pair"]) == (conditions, ["baseline", "skill"])
    assert [mark[0] for mark in inspector.rows["rows"][0]["marks"]] == conditions
    view = do(inspector, {"do": "compare", "left": "skill", "right": "placebo"})
    assert [side["condition"] for side in view["sides"]] == ["skill", "placebo"]
    assert view["case"]["moved"] == "flipped to fail"
    assert do(inspector, {"do": "compare", "left": "skill", "right": "no such"})["said"].startswith(
        "condition: there is no"
    )


def test_a_run_of_one_condition_and_a_run_without_cases_can_be_opened(tmp_path: Path) -> None:
    alone = inspect(
        write_run(tmp_path, [case("a")], [line("a", "baseline", F)], run="one", conditions=["baseline"])
    )
    assert [side["condition"] for side in alone.view["sides"]] == ["baseline"]
    assert do(alone, {"do": "diff"})["diff"] is None
    empty = inspect(write_run(tmp_path, [], [], run="none"))
    view = do(
        empty,
        {"do": "step"},
        {"do": "trial"},
        {"do": "filter"},
        {"do": "search", "words": "x"},
        {"do": "diff"},
    )
    assert (view["case"], empty.rows["of"], view["sides"]) == (None, 0, [])
    assert "no case to look at" in inspection_html(empty.inspection)


def test_a_frame_says_that_it_is_a_choice(world: Path) -> None:
    frame = pl.DataFrame({"run_id": RUN, "case_id": ["down"], "condition": "skill", "trial": [2]})
    inspector = inspect(frame, runs_dir=world.parent)
    assert inspector.view["notes"] == ["only the 1 of 18 trials that were chosen"]
    assert names(inspector) == ["down"]
    left, right = inspector.view["sides"]
    assert (left["absent"], right["trial"], right["outcome"]) == (
        "this trial is not among those that were chosen",
        2,
        "✗ fail",
    )
    assert inspector.rows["rows"][0]["marks"] == [["baseline", "·", "pass 3/3"], ["skill", "✗", "fail 0/3"]]


# --- commands ----------------------------------------------------------------------------------------------


def test_the_keys_commands_move_through_cases_and_trials(world: Path) -> None:
    inspector = inspect(world)
    assert do(inspector, {"do": "step", "by": 1})["case"]["name"] == "down"
    assert do(inspector, {"do": "trial", "by": 1})["case"]["trial"] == 2
    assert do(inspector, {"do": "trial", "by": 1}, {"do": "trial", "by": 1})["case"]["trial"] == 1
    view = do(inspector, {"do": "step", "by": 10}, {"do": "step", "by": 1})
    assert (view["case"]["name"], view["said"]) == ("same", "this is the last case")
    assert do(inspector, {"do": "step", "by": -(10**9)})["case"]["name"] == "up"
    assert do(inspector, {"do": "row", "row": 2})["case"]["name"] == "same"
    assert do(inspector, {"do": "side", "side": 0})["side"] == 0


def test_filters_show_their_counts_and_lead_to_the_trials_that_matched(world: Path) -> None:
    inspector = inspect(world)
    counts = {name: words.rpartition("(")[2].rstrip(")") for name, words in inspector.view["filters"]}
    assert counts == {
        "all": "3", "to_pass": "1", "to_fail": "1", "failing": "3", "errors": "0", "judge_checks": "3",
        "judge_label": "0",
        "outcome_label": "0", "slow": "0", "costly": "0", "unlabelled": "3",
    }  # fmt: skip
    view = do(inspector, {"do": "filter", "filter": "failing"})
    assert (names(inspector), view["case"]["name"], view["case"]["trial"]) == (
        ["up", "down", "same"],
        "up",
        3,
    )
    assert dict(view["filters"])["failing"] == "failing with skill (3)"
    do(inspector, {"do": "filter", "filter": "all"}, {"do": "filter", "by": 1}, {"do": "filter", "by": 1})
    assert (inspector.view["filter"], names(inspector)) == ("to_fail", ["down"])
    assert do(inspector, {"do": "filter", "by": -1})["filter"] == "to_pass"
    assert do(inspector, {"do": "filter", "filter": "no such"})["said"].startswith(
        "filter: there is no filter"
    )
    assert do(inspector, {"do": "filter", "filter": "errors"})["case"] is None


def test_a_search_narrows_the_list_counts_and_marks(world: Path) -> None:
    inspector = inspect(world)
    view = do(inspector, {"do": "search", "words": "DOWN under SKILL"})
    assert (names(inspector), view["found"]) == (["down"], "3 hits in 1 case (3 answers)")
    assert view["sides"][1]["answer"]["parts"][0] == ["hit", "", "down under skill"]
    view = do(inspector, {"do": "search", "words": "trial 3"}, {"do": "filter", "filter": "to_pass"})
    assert (names(inspector), view["case"]["trial"]) == (["up"], 3)
    view = do(inspector, {"do": "search", "words": "<nothing>"})
    assert (names(inspector), view["found"], view["case"]) == ([], "not found", None)
    assert do(inspector, {"do": "search", "words": ""}, {"do": "filter", "filter": "all"})["found"] == ""
    assert names(inspector) == ["up", "down", "same"]


def test_the_difference_takes_the_place_of_the_answers(world: Path) -> None:
    view = do(inspect(world), {"do": "diff"})
    assert view["diff"] == {
        "parts": [
            ["", "", "up under "], ["del", "", "baseline"], ["ins", "", "skill"], ["", "", ": a magic answer, trial 1"],
        ],
        "said": "",
    }  # fmt: skip


def test_a_difference_that_cannot_be_worked_out_is_left_out_and_said(tmp_path: Path) -> None:
    many = [line("a", name, P, f"{name} " + "word " * 90_000) for name in ("baseline", "skill")]
    one = [line("b", "skill", P)]
    same = both("c", P, P)
    inspector = inspect(write_run(tmp_path, [case(name) for name in "abc"], [*many, *one, *same]))
    assert (
        do(inspector, {"do": "diff"})["diff"]["said"]
        == "only the first 20,000 characters of both are compared"
    )
    view = do(inspector, {"do": "whole"})
    assert view["diff"] == {
        "parts": [],
        "said": "the difference is left out: the answers are too long to be compared",
    }
    assert do(inspector, {"do": "step"})["diff"]["said"] == "no difference: there are not two answers"
    assert do(inspector, {"do": "step"})["diff"]["said"] == "no difference in words"


def test_long_texts_are_cut_until_all_is_asked_for(tmp_path: Path) -> None:
    text = "x" * (MORE + 7)
    inspector = inspect(write_run(tmp_path, [case("a"), case("b")], both("a", P, P, text=text)))
    assert inspector.view["sides"][0]["answer"]["left_out"] == MORE + 7 - TEXT
    assert do(inspector, {"do": "whole"})["sides"][0]["answer"]["left_out"] == 7
    assert (
        do(inspector, {"do": "step"}, {"do": "step", "by": -1})["sides"][0]["answer"]["left_out"]
        == MORE + 7 - TEXT
    )


def test_a_label_and_a_note_are_saved_at_once_and_are_there_again_on_opening(world: Path) -> None:
    inspector = inspect(world, case="down")
    entry = inspector.view["sides"][1]["entry"]
    view = do(inspector, {"do": "label", "entry": entry, "passed": True})
    assert view["said"] == "saved: pass · down · skill · trial 1"
    assert (view["sides"][1]["label"], inspector.rows["rows"][1]["label"]) == (True, "labelled 1 pass")
    view = do(inspector, {"do": "label", "entry": entry, "note": "reads well"})
    assert view["said"] == "saved: pass with a note · down · skill · trial 1"
    do(inspector, {"do": "label", "entry": entry, "passed": False, "check": 2})
    assert [(label.case_id, label.check, label.passed, label.note) for label in read_labels(world)] == [
        ("down", None, True, "reads well"), ("down", 2, False, ""),
    ]  # fmt: skip
    again = inspect(world, case="down").view["sides"][1]
    assert (again["label"], again["note"], again["checks"][1]["label"]) == (True, "reads well", False)
    do(inspector, {"do": "label", "entry": entry, "passed": None})
    assert [label.check for label in read_labels(world)] == [2]
    assert inspect(world, case="down").view["sides"][1]["note"] == "reads well"


def test_a_note_before_any_label_is_kept(world: Path) -> None:
    inspector = inspect(world)
    do(inspector, {"do": "label", "entry": inspector.view["sides"][0]["entry"], "note": "first thoughts"})
    left = inspect(world).view["sides"][0]
    assert (left["note"], left["label"]) == ("first thoughts", None)


def test_labelling_keeps_the_list_until_the_filter_is_chosen_again(world: Path) -> None:
    inspector = inspect(world)
    view = do(inspector, {"do": "filter", "filter": "judge_checks"})
    entry = view["sides"][1]["entry"]
    view = do(inspector, {"do": "label", "entry": entry, "passed": False, "check": 2})
    assert dict(view["filters"])["judge_label"].endswith("(1)")
    assert names(inspector) == ["up", "down", "same"]
    do(inspector, {"do": "filter", "filter": "judge_label"})
    assert names(inspector) == ["up"]


def test_what_cannot_be_labelled_is_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [case("a")], [line("a", "skill", "executor_failed", None, reason="x")])
    inspector = inspect(folder)
    assert inspector.view["sides"][1]["can_label"] is False
    assert "has no answer" in do(inspector, {"do": "label", "entry": 0, "passed": True})["said"]
    for entry in (None, -1, 7, "0", True):
        said = do(inspector, {"do": "label", "entry": entry, "passed": True})["said"]
        assert "nothing to label" in said or "has no answer" in said
    assert not (folder / "labels.jsonl").exists()
    with pytest.raises(InputError, match="there is no trial of baseline here"):
        inspector.inspection.entry(0)


@pytest.mark.parametrize(
    "content",
    [
        None, 3, "next", [], {}, {"commands": None}, {"commands": "step"}, {"commands": [None, 1, "x", []]},
        {"commands": [{}]}, {"commands": [{"do": "__init__"}, {"do": "_do"}, {"do": ["step"]}, {"do": None}]},
        {"commands": [{"do": "step", "by": "x"}, {"do": "row", "row": "x"}, {"do": "row", "row": 99}]},
        {"commands": [{"do": "label"}, {"do": "label", "entry": 0, "passed": "yes"}]},
        {"commands": [{"do": "compare"}, {"do": "search"}, {"do": "search", "words": {"a": 1}}]},
    ],
)  # fmt: skip
def test_nonsense_from_a_page_changes_nothing_and_is_answered(world: Path, content: Any) -> None:
    inspector = inspect(world)
    turn = inspector.view["turn"]
    inspector._handle_custom_msg(content, [])
    assert inspector.view["turn"] == turn + 1
    assert not (world / "labels.jsonl").exists()


def test_a_run_that_vanishes_while_it_is_looked_at_is_said(world: Path) -> None:
    inspector = inspect(world)
    (world / "trials.jsonl").unlink()
    view = do(inspector, {"do": "step"})
    assert "its trials cannot be read" in view["said"]
    assert "its trials cannot be read" in do(inspector, {"do": "search", "words": "x"})["said"]


def test_opening_somewhere_else_and_what_cannot_be_opened(world: Path) -> None:
    assert inspect(world, case="same").view["case"]["name"] == "same"
    with pytest.raises(InputError, match="there is no case 'x' — cases: up, down, same"):
        inspect(world, case="x")
    with pytest.raises(RunNotFound):
        inspect("nowhere", runs_dir=world.parent)
    inspector = inspect(world)
    inspector.inspection.choose("to_pass")
    inspector.inspection.go("down", 2)
    inspector.refresh()
    assert (inspector.view["case"]["name"], inspector.view["case"]["trial"]) == ("down", 2)
    with pytest.raises(InputError, match="trial: is 4 — trials: 1, 2, 3"):
        inspector.inspection.go("down", 4)


def test_a_thousand_cases_are_sent_in_pieces_and_open_in_under_a_second(tmp_path: Path) -> None:
    cases = [f"c{number}" for number in range(500)]
    lines = [made for name in cases for made in both(name, F, P, text=f"answer of {name} " * 100)]
    folder = write_run(tmp_path, [case(name) for name in cases], lines)
    began = time.process_time()
    inspector = inspect(folder)
    bundle = static(inspector)
    assert time.process_time() - began < 1.0
    assert len(bundle) < 60_000
    assert (len(inspector.rows["rows"]), inspector.rows["of"]) == (100, 500)
    view = do(inspector, {"do": "step", "by": 250})
    assert (view["case"]["name"], inspector.rows["from"], names(inspector)[0]) == ("c250", 200, "c200")
    assert len(json.dumps(view)) < 30_000


# --- the static twin ---------------------------------------------------------------------------------------


def static(inspector: Inspector) -> str:
    bundle = inspector._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert set(data) == {"application/vnd.jupyter.widget-view+json", "text/html", "text/plain"}
    assert data["text/plain"] == repr(inspector)
    return str(data["text/html"])


def test_the_static_twin_has_what_is_shown_first_and_says_what_it_leaves_out(world: Path) -> None:
    inspector = inspect(world)
    assert repr(inspector) == "Inspector(magic: 3 cases, 18 trials)"
    said = Page(static(inspector)).text
    for words in (
        "case up", "trial 1 of 3", "flipped to pass", "✗✗✓ fail 1/3", "✓✓✗ pass 2/3", "up under skill: a [1] magic",
        "Do up.", "Say magic.", "It is polite.", "reasoning: so it is", "input 10 · output 5", "One case is shown here",
    ):  # fmt: skip
        assert words in said, words
    assert Page(static(inspector)).open == []
    assert static(inspector) == static(inspector)


def test_the_static_twin_of_long_texts_and_many_cases_is_short(tmp_path: Path) -> None:
    cases = [case(f"c{number}", prompt="p" * 90_000) for number in range(300)]
    folder = write_run(tmp_path, cases, both("c0", F, P, text="t" * 90_000))
    html = static(inspect(folder))
    assert len(html) < 40_000
    said = Page(html).text
    assert said.count("86,000 more characters are not shown here") == 3
    assert "30 of 300 cases; 270 are left out here: the widget has all" in said


# --- hostile transcripts -----------------------------------------------------------------------------------


def opened(root: Path, text: str, answer: str) -> Inspector:
    cases, lines, header = run_parts(text, answer)
    return inspect(write_run(root, cases, lines, **header))


@pytest.mark.parametrize("text", [*HOSTILE.values(), EVERY], ids=[*HOSTILE, "every"])
def test_a_hostile_transcript_is_only_text(tmp_path: Path, text: str) -> None:
    evil, calm = opened(tmp_path / "e", text, text), opened(tmp_path / "c", "plain words", "plain words")
    view = do(
        evil, {"do": "label", "entry": 1, "passed": True, "note": text.encode("utf-8", "replace").decode()}
    )
    if view["said"].startswith("saved"):
        do(calm, {"do": "label", "entry": 1, "passed": True, "note": "n"})
    else:  # no UTF-8 file can hold such a case's name: never a label that is lost in silence
        assert "\ud800" in text
        assert "could not be read back" in view["said"]
    for data in (view, evil.rows, list(evil.systems)):
        assert not [found for found in texts_in(data) if HIDDEN.search(found)]
        json.dumps(data, ensure_ascii=False).encode()
    answer = view["sides"][1]["answer"]["parts"]
    assert visible(text[5:]) in "".join(part[2] for part in answer)  # shown, not dropped

    page, other = Page(static(evil)), Page(static(calm))
    assert set(page.tags) == set(other.tags) <= TAGS
    assert {name for name, _ in page.attributes} == {name for name, _ in other.attributes} <= ATTRIBUTES
    for name, value in page.attributes:
        assert name not in VALUES or VALUES[name].fullmatch(value), (name, value)
    assert len(page.tags) == len(other.tags)
    assert not HIDDEN.search(static(evil).replace("\n", ""))
    assert repr(evil) == visible(f"Inspector({text}: 2 cases, 3 trials)")


def test_a_search_for_a_hostile_text_and_its_difference_are_only_text(tmp_path: Path) -> None:
    evil = opened(tmp_path, EVERY, EVERY)
    view = do(evil, {"do": "search", "words": HOSTILE["script"]}, {"do": "diff"})
    assert any(part[0] == "hit" for part in view["sides"][0]["answer"]["parts"])
    assert view["diff"]["said"] == "no difference in words"
    assert not [found for found in texts_in(view) if HIDDEN.search(found)]


def test_five_megabytes_in_one_line_slow_nothing_and_flood_nothing(tmp_path: Path) -> None:
    cases, lines, header = run_parts("text", LONG)
    folder = write_run(tmp_path, cases, lines, **header)
    began = time.process_time()  # others may use the machine
    inspector = inspect(folder)
    html = static(inspector)
    view = do(inspector, {"do": "diff"}, {"do": "search", "words": "AAAA"})
    assert time.process_time() - began < 2.0
    assert len(html) < 60_000
    assert len(json.dumps(view)) < 200_000
    assert view["sides"][0]["answer"]["left_out"] == 5_000_003 - TEXT
