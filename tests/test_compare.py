"""compare: runs against each other, worked by hand, from real runs of a scripted model, and by their symmetries."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats
from scripted import Scripted
from worlds import SKILL, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.comparing import Comparison, compare
from skilleval_nb.errors import InputError, RunNotFound
from skilleval_nb.record import build_record
from skilleval_nb.runs import Run

P, F, E = "passed", "failed", "executor_failed"
MARK = {"1": P, "0": F, ".": E}
EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">\u202e\u200b\x1b[31m & \'"'


def made(
    cells: Mapping[str, tuple[str, str]],
    run_id: str = "20261130T181500Z-polite",
    *,
    kind: str = "verdict",
    **more: Any,
) -> Run:
    """A run that only the log knows: of each case its trials at baseline and with the skill, as `1`, `0` and `.`."""
    tell = more.pop("tell", lambda name, condition, trial: {})
    lines = [
        {"caseId": name, "condition": condition, "trial": trial, "outcome": MARK[mark]}
        | {"latencyS": len(run_id) + trial / 8, **tell(name, condition, trial)}
        for name, pair in cells.items()
        for condition, marks in zip(("baseline", "skill"), pair, strict=True)
        for trial, mark in enumerate(marks, 1)
    ]
    header = {
        "runId": run_id, "ts": "2026-11-30T18:15:00.000Z", "set": "polite", "skill": "s", "model": "m",
        "judgeModel": None, "n": max(len(marks) for pair in cells.values() for marks in pair), "setHash": "5e7",
        "skillHash": "0123456789abcdef", "judgeHash": None, "runner": "local", "delivery": "inject", "warnings": [],
        "dir": f"runs/{run_id}", "conditions": ["baseline", "skill"],
        "cases": [{"id": name, "prompt": "p", "checks": [{"kind": kind}]} for name in cells], **more,
    }  # fmt: skip
    return Run(build_record(header, lines))


def skills(a: str, b: str, *, each: int = 1, **more: Any) -> tuple[Run, Run]:
    """Two runs whose skill conditions are told case by case; `each` trials a case."""
    runs = []
    for number, marks in enumerate((a, b), 1):
        trials = ["".join(part) for part in zip(*[iter(marks)] * each, strict=True)]
        cells = {f"c{at}": ("0" * each, found) for at, found in enumerate(trials, 1)}
        runs.append(made(cells, f"2026113{number}T0000Z-polite-{number * 'x'}", **more))
    return runs[0], runs[1]


def smoothed(differences: Sequence[float]) -> tuple[float, float]:
    """The page's interval, by scipy: Student's t over the differences and the two pseudo-cases."""
    found = scipy_stats.ttest_1samp([*differences, 1, -1], 0).confidence_interval(0.95)
    return max(-1.0, float(found.low)), min(1.0, float(found.high))


def test_two_runs_worked_by_hand() -> None:
    a, b = skills("1000000000", "1111110000")  # 1/10 and 6/10: five flips up, none down
    found = compare(a, b)
    assert found.delta == pytest.approx(0.5)
    assert (found.gate, found.exit_code, found.held) == ("PASS", 0, None)
    low, high = smoothed([0] + [1] * 5 + [0] * 4)
    assert found.evidence.delta_ci == pytest.approx((low, high))
    assert found.evidence.p_set == pytest.approx(0.024, abs=5e-4)  # the reference page's 5/0 of 10
    assert found.evidence.p_cases == pytest.approx(0.0625)  # 2 · 2⁻⁵
    assert (found.evidence.verdict, found.evidence.scope) == ("improves", "these prompts")
    assert found.flips == (("c2", "c3", "c4", "c5", "c6"), (), ("c1", "c7", "c8", "c9", "c10"), ())
    lines = found.lines()
    assert lines[0] == (
        "A 20261131T0000Z-polite-x skill 01234567 2026-11-30 · B 20261132T0000Z-polite-xx skill 01234567 2026-11-30"
        " · local m · inject · n=1"
    )
    assert lines[1] == "pass rate   A 1/10 (10%)   B 6/10 (60%)   Δ +50%"
    assert lines[2] == "gate, B against A: PASS"
    assert lines[3].startswith(
        "evidence: improves on these prompts (p 0.024). Similar prompts: not shown (p 0.062"
    )
    assert "flipped to pass 5: c2, c3, c4, c5, c6" in lines
    assert "flipped to fail 0" in lines
    assert str(found) == repr(found) == "\n".join(lines)


def test_one_run_compares_its_conditions_as_the_run_itself_does() -> None:
    run = made({"a": ("0", "1"), "b": ("0", "1"), "c": ("0", "1"), "d": (".", "1")})
    found = compare(run)
    assert (found.gate, found.delta) == (run.gate, run.delta) == ("PASS", 1.0)
    assert found.record["evidence"]["pSet"] == run.record["evidence"]["pSet"] == pytest.approx(0.03125)
    assert found.record["evidence"]["line"] == run.record["evidence"]["line"]
    assert found.warnings == ()
    name = "20261130T181500Z-polite"
    assert found.lines()[0].startswith(
        f"A {name} baseline 2026-11-30 · B {name} skill 01234567 2026-11-30 · local m"
    )
    assert not any("run apart" in line for line in found.lines())
    turned = compare(run, conditions=["skill", "baseline"])
    assert (turned.gate, turned.delta) == ("REGRESSION", -1.0)


def test_unequal_numbers_of_trials_show_what_the_smaller_one_can() -> None:
    found = compare(made({"a": ("0", "1")}, "a"), made({"a": ("000", "110")}, "bb"))
    assert "1 case × 1 trial" in found.lines()[3]
    assert " · n=1 and n=3" in found.lines()[0]
    assert found.delta == 0.0
    assert found.evidence.delta == pytest.approx(-1 / 3)
    assert "answers without chance where n=1" in found.warnings[0]
    assert compare(made({"a": ("000", "111")}, "a"), made({"a": ("00000", "11111")}, "bb")).warnings == ()


def test_the_frame_has_one_row_a_case() -> None:
    a, b = skills("110" + "000" + "1.." + "...", "100" + "011" + "1.1" + "111", each=3)
    frame = compare(a, b).cases
    assert frame.schema == {
        "case_id": pl.String, "a_passes": pl.Int64, "a_measured": pl.Int64, "b_passes": pl.Int64,
        "b_measured": pl.Int64, "a_verdict": pl.Boolean, "b_verdict": pl.Boolean, "flip": pl.String,
    }  # fmt: skip
    assert frame.rows() == [
        ("c1", 2, 3, 1, 3, True, False, "to fail"),
        ("c2", 0, 3, 2, 3, False, True, "to pass"),
        ("c3", 1, 1, 2, 2, True, True, "same"),
        ("c4", 0, 0, 3, 3, None, True, "not measured in both"),
    ]


@pytest.mark.parametrize(("limit", "held", "code"), [(0.3, True, 0), (0.2, False, 1), (None, None, 1)])
def test_a_drop_is_ruled_out_by_the_interval(limit: float | None, held: bool | None, code: int) -> None:
    a, b = skills("1111100000", "1111100000")  # ten ties: ±.27 on the reference page
    found = compare(a, b, max_drop=limit)
    assert (found.gate, found.held, found.exit_code) == ("NO MOVEMENT", held, code)
    told = [line for line in found.lines() if line.startswith("max drop")]
    assert told == (
        [f"max drop {100 * limit:.0f}%: {'held' if held else 'not held'} (the interval of Δ begins at −27%)"]
        if limit
        else []
    )


def test_a_pass_whose_interval_allows_the_drop_is_not_held() -> None:
    a, b = skills("000", "100")
    assert (compare(a, b).exit_code, compare(a, b, max_drop=0.1).exit_code) == (0, 1)


def test_unmeasured_trials_are_filled_both_ways() -> None:
    a, b = skills("00000", "11.1.")
    stands = compare(a, b)  # at worst 3 of 5 against 0
    assert (stands.gate, stands.exit_code, stands.evidence.verdict) == ("PASS", 0, "improves")
    assert (
        "2 trials unmeasured: the gate stands however they would have ended (Δ +60…+100%)"
        in stands.lines()[2]
    )
    a, b = skills("000....", "1111111")  # the four might all have passed: Δ from +43 % to +100 %
    assert compare(a, b).gate == "PASS"
    a, b = skills("0000" + "1....", "1111" + "0....", each=1)
    hangs = compare(a, b, max_drop=0.9)  # four up and one down are known; the rest could undo it
    assert (hangs.gate, hangs.exit_code, hangs.held) == ("NOT MEASURED", 3, None)
    assert hangs.delta == pytest.approx(3 / 5)
    assert hangs.lines()[2].startswith("gate, B against A: NOT MEASURED — depends on 8 unmeasured trials")
    assert "max drop 90%: not measured" in hangs.lines()
    assert "not measured in both 4: c6, c7, c8, c9" in hangs.lines()


def test_while_the_gate_hangs_on_unmeasured_trials_nothing_is_claimed() -> None:
    a, b = skills("000000" + "......", "111111" + "......")
    found = compare(a, b)
    assert found.gate == "NOT MEASURED"  # at worst 6 of 12 on both sides
    assert (found.evidence.verdict, found.evidence.scope) == ("no evidence", None)
    assert found.record["evidence"]["verdict"] is None
    assert found.record["evidence"]["withheld"] == "the gate depends on 12 unmeasured trials"
    assert "withheld, the gate depends on 12 unmeasured trials" in found.lines()[3]


def test_nothing_measured_is_no_result() -> None:
    a, b = skills("..", "11")
    found = compare(a, b)
    assert (found.gate, found.delta, found.exit_code) == ("NOT MEASURED", None, 3)
    assert found.record["evidence"] is None
    assert found.lines()[1] == "pass rate   A 0/0 (n/a)   B 0/0 (n/a)   Δ n/a"
    assert found.lines()[3] == "evidence: none, as no case was measured on both sides"


def test_tokens_latency_and_cost_are_paired_by_case() -> None:
    sent = {"c1": (10, 30), "c2": (20, 30), "c3": (40, 50), "c4": (None, 70)}

    def tell(side: int) -> Any:
        def of(name: str, condition: str, trial: int) -> dict[str, Any]:
            count = sent[name][side]
            tokens = None if count is None else [count - 4, 7, 1, 3]
            return {"tokens": tokens, "latencyS": (1 + side) * trial, "costUsd": 0.01 * (side + 1)}

        return of

    a = made(dict.fromkeys(sent, ("00", "10")), "a", tell=tell(0))
    b = made(dict.fromkeys(sent, ("00", "1.")), "b", tell=tell(1))
    found = {row["measure"]: row for row in compare(a, b).record["spent"]}
    ratios = [3, 1.5, 1.25]
    by_scipy = scipy_stats.ttest_1samp([math.log(r) for r in ratios], 0)
    interval = by_scipy.confidence_interval(0.95)
    row = found["input"]  # cache reads and writes are input too
    assert (row["pairs"], row["aMean"], row["bMean"]) == (3, pytest.approx(70 / 3), pytest.approx(110 / 3))
    assert row["ratio"] == pytest.approx(math.prod(ratios) ** (1 / 3))
    assert (row["ratioLow"], row["ratioHigh"]) == pytest.approx(
        (math.exp(interval.low), math.exp(interval.high))
    )
    assert row["p"] == pytest.approx(by_scipy.pvalue)
    # an unmeasured trial's time is none: B has its first trial's 2 s, A the mean of 1 s and 2 s
    assert [found["latencyS"][name] for name in ("pairs", "aMean", "bMean")] == [4, 1.5, 2.0]
    assert found["latencyS"]["ratio"] == pytest.approx(4 / 3)
    assert (found["latencyS"]["ratioLow"], found["latencyS"]["reason"]) == (
        None, "no interval: the same ratio in every case",
    )  # fmt: skip
    assert (found["costUsd"]["aMean"], found["costUsd"]["bMean"]) == pytest.approx((0.01, 0.02))
    lines = compare(a, b).lines()
    low, high = math.exp(interval.low), math.exp(interval.high)
    assert f"tokens in a trial: A 23, B 37, ×1.78 (95% CI ×{low:.2f}…{high:.2f}; 3 cases)" in lines
    assert "cost a trial: A $0.0100, B $0.0200 (4 cases)" in lines


def test_few_pairs_have_no_interval_and_none_are_said_to_be_absent() -> None:
    def tell(name: str, condition: str, trial: int) -> dict[str, Any]:
        return {"tokens": [5, 8, None, None]} if name != "c3" else {}

    a, b = skills("110", "111", tell=tell)
    lines = compare(a, b).lines()
    few = "no interval from fewer than 3 cases with a value above 0"
    assert f"tokens out a trial: A 8, B 8, ×1.00 ({few}; 2 cases)" in lines
    a, b = skills("110", "111")
    found = compare(a, b)
    assert "tokens in: not reported on both sides" in found.lines()
    assert [found.record["spent"][0][name] for name in ("aMean", "bMean", "ratio")] == [None, None, None]
    assert not any(line.startswith("cost") for line in found.lines())


JUDGED = {
    "judgeModel": "sonnet",
    "resolvedJudgeModel": "claude-sonnet-4-6",
    "judgeHash": "abc",
    "kind": "judge",
}


def test_every_reason_is_given_at_once_and_force_makes_them_warnings() -> None:
    a = made({"a": ("0", "1"), "b": ("0", "0")}, "a", **JUDGED)
    other = {
        "judgeModel": "opus",
        "resolvedJudgeModel": "claude-opus-4-8",
        "judgeHash": "def",
        "kind": "judge",
    }
    b = made({"b": ("0", "1"), "c": ("0", "1")}, "b", setHash="0dd", delivery="read", **other)
    with pytest.raises(InputError) as refused:
        compare(a, b)
    said = str(refused.value).splitlines()
    assert len(refused.value.problems) == len(said) == 5
    assert said[0].startswith("set: the sets differ (hash 5e7 and 0dd)")
    assert said[1].startswith("delivery: how the skill reached the model differs: A inject, B read")
    assert said[2].startswith("judge: A was judged by claude-sonnet-4-6, B by claude-opus-4-8")
    assert said[3].startswith("judge prompt: what the judge was told differs: A abc, B def")
    assert "force=True" in said[4]
    forced = compare(a, b, force=True)
    assert [row["case_id"] for row in forced.cases.iter_rows(named=True)] == ["b"]
    assert (forced.record["onlyA"], forced.record["onlyB"]) == (["a"], ["c"])
    assert {"left out, only in A 1: a", "left out, only in B 1: c"} <= set(forced.lines())
    assert [warning.partition(":")[0] for warning in forced.warnings] == [
        "set",
        "delivery",
        "judge",
        "judge prompt",
    ]
    assert sum(line.startswith("warning: ") for line in forced.lines()) == 4
    assert " · inject and read · " in forced.lines()[0]


def test_a_judge_that_graded_nothing_here_is_no_reason() -> None:
    a = made({"a": ("0", "1")}, "a", judgeModel="sonnet", judgeHash="abc")
    b = made({"a": ("0", "1")}, "b", judgeModel="opus", judgeHash="def")
    assert compare(a, b).warnings == ()


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"model": "opus", "resolvedModel": None}, "the models differ: A m, B opus"),
        ({"runner": "claude"}, "the runners differ: A local, B claude"),
        (
            {"settings": {"maxTokens": 64}},
            "the longest answers allowed differ (tokens): A not recorded, B 64",
        ),
        ({"n": 3}, "n=1 and n=3"),
    ],
)
def test_another_model_is_compared_and_said(more: dict[str, Any], words: str) -> None:
    found = compare(made({"a": ("0", "1")}, "a"), made({"a": ("0", "1")}, "b", **more))
    assert len(found.warnings) == 1
    assert words in found.warnings[0]


def test_an_alias_and_the_id_it_stands_for_are_one_model() -> None:
    a = made({"a": ("0", "1")}, "a", model="haiku", resolvedModel="claude-haiku-4-5")
    b = made({"a": ("0", "1")}, "b", model="claude-haiku-4-5", resolvedModel="claude-haiku-4-5")
    assert compare(a, b).warnings == ()
    assert " · local claude-haiku-4-5 · " in str(compare(a, b))


ORIGIN = {
    "kind": "eval", "ts": "2026-01-01T00:00:00Z", "set": "polite", "skill": "s", "model": "m", "n": 1,
    "cases": [{"id": "a", "baseline": False, "skill": True}, {"id": "b", "baseline": None, "skill": True}],
    "graded": 1, "errors": 1, "baselinePass": 0, "skillPass": 1, "delta": 100, "gate": "PASS",
    "tokens": {"input": 3, "output": 4}, "dir": "runs/x",
}  # fmt: skip


def test_a_record_that_does_not_say_is_refused() -> None:
    ours = made({"a": ("0", "0"), "b": ("0", "1")})
    with pytest.raises(InputError) as refused:
        compare(Run(ORIGIN), ours)
    assert [problem.where for problem in refused.value.problems] == ["set", "delivery", ""]
    assert "A does not record which version of the set was run" in str(refused.value)
    with pytest.raises(InputError, match="A and B do not record how the skill reached the model"):
        compare(Run(ORIGIN), Run({**ORIGIN, "dir": "runs/y"}))
    forced = compare(Run(ORIGIN), ours, force=True)
    assert forced.lines()[1] == "pass rate   A 2/2 (100%)   B 1/2 (50%)   Δ -50%"
    assert forced.flips == ((), ("a",), ("b",), ())
    own = compare(Run(ORIGIN))  # its own two conditions need no hash
    assert (own.delta, own.flips.to_pass, own.flips.not_measured) == (1.0, ("a",), ("b",))


def test_what_cannot_be_asked_is_refused(tmp_path: Path) -> None:
    run = made({"a": ("0", "1")})
    for wrong in ("skill", ("skill",), ("skill", "skill", "skill"), 3):
        with pytest.raises(InputError, match="names the reference's condition"):
            compare(run, conditions=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError) as refused:
        compare(run, conditions=("skill", "placebo"), max_drop=10)
    assert [problem.where for problem in refused.value.problems] == [run.id, "max_drop"]
    with pytest.raises(InputError, match="no case in common"):
        compare(run, made({"b": ("0", "1")}, "other"), force=True)
    with pytest.raises(RunNotFound):
        compare("20200101T000000Z-none", runs_dir=tmp_path)


def test_a_bad_variable_of_a_run_is_nothing_to_a_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EVAL_N", "none")
    assert compare(made({"a": ("0", "1")})).gate == "PASS"


def test_a_run_that_is_partial_says_so() -> None:
    cells = {"a": ("0", "1"), "b": ("0", "")}
    run = made(cells)
    whole = made({"a": ("0", "1"), "b": ("0", "1")}, "whole")
    run.record["partial"] = "budget"  # type: ignore[index]
    assert "A is partial (budget)" in compare(run, whole).warnings[0]


def test_what_others_wrote_stays_text() -> None:
    cells = {EVIL: ("0", "1"), **{f"c{at}": ("1", "0") for at in range(40)}}
    found = compare(made(cells, EVIL, set=EVIL, skillHash=EVIL), made(cells, "b", model=EVIL), force=True)
    for line in found.lines():
        assert not {"\x1b", "\u202e", "\u200b", "\n"} & set(line)
    page = Page(found._repr_html_())
    assert not {"script", "img", "a"} & page.tags
    assert page.tags >= {"table", "caption", "th"}
    assert page.scopes == {"col", "row"}
    text = page.text
    for line in found.lines():
        assert " ".join(line.split()) in text
    assert "30 of 41" in text
    turned = compare(made({"same": ("1", "1"), "up": ("0", "1"), "down": ("1", "0")}))._repr_html_()
    assert (
        turned.rindex(">down<") < turned.rindex(">up<") < turned.rindex(">same<")
    )  # what needs a look comes first
    named = next(
        line
        for line in compare(made(cells, "a"), conditions=("baseline", "skill")).lines()
        if "to fail" in line
    )
    assert named.endswith("c9 and 30 more")


class Page(HTMLParser):
    """The elements and the text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.scopes: set[str | None] = set()
        self.parts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.scopes |= {value for name, value in attrs if name == "scope"}
        assert not any(name.startswith("on") for name, _ in attrs)

    def handle_data(self, data: str) -> None:
        self.parts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.parts).split())


