"""Checks and judges: rates with denominators and intervals, their order, many of them, and where two judges differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from charted import START, check_row, data, description, found_in, frame_at, having, words
from scipy.stats import binomtest
from scripted import Scripted
from worlds import case, check, project

import skilleval_nb as se
from skilleval_nb.charts import check_discrimination, judge_agreement, judge_flips
from skilleval_nb.check_rates import check_report
from skilleval_nb.errors import InputError

T, F, N = True, False, None


def results(*cells: tuple[str, int, Sequence[bool | None], Sequence[bool | None]]) -> pl.DataFrame:
    """A check frame from (case, check, results at baseline, results with the skill)."""
    return frame_at(
        "check",
        [
            check_row(name, condition, trial, number, passed=passed)
            for name, number, *both in cells
            for condition, found in zip(("baseline", "skill"), both, strict=True)
            for trial, passed in enumerate(found, 1)
        ],
    )


FOUR = results(
    ("tells", 1, [F, F, F], [T, T, T]),
    ("same", 1, [T, T, T], [T, T, N]),
    ("hurts", 2, [T, T, T], [F, F, F]),
    ("open", 1, [T, F, F], [N, N, N]),
)


def test_each_check_has_both_rates_with_counts_intervals_and_its_class_lowest_difference_first() -> None:
    chart = check_discrimination(FOUR)
    found = [(row["name"], row["condition"], row["counts"]) for row in data(chart)]
    assert found == [
        ("hurts #2 includes", "baseline", "3/3 (100%)"),
        ("hurts #2 includes", "with-skill", "0/3 (0%) · hurts"),
        ("same #1 includes", "baseline", "3/3 (100%)"),
        ("same #1 includes", "with-skill", "2/2 (100%) · always passes"),
        ("tells #1 includes", "baseline", "0/3 (0%)"),
        ("tells #1 includes", "with-skill", "3/3 (100%) · discriminates"),
        ("open #1 includes", "baseline", "1/3 (33%)"),
        ("open #1 includes", "with-skill", "not measured"),
    ]
    last = data(chart)[-2:]
    ci = binomtest(1, 3).proportion_ci(method="wilson")
    assert (last[0]["low"], last[0]["high"]) == pytest.approx((ci.low, ci.high))
    assert (last[1]["rate"], last[1]["low"]) == (None, None)
    shown = words(chart)
    assert {"hurts #2 includes", "0/3 (0%) · hurts", "trials passed (%)", "with-skill"} <= set(shown)


def test_the_description_tells_the_classes_and_the_checks_that_do_not_discriminate() -> None:
    told = description(check_discrimination(FOUR))
    assert (
        "4 checks (hurts 1, always passes 1, not measured 1, discriminates 1). hurts #2 includes (hurts):"
        in told
    )
    assert "baseline 3/3 (100%), 95% CI 44…100% → with-skill 0/3 (0%), 95% CI 0…56%" in told
    assert "tells #1" not in told


def test_a_report_of_checks_and_its_frame_are_drawn_alike() -> None:
    assert data(check_discrimination(check_report(FOUR))) == data(check_discrimination(FOUR))
    assert data(check_discrimination(FOUR.lazy())) == data(check_discrimination(FOUR))
    bare = check_report(FOUR).drop("class", "kind", "text", "run_id")
    assert data(check_discrimination(bare))[1]["counts"] == "0/3 (0%)"


def test_a_run_is_drawn_with_what_its_checks_ask(tmp_path: Path) -> None:
    path = project(tmp_path, case("one", check(), prompt="say it"))
    run = se.run_set(path, runner=Scripted({"say it": ("nothing", "MAGIC")}), progress=False)
    chart = check_discrimination(run)
    assert [row["text"] for row in data(chart)] == ["/magic/", "/magic/"]
    assert "magic · scripted script-1 · inject · n=1 · look 1" in description(chart)


def test_many_checks_are_counted_by_class_and_the_lowest_drawn() -> None:
    chart = check_discrimination(
        results(*((f"c{at}", 1, [F], [T]) for at in range(199)), ("worst", 1, [T], [F]))
    )
    classes = {row["class"]: row["counts"] for row in having(chart, "class", "checks")}
    assert classes == {"hurts": "1 of 200", "discriminates": "199 of 200"}
    drawn = list(dict.fromkeys(row["name"] for row in having(chart, "name")))
    assert len(drawn) == 20
    assert drawn[0] == "worst #1 includes"
    shown = words(chart)
    assert "200 checks by class" in shown
    assert (
        "the 20 of 200 checks with the lowest difference: trials passed / decided, with 95 % intervals"
        in shown
    )


def test_other_frames_are_refused() -> None:
    with pytest.raises(InputError, match=r"neither passed nor baseline_passed.*check_report"):
        check_discrimination(pl.DataFrame({"a": [1]}))
    with pytest.raises(InputError, match=r"2 runs"):
        check_discrimination(pl.concat([FOUR, FOUR.with_columns(run_id=pl.lit("q"))]))


# --- judges


def calibration(day: int, tp: int = 9, fn: int = 1, tn: int = 6, fp: int = 2, **more: Any) -> dict[str, Any]:
    """A row of `load_calibrations`, with scipy's intervals."""
    row: dict[str, Any] = {
        "ts": START + timedelta(days=day), "judge_model": "sonnet", "judge_hash": "abcdef1234", "calibration": "labels",
        "items": 20, "judged": tp + fn + tn + fp, "tp": tp, "fn": fn, "tn": tn, "fp": fp, "partial": None,
    }  # fmt: skip
    for name, part, whole in (
        ("accuracy", tp + tn, tp + fn + tn + fp),
        ("sensitivity", tp, tp + fn),
        ("specificity", tn, tn + fp),
    ):
        ci = binomtest(part, whole).proportion_ci(method="wilson") if whole else None
        row |= {
            name: part / whole if whole else None,
            f"{name}_low": ci and ci.low,
            f"{name}_high": ci and ci.high,
        }
    return row | more


