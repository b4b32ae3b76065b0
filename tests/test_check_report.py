"""Checks by what their results show: counts worked out by hand, every class, several runs, what was not measured."""

from __future__ import annotations

import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scripted import Scripted
from worlds import case, check, project

import skilleval_nb as se
from skilleval_nb.check_rates import CheckClass, check_lines, check_report
from skilleval_nb.errors import InputError
from skilleval_nb.frames import frame_of

COLUMNS = [
    *("run_id", "case_id", "check", "kind", "text", "baseline_passed", "baseline_measured", "baseline_rate"),
    *("skill_passed", "skill_measured", "skill_rate", "undecided", "class"),
]
Cell = tuple[str, str, int, list[bool | None]]


def checks_of(*cells: Cell, run_id: str = "r") -> pl.DataFrame:
    """A check frame from (case, condition, check, results trial by trial)."""
    rows = [
        (run_id, name, condition, trial, number, "includes", passed)
        for name, condition, number, results in cells
        for trial, passed in enumerate(results, 1)
    ]
    schema = {
        "run_id": pl.String,
        "case_id": pl.String,
        "condition": pl.String,
        "trial": pl.Int64,
        "check": pl.Int64,
        "kind": pl.String,
        "passed": pl.Boolean,
    }
    return pl.DataFrame(rows, schema=schema, orient="row")


def one(baseline: list[bool | None], skill: list[bool | None]) -> dict[str, Any]:
    report = check_report(checks_of(("a", "baseline", 1, baseline), ("a", "skill", 1, skill)))
    assert report.height == 1
    return report.row(0, named=True)


T, F, N = True, False, None


@pytest.mark.parametrize(
    ("baseline", "skill", "expected"),
    [
        ([F], [T], "discriminates"),
        ([T], [F], "hurts"),
        ([T], [T], "always passes"),
        ([F], [F], "always fails"),
        ([N], [T], "not measured"),
        ([T], [N], "not measured"),
        ([F, F, F], [F, T, T], "discriminates"),  # mixed, but two thirds apart
        ([T, T, F], [F, F, F], "hurts"),
        ([F, F, F], [F, F, T], "noisy"),  # one third apart
        ([F, F], [F, T], "noisy"),  # exactly one half apart
        ([F, F, F, F, F, T], [T, T, T, T, F, F], "noisy"),  # 1/6 and 4/6: exactly one half
        ([F, F, F, F, F, F], [T, T, T, T, F, F], "discriminates"),  # 0 and 4/6
        ([T, F], [F, T], "noisy"),  # equal rates
        ([T, N], [T, T], "always passes"),  # the undecided trial is no failure
        ([F, N, N], [T], "discriminates"),
    ],
)
def test_every_class_by_hand(baseline: list[bool | None], skill: list[bool | None], expected: str) -> None:
    assert one(baseline, skill)["class"] == expected


def test_counts_rates_and_undecided_are_those_of_the_trials() -> None:
    row = one([T, F, N, F], [T, T, N])
    assert row == {
        "run_id": "r",
        "case_id": "a",
        "check": 1,
        "kind": "includes",
        "text": None,
        "baseline_passed": 1,
        "baseline_measured": 3,
        "baseline_rate": pytest.approx(1 / 3),
        "skill_passed": 2,
        "skill_measured": 2,
        "skill_rate": 1.0,
        "undecided": 2,
        "class": "discriminates",
    }


def test_a_rate_without_a_measurement_is_null() -> None:
    row = one([N, N], [T])
    assert (row["baseline_rate"], row["baseline_measured"], row["undecided"]) == (None, 0, 2)


def test_other_conditions_count_nowhere_but_their_checks_are_named() -> None:
    report = check_report(
        checks_of(
            ("a", "baseline", 1, [F]),
            ("a", "skill", 1, [T]),
            ("a", "placebo", 1, [N, T]),
            ("b", "placebo", 1, [T]),
        )
    )
    assert report["class"].to_list() == ["discriminates", "not measured"]
    assert report["undecided"].to_list() == [0, 0]


def test_several_runs_stay_apart_and_keep_their_order() -> None:
    frame = pl.concat(
        [
            checks_of(("b", "baseline", 1, [F]), ("b", "skill", 1, [T]), run_id="second"),
            checks_of(("a", "baseline", 1, [T]), ("a", "skill", 1, [F]), run_id="first"),
            checks_of(("b", "baseline", 1, [T]), ("b", "skill", 1, [T]), run_id="first"),
        ]
    )
    report = check_report(frame)
    assert report.columns == COLUMNS
    assert report.select("run_id", "case_id", "class").rows() == [
        ("second", "b", "discriminates"),
        ("first", "a", "hurts"),
        ("first", "b", "always passes"),
    ]
    assert "first a check 1" in "\n".join(check_lines(report))


def test_a_frame_of_another_level_is_refused() -> None:
    with pytest.raises(InputError, match="it has no check, passed"):
        check_report(frame_of([], "case"))


def test_no_checks_give_an_empty_report_that_says_so() -> None:
    report = check_report(checks_of())
    assert (report.height, report.columns) == (0, COLUMNS)
    assert check_lines(report) == ["checks: no result of a check is recorded"]


results = st.lists(st.sampled_from([True, False, None]), min_size=0, max_size=7)