def test_the_record_is_plain_json() -> None:
    a, b = skills("100", "111")
    record = compare(a, b, max_drop=0.5).record
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["deltaRate"] == pytest.approx(2 / 3)
    assert record["b"]["runId"] == b.id
    assert [item["flip"] for item in record["cases"]] == ["same", "to pass", "to pass"]


def test_two_checkouts_may_have_taken_one_id() -> None:
    a = made({"a": ("0", "0"), "b": ("0", "1")}, "same", ts="2026-11-30T18:15:00.100Z")
    moved: dict[str, Any] = {"ts": "2026-11-30T18:15:00.300Z", "tell": lambda *key: {"latencyS": 9.5}}
    b = made({"a": ("0", "1"), "b": ("0", "1")}, "same", **moved)
    found = compare(a, b)
    assert (found.record["shared"]["trials"], found.delta) == (0, 0.5)
    with pytest.raises(InputError, match="delivery"):
        compare(a, made({"a": ("0", "1")}, "same", delivery="read", **moved))


MARKS = st.sampled_from("10.")
SETS = st.integers(1, 3).flatmap(
    lambda each: st.lists(
        st.tuples(*[st.text(MARKS, min_size=each, max_size=each)] * 2), min_size=1, max_size=7
    )
)


@settings(deadline=None, max_examples=60)
@given(SETS)
def test_swapping_the_sides_mirrors_everything(cells: list[tuple[str, str]]) -> None:
    a, b = (
        made({f"c{at}": ("", pair[side]) for at, pair in enumerate(cells)}, "ab"[side] * (side + 1))
        for side in (0, 1)
    )
    there, back = compare(a, b), compare(b, a)
    assert (there.delta is None) == (back.delta is None)
    if there.delta is not None and back.delta is not None:
        assert there.delta == pytest.approx(-back.delta)
        low, high = there.evidence.delta_ci or (0, 0)
        assert back.evidence.delta_ci == pytest.approx((-high, -low))
        assert low <= (there.evidence.delta or 0) <= high
        assert there.evidence.p_set == pytest.approx(back.evidence.p_set)
    assert there.flips == (back.flips.to_fail, back.flips.to_pass, back.flips.same, back.flips.not_measured)
    turned = {"PASS": "REGRESSION", "REGRESSION": "PASS"}
    assert back.gate == turned.get(there.gate, there.gate)
    words = {"improves": "regresses", "regresses": "improves"}
    assert back.evidence.verdict == words.get(there.evidence.verdict, there.evidence.verdict)


