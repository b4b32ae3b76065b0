"""The log as frames: the declared columns, the same values at every level, whatever is asked for and however."""

from __future__ import annotations

import json
import math
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from skilleval_nb import frames
from skilleval_nb.columns import COLUMNS, LEVELS, columns_table
from skilleval_nb.errors import InputError, LogWarning
from skilleval_nb.frames import frame_of, load_log, scan_log, schema_of
from skilleval_nb.log import append_record, json_line
from skilleval_nb.record import CONTEXT, IDENTITY, build_record

ORIGIN = Path(__file__).parents[2] / "shared/corpus/Yco-0314__strata/skills/l5-meta/skill-eval/runs/log.jsonl"
PROMISED = {
    "run": "run_id ts kind set skill skill_hash set_hash delivery runner model judge_model n graded errors "
    "trials_measured trials_errored baseline_rate skill_rate delta gate evidence scope p_set",
    "case": "run_id case_id difficulty condition verdict passes measured trials",
    "trial": "run_id case_id condition trial outcome reason input_tokens output_tokens cache_read_tokens "
    "cache_write_tokens latency_s cost_usd model stop_reason reused",
    "check": "run_id case_id condition trial check kind passed evidence judge_model judge_input_tokens "
    "judge_output_tokens",
}

# --- records


def trial(number: int = 1, outcome: str = "passed", checks: Any = (True,), **more: Any) -> dict[str, Any]:
    made = {"trial": number, "outcome": outcome, "tokens": [40, 12, None, None], "latencyS": 1.25, **more}
    return made | ({"checks": [{"passed": passed} for passed in checks]} if checks else {})


def result(condition: str, *trials: dict[str, Any], planned: int | None = None) -> dict[str, Any]:
    measured = [t for t in trials if t["outcome"] in ("passed", "failed")]
    passes = sum(t["outcome"] == "passed" for t in measured)
    return {
        "condition": condition,
        "verdict": 2 * passes > len(measured) if measured else None,
        "passes": passes,
        "measured": len(measured),
        "planned": len(trials) if planned is None else planned,
        "trials": list(trials),
    }