def calibrations(*rows: dict[str, Any]) -> pl.DataFrame:
    made = pl.DataFrame(
        rows, infer_schema_length=None, schema_overrides={"partial": pl.String, "specificity": pl.Float64}
    )
    return made.with_columns(pl.col("ts").cast(pl.Datetime("ms", "UTC")))


def test_calibrations_stand_in_order_with_rates_denominators_and_intervals() -> None:
    chart = judge_agreement(calibrations(calibration(1, judge_hash="0123456789"), calibration(0)))
    rows = having(chart, "judge", "rate")
    assert [(row["run"], row["judge"], row["counts"]) for row in rows] == [
        (f"2026-11-0{day} 00:00 · labels", f"sonnet · prompt {prompt}", counts)
        for counts in ("15/18", "9/10", "6/8")
        for day, prompt in ((1, "abcdef1"), (2, "0123456"))
    ]
    ci = binomtest(6, 8).proportion_ci(method="wilson")
    assert (rows[-1]["low"], rows[-1]["high"]) == pytest.approx((ci.low, ci.high))
    shown = words(chart)
    assert {
        "accuracy: of the judged",
        "sensitivity: of human passes",
        "specificity (%)",
        "judged 18/20",
    } <= set(shown)
    assert {"sonnet · prompt abcdef1", "sonnet · prompt 0123456"} <= set(shown), (
        "the judges are in the legend"
    )
    assert "specificity 6/8 (75%) 95% CI 41…93%, judged 18/20." in description(chart)


def test_what_no_item_could_show_has_no_rate() -> None:
    rows = having(judge_agreement(calibrations(calibration(0, tn=0, fp=0))), "judge", "counts")
    assert [(row["rate"], row["low"]) for row in rows if row["counts"] == "0/0"] == [(None, None)]