@settings(deadline=None, max_examples=30)
@given(SETS)
def test_a_run_against_itself_shows_nothing(cells: list[tuple[str, str]]) -> None:
    run = made({f"c{at}": pair for at, pair in enumerate(cells)})
    found = compare(run, run, max_drop=1.0)
    assert found.delta in (0.0, None)
    assert found.flips[:2] == ((), ())
    assert (found.evidence.verdict, found.evidence.scope, found.held) == ("no evidence", None, None)
    assert found.exit_code == 3  # a drop cannot be ruled out where nothing was run


# Real runs


class Model(Scripted):
    """A scripted model that also judges: it passes what holds the word it likes."""

    likes = "magic"

    async def answer(self, request: se.Request) -> se.Answer:
        """The written answer, or a judge's."""
        if request.role != "judge":
            return await super().answer(request)
        passed = self.likes in request.prompt.partition("polite")[2]
        return se.Answer(
            json.dumps({"reasoning": "r", "evidence": "", "pass": passed}), "judge-1", "end_turn"
        )


def answers(with_skill: Mapping[str, str | None], without: str = "plain") -> Model:
    return Model({f"Task {name}.": (without, text) for name, text in with_skill.items()})


def run(path: Path, model: Scripted, **more: Any) -> se.Run:
    return se.run_set(path, runner=model, progress=False, **more)


