"""Human labels beside a run: written at once, the newest counts, and what they say of the judge."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from loopback import Loopback, Reply, judge_json, status, text
from worlds import BODY, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, LogWarning, RunNotFound
from skilleval_nb.judge import prompt_hash
from skilleval_nb.judge_log import known_error, load_calibrations
from skilleval_nb.label_calibration import agreement_with_labels, record_labels
from skilleval_nb.labels import add_label, labels_frame, read_labels

Body = dict[str, Any]
REFUSED = status(500, "api_error", headers={"x-should-retry": "false"})


class World:
    """A model that says magic with the skill, and a judge that passes what holds `magic!`."""

    undecided = ""
    """Tasks in whose prompt this stands get no verdict."""

    def reply(self, body: Body, count: int) -> Reply:
        prompt = body["messages"][0]["content"]
        if "output_config" in body:
            if self.undecided and self.undecided in prompt:
                return text("hm")
            return text(judge_json("magic!" in prompt, "r", "magic!"))
        if "Task broken." in prompt:
            return REFUSED
        return text("magic!" if body.get("system") == BODY else "plain")


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    world = World()
    with Loopback(world.reply) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield world


def made(root: Path, *cases: Body, **settings: Any) -> se.Run:
    path = project(root, *(cases or (case("one", judged()),)))
    return se.run_set(path, **{"runner": "anthropic", "progress": False, **settings})


def lines(run: se.Run) -> list[Body]:
    assert run.folder is not None
    return [json.loads(line) for line in (run.folder / "labels.jsonl").read_text().splitlines()]


# --- writing and reading -----------------------------------------------------------------------------------


def test_a_label_is_one_line_beside_the_run(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, case("one", check(), judged()), n=3)
    add_label(run, "one", "skill", 3, True, check=2, note="plain enough", by="ada")
    assert run.folder is not None
    add_label(run.folder, "one", "baseline", 1, False)
    first, second = lines(run)
    ts = first.pop("ts")
    assert ts.endswith("Z")
    assert first == {
        "caseId": "one", "condition": "skill", "trial": 3, "check": 2, "passed": True, "note": "plain enough",
        "by": "ada",
    }  # fmt: skip
    assert (second["check"], second["passed"], second["note"]) == (None, False, "")
    assert "by" not in second
    one, two = read_labels(run)
    assert (one.case_id, one.condition, one.trial, one.check, one.passed, one.note, one.by, one.ts) == (
        "one", "skill", 3, 2, True, "plain enough", "ada", ts,
    )  # fmt: skip
    assert (two.check, two.passed, two.by) == (None, False, None)
    frame = labels_frame(str(run.folder))
    assert frame.columns == ["case_id", "condition", "trial", "check", "passed", "note", "ts", "by"]
    assert frame["check"].to_list() == [2, None]
    assert frame.schema["ts"] == pl.Datetime("ms", "UTC")


def test_the_newest_line_of_a_trial_and_check_counts(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, case("one", check(), judged()))
    add_label(run, "one", "skill", 1, True, check=2)
    add_label(run, "one", "skill", 1, True)
    add_label(run, "one", "skill", 1, False, check=2, note="on second thoughts")
    assert [(one.check, one.passed) for one in read_labels(run)] == [(None, True), (2, False)]
    add_label(run, "one", "skill", 1, None, check=2)
    assert [(one.check, one.passed) for one in read_labels(run)] == [(None, True)]
    add_label(run, "one", "skill", 1, True, check=2)
    assert len(read_labels(run)) == 2
    assert len(lines(run)) == 5  # nothing is rewritten


def test_a_run_that_nobody_labelled_has_none(tmp_path: Path, world: World) -> None:
    run = made(tmp_path)
    assert read_labels(run) == []
    assert labels_frame(run).is_empty()
    assert labels_frame(run).schema["passed"] == pl.Boolean


def test_what_cannot_be_labelled_is_refused(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, case("one", judged()), case("broken"))
    for key in (("two", "skill", 1), ("one", "previous", 1), ("one", "skill", 2)):
        with pytest.raises(RunNotFound, match="there is no trial"):
            add_label(run, *key, True)
    with pytest.raises(InputError, match="has no answer"):
        add_label(run, "broken", "skill", 1, True)
    with pytest.raises(InputError, match="checks 1 to 1"):
        add_label(run, "one", "skill", 1, True, check=2)
    with pytest.raises(InputError) as caught:
        add_label(run, "one", "skill", 1, "yes", note=7, by=" ")  # type: ignore[arg-type]
    assert [problem.where for problem in caught.value.problems] == ["passed", "note", "by"]
    for value in (0, True, "1"):
        with pytest.raises(InputError, match="the case 'one' has checks"):
            add_label(run, "one", "skill", 1, True, check=value)  # type: ignore[arg-type]
    assert run.folder is not None
    assert not (run.folder / "labels.jsonl").exists()
    with pytest.raises(RunNotFound, match="nothing to label"):
        add_label(tmp_path, "one", "skill", 1, True)
    with pytest.raises(RunNotFound, match="nothing to label"):
        add_label(se.Run(run.record), "one", "skill", 1, True)


def test_torn_and_foreign_lines_are_left_out_and_told(tmp_path: Path, world: World) -> None:
    run = made(tmp_path)
    add_label(run, "one", "skill", 1, True)
    assert run.folder is not None
    path = run.folder / "labels.jsonl"
    odd = [
        '{"caseId":"one"}',
        '{"caseId":"one","condition":"skill","trial":true,"check":null,"passed":true}',
        '{"caseId":"one","condition":"skill","trial":1,"check":null,"passed":"no"}',
        '{"caseId":"one","condition":"skill","trial":1,"check":nu',
    ]
    path.write_text(path.read_text() + "\n".join(odd))
    add_label(run, "one", "baseline", 1, False, note="after\u2028the crash")
    with pytest.warns(LogWarning, match="4 lines could not be read and left out: line 2"):
        found = read_labels(run)
    assert [(one.condition, one.passed) for one in found] == [("skill", True), ("baseline", False)]
    assert found[1].note == "after\u2028the crash"


def test_labels_given_at_the_same_time_are_all_kept(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, n=3)
    keys = [(condition, trial) for condition in ("baseline", "skill") for trial in (1, 2, 3)]
    threads = [threading.Thread(target=add_label, args=(run, "one", *key, True)) for key in keys]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted((one.condition, one.trial) for one in read_labels(run)) == sorted(keys)


# --- what labels say of the judge --------------------------------------------------------------------------


def test_stored_grades_are_held_against_the_labels(tmp_path: Path, world: World) -> None:
    """The judge passes `magic!` (skill) and fails `plain` (baseline).

    Labels: a.skill pass (tp), a.baseline pass (fn), b.skill fail (fp), b.baseline fail (tn). The label on the
    pattern check and that on the whole of a case with two checks say nothing of the judge.
    """
    two = case("a", check(), judged())
    run = made(tmp_path, two, case("b", judged()))
    add_label(run, "a", "skill", 1, True, check=2)
    add_label(run, "a", "baseline", 1, True, check=2)
    add_label(run, "a", "skill", 1, False, check=1)
    add_label(run, "a", "baseline", 1, False)
    add_label(run, "b", "skill", 1, False)
    add_label(run, "b", "baseline", 1, False, check=1)
    result = agreement_with_labels(run)
    found = result.agreement
    assert (found.tp, found.fn, found.tn, found.fp, found.items) == (1, 1, 1, 1, 4)
    assert sorted(result.items["item"]) == [
        f"{run.id}/a.baseline.1#2", f"{run.id}/a.skill.1#2", f"{run.id}/b.baseline.1#1", f"{run.id}/b.skill.1#1",
    ]  # fmt: skip
    assert result.record["judgeHash"] == prompt_hash()
    assert (result.record["source"], result.record["resolvedJudgeModel"]) == ("labels", "claude-sonnet-4-6")
    text = str(result)
    assert text.startswith("judge calibration · labels · anthropic sonnet (claude-sonnet-4-6)")
    assert "accuracy 2/4 (50%" in text
    assert "drift: not compared (labels of runs are not judged again)" in text
    assert "no call was made" in text
    assert len((tmp_path / "runs" / "log.jsonl").read_text().splitlines()) == 1  # the run's own


def test_a_label_on_the_check_goes_before_one_on_the_whole_trial(tmp_path: Path, world: World) -> None:
    run = made(tmp_path)
    add_label(run, "one", "skill", 1, True, check=1)
    add_label(run, "one", "skill", 1, False)
    assert agreement_with_labels(run).agreement.tp == 1


def test_an_undecided_grade_is_an_abstention(tmp_path: Path, world: World) -> None:
    world.undecided = "Task two."
    run = made(tmp_path, case("one", judged()), case("two", judged()))
    for name in ("one", "two"):
        add_label(run, name, "skill", 1, True)
    found = agreement_with_labels(run).agreement
    assert (found.tp, found.judged, found.abstained, found.items) == (1, 1, 1, 2)
    assert dict(found.undecided) == {"grader_unparseable": 1}


def test_labels_of_several_runs_count_together(tmp_path: Path, world: World) -> None:
    one, two = made(tmp_path), made(tmp_path)
    add_label(one, "one", "skill", 1, True)
    add_label(two, "one", "skill", 1, False)
    assert two.folder is not None
    found = agreement_with_labels([one, two.folder, one]).agreement
    assert (found.tp, found.fp, found.items) == (1, 1, 2)
    assert agreement_with_labels(two.id, runs_dir=tmp_path / "runs").agreement.items == 1


def test_several_judges_are_not_mixed(tmp_path: Path, world: World) -> None:
    one, two = made(tmp_path), made(tmp_path, judge_model="opus")
    for run in (one, two):
        add_label(run, "one", "skill", 1, True)
    with pytest.raises(InputError, match=r"several judges: .*sonnet.*opus"):
        agreement_with_labels([one, two])


def test_without_a_label_on_a_judge_check_there_is_nothing_to_say(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, case("one", check()))
    with pytest.raises(InputError, match="no label on a judge check in 1 run"):
        agreement_with_labels(run)
    add_label(run, "one", "skill", 1, True)
    with pytest.raises(InputError, match="no label on a judge check"):
        record_labels(run, runs_dir=tmp_path / "runs")
    with pytest.raises(RunNotFound, match="no such run"):
        agreement_with_labels("nothing", runs_dir=tmp_path / "runs")


def test_labels_count_for_a_regrade_by_another_judge(tmp_path: Path, world: World) -> None:
    run = made(tmp_path, case("one", judged("First.")), case("two", judged("Second.")))
    for name in ("one", "two"):
        add_label(run, name, "baseline", 1, True)
    assert agreement_with_labels(run).agreement.fn == 2
    regraded = se.regrade(
        run, judge_model="anthropic:opus", checks={"two": [judged("Changed.")]}, progress=False
    )
    result = agreement_with_labels(regraded)
    assert result.record["resolvedJudgeModel"] == "claude-opus-4-8"
    assert result.items["item"].to_list() == [f"{regraded.id}/one.baseline.1#1"]  # two's rubric is another
    add_label(regraded, "one", "baseline", 1, False)
    assert agreement_with_labels(regraded).agreement.tn == 1


@pytest.mark.parametrize("given", [1, None], ids=["on the check", "on the trial"])
def test_a_label_that_is_taken_back_in_a_regrade_counts_for_its_run_alone(
    tmp_path: Path, world: World, given: int | None
) -> None:
    run = made(tmp_path)
    for condition in ("baseline", "skill"):
        add_label(run, "one", condition, 1, True, check=given)
    regraded = se.regrade(run, progress=False)
    assert agreement_with_labels(regraded).agreement.items == 2
    add_label(regraded, "one", "skill", 1, None, check=given)
    assert agreement_with_labels(regraded).items["item"].to_list() == [f"{regraded.id}/one.baseline.1#1"]
    assert agreement_with_labels(run).agreement.items == 2


# --- in the log --------------------------------------------------------------------------------------------


def test_recorded_labels_are_calibration_data(tmp_path: Path, world: World) -> None:
    runs = tmp_path / "runs"
    first, second = made(tmp_path), made(tmp_path)
    add_label(first, "one", "skill", 1, True)
    add_label(first, "one", "baseline", 1, True)
    add_label(second, "one", "baseline", 1, False)
    record_labels(first, runs_dir=runs)
    record_labels(second, runs_dir=runs)
    before = se.load_log(runs / "log.jsonl", level="run")
    add_label(first, "one", "baseline", 1, None)  # taken back, so it must not count any more
    result = record_labels(first, runs_dir=runs)
    assert se.load_log(runs / "log.jsonl", level="run").equals(before)
    frame = load_calibrations(runs / "log.jsonl")
    assert frame["source"].to_list() == ["labels"] * 3
    assert frame["items"].to_list() == [2, 1, 1]
    assert frame["calibration_hash"].to_list() == [None] * 3
    assert json.loads((runs / "log.jsonl").read_text().splitlines()[-1]) == json.loads(
        json.dumps(result.record)
    )
    error = known_error(
        runs / "log.jsonl",
        judge_model="claude-sonnet-4-6",
        judge_runner="anthropic",
        judge_hash=prompt_hash(),
    )
    assert error is not None
    assert (error.tp, error.fn, error.tn, error.fp) == (1, 0, 1, 0)
    assert error.calibrations == ("labels",)