@given(baseline=results, skill=results)
def test_the_class_follows_from_the_counts(baseline: list[bool | None], skill: list[bool | None]) -> None:
    if not baseline + skill:
        return
    found = one(baseline, skill)["class"]
    sides = [[passed for passed in side if passed is not None] for side in (baseline, skill)]
    if not all(sides):
        assert found == "not measured"
        return
    rates = [Fraction(sum(side), len(side)) for side in sides]
    mixed = any(len(set(side)) == 2 for side in sides)
    if set(rates) == {Fraction(1)}:
        expected = "always passes"
    elif set(rates) == {Fraction(0)}:
        expected = "always fails"
    elif mixed and abs(rates[1] - rates[0]) <= Fraction(1, 2):
        expected = "noisy"
    else:
        expected = "discriminates" if rates[1] > rates[0] else "hurts"
    assert found == expected


def answered(root: Path) -> se.Run:
    """A run of three cases, one of which never gets an answer."""
    path = project(
        root,
        case("one", check(), check("excludes", r"\bno\b", flags="m"), prompt="say it"),
        case("two", check(pattern="sun"), prompt="look up"),
        case("silent", check(), prompt="hush"),
    )
    answers = {
        "say it": ("nothing", "MAGIC"),
        "look up": ("the sun", "the moon"),
        "hush": (None, None),
    }
    return se.run_set(path, runner=Scripted(answers), progress=False)


def test_a_run_tells_its_checks_in_words_and_also_those_that_no_trial_came_to(tmp_path: Path) -> None:
    run = answered(tmp_path)
    report = check_report(run)
    assert report["run_id"].unique().to_list() == [run.id]
    assert report.select("case_id", "check", "kind", "text").rows() == [
        ("one", 1, "includes", "/magic/"),
        ("one", 2, "excludes", r"/\bno\b/m"),
        ("two", 1, "includes", "/sun/"),
        ("silent", 1, "includes", "/magic/"),
    ]
    assert report["class"].to_list() == ["discriminates", "always passes", "hurts", "not measured"]


def test_every_kind_says_what_it_asks_for(tmp_path: Path) -> None:
    checks: list[dict[str, Any]] = [
        {"kind": "contains", "value": "sun", "not": True},
        {"kind": "words", "max": 5},
        {"kind": "json", "not": True},
        {"kind": "regex", "pattern": "^a", "flags": "m", "not": True},
        {"kind": "json"},
    ]
    path = project(tmp_path, case("one", *checks, prompt="say it"))
    run = se.run_set(path, runner=Scripted({"say it": ("the sun", "the moon")}), progress=False)
    report = check_report(run)
    assert report["text"].to_list() == ["not sun", '{"max": 5}', "not", "not /^a/m", ""]
    expected = ["discriminates", "always passes", "always passes", "always passes", "always fails"]
    assert report["class"].to_list() == expected


def test_a_run_without_its_folder_has_no_texts(tmp_path: Path) -> None:
    run = answered(tmp_path)
    bare = se.Run(run.record)
    assert check_report(bare)["text"].to_list() == [None] * 4
    assert check_report(bare).drop("text").equals(check_report(run).drop("text"))


def test_a_record_of_the_origin_has_no_checks() -> None:
    record = {
        "kind": "eval",
        "ts": "2026-07-06T12:00:00.000Z",
        "set": "x",
        "cases": [{"id": "a", "baseline": False, "skill": True}],
        "gate": "PASS",
        "dir": "runs/old",
    }
    assert check_report(se.Run(record)).height == 0


def test_lines_name_what_does_not_discriminate_worst_first_and_count_the_rest() -> None:
    cells: list[Cell] = []
    named: list[tuple[str, list[bool | None], list[bool | None]]] = [
        ("passes", [T], [T]),
        ("fails", [F], [F]),
        ("good", [F], [T]),
        ("noise", [F, T], [F, F]),
        ("none", [N], [T]),
        ("worse", [T, T], [F, F]),
    ]
    for name, baseline, skill in named:
        cells += [(name, "baseline", 1, baseline), (name, "skill", 1, skill)]
    report = check_report(checks_of(*cells))
    lines = check_lines(report)
    assert lines[0] == (
        "6 checks: hurts 1 · noisy 1 · always fails 1 · always passes 1 · not measured 1 · discriminates 1"
    )
    assert [line.split(" check")[0] for line in lines[1:]] == [
        "  hurts: worse",
        "  noisy: noise",
        "  always fails: fails",
        "  always passes: passes",
        "  not measured: none",
    ]
    assert lines[1].endswith("baseline 2/2 → skill 0/2")
    assert lines[5].endswith("baseline not measured → skill 1/1 · 1 trial undecided")
    assert check_lines(report, limit=2)[3:] == ["  and 3 more that do not discriminate"]


def test_hostile_text_stays_on_one_line_and_steers_no_terminal() -> None:
    report = check_report(
        checks_of(("a\x1b[2J\nb", "baseline", 1, [T]), ("a\x1b[2J\nb", "skill", 1, [F]))
    ).with_columns(text=pl.lit("x\n" * 500 + "\x1b]0;title\x07"))
    lines = check_lines(report)
    assert len(lines) == 2
    assert "\x1b" not in "".join(lines)
    assert len(lines[1]) < 200


def test_the_classes_are_the_promised_words() -> None:
    assert {str(name) for name in CheckClass} == {
        "discriminates",
        "always passes",
        "always fails",
        "hurts",
        "noisy",
        "not measured",
    }


def test_many_rows_are_fast() -> None:
    cells: list[Cell] = [
        (f"case-{name}", condition, number, [bool(trial % 3) for trial in range(25)])
        for name in range(1000)
        for condition in ("baseline", "skill")
        for number in range(1, 5)
    ]
    frame = checks_of(*cells)
    assert frame.height == 200_000
    start = time.process_time()
    report = check_report(frame)
    assert time.process_time() - start < 0.5
    assert report.height == 4000