GOOD, BAD = "magic", "no"


def test_a_new_skill_against_a_pinned_run(tmp_path: Path) -> None:
    cases = [case(name) for name in "abc"]
    pinned = run(project(tmp_path, *cases), answers(dict.fromkeys("abc", GOOD)))
    path = project(tmp_path, *cases, skill=SKILL.replace("MAGIC", "MAGIC, or not"))
    new = run(path, answers({"a": GOOD, "b": BAD, "c": BAD}))
    found = compare(pinned.id, "last", runs_dir=tmp_path / "runs")
    assert found.record["b"]["runId"] == new.id
    assert (found.gate, found.exit_code) == ("REGRESSION", 1)
    assert found.delta == pytest.approx(-2 / 3)
    assert "flipped to fail 2: b, c" in found.lines()
    assert found.record["a"]["skillHash"] != found.record["b"]["skillHash"]
    assert found.warnings == ()
    assert found.record["shared"]["trials"] == 0
    said = "A and B were run apart: if the model changed in between, that counts here too"
    bare = " (their baselines, which no skill touched: A 0/3 (0%), B 0/3 (0%), Δ 0%)"
    assert said + bare in found.lines()


def test_only_the_cases_that_differ_are_named(tmp_path: Path) -> None:
    before = run(project(tmp_path, *map(case, "abc")), answers(dict.fromkeys("abc", GOOD)))
    edited = [case("a"), case("b", prompt="Task B."), case("c", check("excludes", "dull"))]
    model = Model({"Task a.": ("no", GOOD), "Task B.": ("no", GOOD), "Task c.": ("no", GOOD)})
    after = run(project(tmp_path, *edited), model)
    with pytest.raises(InputError) as refused:
        compare(before, after)
    assert "set: the cases differ: prompt of b; checks of c — run one set for both" in str(refused.value)
    assert after.folder is not None
    shutil.rmtree(after.folder)
    with pytest.raises(InputError, match="in which cases is not known here: a run's folder is gone"):
        compare(before, se.load_run(after.id, tmp_path / "runs"))