def case(identifier: str, baseline: dict[str, Any], skill: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {
        "id": identifier,
        "baseline": baseline["verdict"],
        "skill": skill["verdict"],
        "difficulty": 2,
        "checks": ["includes"],
        "results": [baseline, skill],
        **more,
    }


def record(run_id: str = "r1", *cases: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {
        "kind": "eval",
        "schema": 1,
        "runId": run_id,
        "ts": "2026-11-30T18:15:00.123Z",
        "set": "polite",
        "skill": "skills/polite/SKILL.md",
        "model": "haiku",
        "judgeModel": None,
        "n": 1,
        "setHash": "5e75e75e75e75e75",
        "skillHash": "5c115c115c115c11",
        "runner": "local",
        "delivery": "inject",
        "gate": "PASS",
        "dir": f"runs/{run_id}",
        "resumes": 0,
        "usage": [],
    } | more
    failed, passed = trial(outcome="failed", checks=(False,)), trial()
    plain = case("a", result("baseline", failed), result("skill", passed))
    return {**made, "cases": list(cases) or [plain]}


def write(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json_line(item) + "\n" for item in records), encoding="utf-8")
    return path


@contextmanager
def log_warnings() -> Iterator[list[str]]:
    """The texts of the LogWarnings raised inside; any other warning fails the test."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    assert {w.category for w in caught} <= {LogWarning}, [str(w.message) for w in caught]
    texts += [str(w.message) for w in caught]


# --- what is declared


@pytest.mark.parametrize("level", LEVELS)
def test_the_promised_columns_come_first_and_all_are_declared_once(level: str, tmp_path: Path) -> None:
    promised = PROMISED[level].split()
    names = [column.name for column in COLUMNS[level]]
    assert names[: len(promised)] == promised
    assert len(names) == len(set(names))
    frame = load_log(write(tmp_path / "log.jsonl", record()), level)
    assert frame.schema == schema_of(level) == scan_log(tmp_path / "log.jsonl", level).collect_schema()
    assert frame.columns == names
    table = columns_table(level).splitlines()
    assert len(table) == 2 + len(names)
    assert all(line.count("|") == 6 for line in table), "a cell holds the table's own mark"
    assert {column.null for column in COLUMNS[level]} - {""} == {column.null for column in COLUMNS[level]}


@pytest.mark.parametrize("level", LEVELS)
def test_an_empty_log_is_an_empty_frame_of_the_right_columns(level: str, tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for content in ("", "\n", '{"kind":"mdl","model":"x"}\n'):
        path.write_text(content)
        assert load_log(path, level).schema == schema_of(level)
        assert load_log(path, level).height == 0
        assert scan_log(path, level).collect().height == 0
    assert_frame_equal(frame_of([], level), load_log(path, level))


def test_what_cannot_be_read_is_an_input_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for read in (load_log, scan_log):
        with pytest.raises(InputError, match=r"runs/log\.jsonl: there is no log here .*skilleval run SET"):
            read()
        path = write(tmp_path / "log.jsonl", record())
        with pytest.raises(InputError, match="no level 'cases' — one of run, case, trial, check"):
            read(path, "cases")
        with pytest.raises(InputError, match="no kind 'judge' — one of"):
            read(path, kind="judge")


def test_kinds_are_chosen_by_name_and_unknown_ones_are_passed_over(tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.jsonl",
        record("e"),
        {"kind": "measure-run", "cases": "none", "n": "x", "about": {"kind": "eval"}},
        record("t", kind="trigger"),
        {"kind": "judge", "runId": 7, "cases": [1]},
        record("s", kind="suite"),
        {"runId": "no kind"},
    )

    def ids(kind: str | None) -> list[str]:
        return load_log(path, "run", kind)["run_id"].to_list()

    assert ids(None) == ["e", "t", "s"]
    assert ids("eval") == ids("gate") == ["e"]
    assert ids("trigger") == ["t"]
    assert ids("suite") == ["s"]


# --- values, worked out by hand


def test_the_run_level_counts_over_cases_measured_under_both_conditions() -> None:
    lost = trial(outcome="executor_timeout", checks=(), reason="no answer")
    passed, failed = trial(), trial(outcome="failed")
    cases = [
        case("up", result("baseline", failed), result("skill", passed)),
        case("up too", result("baseline", failed), result("skill", passed)),
        case("down", result("baseline", passed), result("skill", failed)),
        case("lost", result("baseline", lost), result("skill", passed)),
    ]
    (row,) = frame_of([record("r", *cases, delta=999, graded=77)], "run").to_dicts()
    assert (row["graded"], row["errors"]) == (3, 1)
    assert (row["baseline_pass"], row["skill_pass"]) == (1, 2)
    assert (row["baseline_rate"], row["skill_rate"], row["delta"]) == (1 / 3, 2 / 3, 1 / 3)
    assert row["ts"] == datetime(2026, 11, 30, 18, 15, 0, 123000, tzinfo=UTC)
    (row,) = frame_of([record("r", cases[3])], "run").to_dicts()
    assert (row["graded"], row["errors"], row["baseline_rate"], row["delta"]) == (0, 1, None, None)
    without = record("r", graded=4, errors=1)
    del without["cases"]
    (row,) = frame_of([without], "run").to_dicts()
    assert (row["graded"], row["errors"], row["skill_pass"], row["delta"]) == (4, 1, None, None)


def test_the_ledger_is_summed_by_role_and_never_turns_absence_into_zero() -> None:
    usage = [
        {"role": "executor", "condition": "baseline", "calls": 3, "asked": 2, "reported": 2}
        | {"tokens": [10, 20, 5, None], "costUsd": 0.25, "latencyS": 1.5},
        {"role": "executor", "condition": "skill", "calls": 2, "asked": 2, "reported": 0}
        | {"tokens": None, "costUsd": None, "latencyS": 0.5},
    ]
    judge = {"role": "judge", "condition": "skill", "calls": 4, "asked": 4, "reported": 4}
    judge |= {"tokens": [100, 8, None, None], "costUsd": 0.5, "latencyS": 2.0}
    nothing = {"role": "executor", "condition": "skill", "calls": 0, "tokens": None, "costUsd": None}
    records = [
        record("partly", usage=usage),
        record("judged", usage=[usage[0], judge]),
        record("free", usage=[usage[0], nothing]),
        record("old", usage=None),
    ]
    partly, judged, free, old = frame_of(records, "run").to_dicts()
    assert [partly[f"executor_{n}"] for n in ("calls", "asked", "reported")] == [5, 4, 2]
    kinds = ("input", "output", "cache_read", "cache_write")
    assert [partly[f"executor_{kind}_tokens"] for kind in kinds] == [10, 20, 5, None]
    assert (partly["executor_cost_usd"], partly["cost_usd"], partly["executor_latency_s"]) == (
        None,
        None,
        2.0,
    )
    assert (partly["judge_calls"], partly["judge_input_tokens"], partly["judge_cost_usd"]) == (0, None, None)
    assert [judged[f"judge_{kind}_tokens"] for kind in kinds] == [100, 8, None, None]
    assert (judged["executor_cost_usd"], judged["judge_cost_usd"], judged["cost_usd"]) == (0.25, 0.5, 0.75)
    assert (free["executor_calls"], free["executor_asked"], free["cost_usd"]) == (3, None, 0.25)
    measured = (
        *("calls", "asked", "reported", "input_tokens", "output_tokens"),
        *("cache_read_tokens", "cache_write_tokens", "cost_usd", "latency_s"),
    )
    ledger = [
        name
        for name in old
        if name in {f"{role}_{what}" for role in ("executor", "judge") for what in measured}
    ]
    assert len(ledger) == 18
    assert {old[name] for name in [*ledger, "cost_usd"]} == {None}


CONTEXT_COLUMNS = {"judge_model", "judge_hash", "judge_runner", "judge_n"}


def test_the_inner_levels_hold_one_row_an_item_in_the_order_of_the_record() -> None:
    judged = {"passed": False, "evidence": "“no”", "judgeModel": "sonnet", "judgeTokens": [9, 3, 1, None]}
    skill = result(
        "skill",
        trial(1, checks=()) | {"checks": [{"passed": True}, judged]},
        trial(
            2, "grader_timeout", checks=(True, None, True), reason="1 s", costUsd=0.5, attempt=2, reused=True
        ),
        planned=3,
    )
    baseline = result("baseline", trial(1, model="m", stopReason="max_tokens", tokens=None), planned=3)
    log = [record("r", case("a", baseline, skill, checks=["includes", "judge"], difficulty=None))]
    cases = frame_of(log, "case").select(PROMISED["case"].split()).rows()
    assert cases == [
        ("r", "a", None, "baseline", True, 1, 1, 3),
        ("r", "a", None, "skill", True, 1, 1, 3),
    ]
    trials = frame_of(log, "trial").select(*PROMISED["trial"].split(), "attempt").rows()
    assert trials == [
        (
            "r",
            "a",
            "baseline",
            1,
            "passed",
            None,
            None,
            None,
            None,
            None,
            1.25,
            None,
            "m",
            "max_tokens",
            False,
            1,
        ),
        ("r", "a", "skill", 1, "passed", None, 40, 12, None, None, 1.25, None, None, None, False, 1),
        ("r", "a", "skill", 2, "grader_timeout", "1 s", 40, 12, None, None, 1.25, 0.5, None, None, True, 2),
    ]
    checks = frame_of(log, "check").select(*PROMISED["check"].split(), "judge_cache_read_tokens").rows()
    assert checks == [
        ("r", "a", "baseline", 1, 1, "includes", True, None, None, None, None, None),
        ("r", "a", "skill", 1, 1, "includes", True, None, None, None, None, None),
        ("r", "a", "skill", 1, 2, "judge", False, "“no”", "sonnet", 9, 3, 1),
        ("r", "a", "skill", 2, 1, "includes", True, None, None, None, None, None),
        ("r", "a", "skill", 2, 2, "judge", None, None, None, None, None, None),
        ("r", "a", "skill", 2, 3, None, True, None, None, None, None, None),
    ]


def test_the_runs_identity_stands_at_every_level_under_one_meaning() -> None:
    log = [record("r", model="asked", judgeModel="judge", kind="suite")]
    trials, checks = frame_of(log, "trial"), frame_of(log, "check")
    assert frame_of(log, "case")["model"].unique().to_list() == ["asked"]
    assert trials["run_model"].unique().to_list() == checks["run_model"].unique().to_list() == ["asked"]
    assert checks["run_kind"].unique().to_list() == ["suite"]
    assert checks["run_judge_model"].unique().to_list() == ["judge"]
    for name in ("set", "skill", "skill_hash", "set_hash", "delivery", "runner", "ts", "n"):
        expected = frame_of(log, "run")[name].to_list()
        for level in ("case", "trial", "check"):
            assert frame_of(log, level)[name].unique().to_list() == expected


@pytest.mark.parametrize(
    ("ts", "read"),
    [
        ("2026-11-30T18:15:00Z", datetime(2026, 11, 30, 18, 15, tzinfo=UTC)),
        ("2026-11-30T18:15:00.123999Z", datetime(2026, 11, 30, 18, 15, 0, 123000, tzinfo=UTC)),
        ("2026-11-30T18:15:00+02:00", datetime(2026, 11, 30, 16, 15, tzinfo=UTC)),
        ("yesterday", None),
        (None, None),
    ],
)
def test_times_are_utc_or_null(ts: str | None, read: datetime | None) -> None:
    assert frame_of([record(ts=ts)], "run")["ts"].to_list() == [read]


def test_the_records_of_the_engine_read_as_they_were_built(tmp_path: Path) -> None:
    header = dict.fromkeys((*IDENTITY, *CONTEXT)) | {
        "runId": "r",
        "ts": "2026-11-30T18:15:00.000Z",
        "set": "s",
        "model": "m",
        "n": 2,
        "dir": "runs/r",
        "conditions": ["baseline", "skill"],
        "git": {"commit": "abc", "dirty": True},
        "confirm": True,
        "cases": [{"id": "a", "difficulty": 3, "checks": [{"kind": "excludes"}]}],
    }
    lines = [
        {"caseId": "a", "condition": condition, "trial": number, "attempt": 1, "outcome": outcome}
        | {"tokens": [7, 5, None, None], "calls": 1, "checks": [{"kind": "excludes", "passed": passed}]}
        for condition, number, outcome, passed in [
            ("baseline", 1, "failed", False),
            ("baseline", 2, "failed", False),
            ("skill", 1, "passed", True),
            ("skill", 2, "grader_timeout", None),
        ]
    ]
    built = build_record(header, lines, look=4, duration_s=2.5, partial="interrupted", resumes=1)
    append_record(tmp_path / "log.jsonl", built)
    (row,) = load_log(tmp_path / "log.jsonl", "run").to_dicts()
    expected = {
        "run_id": "r",
        "n": 2,
        "graded": 1,
        "errors": 0,
        "trials_measured": 3,
        "trials_errored": 1,
        "trials_planned": 4,
        "baseline_rate": 0.0,
        "skill_rate": 1.0,
        "delta": 1.0,
        "look": 4,
        "executor_calls": 4,
        "executor_asked": 4,
        "executor_reported": 4,
        "executor_input_tokens": 28,
        "input_tokens": 28,
        "output_tokens": 20,
        "judge_calls": 0,
        "duration_s": 2.5,
        "resumes": 1,
        "partial": None,  # every planned trial is there
        "git_commit": "abc",
        "git_dirty": True,
        "confirm": True,
        "schema": 1,
        "gate": built["gate"],
        "evidence": built["evidence"]["verdict"],
        "p_set": built["evidence"]["pSet"],
        "delta_low": built["evidence"]["deltaLow"],
        "gate_low": built["gateRange"][0],
    }
    assert {name: row[name] for name in expected} == expected
    for level in LEVELS:
        assert_frame_equal(load_log(tmp_path / "log.jsonl", level), frame_of([built], level))


# --- the origin's log

needs_origin = pytest.mark.skipif(not ORIGIN.exists(), reason="the origin's log is not here")


@needs_origin
def test_the_origins_deltas_recompute_from_their_cases_half_up() -> None:
    frame = load_log(ORIGIN, "run")
    lines = [json.loads(line) for line in ORIGIN.read_text().splitlines()]
    records = [line for line in lines if line["kind"] == "eval"]
    assert frame.height == len(records) == 20
    halves = 0
    for row, told in zip(frame.to_dicts(), records, strict=True):
        shown = None if row["delta"] is None else math.floor(row["delta"] * 100 + 0.5)
        assert shown == told["delta"]
        halves += row["delta"] is not None and (row["delta"] * 100) % 1 == 0.5
        assert row["run_id"] == told["dir"].split("/")[-1]
        assert [row[n] for n in ("graded", "errors", "baseline_pass", "skill_pass")] == [
            told[n] for n in ("graded", "errors", "baselinePass", "skillPass")
        ]
        assert row["gate"] == {"ERROR": "NOT MEASURED"}.get(told["gate"], told["gate"])
        assert row["input_tokens"] == (told["tokens"] or {}).get("input")
    assert halves > 0, "no delta tells half up from half even"
    assert "NOT MEASURED" in frame["gate"].to_list()


@needs_origin
def test_the_origins_cases_have_verdicts_and_no_trials() -> None:
    frame = load_log(ORIGIN)
    records = [json.loads(line) for line in ORIGIN.read_text().splitlines() if '"kind":"eval"' in line]
    told = [
        (item["id"], condition, item[condition])
        for line in records
        for item in line["cases"]
        for condition in ("baseline", "skill")
    ]
    assert frame.select("case_id", "condition", "verdict").rows() == told
    assert (
        frame.select("passes", "measured", "trials", "difficulty").null_count().row(0) == (frame.height,) * 4
    )
    assert load_log(ORIGIN, "trial").height == load_log(ORIGIN, "check").height == 0


# --- what is broken

GOOD = [json_line(record(name)).encode() for name in ("r0", "r1", "r2")]
BREAKS: dict[str, tuple[Callable[[], bytes], list[str], str | None]] = {
    "whole": (lambda: b"\n".join(GOOD) + b"\n", ["r0", "r1", "r2"], None),
    "no last line end": (lambda: b"\n".join(GOOD), ["r0", "r1", "r2"], None),
    "torn last line": (lambda: b"\n".join(GOOD)[:-200], ["r0", "r1"], r"1 line could .* line 3 \("),
    "torn after a brace": (
        lambda: b"\n".join(GOOD)[: b"\n".join(GOOD).rfind(b"}") - 1],
        ["r0", "r1"],
        r"line 3 \(",
    ),
    "torn early": (lambda: b"\n".join([*GOOD, b'{"ki']), ["r0", "r1", "r2"], r"line 4 \("),
    "torn in the middle": (lambda: b"\n".join([GOOD[0], GOOD[1][:80], GOOD[2]]), ["r0", "r2"], r"line 2 \("),
    "glued": (lambda: b"\n".join([GOOD[0], GOOD[1] + GOOD[1], GOOD[2]]), ["r0", "r2"], "line 2 .*Extra data"),
    "torn and glued": (
        lambda: b"\n".join([GOOD[0], GOOD[1][:300] + GOOD[1], GOOD[2]]),
        ["r0", "r2"],
        "line 2 ",
    ),
    "BOM": (lambda: b"\xef\xbb\xbf" + b"\n".join(GOOD), ["r0", "r1", "r2"], None),
    "CRLF": (lambda: b"\r\n".join([*GOOD, b""]), ["r0", "r1", "r2"], None),
    "NUL tail": (lambda: b"\n".join([*GOOD, b"\0" * 50]), ["r0", "r1", "r2"], "line 4 .*NUL"),
    "blank lines": (lambda: b"\n\n \n".join([b"", *GOOD, b""]), ["r0", "r1", "r2"], None),
    "blanks around": (lambda: b" " + b" \n\t".join(GOOD) + b" ", ["r0", "r1", "r2"], None),
    "not objects": (lambda: b"\n".join([b"17", GOOD[0], b'["eval"]', b"null"]), ["r0"], "3 lines .*line 1 "),
    "not UTF-8": (
        lambda: b"\n".join([GOOD[0].replace(b"haiku", b"\xff"), GOOD[1]]),
        ["r1"],
        "line 1 .*UTF-8",
    ),
    "NaN": (lambda: b"\n".join(GOOD).replace(b"1.25", b"NaN"), ["r0", "r1", "r2"], "3 lines kept .*NaN"),
    "spaced": (
        lambda: b"\n".join(json.dumps(json.loads(line)).encode() for line in GOOD),
        ["r0", "r1", "r2"],
        None,
    ),
    "sorted": (
        lambda: b"\n".join(json.dumps(json.loads(line), sort_keys=True).encode() for line in GOOD),
        ["r0", "r1", "r2"],
        None,
    ),
    "wide": (
        lambda: b"\n".join(line.replace(b'"kind":', b'"kind" : ') for line in GOOD),
        ["r0", "r1", "r2"],
        None,
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_log_gives_all_that_is_whole_and_one_warning(name: str, tmp_path: Path) -> None:
    content, kept, said = BREAKS[name]
    path = tmp_path / "log.jsonl"
    path.write_bytes(content())
    plain = load_log(write(tmp_path / "plain.jsonl", *(record(run_id) for run_id in kept)), "trial")
    for level in LEVELS:
        with log_warnings() as texts:
            frame = load_log(path, level)
        assert frame["run_id"].unique(maintain_order=True).to_list() == kept
        if said is None:
            assert texts == []
        elif name != "NaN" or level == "trial":
            assert len(texts) == 1
            assert texts[0].startswith(f"{path}: ")
            assert re.search(said, texts[0]), texts[0]
        with log_warnings():
            assert_frame_equal(scan_log(path, level).collect(), frame)
    with log_warnings():
        found = load_log(path, "trial").drop("latency_s")
    assert_frame_equal(found, plain.drop("latency_s"))


@pytest.mark.parametrize(
    ("change", "level", "column", "read", "said"),
    [
        ({"n": "many"}, "run", "n", None, "n is not a number"),
        ({"model": {"id": 1}}, "run", "model", None, "model is not a text"),
        ({"model": 7}, "run", "model", "7", None),
        ({"n": 2.0}, "run", "n", 2, None),
        ({"n": 10**300}, "run", "n", None, "n is not a number"),
        ({"evidence": "strong"}, "run", "p_set", None, "evidence is not an object"),
        ({"evidence": {"pSet": "x"}}, "run", "p_set", None, r"evidence\.pSet is not a number"),
        ({"git": {"commit": "c", "dirty": "no"}}, "run", "git_dirty", None, "dirty is not a true or false"),
        ({"usage": [{"role": "executor", "calls": []}]}, "run", "executor_calls", None, r"usage\[0\]\.calls"),
        ({"cases": "none"}, "run", "delta", None, "cases is not a list"),
        ({"cases": [{"id": ["a"], "baseline": True}]}, "case", "case_id", [None, None], r"cases\[0\]\.id"),
        ({"cases": [{"id": 7, "baseline": True}]}, "case", "case_id", ["7", "7"], None),
        (
            {"cases": [3, {"id": "a", "skill": "x"}]},
            "case",
            "verdict",
            [None, None],
            r"cases\[0\] is not an obj",
        ),
        ({"cases": [None]}, "case", "case_id", [], None),
        ({"cases": [{"id": "a", "results": [None]}]}, "case", "case_id", [], None),
        (
            {"cases": [{"id": "a", "results": [{"trials": "x"}]}]},
            "trial",
            "trial",
            [],
            r"results\[0\]\.trials is",
        ),
        (
            {"cases": [{"id": "a", "results": [{"trials": [{"trial": 1, "tokens": "x"}]}]}]},
            "trial",
            "input_tokens",
            [None],
            r"tokens\[0\] is not a number",
        ),
        (
            {"cases": [{"id": "a", "results": [{"trials": [{"trial": 1, "tokens": [5]}, None, 3]}]}]},
            "trial",
            "output_tokens",
            [None],
            r"trials\[2\] is not an object",
        ),
        (
            {"cases": [{"id": "a", "results": [{"trials": [{"checks": [None, {"passed": True}]}]}]}]},
            "check",
            "check",
            [2],
            None,
        ),
    ],
)
def test_a_value_of_a_wrong_type_is_null_and_the_rest_stays(
    change: dict[str, Any], level: str, column: str, read: Any, said: str | None, tmp_path: Path
) -> None:
    changed = record("odd", usage=None) | change
    path = write(tmp_path / "log.jsonl", record("r0"), changed, record("r2"))
    others = load_log(write(tmp_path / "others.jsonl", record("r0"), record("r2")), level)
    with log_warnings() as texts:
        frame = load_log(path, level)
    odd = frame.filter(run_id="odd")[column].to_list()
    assert odd == (read if isinstance(read, list) else [read])
    assert_frame_equal(frame.filter(pl.col("run_id") != "odd"), others)
    if said is None:
        assert texts == []
    else:
        (text,) = texts
        assert re.search(rf"1 line kept with values read as null: line 2 \(.*{said}", text), text
        with pytest.warns(LogWarning, match="records in memory: .*line 1"):
            again = frame_of([changed], level)
        assert_frame_equal(again, frame.filter(run_id="odd"))
    with log_warnings():
        alone = scan_log(path, level).filter(pl.col("run_id") == "odd").select(column).collect()
    assert alone[column].to_list() == odd


def test_unknown_fields_change_nothing_at_any_depth() -> None:
    extra = json.loads(
        json_line(record()),
        object_hook=lambda found: {"new": {"deep": [1, "x"]}, **found, "more": None},
    )
    for level in LEVELS:
        assert_frame_equal(frame_of([extra], level), frame_of([record()], level))


# --- resumed runs


@pytest.mark.parametrize("size", [200, 2**21])
def test_of_a_resumed_run_only_the_newest_record_counts_at_every_level(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "SLICE", size)
    lost = trial(outcome="executor_timeout", checks=())
    first = case("a", result("baseline", trial()), result("skill", lost))
    whole = case("a", result("baseline", trial()), result("skill", trial()))
    path = write(
        tmp_path / "log.jsonl",
        record("r", first, gate="NOT MEASURED"),
        record("other"),
        record("r", whole, resumes=2, ts="2026-12-02T00:00:00Z"),
        record("r", first, resumes=1, gate="NOT MEASURED"),
    )
    assert load_log(path, "run").select("run_id", "resumes", "gate").rows() == [
        ("other", 0, "PASS"),
        ("r", 2, "PASS"),
    ]
    for level in LEVELS:
        frame = load_log(path, level)
        assert_frame_equal(
            frame,
            frame_of([record("other"), record("r", whole, resumes=2, ts="2026-12-02T00:00:00Z")], level),
        )
        assert (
            scan_log(path, level).filter(pl.col("run_id") == "r").collect().height
            == frame.filter(run_id="r").height
        )
    gone = scan_log(path, "run").filter(pl.col("gate") == "NOT MEASURED").collect()
    assert gone.height == 0, "the filter dropped the newer record before it could replace the older"
    gone = scan_log(path, "trial").filter(pl.col("ts") < datetime(2026, 12, 1, tzinfo=UTC)).collect()
    assert gone["run_id"].unique().to_list() == ["other"]
    assert scan_log(path, "run").head(1).collect()["run_id"].to_list() == ["other"]


@pytest.mark.parametrize("resumes", [1, 9, 10])
def test_one_resume_is_enough(resumes: int, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", record("r", gate="NOT MEASURED"), record("r", resumes=resumes))
    assert load_log(path, "run").select("resumes", "gate").rows() == [(resumes, "PASS")]


# --- any records

TEXT = st.text(st.characters(codec="utf-8"), max_size=8)
MAYBE = st.none() | TEXT
COUNT = st.integers(0, 2**40)
RATE = st.integers(-(2**20), 2**20).map(lambda k: k / 64)
TOKENS = st.none() | st.lists(st.none() | COUNT, min_size=4, max_size=4)
TIMES = st.integers(0, 4_000_000_000_000).map(
    lambda ms: datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
)


def some(**fields: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """Objects with any of the fields, each there or not."""
    return st.fixed_dictionaries({}, optional=fields)


CHECKS = st.lists(
    some(passed=st.none() | st.booleans(), evidence=MAYBE, judgeModel=MAYBE, judgeTokens=TOKENS), max_size=2
)
TRIALS = st.lists(
    some(
        trial=st.integers(1, 9),
        outcome=TEXT,
        reason=MAYBE,
        tokens=TOKENS,
        latencyS=st.none() | RATE,
        costUsd=st.none() | RATE,
        model=MAYBE,
        stopReason=MAYBE,
        reused=st.booleans(),
        attempt=st.integers(1, 3),
        checks=CHECKS,
    ),
    max_size=2,
)
VERDICT = st.none() | st.booleans()
RESULTS = st.lists(
    some(condition=TEXT, verdict=VERDICT, passes=COUNT, measured=COUNT, planned=COUNT, trials=TRIALS),
    max_size=2,
)
CASES = st.lists(
    some(
        id=TEXT,
        difficulty=st.none() | st.integers(1, 3),
        baseline=VERDICT,
        skill=VERDICT,
        checks=st.lists(TEXT, max_size=2),
        results=st.none() | RESULTS,
        unknown=st.lists(COUNT, max_size=1),
    ),
    max_size=2,
)
LEDGER = st.lists(
    some(
        role=st.sampled_from(["executor", "judge", "other"]),
        calls=st.integers(0, 9),
        asked=COUNT,
        tokens=TOKENS,
        costUsd=st.none() | RATE,
        latencyS=st.none() | RATE,
    ),
    max_size=3,
)
RECORDS = st.lists(
    st.tuples(
        st.sampled_from(["eval", "trigger", "suite", "mdl", "judge"]),
        st.sampled_from(["r1", "r2", "r3", "r4"]),
        some(
            ts=TIMES.map(lambda t: t.isoformat(timespec="milliseconds").replace("+00:00", "Z")),
            set=TEXT,
            skill=MAYBE,
            model=TEXT,
            judgeModel=MAYBE,
            n=COUNT,
            gate=st.sampled_from(["PASS", "ERROR", "REGRESSION"]),
            evidence=st.none() | some(verdict=TEXT, pSet=st.none() | RATE),
            gateRange=st.lists(st.none() | RATE, max_size=2),
            tokens=st.none() | some(input=COUNT),
            usage=st.none() | LEDGER,
            git=some(dirty=st.booleans()),
            resumes=st.integers(0, 2),
            strange=st.recursive(TEXT, lambda inner: st.lists(inner, max_size=2)),
        ),
        CASES,
        st.booleans(),
    ).map(
        lambda parts: (
            {"cases": parts[3], "kind": parts[0], "runId": parts[1], **parts[2]}
            if parts[4]
            else {"kind": parts[0], "runId": parts[1], **parts[2], "cases": parts[3]}
        )
    ),
    max_size=5,
)


def total(parts: list[Any]) -> Any:
    """The sum of what is known; None where nothing is."""
    known = [part for part in parts if part is not None]
    return sum(known) if known else None


def rows_by_hand(records: list[dict[str, Any]], level: str) -> list[dict[str, Any]]:
    """What the frames must hold, in plain Python."""
    mine = [r for r in records if r["kind"] in ("eval", "trigger", "suite")]
    best = {r["runId"]: max(o.get("resumes", 0) for o in mine if o["runId"] == r["runId"]) for r in mine}
    rows = []
    for r in mine:
        if r.get("resumes", 0) < best[r["runId"]]:
            continue
        when = datetime.fromisoformat(r["ts"]) if "ts" in r else None
        run = {
            "run_id": r["runId"],
            "ts": when,
            "set": r.get("set"),
            "skill": r.get("skill"),
            "n": r.get("n"),
        }
        if level == "run":
            both = [c for c in r["cases"] if c.get("baseline") is not None and c.get("skill") is not None]
            ledger = r.get("usage")
            spent = [row for row in ledger or [] if row.get("role") == "executor"]
            costs = [row.get("costUsd") for row in ledger or [] if row.get("calls", 1) > 0]
            tokens = [(row.get("tokens") or [None] * 4)[3] for row in spent]
            wins = sum(c["skill"] - c["baseline"] for c in both)
            rows.append(
                run
                | {
                    "kind": r["kind"],
                    "judge_model": r.get("judgeModel"),
                    "graded": len(both),
                    "errors": len(r["cases"]) - len(both),
                    "delta": wins / len(both) if both else None,
                    "gate": {"ERROR": "NOT MEASURED", None: None}.get(r.get("gate"), r.get("gate")),
                    "p_set": (r.get("evidence") or {}).get("pSet"),
                    "gate_high": [*r.get("gateRange", []), None, None][1],
                    "input_tokens": (r.get("tokens") or {}).get("input"),
                    "git_dirty": r.get("git", {}).get("dirty"),
                    "executor_calls": None
                    if ledger is None or any("calls" not in row for row in spent)
                    else sum(row["calls"] for row in spent),
                    "executor_cache_write_tokens": total(tokens),
                    "executor_latency_s": total([row.get("latencyS") for row in spent]),
                    "cost_usd": None if None in costs else total(costs),
                    "resumes": r.get("resumes", 0),
                }
            )
        for c in r["cases"] if level != "run" else ():
            verdicts = [{"condition": name, "verdict": c.get(name)} for name in ("baseline", "skill")]
            results = c.get("results")
            for x in (verdicts if level == "case" else []) if results is None else results:
                cell = run | {"case_id": c.get("id"), "difficulty": c.get("difficulty")}
                cell |= {"condition": x.get("condition")}
                if level == "case":
                    rows.append(
                        cell
                        | {"verdict": x.get("verdict"), "passes": x.get("passes"), "trials": x.get("planned")}
                    )
                    continue
                for t in x.get("trials", []):
                    one = cell | {"trial": t.get("trial"), "outcome": t.get("outcome")}
                    tokens = t.get("tokens") or [None] * 4
                    if level == "trial":
                        rows.append(
                            one
                            | {
                                "reason": t.get("reason"),
                                "output_tokens": tokens[1],
                                "cache_read_tokens": tokens[2],
                                "latency_s": t.get("latencyS"),
                                "cost_usd": t.get("costUsd"),
                                "model": t.get("model"),
                                "run_model": r.get("model"),
                                "reused": t.get("reused", False),
                                "attempt": t.get("attempt", 1),
                            }
                        )
                        continue
                    for number, k in enumerate(t.get("checks", []), 1):
                        kinds = c.get("checks", [])
                        rows.append(
                            one
                            | {
                                "check": number,
                                "kind": kinds[number - 1] if number <= len(kinds) else None,
                                "passed": k.get("passed"),
                                "evidence": k.get("evidence"),
                                "judge_model": k.get("judgeModel"),
                                "judge_output_tokens": (k.get("judgeTokens") or [None] * 4)[1],
                                "run_kind": r["kind"],
                            }
                        )
    return rows


@given(RECORDS, st.sampled_from([300, 2**21]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
def test_any_records_come_back_with_the_same_values_at_every_level(
    tmp_path: Path, records: list[dict[str, Any]], size: int
) -> None:
    path = tmp_path / "log.jsonl"
    path.unlink(missing_ok=True)
    path.touch()
    for item in records:
        append_record(path, item)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "SLICE", size)
        for level in LEVELS:
            frame = load_log(path, level)
            expected = rows_by_hand(records, level)
            names = list(expected[0]) if expected else []
            assert frame.height == len(expected)
            assert frame.select(names).to_dicts() == expected
            assert_frame_equal(frame_of(records, level), frame)


# --- what is pushed down


def messy_log(path: Path) -> Path:
    """Forty runs with everything that the readers have to cope with."""
    words = ("passed", "failed", "executor_timeout", "passed", "passed")
    lines = []
    for i in range(40):
        cases = [
            case(
                f"c{k}",
                result("baseline", trial(outcome=words[(i + k) % 5], checks=(k % 2 == 0,))),
                result("skill", trial(outcome=words[(i * k) % 5], model=f"m{i % 2}")),
                difficulty=k + 1 if k else None,
            )
            for k in range(3)
        ]
        made = record(
            f"r{i % 36}",
            *cases,
            set=f"set-{i % 4}",
            skill=f"skill-{i % 3}",
            judgeModel="sonnet" if i % 5 == 0 else None,
            n=1 + i % 3,
            ts=f"2026-11-{1 + i % 30:02d}T00:00:00Z",
            gate=("PASS", "NO MOVEMENT", "ERROR")[i % 3],
            resumes=1 if i >= 36 else 0,
            usage=[{"role": "executor", "calls": i, "costUsd": i / 4}],
        )
        if i % 7 == 3:  # the origin's order: cases in the middle, keys after them, no id
            made = {"kind": "eval", "cases": made.pop("cases"), **made}
            del made["runId"]
        lines.append(json.dumps(made) if i % 11 == 5 else json_line(made))
    lines[9] = lines[9][:-100]
    lines[20] = lines[20].replace('"n":', '"n":"x","was":')
    lines.insert(13, "nonsense")
    lines.insert(25, '{"kind":"mdl","set":7,"cases":"x"}')
    path.write_text("\ufeff" + "\n".join(lines) + "\n", encoding="utf-8")
    return path


COMMON: list[pl.Expr] = [
    pl.col("skill") == "skill-1",
    pl.col("run_id") == "r10",
    pl.col("run_id").is_in(["r3", "r38", "r2"]),
    (pl.col("set") == "set-2") & (pl.col("skill") != "skill-0") & pl.col("ts").is_not_null(),
    (pl.col("set") == "set-2") | (pl.col("n") > 2),
    pl.col("n").is_null(),
    ~(pl.col("n") > 1),
    pl.col("ts") >= datetime(2026, 11, 20, tzinfo=UTC),
    pl.col("ts").is_between(datetime(2026, 11, 3, tzinfo=UTC), datetime(2026, 11, 9, tzinfo=UTC)),
    pl.col("n") == pl.col("n").max(),
    pl.col("skill").str.ends_with("2") & (pl.col("set").str.len_chars() == 5),
    pl.lit(value=True),
    pl.lit(value=False),
]
OWN: dict[str, list[pl.Expr]] = {
    "run": [
        pl.col("judge_model").is_null() & (pl.col("set") == "set-1"),
        (pl.col("delta") > 0) & (pl.col("skill") == "skill-1"),
        pl.col("gate") == "NOT MEASURED",
        pl.col("cost_usd") > pl.col("graded") * 2,
        pl.col("resumes") == 0,
    ],
    "case": [
        (pl.col("verdict") & (pl.col("difficulty") > 1)) & (pl.col("set") == "set-1"),
        pl.col("verdict").is_null(),
    ],
    "trial": [
        (pl.col("outcome") == "passed") & (pl.col("skill") == "skill-2"),
        (pl.col("model") == "m1") & (pl.col("run_model") == "haiku"),
        pl.col("latency_s") * pl.col("n") > 2,
    ],
    "check": [pl.col("kind") == "includes", pl.col("passed").not_() & (pl.col("set") != "set-3")],
}
SUBSETS: dict[str, list[list[str]]] = {
    "run": [
        ["run_id"],
        ["delta", "run_id"],
        ["cost_usd"],
        ["gate", "evidence"],
        ["p_set", "git_dirty", "gate_low"],
    ],
    "case": [["run_id"], ["verdict", "condition"], ["n"], ["trials", "case_id", "skill_hash"]],
    "trial": [["run_id"], ["outcome"], ["skill"], ["cache_write_tokens", "model"], ["reused", "attempt"]],
    "check": [["run_id"], ["kind"], ["check"], ["passed", "kind", "judge_model"], ["run_kind"]],
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("size", [5000, 2**21])
def test_pushing_down_changes_no_row_and_no_value(
    level: str, size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frames, "SLICE", size)
    path = messy_log(tmp_path / "log.jsonl")
    with log_warnings() as texts:
        whole = load_log(path, level)
    (text,) = texts
    assert re.search(r"2 lines could not be read and left out: line 10 \(.*\), line 14 \(", text)
    assert whole["run_id"].n_unique() == 35
    nulled = "1 line kept with values read as null: line 22 (n is not a number)" in text
    assert nulled
    with log_warnings():
        for number, rule in enumerate([*COMMON, *OWN[level]]):
            lazy, expected = scan_log(path, level).filter(rule), whole.filter(rule)
            assert_frame_equal(lazy.collect(), expected)
            names = SUBSETS[level][number % len(SUBSETS[level])]
            assert_frame_equal(lazy.select(names).collect(), expected.select(names))
        for names in SUBSETS[level]:
            assert_frame_equal(scan_log(path, level).select(names).collect(), whole.select(names))
        assert scan_log(path, level).select(pl.len()).collect().item() == whole.height


def test_rows_are_counted_before_or_after_a_filter_as_the_query_says(tmp_path: Path) -> None:
    path = messy_log(tmp_path / "log.jsonl")
    rule = pl.col("skill") == "skill-1"
    with log_warnings():
        whole = load_log(path, "run")
        lazy = scan_log(path, "run")
        for engine in ("streaming", "in-memory"):
            queries: list[Callable[[Any], Any]] = [
                lambda f: f.head(5),
                lambda f: f.head(5).filter(rule),
                lambda f: f.filter(rule).head(5),
                lambda f: f.filter(rule).head(5).filter(pl.col("n") > 1).select("delta"),
                lambda f: f.slice(3, 4).filter(pl.col("delta") > 0),
                lambda f: f.tail(3),
                lambda f: f.head(0),
                lambda f: f.with_row_index().filter(pl.col("index") == 7),
                lambda f: f.filter(pl.col("delta").rank() < 5),
            ]
            for query in queries:
                assert_frame_equal(query(lazy).collect(engine=engine), query(whole))


def test_a_filter_that_cannot_work_is_polars_own_error(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", record())
    with pytest.raises(pl.exceptions.PolarsError):
        scan_log(path, "run").filter(pl.col("n") == "one").collect()
    with pytest.raises(pl.exceptions.ColumnNotFoundError):
        scan_log(path, "run").select("no_such_column").collect()


def test_frames_can_be_joined_and_collected_together_on_one_thread(tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", *(record(f"r{i}") for i in range(20)))
    code = f"""
import polars as pl
from skilleval_nb.frames import scan_log
runs, trials = scan_log({str(path)!r}, "run"), scan_log({str(path)!r}, "trial")
for engine in ("streaming", "in-memory"):
    joined = trials.join(runs.select("run_id", "gate"), on="run_id").join(trials, on="run_id")
    both = pl.concat([trials, trials]).select(pl.len())
    print(*(frame.height for frame in pl.collect_all([joined, both, runs], engine=engine)))
"""
    environment = {"POLARS_MAX_THREADS": "1", "PATH": ""}
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split("\n") == ["80 1 20", "80 1 20", ""]


def test_a_name_with_glob_characters_is_a_name(tmp_path: Path) -> None:
    assert load_log(write(tmp_path / "log[1]*?.jsonl", record()), "run").height == 1


def test_what_a_query_does_not_need_is_not_even_decoded(tmp_path: Path) -> None:
    odd = case("a", result("baseline"), result("skill")) | {"results": [{"trials": "x"}]}
    path = write(tmp_path / "log.jsonl", record("r0"), record("r1", odd, skill="other", usage="x"))
    with pytest.warns(LogWarning, match="line 2"):
        load_log(path, "trial")
    mine = scan_log(path, "trial").filter((pl.col("skill") != "other") & (pl.col("outcome") == "passed"))
    with log_warnings() as texts:
        assert mine.collect()["run_id"].to_list() == ["r0"]
        assert scan_log(path, "run").select("gate", "delta").collect().height == 2
        assert scan_log(path, "case").filter(pl.col("run_id") == "r0").collect().height == 2
    assert texts == []
