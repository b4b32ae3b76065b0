"""The judge's measured error beside the rates that it gave."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, Reply, judge_json, text
from worlds import BODY, case, judged, project

import skilleval_nb as se

ITEMS = 20


def reply(body: dict[str, Any], count: int) -> Reply:
    """A judge that fails 2 of 10 good calibration items, passes 1 of 10 bad ones, and likes magic elsewhere."""
    prompt = str(body["messages"][0]["content"])
    if "output_config" not in body:
        return text("magic!" if body.get("system") == BODY else "plain")
    for kind, mistaken in (("good", 2), ("bad", 1)):
        for number in range(10):
            if f"{kind}-{number}." in prompt:
                return text(judge_json((kind == "good") is (number >= mistaken)))
    return text(judge_json("magic!" in prompt))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(reply) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def calibrate(root: Path) -> None:
    items = [
        {"id": f"{kind}-{number}", "rubric": "r", "task": "t", "answer": f"{kind}-{number}.", "label": kind == "good",
         "reason": "made so"}
        for kind in ("good", "bad") for number in range(10)
    ]  # fmt: skip
    path = root / "sets" / "our.calibration.json"
    path.write_text(json.dumps({"kind": "calibration", "rubrics": {"r": "It is good."}, "items": items}))
    se.calibrate_judge(path, runner="anthropic", runs_dir=root / "runs", progress=False)


def test_rates_stand_raw_and_corrected_once_the_judge_is_calibrated(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(f"c{number}", judged()) for number in range(5)))
    before = se.run_set(path, runner="anthropic", progress=False)
    assert before.record["judgeError"] is None
    assert "corrected" not in str(before)
    calibrate(tmp_path)
    run = se.run_set(path, runner="anthropic", progress=False)
    error = run.record["judgeError"]
    assert [error[name] for name in ("tp", "fn", "tn", "fp", "n")] == [8, 2, 9, 1, ITEMS]
    assert (error["sensitivity"], error["specificity"]) == (0.8, 0.9)
    # Rogan and Gladen: (q + sp - 1) / (se + sp - 1) is (0 - 0.1) / 0.7 and (1 - 0.1) / 0.7, cut to 0 and 1
    assert [error["rates"][name]["corrected"] for name in ("baseline", "skill")] == [0.0, 1.0]
    assert [error["rates"][name]["judged"] for name in ("baseline", "skill")] == [5, 5]
    lines = str(run).splitlines()
    assert any(
        line.startswith("judge sonnet: passes 8/10 (80%") and "fails 9/10 (90%" in line for line in lines
    )
    (told,) = (line for line in lines if line.startswith("judged checks: "))
    assert "baseline raw 0/5 (0%), corrected 0%" in told
    assert "skill raw 5/5 (100%), corrected 100%" in told
    assert "judged checks" in run._repr_html_()
    frame = se.load_log(tmp_path / "runs" / "log.jsonl", level="run")
    assert frame["judge_sensitivity"].to_list() == [None, 0.8]
    assert frame["judged_skill_corrected"].to_list() == [None, 1.0]
    assert frame["judge_labelled"].to_list() == [None, ITEMS]


def test_an_error_of_another_judge_or_prompt_is_not_taken(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", judged()))
    calibrate(tmp_path)
    other = se.run_set(path, runner="anthropic", judge_model="opus", progress=False)
    assert other.record["judgeError"] is None


def test_a_rate_is_corrected_by_the_formula(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", judged()), case("b", judged("bad-3. and nothing else")))
    calibrate(tmp_path)
    run = se.run_set(path, runner="anthropic", progress=False)
    rates = run.record["judgeError"]["rates"]
    assert (rates["skill"]["passed"], rates["skill"]["judged"]) == (1, 2)
    assert rates["skill"]["corrected"] == pytest.approx((0.5 + 0.9 - 1) / (0.8 + 0.9 - 1))
    assert rates["baseline"]["corrected"] == 0.0
    assert "Δ raw +50%, corrected +71%" in str(run)  # 0.5 / 0.7


def test_a_judge_that_passes_everything_measures_nothing(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: text(judge_json(True)) if "output_config" in body else text("plain")
    path = project(tmp_path, case("a", judged()))
    calibrate(tmp_path)
    run = se.run_set(path, runner="anthropic", progress=False)
    assert run.record["judgeError"]["rates"]["skill"] == {
        "passed": 1, "judged": 1, "rate": 1.0, "corrected": None, "low": None, "high": None, "j": 0.0,
    }  # fmt: skip
    assert "skill raw 1/1 (100%), corrected: this judge cannot measure it (J 0.00)" in str(run)


def test_people_label_a_run_and_the_judge_is_measured_by_that(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", judged()), case("b", judged()))
    run = se.run_set(path, runner="anthropic", progress=False)
    for name, condition, verdict in (("a", "baseline", False), ("a", "skill", True), ("b", "skill", False)):
        run.label(name, condition, 1, verdict, note="read it")
    assert run.labels.height == 3
    with pytest.raises(se.InputError):
        run.label("nobody", "skill", 1, True)
    found = se.record_labels(run, runs_dir=tmp_path / "runs")
    assert [getattr(found.agreement, name) for name in ("tp", "fn", "tn", "fp")] == [1, 0, 1, 1]
    again = se.run_set(path, runner="anthropic", progress=False)
    assert again.record["judgeError"]["n"] == 3