def test_a_set_that_only_grew_is_compared_over_the_cases_of_both(tmp_path: Path) -> None:
    before = run(project(tmp_path, *map(case, "ab")), answers(dict.fromkeys("ab", BAD)))
    after = run(project(tmp_path, *map(case, "abc")), answers(dict.fromkeys("abc", GOOD)))
    found = compare(before, after)
    assert (found.record["graded"], found.delta) == (2, 1.0)
    assert "left out, only in B 1: c" in found.lines()
    assert found.warnings == ("the sets differ, but not in the 2 cases that are compared",)


def test_a_dialect_or_a_limit_that_changed_is_another_set(tmp_path: Path) -> None:
    first = run(project(tmp_path, case("a")), answers({"a": GOOD}))
    second = run(project(tmp_path, case("a"), regex="python"), answers({"a": GOOD}))
    with pytest.raises(InputError, match="set: the cases differ: dialect of patterns of a —"):
        compare(first, second)
    third = run(project(tmp_path, case("a"), max_tokens=9), answers({"a": GOOD}))
    with pytest.raises(InputError, match="set: the cases differ: limit of tokens of a —"):
        compare(first, third)


def test_a_regrade_is_about_the_graders(tmp_path: Path) -> None:
    cases = [case(name, judged()) for name in "abc"]
    model = answers({"a": "polite magic", "b": "polite magic", "c": "polite words"})
    before = run(project(tmp_path, *cases), model, n=3, judge_model="judge-1")
    stricter = Model({})
    stricter.likes, stricter.fixed_model = "words", "judge-2"
    after = se.regrade(before, runner=stricter, judge_model="judge-2", progress=False)
    assert after.record["regradeOf"] == before.id
    found = compare(before, after)
    assert found.flips == (("c",), ("a", "b"), (), ())
    assert found.gate == "REGRESSION"
    assert found.delta == pytest.approx(-1 / 3)
    assert (found.evidence.verdict, found.record["evidence"]["verdict"]) == ("no evidence", None)
    assert found.record["graders"] | {"flipLow": 0, "flipHigh": 0} == {
        "answers": 9, "toPass": 3, "toFail": 6, "flipRate": 1.0, "flipLow": 0, "flipHigh": 0,
        "p": se.stats.summary_flips(9, 3, 6).p,
    }  # fmt: skip
    lines = found.lines()
    assert lines[3] == "evidence: withheld: both sides hold the same 9 answers, so only grading can move them"
    assert lines[4].startswith(
        "graders: of 9 answers measured on both sides 3 moved to pass, 6 to fail; flip rate 9/9"
    )
    assert not any("a trial:" in line or "run apart" in line for line in lines)
    assert f"regrade of {before.id}" in lines[0]
    assert compare(before, after, max_drop=0.9).exit_code == 3
    with pytest.raises(InputError) as refused:  # other answers, judged by another: that is no one's doing
        compare(after, run(project(tmp_path, *cases), model, n=3, judge_model="judge-1"))
    assert [problem.where for problem in refused.value.problems] == ["judge", ""]