def test_of_many_calibrations_the_newest_are_drawn() -> None:
    chart = judge_agreement(calibrations(*(calibration(day) for day in range(60))))
    assert len({row["run"] for row in having(chart, "judge")}) == 40
    assert "the newest 40 of 60 calibrations" in words(chart)
    assert "60 calibrations. the newest 12 of 60:" in description(chart)


def test_a_partial_calibration_says_so_and_judges_differ_in_shape() -> None:
    rows = [calibration(day, judge_model=f"j{day}", partial="interrupted") for day in range(8)]
    chart = judge_agreement(calibrations(*rows))
    assert having(chart, "judge")[0]["run"] == "2026-11-01 00:00 · labels (partial)"
    shapes = [
        shape["scale"]["range"] for shape in found_in(chart.to_dict(), "shape") if isinstance(shape, dict)
    ]
    assert all(len(set(names)) == 8 for names in shapes)
    with pytest.raises(InputError, match="9 judges; a chart tells 8 apart"):
        judge_agreement(calibrations(*rows, calibration(9, judge_model="j9")))


def test_no_calibration_is_a_chart_that_says_so_and_another_frame_is_refused() -> None:
    assert "no calibration of a judge is in this log" in words(
        judge_agreement(calibrations(calibration(0)).clear())
    )
    with pytest.raises(InputError, match=r"judge_agreement: the frame has no column .*tp.*load_calibrations"):
        judge_agreement(FOUR)


def items(verdicts: Mapping[str, bool | None], **more: Any) -> pl.DataFrame:
    rows = [{"item": name, "verdict": verdict, **more} for name, verdict in verdicts.items()]
    return pl.DataFrame(rows, schema_overrides={"item": pl.String, "verdict": pl.Boolean})


A = {"pp": T, "pf": T, "fp": F, "ff": F, "up": F, "un": T, "a only": T}
B = {"pp": T, "pf": F, "fp": T, "ff": F, "up": T, "un": N}


def test_two_judges_are_a_table_of_their_verdicts_with_the_items() -> None:
    chart = judge_flips(items(A, judge_model="sonnet", judge_hash="abcdef1234"), items(B))
    found = {(row["before"], row["after"]): (row["counts"], row["names"]) for row in having(chart, "before")}
    assert found == {
        ("pass", "pass"): ("1 of 6", "pp"),
        ("pass", "fail"): ("1 of 6", "pf"),
        ("pass", "undecided"): ("1 of 6", "un"),
        ("fail", "pass"): ("2 of 6", "fp, up"),
        ("fail", "fail"): ("1 of 6", "ff"),
        ("fail", "undecided"): ("0 of 6", ""),
    }
    ci = binomtest(3, 5).proportion_ci(method="wilson")
    shown = words(chart)
    assert f"flip rate 3/5 (60%), 95% CI {ci.low:.0%}…{ci.high:.0%}".replace("%…", "…") in " ".join(shown)
    assert {"judge A: sonnet · prompt abcdef1 · judge B: not named", "items left out: 1 only in A"} <= set(
        shown
    )
    assert "A fails, B passes (fail → pass) 2 of 6: fp, up" in description(chart)


def test_items_may_be_called_item_id_and_nothing_decided_is_no_rate() -> None:
    undecided = items({"x": N}).rename({"item": "item_id"})
    shown = words(judge_flips(undecided, undecided))
    assert "flip rate 0/0 (n/a): no item was decided by both" in shown


def test_no_common_item_is_a_chart_that_says_so() -> None:
    assert "no item is in both frames" in words(judge_flips(items({"x": T}), items({"y": T})))


def test_a_frame_of_several_calibrations_is_refused() -> None:
    twice = pl.concat([items(A), items(A)])
    with pytest.raises(InputError, match=r"judge_flips, B: item .* is there more than once.*one calibration"):
        judge_flips(items(A), twice)
    with pytest.raises(InputError, match=r"judge_flips, A: the frame has no column item, verdict"):
        judge_flips(FOUR, items(A))
