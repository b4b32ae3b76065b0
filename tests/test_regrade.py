"""regrade: stored answers graded anew, against a real HTTP server and the real SDK, with no executor call."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, Reply, judge_json, status, text
from worlds import BODY, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, RunNotFound
from skilleval_nb.judge import prompt_hash

Body = dict[str, Any]


class World:
    """A model that says magic with the skill, and a judge whose verdict a test decides."""

    def __init__(self) -> None:
        self.verdict: Callable[[Body], bool | Reply] = lambda body: "magic!" in body["messages"][0]["content"]
        self.judged: list[Body] = []
        self.executed: list[Body] = []

    def reply(self, body: Body, count: int) -> Reply:
        if "output_config" in body:
            self.judged.append(body)
            made = self.verdict(body)
            return made if isinstance(made, Reply) else text(judge_json(made, evidence="magic!"))
        self.executed.append(body)
        return text("magic!" if body.get("system") == BODY else "plain")

    def forget(self) -> None:
        self.judged.clear()
        self.executed.clear()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    world = World()
    with Loopback(world.reply) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield world


def run(path: Path, **settings: Any) -> se.Run:
    return se.run_set(path, **{"runner": "anthropic", "progress": False, **settings})


def log_of(run: se.Run) -> list[dict[str, Any]]:
    assert run.folder is not None
    return [json.loads(line) for line in (run.folder.parent / "log.jsonl").read_text().splitlines()]


def test_nothing_changed_grades_all_anew_and_says_the_same(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", check(), judged()), case("b", judged("Short."))), n=3)
    world.forget()
    after = se.regrade(before, progress=False)
    assert (len(world.executed), len(world.judged)) == (0, 2 * 2 * 3)
    assert (after.gate, after.delta) == (before.gate, before.delta) == ("PASS", 1.0)
    assert after.checks["passed"].to_list() == before.checks["passed"].to_list()
    assert after.changes.height == 3 * 2 * 3
    assert not after.changes["changed"].any()
    assert after.changes["graded_anew"].all()
    assert "0/18 grades changed" in str(after)


def test_only_the_judge_is_paid(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", check(), judged())))
    after = se.regrade(before, progress=False)
    rows = {(row["role"], row["condition"]): row for row in after.record["usage"]}
    assert [rows["executor", name]["asked"] for name in ("baseline", "skill")] == [0, 0]
    assert [rows["judge", name]["asked"] for name in ("baseline", "skill")] == [1, 1]
    assert after.record["tokens"] == {"input": 22, "output": 14}  # two judge calls of 11 and 7
    assert "no executor call" in str(after)


def test_a_changed_rubric_is_judged_again_where_it_is_used_and_nowhere_else(
    tmp_path: Path, world: World
) -> None:
    path = project(tmp_path, case("a", judged("One."), judged("Two.")), case("b", judged("One.")))
    before = run(path)
    world.forget()
    edited = [judged("One."), judged("Two, but stricter.")]
    world.verdict = lambda body: False
    after = se.regrade(before, checks={"a": edited}, progress=False)
    asked = [body["messages"][0]["content"] for body in world.judged]
    assert len(asked) == 2
    assert all("Two, but stricter." in prompt for prompt in asked)
    assert world.executed == []
    rows = {
        (row["case_id"], row["condition"], row["check"]): row for row in after.changes.iter_rows(named=True)
    }
    assert [rows["a", "skill", 2][name] for name in ("before", "after", "changed", "graded_anew", "new")] == [
        True, False, True, True, False,
    ]  # fmt: skip
    assert [rows["a", "skill", 1][name] for name in ("before", "after", "graded_anew")] == [True, True, False]
    assert [rows["b", "skill", 1][name] for name in ("before", "after", "graded_anew")] == [True, True, False]
    assert (before.delta, after.delta) == (1.0, 0.5)
    counts = after.record["regrade"]
    assert [counts[name] for name in ("judged", "kept", "toPass", "toFail", "toUndecided")] == [2, 4, 0, 1, 0]
    assert counts["changed"] == [["a", "skill", 1, 2, True, False]]
    assert (
        "judge grades made anew 2, kept 4 · 1/6 grades changed: 0 to pass, 1 to fail, 0 to undecided"
        in str(after)
    )
    assert "before: baseline 0/2, with-skill 2/2, Δ +100%, PASS (judge sonnet)" in str(after)
    assert after.record["usage"][-1]["asked"] == 1


def test_another_judge_grades_every_judge_check(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged()), case("b", judged("Short."))))
    world.forget()
    world.verdict = lambda body: "magic!" not in body["messages"][0]["content"]
    after = se.regrade(before.id, judge_model="opus", runs_dir=tmp_path / "runs", progress=False)
    assert {body["model"] for body in world.judged} == {"claude-opus-4-8"}
    assert len(world.judged) == 4
    assert (after.gate, after.delta, after.exit_code) == ("REGRESSION", -1.0, 1)
    assert (after.record["judgeModel"], after.record["model"]) == ("opus", before.record["model"])
    assert set(after.changes["before_judge"]) | set(after.changes["after_judge"]) == {
        "claude-sonnet-4-6",
        "claude-opus-4-8",
    }


def test_deterministic_checks_are_graded_again_for_nothing(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", check(pattern="nowhere"), judged())))
    assert before.gate == "NO MOVEMENT"
    world.forget()
    after = se.regrade(before, checks={"a": [check(pattern="magic"), judged()]}, progress=False)
    assert (world.executed, world.judged) == ([], [])
    assert (after.gate, after.delta) == ("PASS", 1.0)


def test_a_changed_set_file_is_taken_for_the_checks(tmp_path: Path, world: World) -> None:
    path = project(tmp_path, case("a", check(pattern="nowhere")), case("b"))
    before = run(path)
    changed = project(tmp_path, case("a", check(pattern="plain")), case("c"))
    after = se.regrade(before, checks=changed, progress=False)
    assert [item["id"] for item in after.record["cases"]] == ["a"]
    assert after.record["warnings"] == [
        "left out, as the changed set has them not: b",
        "left out, as the run has not answered them: c",
    ]
    assert after.gate == "REGRESSION"
    assert after.record["setHash"] != before.record["setHash"]
    assert len(world.executed) == 4


def test_a_prompt_that_was_not_answered_is_refused(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a"), case("b")))
    changed = project(tmp_path, case("a", prompt="Something else."), case("b", prompt="And this."))
    with pytest.raises(InputError) as caught:
        se.regrade(before, checks=changed, progress=False)
    assert [problem.where for problem in caught.value.problems] == ["magic → a", "magic → b"]


@pytest.mark.parametrize(
    ("checks", "words"),
    [
        ({"z": [check()]}, "no such case: 'z'"),
        ({"a": [{"kind": "includes", "pattern": "("}]}, "a"),
        ({"a": [{"kind": "sniffs"}]}, "sniffs"),
        ({"a": []}, "check"),
        ({"a": None}, "checks → a: must be a list, is null"),
        ({"a": check()}, "checks → a: must be a list, is object"),
        ({"a": [None]}, "must be an object"),
        ({"a": [{"kind": "contains", "valeu": "x"}]}, "valeu: unknown key"),
        ([check()], "checks: is "),
        (5, "checks: is 5"),
    ],
)
def test_checks_that_cannot_be_are_refused_before_any_call(
    tmp_path: Path, world: World, checks: Any, words: str
) -> None:
    before = run(project(tmp_path, case("a", judged())))
    world.forget()
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        se.regrade(before, checks=checks, progress=False)
    assert world.judged == []
    assert len(log_of(before)) == 1


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"kind": "contains", "value": "magic", "nott": True}, "nott"),
        ({"kind": "judge", "rubric": "Short.", "Not": True}, "Not"),
        ({"kind": "includes", "pattern": "magic", "flag": "m"}, "flag"),
    ],
)
def test_a_key_that_no_check_has_is_said(
    tmp_path: Path, world: World, wrong: dict[str, Any], key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = run(project(tmp_path, case("a", check())))
    after = se.regrade(before, checks={"a": [check(), wrong]})
    words = f"checks → a[1].{key}: unknown key, kept and not used"
    assert f"warning: {words}" in capsys.readouterr().err
    assert after.record["warnings"] == [words]
    assert f"warning: {words}" in str(after)


def test_a_grade_that_was_never_decided_is_asked_for_again(tmp_path: Path, world: World) -> None:
    world.verdict = lambda body: text("I cannot say.")
    before = run(project(tmp_path, case("a", check(), judged())))
    assert before.record["outcomes"] == {"grader_unparseable": 2}
    world.forget()
    world.verdict = lambda body: "magic!" in body["messages"][0]["content"]
    after = se.regrade(before, checks={"a": [check(flags=""), judged()]}, progress=False)
    assert (len(world.executed), len(world.judged)) == (0, 2)
    assert (after.gate, after.record["errors"]) == ("PASS", 0)


@pytest.mark.parametrize(
    "reply",
    [
        "no verdict",
        "PASS, not FAIL",
        '{"reasoning": "", "evidence": "", "pass": "true"}',
        '{"reasoning": "", "evidence": "", "pass": true, "score": 5}',
        '{"reasoning": "", "evidence": "", "pass": false, "pass": true}',
        "",
    ],
)
def test_a_judge_that_decides_nothing_makes_no_pass_and_asks_no_executor(
    tmp_path: Path, world: World, reply: str
) -> None:
    before = run(project(tmp_path, case("a", judged())))
    world.forget()
    world.verdict = lambda body: text(reply)
    after = se.regrade(before, progress=False)
    assert after.record["outcomes"] == {"grader_unparseable": 2}
    assert (after.gate, after.exit_code) == ("NOT MEASURED", 3)
    assert (len(world.executed), len(world.judged)) == (0, 4)  # each asked once more


def test_an_overloaded_judge_is_an_error_of_the_grader(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged())))
    world.forget()
    busy = status(529, "overloaded_error", headers={"retry-after-ms": "1"})
    world.verdict = lambda body: busy
    after = se.regrade(before, progress=False)
    assert after.record["outcomes"] == {"grader_failed": 2}
    assert world.executed == []
    assert after.gate == "NOT MEASURED"


def test_trials_without_an_answer_stay_what_they_are(tmp_path: Path, world: World) -> None:
    path = project(tmp_path, case("a", judged()), case("b", judged()))
    plain = world.reply

    def reply(body: Body, count: int) -> Reply:
        if "output_config" not in body and "Task b." in str(body["messages"]) and body.get("system") == BODY:
            return status(400, "invalid_request_error")
        return plain(body, count)

    with Loopback(reply) as loopback, pytest.MonkeyPatch.context() as patch:
        patch.setenv("ANTHROPIC_BASE_URL", loopback.url)
        before = run(path)
    assert before.record["outcomes"] == {"executor_failed": 1, "failed": 2, "passed": 1}
    world.forget()
    after = se.regrade(before, progress=False)
    assert after.record["outcomes"] == before.record["outcomes"]
    assert len(world.judged) == 3
    assert after.record["errors"] == 1
    assert (after.record["trialsMeasured"], after.record["measuredAnew"]) == (3, 0)
    assert [run(path).record["evidence"]["look"] for _ in range(2)] == [2, 3], "a regrade is no look"


def test_the_log_has_it_as_a_kind_of_its_own(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged())))
    after = se.regrade(before, progress=False)
    first, second = log_of(before)
    assert (first["kind"], second["kind"]) == ("eval", "regrade")
    assert second["regradeOf"] == before.id
    assert second["judgeHash"] == prompt_hash()
    log = tmp_path / "runs" / "log.jsonl"
    assert se.load_log(log, level="run")["run_id"].to_list() == [before.id]
    regrades = se.load_log(log, level="run", kind="regrade")
    assert regrades["run_id"].to_list() == [after.id]
    assert regrades["regrade_of"].to_list() == [before.id]


def test_it_opens_again_with_its_answers(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", check(), judged())))
    after = se.regrade(before, progress=False)
    assert after.folder is not None
    again = se.load_run(after.folder)
    assert str(again) == str(after)
    assert again.transcript("a", "skill") == before.transcript("a", "skill") == "magic!"
    assert again.changes.equals(after.changes)
    assert before.changes.height == 0
    twice = se.regrade(again, progress=False)
    assert twice.record["regradeOf"] == after.id
    assert twice.gate == "PASS"


def test_a_run_without_its_folder_cannot_be_graded_anew(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged())))
    assert before.folder is not None
    shutil.rmtree(before.folder)
    with pytest.raises(RunNotFound, match="answers are not here"):
        se.regrade(se.load_run(before.id, tmp_path / "runs"))
    with pytest.raises(InputError, match="missing"):
        se.regrade()


def test_an_interrupted_regrade_is_resumed_and_repeats_no_finished_grade(
    tmp_path: Path, world: World
) -> None:
    path = project(tmp_path, *(case(name, judged()) for name in "abcd"))
    before = run(path)
    world.forget()

    class Tiring(se.Runner):
        name = "anthropic"
        left = 3

        async def answer(self, request: se.Request) -> se.Answer:
            if not self.left:
                raise se.SkillevalError("the disk is full")  # an error for people ends a run
            self.left -= 1
            return se.Answer(judge_json(True))

    with pytest.raises(se.SkillevalError, match="disk"):
        se.regrade(before, runner=Tiring(), concurrency=1, progress=False)
    (folder,) = (tmp_path / "runs").glob("*-regrade")
    assert len((folder / "trials.jsonl").read_text().splitlines()) == 3
    after = se.regrade(resume=folder, progress=False)
    assert len(world.judged) == 8 - 3
    assert world.executed == []
    assert after.record["trialsMeasured"] == 8
    assert [record["kind"] for record in log_of(before)] == ["eval", "regrade"]
    with pytest.raises(RunNotFound, match="asks no model under test"):
        run(path, resume=folder)


class Flagging(se.Runner):
    """A judge of any name that ends its regrade after so many verdicts."""

    def __init__(self, name: str, left: int) -> None:
        self.name = name
        self.left = left
        self.asked: list[str] = []

    async def answer(self, request: se.Request) -> se.Answer:
        if not self.left:
            raise se.SkillevalError("the disk is full")
        self.left -= 1
        self.asked.append(request.model)
        return se.Answer(judge_json(True))


@pytest.mark.parametrize(
    ("other", "where"),
    [
        ({"judge_model": "haiku"}, ["judge_model"]),
        ({"judge_n": 3}, ["judge_n"]),
        ({"judge_model": "haiku", "judge_n": 3}, ["judge_model", "judge_n"]),
        ({"runner": Flagging("another", 99)}, ["runner"]),
    ],
)
def test_a_regrade_is_finished_by_the_judge_that_began_it(
    tmp_path: Path, world: World, other: dict[str, Any], where: list[str]
) -> None:
    before = run(project(tmp_path, *(case(name, judged()) for name in "abcd")))
    with pytest.raises(se.SkillevalError, match="disk"):
        se.regrade(before, judge_model="opus", runner=Flagging("mine", 3), concurrency=1, progress=False)
    (folder,) = (tmp_path / "runs").glob("*-regrade")
    world.forget()
    with pytest.raises(InputError) as caught:
        se.regrade(resume=folder, progress=False, **{"runner": Flagging("mine", 99), **other})
    assert [problem.where for problem in caught.value.problems] == where
    with pytest.raises(InputError, match="no runner 'mine'"):
        se.regrade(resume=folder, progress=False)
    assert len((folder / "trials.jsonl").read_text().splitlines()) == 3
    again = Flagging("mine", 99)
    after = se.regrade(resume=folder, runner=again, progress=False)
    assert again.asked == ["opus"] * 5
    assert world.judged == []
    assert after.record["trialsMeasured"] == 8


def test_run_set_resumes_the_last_run_and_not_its_regrade(tmp_path: Path, world: World) -> None:
    path = project(tmp_path, case("a", judged()))
    before = run(path)
    se.regrade(before, progress=False)
    assert run(path, resume="last").id == before.id


def test_a_limit_on_the_drop_holds_for_the_regrade_too(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged()), case("b")), max_drop=0.5)
    after = se.regrade(before, progress=False)
    assert (before.gate, before.exit_code) == (after.gate, after.exit_code) == ("PASS", 1)
    assert "max drop 50%: not held (the interval of Δ begins at −100%)" in str(after)


def test_inside_a_running_loop(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged())))

    async def cell() -> tuple[se.Run, se.Run]:
        return se.regrade(before, progress=False), await se.aregrade(before, progress=False)

    assert [found.gate for found in asyncio.run(cell())] == ["PASS", "PASS"]


def test_votes_and_budget(tmp_path: Path, world: World) -> None:
    before = run(project(tmp_path, case("a", judged()), case("b", judged())))
    world.forget()
    after = se.regrade(before, judge_n=3, progress=False)
    assert len(world.judged) == 2 * 2 * 3
    assert after.record["judgeN"] == 3
    world.forget()
    cut = se.regrade(before, max_tokens_total=5_000, concurrency=1, progress=False)
    assert len(world.judged) == 2  # 3,218 tokens a call: the second reaches the limit
    assert (cut.record["partial"], cut.record["trialsMeasured"]) == ("budget", 2)
    for wrong in ({"judge_n": 2}, {"judge_n": 0}, {"concurrency": 0}, {"timeout_s": -1.0}):
        with pytest.raises(InputError):
            se.regrade(before, **wrong)