def test_edited_checks_are_the_graders_too(tmp_path: Path) -> None:
    before = run(project(tmp_path, case("a"), case("b")), answers({"a": GOOD, "b": "maybe"}))
    after = se.regrade(before, checks={"b": [check("includes", "maybe")]}, progress=False)
    found = compare(before, after)
    assert found.flips.to_pass == ("b",)
    assert found.warnings[0] == "set: the cases differ: checks of b"
    assert "of 2 answers measured on both sides 1 moved to pass, 0 to fail" in str(found)


def test_reused_trials_are_the_same_ones(tmp_path: Path) -> None:
    path = project(tmp_path, *map(case, "abc"))
    first = run(path, answers(dict.fromkeys("abc", BAD)))
    second = run(path, answers(dict.fromkeys("abc", GOOD)), reuse="unchanged")
    assert second.record["reused"] == {"baseline": 3, "skill": 3}
    found = compare(first, second)
    assert "withheld: both sides hold the same 3 answers" in str(found)
    path = project(tmp_path, *map(case, "abc"), skill=SKILL.replace("MAGIC", "MAGIC twice"))
    third = run(path, answers(dict.fromkeys("abc", GOOD)), reuse="unchanged")
    assert third.record["reused"] == {"baseline": 3}
    found = compare(first, third)  # the skill's trials are new, the baselines are not: those tell nothing
    assert (found.delta, found.evidence.verdict, found.record["shared"]["trials"]) == (1.0, "improves", 0)
    assert any(line.endswith("that counts here too") for line in found.lines())
    bare = compare(first, third, conditions=("baseline", "baseline"))
    assert "the same 3 answers" in str(bare)
    assert third.folder is not None
    shutil.rmtree(third.folder)
    assert "the same 3 answers" in str(
        compare(first, se.load_run(third.id, tmp_path / "runs"), conditions=("baseline", "baseline"))
    )


