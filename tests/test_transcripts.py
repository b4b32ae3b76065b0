"""The index over a run's trials: what it opens, filters, searches and labels, and two texts word by word."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from run_folders import RUN, F, P, both, case, grade, line, write_run
from scripted import Scripted
from worlds import case as set_case
from worlds import check, judged, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, LogWarning, RunNotFound
from skilleval_nb.labels import add_label
from skilleval_nb.marked import WORDS, Mark, diff_words, hits, marked, needle
from skilleval_nb.transcripts import FILTERS, Transcripts, open_transcripts

PAIR = ("baseline", "skill")


def rows(found: Transcripts, name: str, pair: tuple[str, str] = PAIR) -> dict[str, list[int]]:
    """The cases that a filter shows, each with its trials."""
    return {found.rows[at].id: trials for at, trials in found.matching(name, *pair).items()}


# --- opening -----------------------------------------------------------------------------------------------


def test_a_real_run_opens_from_itself_its_id_its_folder_last_and_its_trials(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, set_case("one"), set_case("two"))
    answers = {"Task one.": ("no", "magic"), "Task two.": ("magic", None)}
    run = se.run_set(path, runner=Scripted(answers), n=2, progress=False)
    monkeypatch.chdir(tmp_path)
    assert run.folder is not None
    for source in (run, run.id, "last", run.folder, str(run.folder), run.trials):
        found = open_transcripts(source)
        assert [row.id for row in found.rows] == ["one", "two"]
        assert [row.verdict("skill") for row in found.rows] == [True, None]
        texts = {
            (entry.key.case_id, entry.key.condition, entry.key.trial): found.line(entry).get("text")
            for entry in found.entries
        }
        assert texts["one", "skill", 2] == "magic"
        assert texts["two", "baseline", 1] == "magic"
        assert texts["two", "skill", 1] is None
        assert len(texts) == 8


def test_a_filtered_frame_shows_its_trials_alone_and_the_verdicts_of_the_whole_run(tmp_path: Path) -> None:
    lines = [line("a", c, o, trial=n) for c, o in (("baseline", F), ("skill", P)) for n in (1, 2, 3)]
    lines[5] = line("a", "skill", F, trial=3)
    write_run(tmp_path, [case("a"), case("b")], [*lines, *both("b", P, P)], n=3)
    frame = pl.DataFrame({"run_id": [RUN], "case_id": ["a"], "condition": ["skill"], "trial": [3]})
    found = open_transcripts(frame, tmp_path / "runs")
    assert [(str(e.key.case_id), e.key.condition, e.key.trial) for e in found.entries] == [("a", "skill", 3)]
    (row,) = found.rows
    assert (row.cells["skill"], row.verdict("skill"), row.moved(*PAIR)) == ((2, 3), True, "flipped to pass")
    assert row.others == {(c, n) for c in PAIR for n in (1, 2, 3)} - {("skill", 3)}
    assert (len(found.entries), found.all_trials) == (1, 8)


def test_a_frame_may_hold_trials_of_several_runs(tmp_path: Path) -> None:
    for run in ("r1", "r2"):
        write_run(tmp_path, [case("a")], both("a", F, P, text=f"of {run}"), run=run)
    frame = pl.DataFrame({"run_id": ["r2", "r1"], "case_id": "a", "condition": "skill", "trial": 1})
    found = open_transcripts(frame, tmp_path / "runs")
    assert [found.line(entry)["text"] for entry in found.entries] == ["of r2", "of r1"]


def test_what_cannot_be_opened_says_why(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    with pytest.raises(RunNotFound, match="nowhere: its transcripts are not here"):
        open_transcripts("nowhere", runs)
    with pytest.raises(RunNotFound, match="not here"):
        open_transcripts(se.Run({"runId": "gone", "cases": []}, None), runs)
    with pytest.raises(InputError, match="is a int: it is a run, its id, its folder, or a frame"):
        open_transcripts(3, runs)
    with pytest.raises(InputError, match="no frame of trials: it has no trial"):
        open_transcripts(pl.DataFrame({"run_id": [], "case_id": [], "condition": []}), runs)
    empty = pl.DataFrame({"run_id": [], "case_id": [], "condition": [], "trial": []})
    with pytest.raises(InputError, match="no row"):
        open_transcripts(empty, runs)


def test_of_several_attempts_the_one_that_counts_is_shown_and_the_others_are_told(tmp_path: Path) -> None:
    late = line("a", "skill", "executor_timeout", None, reason="no answer within 1 s")
    folder = write_run(tmp_path, [case("a")], [late, line("a", "skill", P, "magic", attempt=2)])
    (entry,) = open_transcripts(folder).entries
    assert entry.outcome == P
    assert entry.earlier == ("attempt 1, executor_timeout: no answer within 1 s",)


def test_a_torn_line_is_left_out_and_said(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [case("a")], both("a", F, P))
    with (folder / "trials.jsonl").open("a") as file:
        file.write('{"caseId": "a", "cond')
    with pytest.warns(LogWarning, match="1 line"):
        found = open_transcripts(folder)
    assert [found.line(entry)["condition"] for entry in found.entries] == ["baseline", "skill"]


def test_a_file_that_was_changed_meanwhile_is_never_shown_as_another_trial(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [case("a")], both("a", F, P))
    found = open_transcripts(folder)
    trials = folder / "trials.jsonl"
    trials.write_text("".join(reversed(trials.read_text().splitlines(keepends=True))))
    with pytest.raises(RunNotFound, match="can no longer be read"):
        found.line(found.entries[0])
    trials.unlink()
    with pytest.raises(RunNotFound, match="cannot be read"):
        found.line(found.entries[0])


def test_a_thousand_trials_of_twenty_kilobytes_open_in_under_a_second(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(500)]
    lines = [made for name in names for made in both(name, F, P, text="a few words and " * 1250)]
    folder = write_run(tmp_path, [case(name) for name in names], lines)
    began = time.process_time()
    found = open_transcripts(folder)
    found.line(found.entries[-1])
    assert time.process_time() - began < 1.0
    assert len(found.entries) == 1000


# --- filters -----------------------------------------------------------------------------------------------


def test_flips_and_failures_follow_the_two_conditions(tmp_path: Path) -> None:
    lines = [*both("up", F, P), *both("down", P, F), *both("same", F, F)]
    lines += [line("error", "baseline", F), line("error", "skill", "executor_failed", None, reason="429")]
    folder = write_run(tmp_path, [case(name) for name in ("up", "down", "same", "error", "unstarted")], lines)
    found = open_transcripts(folder)
    assert {name: list(rows(found, name)) for name in ("to_pass", "to_fail", "failing", "errors")} == {
        "to_pass": ["up"], "to_fail": ["down"], "failing": ["down", "same"], "errors": ["error"],
    }  # fmt: skip
    assert list(rows(found, "all")) == ["up", "down", "same", "error", "unstarted"]
    turned = ("skill", "baseline")
    assert list(rows(found, "to_pass", turned)) == ["down"]
    assert list(rows(found, "failing", turned)) == ["up", "same", "error"]


def test_a_judge_disagrees_with_the_other_checks_of_the_same_trial(tmp_path: Path) -> None:
    def made(name: str, trial: int, *grades: dict[str, Any]) -> dict[str, Any]:
        return line(name, "skill", F, trial=trial, checks=list(grades))

    fine, broken, undecided = grade(), grade(passed=False), grade(passed=None)
    yes, no, unsure = grade("judge"), grade("judge", passed=False), grade("judge", passed=None)
    lines = [
        made("a", 1, fine, fine, yes), made("a", 2, fine, broken, yes), made("a", 3, fine, fine, no),
        made("b", 1, fine, broken, no), made("b", 2, fine, undecided, no), made("b", 3, fine, unsure),
        made("c", 1, yes), made("d", 1, fine), made("e", 1, fine, yes, no),
    ]  # fmt: skip
    folder = write_run(tmp_path, [case(name) for name in "abcde"], lines, n=3)
    assert rows(open_transcripts(folder), "judge_checks") == {"a": [2, 3], "e": [1]}


def test_labels_that_contradict_a_judge_or_an_outcome(tmp_path: Path) -> None:
    mixed = [grade(), grade("judge", passed=False)]
    alone = [grade("judge", passed=True)]
    lines = [line("mixed", "skill", F, checks=mixed), line("alone", "skill", P, checks=alone)]
    folder = write_run(tmp_path, [case("mixed", check(), judged()), case("alone", judged())], lines)

    def now() -> tuple[dict[str, list[int]], dict[str, list[int]], dict[str, list[int]]]:
        found = open_transcripts(folder)
        return tuple(rows(found, name) for name in ("judge_label", "outcome_label", "unlabelled"))  # type: ignore[return-value]

    assert now() == ({}, {}, {"mixed": [1], "alone": [1]})
    add_label(folder, "mixed", "skill", 1, True)  # of the trial: a judge and another check decide it together
    assert now() == ({}, {"mixed": [1]}, {"alone": [1]})
    add_label(folder, "mixed", "skill", 1, False, check=2)
    add_label(folder, "alone", "skill", 1, False)  # nothing but the judge decides it
    assert now() == ({"alone": [1]}, {"mixed": [1], "alone": [1]}, {})
    add_label(folder, "mixed", "skill", 1, True, check=2)
    assert list(now()[0]) == ["mixed", "alone"]
    add_label(folder, "alone", "skill", 1, None)
    assert now()[0] == {"mixed": [1]}


def test_slow_and_costly_are_above_the_ninetieth_percentile_of_their_condition(tmp_path: Path) -> None:
    lines = []
    for number in range(
        1, 11
    ):  # 1 … 10 s at baseline, 11 … 20 s with the skill: 9 and 19 are the percentiles
        for at, condition in enumerate(PAIR):
            tokens = [100 * number, None, None, 7 * at]
            lines.append(line(f"c{number}", condition, latencyS=float(number + 10 * at), tokens=tokens))
    lines += [line("c11", condition, latencyS=None, tokens=None) for condition in PAIR]
    folder = write_run(tmp_path, [case(f"c{number}") for number in range(1, 12)], lines)
    found = open_transcripts(folder)
    assert rows(found, "slow") == {"c10": [1]}
    assert rows(found, "costly") == {"c10": [1]}
    assert [entry.tokens for entry in found.entries[:4]] == [100, 107, 200, 207]


# --- search ------------------------------------------------------------------------------------------------


def test_a_search_looks_in_answers_prompts_and_ids_in_any_case(tmp_path: Path) -> None:
    cases = [case("needle-id", prompt="p"), case("b", prompt="a Needle, a needle"), case("c", prompt="p")]
    lines = [*both("needle-id", F, P, text="x"), *both("b", F, P, text="x")]
    lines += [
        line("c", "baseline", text="NEEDLE"),
        line("c", "skill", text="none"),
        line("c", "skill", text="needle needle", trial=2),
    ]
    found = open_transcripts(write_run(tmp_path, cases, lines, n=2))
    result = found.search("needle")
    assert (result.hits, result.trials) == (6, 2)
    assert {found.rows[at].id: trials for at, trials in result.rows.items()} == {
        "needle-id": [1], "b": [1], "c": [1, 2],
    }  # fmt: skip
    assert found.search(".").hits == 0  # a text, no pattern
    assert len(found.search("  ").rows) == 3


# --- labels ------------------------------------------------------------------------------------------------


def test_a_label_is_written_at_once_and_read_back_with_its_note(tmp_path: Path) -> None:
    folder = write_run(tmp_path, [case("a", check(), judged())], both("a", F, P))
    found = open_transcripts(folder)
    entry = found.rows[0].entries["skill", 1]
    found.label(entry, True, "fine")
    found.label(entry, False, "", check=2)
    found.label(found.rows[0].entries["baseline", 1], None, "only a note")
    again = open_transcripts(folder)
    assert [again.label_of(e, c) for e in again.entries for c in (None, 2)] == [None, None, True, False]
    assert [again.note_of(e) for e in again.entries] == ["only a note", "fine"]
    kept = [json.loads(text) for text in (folder / "labels.jsonl").read_text().splitlines()]
    assert [(item["condition"], item["check"], item["passed"]) for item in kept] == [
        ("skill", None, True), ("skill", 2, False), ("baseline", None, None),
    ]  # fmt: skip


def test_a_regrade_shows_the_labels_of_its_run_where_the_check_is_the_same(tmp_path: Path) -> None:
    checks = [judged("One."), judged("Two.")]
    before = write_run(tmp_path, [case("a", *checks)], both("a", F, P), run="first")
    for number in (None, 1, 2):
        add_label(before, "a", "skill", 1, False, check=number, note=f"n{number}")
    after = write_run(
        tmp_path,
        [case("a", checks[0], judged("Two, edited."))],
        both("a", F, P),
        run="second",
        regradeOf="first",
    )
    found = open_transcripts(after)
    entry = found.rows[0].entries["skill", 1]
    assert [found.label_of(entry, number) for number in (None, 1, 2)] == [False, False, None]
    assert [found.note_of(entry, number) for number in (None, 1, 2)] == ["nNone", "n1", ""]
    found.label(entry, True, "")
    assert found.label_of(entry) is True
    assert open_transcripts(before).label_of(open_transcripts(before).rows[0].entries["skill", 1]) is False
    found.label(entry, None, "")
    assert (found.label_of(entry), open_transcripts(before).label_of(entry)) == (None, False)


# --- texts in parts ----------------------------------------------------------------------------------------


def test_marks_cut_a_text_into_parts_and_overlap() -> None:
    text = "0123456789"
    made = marked(
        text, [Mark(1, 4, "met", 1), Mark(3, 6, "broken", 2), Mark(5, 5, "met", 3), Mark(8, 99, "hit")], 100
    )
    assert made == {
        "parts": [
            ["", "", "0"], ["met", "1", "12"], ["met", "1, 2", "3"], ["broken", "2", "45"], ["", "", "67"],
            ["hit", "", "89"],
        ],
        "left_out": 0,
    }  # fmt: skip


def test_a_text_is_cut_and_says_so_and_marks_beyond_are_dropped() -> None:
    made = marked("0123456789", [Mark(2, 6, "met", 1), Mark(8, 9, "met", 2)], 4)
    assert made == {"parts": [["", "", "01"], ["met", "1", "23"]], "left_out": 6}


@given(
    st.text(max_size=30),
    st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30), st.sampled_from(["met", "hit"]))),
)
def test_the_parts_of_a_text_are_the_text(text: str, places: list[tuple[int, int, str]]) -> None:
    parts = marked(text, [Mark(start, end, kind, 1) for start, end, kind in places], 20)["parts"]
    assert "".join(part[2] for part in parts) == text[:20]
    at = 0
    for kind, _, piece in parts:
        covering = {
            k for start, end, k in places for place in range(at, at + len(piece)) if start <= place < end
        }
        assert (kind != "") == bool(covering)
        at += len(piece)


def test_hits_are_marked_as_they_stand_and_not_without_end() -> None:
    assert [tuple(mark) for mark in hits(needle("a.b"), "xA.Ba.b")] == [(1, 4, "hit", 0), (4, 7, "hit", 0)]
    assert len(list(hits(needle("a"), "a" * 5000))) == 500
    assert list(hits(needle(" "), "a b")) == []


def test_a_difference_reads_as_a_person_would_write_it() -> None:
    assert diff_words("The cat sat on the mat.", "The black cat sat on a  mat!") == [
        ["", "", "The "], ["ins", "", "black "], ["", "", "cat sat on "], ["del", "", "the "], ["ins", "", "a  "],
        ["", "", "mat"], ["del", "", "."], ["ins", "", "!"],
    ]  # fmt: skip
    # one common word between longer changes would only tear them apart
    assert diff_words("green apples of yesterday", "ripe bananas of tomorrow") == [
        ["del", "", "green apples of yesterday"], ["ins", "", "ripe bananas of tomorrow"],
    ]  # fmt: skip
    assert diff_words("a\nb", "a b") == [["", "", "a b"]]
    assert diff_words("", "") == []


words = st.lists(st.sampled_from(["alpha", "beta", "gamma", "delta", "x"]), max_size=12).map(" ".join)


@given(words, words)
def test_a_difference_loses_no_word_of_either_side(left: str, right: str) -> None:
    parts = diff_words(left, right)
    assert parts is not None
    for side, kinds in ((left, ("", "del")), (right, ("", "ins"))):
        # white space is not compared, so the common parts read as on the right
        assert "".join(text for kind, _, text in parts if kind in kinds).split() == side.split()


@given(words, words)
def test_two_long_words_around_make_the_common_part_as_long_as_it_can_be(left: str, right: str) -> None:
    def longest(a: list[str], b: list[str]) -> int:  # the textbook's table
        table = [[0] * (len(b) + 1) for _ in range(len(a) + 1)]
        for i, x in enumerate(a):
            for j, y in enumerate(b):
                table[i + 1][j + 1] = table[i][j] + 1 if x == y else max(table[i][j + 1], table[i + 1][j])
        return table[-1][-1]

    from skilleval_nb.marked import _common

    a, b = left.split(), right.split()
    pairs = _common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert pairs == sorted(pairs)
    assert len({i for i, _ in pairs}) == len({j for _, j in pairs}) == len(pairs) == longest(a, b)


def test_long_and_repetitive_texts_are_compared_in_bounded_time_and_longer_ones_are_not() -> None:
    began = time.process_time()
    left = " ".join(str(number * number % 97) for number in range(WORDS))
    right = " ".join(str(number * number * number % 89) for number in range(WORDS))
    assert diff_words(left, right)
    assert diff_words("x" * 5_000_000, "y") == [["del", "", "x" * 5_000_000], ["ins", "", "y"]]
    assert time.process_time() - began < 10
    assert diff_words(left + " 1", right) is None


def test_every_filter_has_words() -> None:
    assert len(set(FILTERS.values())) == len(FILTERS)