def test_some_shared_trials_are_counted(tmp_path: Path) -> None:
    path = project(tmp_path, *map(case, "abc"))
    first = run(path, answers(dict.fromkeys("abc", BAD)))
    grown = project(tmp_path, *map(case, "ab"), case("c", prompt="Task C."))
    model = Model({"Task C.": ("plain", GOOD)})
    second = run(grown, model, reuse="unchanged")
    found = compare(first, second, force=True)
    words = "2 of A's 3 and B's 3 trials are the same ones: they cannot differ, which can only weaken the evidence"
    assert words in found.lines()
    assert found.record["shared"] == {"trials": 2, "ofA": 3, "ofB": 3, "all": False}


def test_a_side_whose_trials_are_all_of_the_other_shows_nothing_new() -> None:
    a = made({"a": ("00", "10"), "b": ("00", "01"), "c": ("00", "00")}, "a")
    taken = {"reused": True, "from": "a"}
    b = made({"a": ("0", "1"), "b": ("0", "0"), "c": ("0", "0")}, "b", tell=lambda *key: taken)
    found = compare(a, b)
    assert found.record["shared"] == {"trials": 3, "ofA": 6, "ofB": 3, "all": True}
    assert "both sides hold the same 3 answers" in str(found)
    assert "of 3 answers measured on both sides 0 moved to pass, 0 to fail" in str(found)


def test_reused_trials_of_an_unnamed_run_are_told() -> None:
    a = made({"a": ("0", "1")}, "a")
    b = made({"a": ("0", "1")}, "b", tell=lambda *key: {"reused": True})
    found = compare(a, b)
    assert found.warnings == (
        "B has 1 reused trial of a run that its record does not name: maybe of the other",
    )


def test_it_is_a_comparison() -> None:
    assert isinstance(compare(made({"a": ("0", "1")})), Comparison)
