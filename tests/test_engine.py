"""run_set from file to log record, against a real HTTP server and the real SDK."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import KEY, Loopback, Reply, hangup, judge_json, message, sleep, status, text
from worlds import BODY, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, RunNotFound
from skilleval_nb.values import Trial

ORIGIN_KEYS = {
    "kind", "ts", "set", "skill", "model", "judgeModel", "n", "cases", "graded", "errors", "baselinePass",
    "skillPass", "delta", "gate", "tokens", "dir",
}  # fmt: skip


def is_judge(body: dict[str, Any]) -> bool:
    return "output_config" in body or "grade" in str(body.get("system", ""))


def has_skill(body: dict[str, Any]) -> bool:
    return body.get("system") == BODY


def magic(body: dict[str, Any], count: int = 0) -> Reply:
    """A model that does as it is told: magic with the skill, none without, and a judge that likes magic."""
    if is_judge(body):
        return text(judge_json("magic!" in body["messages"][0]["content"]))
    return text("magic!" if has_skill(body) else "plain")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(magic) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def run(path: Path, **settings: Any) -> se.Run:
    return se.run_set(path, **{"runner": "anthropic", "progress": False, **settings})


def written(run: se.Run) -> dict[str, Any]:
    """The run's line in the log, as it stands in the file."""
    assert run.folder is not None
    lines = (run.folder.parent / "log.jsonl").read_text().splitlines()
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def trial_lines(run: se.Run) -> list[dict[str, Any]]:
    assert run.folder is not None
    return [json.loads(line) for line in (run.folder / "trials.jsonl").read_text().splitlines()]


def test_calls_conditions_and_result(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b", check(), judged(), judged("More.")))
    result = run(path, n=3)
    bodies = [request["body"] for request in server.requests]
    judge = [body for body in bodies if is_judge(body)]
    executor = [body for body in bodies if not is_judge(body)]
    assert (len(executor), len(judge)) == (2 * 2 * 3, (1 + 2) * 2 * 3)
    assert sum("system" not in body for body in executor) == 6
    assert sum(body.get("system") == BODY for body in executor) == 6
    assert {body["model"] for body in executor} == {"claude-haiku-4-5-20251001"}
    assert {body["model"] for body in judge} == {"claude-sonnet-4-6"}
    assert (result.gate, result.delta, result.exit_code) == ("PASS", 1.0, 0)
    assert str(result).splitlines()[1:3] == [
        "pass rate   baseline 0/2 (0%)   with-skill 2/2 (100%)   Δ +100%",
        "ship gate: PASS — skill moves the number",
    ]


def test_the_conditions_alternate(tmp_path: Path, server: Loopback) -> None:
    run(project(tmp_path, case("a"), case("b")), n=2, concurrency=1)
    order = [has_skill(request["body"]) for request in server.requests]
    assert order == [False, True] * 4


def test_the_record_is_a_superset_of_the_origins(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path, case("a", difficulty=2), case("b"), model="opus"))
    record = written(result)
    assert record == json.loads(json.dumps(result.record))
    assert set(record) >= ORIGIN_KEYS
    assert {key: record[key] for key in ("kind", "set", "skill", "model", "judgeModel", "n")} == {
        "kind": "eval", "set": "magic", "skill": "skills/magic/SKILL.md", "model": "opus", "judgeModel": None, "n": 1,
    }  # fmt: skip
    assert [{key: item[key] for key in ("id", "baseline", "skill")} for item in record["cases"]] == [
        {"id": "a", "baseline": False, "skill": True},
        {"id": "b", "baseline": False, "skill": True},
    ]
    assert (record["graded"], record["errors"], record["baselinePass"], record["skillPass"]) == (2, 0, 0, 2)
    assert (record["delta"], record["gate"]) == (100, "PASS")
    assert record["tokens"] == {"input": 4 * 11, "output": 4 * 7}
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["ts"])
    assert record["dir"] == f"runs/{result.id}"
    assert re.fullmatch(r"\d{8}T\d{6}Z-magic", result.id)
    assert (record["delivery"], record["runner"]) == ("inject", "anthropic")
    assert (record["requestedModel"], record["resolvedModel"]) == ("opus", "claude-opus-4-8")
    assert [row["tokens"] for row in record["usage"]] == [[22, 14, 6000, 400]] * 2


def test_environment_and_arguments_and_the_set(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, case("a", judged()), model="opus")
    monkeypatch.setenv("EVAL_MODEL", "model-e")
    monkeypatch.setenv("EVAL_N", "3")
    monkeypatch.setenv("EVAL_JUDGE_MODEL", "judge-e")
    record = run(path).record
    assert (record["model"], record["n"], record["judgeModel"]) == ("model-e", 3, "judge-e")
    record = run(path, model="model-a", n=1, judge_model="judge-a").record
    assert (record["model"], record["n"], record["judgeModel"]) == ("model-a", 1, "judge-a")
    sent = {request["body"]["model"] for request in server.requests}
    assert sent == {"model-e", "judge-e", "model-a", "judge-a"}


@pytest.mark.parametrize("value", ["0", "-1", "x", "1.5"])
def test_a_bad_eval_n_is_refused_by_name(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("EVAL_N", value)
    with pytest.raises(InputError, match="EVAL_N"):
        run(project(tmp_path))
    assert server.requests == []


FAULTS: dict[str, tuple[Reply, str, str]] = {
    "429 for ever": (status(429, "rate_limit_error", headers={"retry-after": "0"}), "executor_failed", "429"),
    "529": (status(529, "overloaded_error"), "executor_failed", "529"),
    "500": (status(500, "api_error"), "executor_failed", "500"),
    "401": (status(401, "authentication_error"), "executor_failed", "401"),
    "dropped connection": (hangup(), "executor_failed", "onnection"),
    "empty answer": (text(""), "executor_failed", "empty answer"),
    "blank answer": (text(" \n "), "executor_failed", "empty answer"),
    "exceeded context": (
        text("half", stop_reason="model_context_window_exceeded"),
        "executor_failed",
        "context",
    ),
    "too slow": (sleep(5, text("magic!")), "executor_timeout", "no answer within 1.5 s"),
}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_a_fault_of_the_infrastructure_is_no_result(tmp_path: Path, server: Loopback, fault: str) -> None:
    reply, outcome, words = FAULTS[fault]
    server.reply = lambda body, count: reply if has_skill(body) else magic(body)
    timeout = 1.5 if fault == "too slow" else 30
    result = run(project(tmp_path, case("a")), timeout_s=timeout)
    record = written(result)
    assert (record["gate"], result.exit_code, result.delta) == ("NOT MEASURED", 3, None)
    assert record["cases"][0]["skill"] is None
    assert record["cases"][0]["baseline"] is False
    assert (record["graded"], record["errors"], record["delta"]) == (0, 1, None)
    assert (record["trialsMeasured"], record["trialsErrored"]) == (1, 1)
    assert record["outcomes"] == {"failed": 1, outcome: 1}
    bad = next(line for line in trial_lines(result) if line["condition"] == "skill")
    assert bad["outcome"] == outcome
    assert words in bad["reason"]
    assert f"1 error ({outcome} 1)" in str(result)
    assert "NOT MEASURED" in str(result)


JUDGE_FAULTS: dict[str, tuple[Reply, str]] = {
    "words": (text("I would say it is fine."), "grader_unparseable"),
    "the word PASS": (text("PASS"), "grader_unparseable"),
    "a breach of the schema": (
        text('{"reasoning": "r", "evidence": "", "pass": "yes"}'),
        "grader_unparseable",
    ),
    "two verdicts": (text('{"pass": true} no: {"pass": false}'), "grader_unparseable"),
    "nothing": (text(""), "grader_unparseable"),
    "an error": (status(500, "api_error"), "grader_failed"),
    "too slow": (sleep(5, text(judge_json(True))), "grader_timeout"),
}


@pytest.mark.parametrize("fault", sorted(JUDGE_FAULTS))
def test_an_undecidable_judge_is_no_verdict(tmp_path: Path, server: Loopback, fault: str) -> None:
    reply, outcome = JUDGE_FAULTS[fault]
    server.reply = lambda body, count: reply if is_judge(body) else magic(body)
    result = run(
        project(tmp_path, case("a", check(), judged())), timeout_s=1.5 if fault == "too slow" else 30
    )
    assert written(result)["outcomes"] == {outcome: 2}
    assert result.exit_code == 3
    for line in trial_lines(result):
        assert [item["kind"] for item in line["checks"]] == ["includes", "judge"]
        assert line["checks"][0]["passed"] is (line["condition"] == "skill")
        assert line["checks"][1]["passed"] is None
        assert "judge" in line["reason"]


def test_a_rate_limit_that_passes_costs_a_pause_and_no_trial(tmp_path: Path, server: Loopback) -> None:
    limited = status(429, "rate_limit_error", headers={"retry-after": "1"})
    server.reply = lambda body, count: limited if count == 1 else magic(body)
    result = run(project(tmp_path, case("a"), case("b")))
    assert written(result)["outcomes"] == {"failed": 2, "passed": 2}
    assert sum(row["calls"] for row in result.record["usage"]) == 5


def test_a_missing_trial_that_cannot_change_the_gate_leaves_it(tmp_path: Path, server: Loopback) -> None:
    failing = "Task c."
    server.reply = lambda body, count: (
        status(500, "api_error") if has_skill(body) and failing in str(body["messages"]) else magic(body)
    )
    result = run(project(tmp_path, case("a"), case("b"), case("c")))
    # b 0/2 → 2/2 where measured; with c against the skill Δ is 2/3, with it 3/3: PASS either way
    assert (result.gate, result.exit_code, result.delta) == ("PASS", 0, 1.0)
    assert result.record["gateRange"] == [pytest.approx(2 / 3), 1.0]
    assert "1 trial unmeasured: the gate stands" in str(result)


def test_truncation_and_refusal_are_graded_as_they_stand_and_flagged(
    tmp_path: Path, server: Loopback
) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        if not has_skill(body):
            return text("", stop_reason="refusal")
        return text("magic, cut he", stop_reason="max_tokens")

    server.reply = reply
    result = run(project(tmp_path, case("a")))
    assert (result.gate, result.delta) == ("PASS", 1.0)
    assert written(result)["stopReasons"] == {"max_tokens": 1, "refusal": 1}
    assert "1 answers cut at max_tokens" in str(result)
    assert "1 answers refused by the model" in str(result)


def test_a_pattern_that_runs_over_is_reported_on_its_trial(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: text("a" * 50_000 + "!" if has_skill(body) else "plain")
    result = run(project(tmp_path, case("a", check(pattern="(a+)+$"))))
    assert written(result)["outcomes"] == {"failed": 1, "grader_timeout": 1}
    assert result.exit_code == 3


def test_answers_are_kept_as_they_came(tmp_path: Path, server: Loopback) -> None:
    words = "magic <b>&amp;</b> \U0001f600\r\n\u202eevil \x1b[31mred  \n\n"
    server.reply = lambda body, count: text(words if has_skill(body) else "plain\n")
    result = run(project(tmp_path, case("a b")))
    assert result.folder is not None
    assert (result.folder / "a_b.skill.txt").read_bytes().decode() == words
    assert (result.folder / "a_b.baseline.txt").read_bytes() == b"plain\n"
    assert result.transcript("a b", "skill") == words


def test_n_answers_stand_in_one_file_with_their_outcomes_between(tmp_path: Path, server: Loopback) -> None:
    answers = iter(["magic 1", "plain 2", ""])
    server.reply = lambda body, count: text(next(answers) if has_skill(body) else "plain")
    result = run(project(tmp_path, case("a")), n=3, concurrency=1)
    assert result.folder is not None
    parts = re.split(r"\n\n(===== next run =====.*)\n\n", (result.folder / "a.skill.txt").read_text())
    assert parts[0::2][:2] == ["magic 1", "plain 2"]
    assert "executor_failed" in parts[4]
    assert "trial 1, passed" in parts[1]
    assert "trial 2, failed" in parts[1]
    assert "trial 3, executor_failed" in parts[3]


def test_the_runs_folder_keeps_git_clean(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path))
    assert result.folder is not None
    assert (tmp_path / "runs" / ".gitignore").read_text().split() == ["*", "!log.jsonl", "!.gitignore"]
    assert result.folder.parent == tmp_path / "runs"
    (tmp_path / "runs" / ".gitignore").write_text("mine\n")
    run(project(tmp_path))
    assert (tmp_path / "runs" / ".gitignore").read_text() == "mine\n"


def test_runs_of_the_same_second_have_their_own_folders(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    ids = [run(path).id for _ in range(3)]
    assert len(set(ids)) == 3
    assert len((tmp_path / "runs" / "log.jsonl").read_text().splitlines()) == 3


def test_the_key_is_in_no_file_even_if_a_server_echoes_it(tmp_path: Path, server: Loopback) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        if "Task b." in str(body["messages"]):
            return status(400, "invalid_request_error", f"bad key {KEY}")
        return text(f"magic {KEY}")

    server.reply = reply
    run(project(tmp_path, case("a"), case("b")))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert len(files) > 5
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_bad_input_writes_nothing_and_calls_nothing(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("../x"), case("b", check("no-kind")))
    with pytest.raises(InputError) as caught:
        run(path)
    assert len(caught.value.problems) == 2
    path = project(tmp_path)
    for bad in (
        {"n": 0},
        {"conditions": ("skill", "magic")},
        {"judge_n": 2},
        {"timeout_s": 0},
        {"max_drop": 2},
    ):
        with pytest.raises(InputError, match=next(iter(bad))):
            run(path, **bad)
    with pytest.raises(InputError, match="no such case"):
        run(path, case_ids=["zzz"])
    (tmp_path / "skills/magic/SKILL.md").write_text("---\nname: magic\n---\n")
    with pytest.raises(InputError, match="no body"):
        run(path)
    (tmp_path / "skills/magic/SKILL.md").unlink()
    with pytest.raises(InputError, match="was not found"):
        run(path)
    assert server.requests == []
    assert not (tmp_path / "runs").exists()


def test_a_set_without_cases_is_an_explicit_empty_result(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    path.write_text('{"skill": "skills/magic/SKILL.md", "cases": []}')
    result = run(path)
    assert (result.exit_code, result.gate, result.delta) == (0, "NOT MEASURED", None)
    assert "nothing was run" in result._repr_html_()
    assert server.requests == []
    assert not (tmp_path / "runs").exists()


def test_works_inside_a_running_loop_and_as_a_coroutine(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)

    async def both() -> tuple[se.Run, se.Run]:
        return run(path), await se.arun_set(path, runner="anthropic", progress=False)

    first, second = asyncio.run(both())
    assert (first.gate, second.gate) == ("PASS", "PASS")
    assert first.id != second.id


def test_progress_hands_out_the_counts(tmp_path: Path, server: Loopback) -> None:
    seen: list[tuple[int, int, int, int]] = []

    def note(counts: Any) -> None:
        seen.append((counts.done, counts.total, counts.errors, counts.tokens_out))

    server.reply = lambda body, count: text("") if has_skill(body) else magic(body)
    run(project(tmp_path, case("a"), case("b")), progress=note)
    assert seen[-1] == (4, 4, 2, 4 * 7)


def test_a_budget_stops_new_trials_and_the_run_is_partial(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(f"c{number}") for number in range(5)))
    result = run(path, max_tokens_total=3300, concurrency=1)
    # each call is 11 + 3000 + 200 in and 7 out: the second call passes 3,300, so no third is made
    assert len(server.requests) == 2
    assert (result.record["partial"], result.record["trialsPlanned"]) == ("budget", 10)
    assert (result.gate, result.exit_code) == ("NOT MEASURED", 3)
    assert "partial (budget): 2/10 trials were started" in str(result)
    resumed = run(path, resume="last")
    assert len(server.requests) == 10
    assert (resumed.id, resumed.gate, resumed.record["resumes"]) == (result.id, "PASS", 1)


def test_resume_runs_what_was_not_measured_and_keeps_the_first_attempt(
    tmp_path: Path, server: Loopback
) -> None:
    path = project(tmp_path, case("a"), case("b"))
    server.reply = lambda body, count: text("") if has_skill(body) and "Task b" in str(body) else magic(body)
    first = run(path, n=1)
    # with b against the skill Δ is 1/2, for it 1: PASS either way, and still b is not measured
    assert (first.exit_code, first.record["trialsErrored"], len(server.requests)) == (0, 1, 4)
    server.reply = magic
    again = run(path, resume=first.id)
    assert len(server.requests) == 5
    assert (again.id, again.gate, again.delta) == (first.id, "PASS", 1.0)
    attempts = [(line["caseId"], line["attempt"], line["outcome"]) for line in trial_lines(again)]
    assert attempts[-1] == ("b", 2, "passed")
    assert ("b", 1, "executor_failed") in attempts
    assert sum(row["asked"] for row in again.record["usage"]) == 5
    third = run(path, resume="last")
    assert len(server.requests) == 5
    assert third.id == first.id


def test_resume_is_refused_where_something_changed(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    first = run(path)
    with pytest.raises(InputError, match="n: the run was started with 1"):
        run(path, resume=first.id, n=3)
    with pytest.raises(RunNotFound, match="no run of"):
        run(path, resume="20000101T000000Z-magic")
    (tmp_path / "skills/magic/SKILL.md").write_text("---\nname: magic\n---\nAnother body.")
    with pytest.raises(RunNotFound, match="the skill"):
        run(path, resume=first.id)
    project(tmp_path, case("other"))
    with pytest.raises(RunNotFound, match="the set"):
        run(path, resume=first.id)


def test_unchanged_trials_are_reused_and_said_to_be(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b", judged()))
    server.reply = lambda body, count: text("") if has_skill(body) and "Task a" in str(body) else magic(body)
    first = run(path)
    assert len(server.requests) == 4 + 2
    server.reply = magic
    second = run(path, reuse="unchanged")
    # only the trial without a measurement is run again
    assert len(server.requests) == 7
    assert second.record["reused"] == {"baseline": 2, "skill": 1}
    assert second.gate == "PASS"
    assert second.transcript("b", "skill") == "magic!"
    assert "reused from earlier runs: 2 baseline, 1 skill trials" in str(second)
    executor = [row for row in second.record["usage"] if row["role"] == "executor"]
    assert [(row["condition"], row["asked"]) for row in executor] == [("baseline", 0), ("skill", 1)]
    (tmp_path / "skills/magic/SKILL.md").write_text("---\nname: magic\n---\nAnother body.")
    third = run(path, reuse="unchanged")
    assert third.record["reused"] == {"baseline": 2}
    assert run(path).record["reused"] == {}
    assert first.id != third.id


def test_editing_a_sentence_of_the_skill_runs_exactly_the_skill_trials(
    tmp_path: Path, server: Loopback
) -> None:
    cases = [case("a", check(), judged()), case("b")]
    run(project(tmp_path, *cases), n=3, reuse="unchanged")
    server.requests.clear()
    path = project(tmp_path, *cases, skill=f"---\nname: magic\n---\n{BODY} Always.\n")
    again = run(path, n=3, reuse="unchanged")
    bodies = [request["body"] for request in server.requests]
    asked = [body for body in bodies if not is_judge(body)]
    assert [body.get("system") for body in asked] == [f"{BODY} Always."] * 6
    assert len(bodies) - len(asked) == 3  # the judge grades the three new answers of case a
    assert again.record["reused"] == {"baseline": 6}


def test_editing_a_prompt_runs_that_case_in_both_conditions(tmp_path: Path, server: Loopback) -> None:
    run(project(tmp_path, case("a"), case("b")), n=3, reuse="unchanged")
    server.requests.clear()
    run(project(tmp_path, case("a"), case("b", prompt="Another task.")), n=3, reuse="unchanged")
    assert [request["body"]["messages"][0]["content"] for request in server.requests] == ["Another task."] * 6


def test_changing_the_judge_runs_only_grades(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b"))
    run(path, n=3, reuse="unchanged")
    server.requests.clear()
    again = run(path, n=3, judge_model="opus", reuse="unchanged")
    assert len(server.requests) == 6
    assert all(is_judge(request["body"]) for request in server.requests)
    assert {request["body"]["model"] for request in server.requests} == {"claude-opus-4-8"}
    assert (again.gate, again.record["reused"]) == ("PASS", {"baseline": 6, "skill": 6})
    asked = {row["role"]: row["asked"] for row in again.record["usage"]}
    assert asked == {"executor": 0, "judge": 3}
    assert again.transcript("a", "skill", 3) == "magic!"
    server.requests.clear()
    for _ in range(2):  # what the judge took then is not paid for again
        third = run(path, n=3, judge_model="opus", reuse="unchanged").record
        assert server.requests == []
        assert [(row["role"], row["asked"], row["tokens"]) for row in third["usage"]] == [
            ("executor", 0, None),
            ("executor", 0, None),
        ]
        assert (third["tokens"], third["measuredAnew"]) == (None, 0)


def test_a_run_of_reused_trials_alone_is_no_new_look(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    looks = [run(path, reuse="unchanged").record["evidence"]["look"] for _ in range(3)]
    assert looks == [1, 2, 2]


def test_reuse_and_confirm_exclude_each_other(tmp_path: Path, server: Loopback) -> None:
    with pytest.raises(InputError, match="afresh"):
        run(project(tmp_path), reuse="unchanged", confirm=True)
    with pytest.raises(InputError, match="reuse"):
        run(project(tmp_path), reuse="always")


def test_two_cannot_go_on_with_one_run_at_once(tmp_path: Path, server: Loopback) -> None:
    from skilleval_nb.folder import RunFolder

    path = project(tmp_path)
    server.reply = lambda body, count: text("")
    first = run(path)
    assert first.folder is not None
    other = RunFolder(first.folder)
    other.lock()
    with pytest.raises(RunNotFound, match="another process"):
        run(path, resume=first.id)
    other.close()
    server.reply = magic
    assert run(path, resume=first.id).gate == "PASS"


def test_one_condition_alone_has_a_rate_and_no_gate(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path, case("a"), case("b")), conditions=("skill",))
    assert len(server.requests) == 2
    assert (result.gate, result.delta, result.exit_code) == ("NOT MEASURED", None, 3)
    assert result.record["gateRange"] is None
    assert str(result).splitlines()[1:3] == [
        "pass rate   with-skill 2/2 (100%)",
        "ship gate: NOT MEASURED — baseline was not run, and the gate compares the two",
    ]
    assert ">baseline<" not in result._repr_html_().split("ship gate")[0]


@pytest.mark.parametrize("place", ["a file", "a file/below"])
def test_a_runs_folder_that_cannot_be_is_bad_input(tmp_path: Path, server: Loopback, place: str) -> None:
    path = project(tmp_path)
    (tmp_path / "a file").touch()
    with pytest.raises(InputError, match="a run cannot be written here"):
        run(path, runs_dir=tmp_path / place)
    assert server.requests == []


def test_text_from_a_set_cannot_act_on_a_terminal(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: text("plain" if has_skill(body) else "magic")
    shown = str(run(project(tmp_path, case("b\u202ec"), model="m\x1b[2J\nship gate: PASS")))
    assert "\x1b" not in shown
    assert "\u202e" not in shown
    assert "to fail 1: b\\u{202e}c" in shown
    assert [line for line in shown.splitlines() if line.startswith("ship gate: ")] == [
        "ship gate: REGRESSION — skill moves the number down"
    ]


ORIGIN_LOG = Path(__file__).parents[2] / "shared/corpus/Yco-0314__strata/skills/l5-meta/skill-eval/runs"


@pytest.mark.skipif(not ORIGIN_LOG.is_dir(), reason="the origin's log is not beside this checkout")
def test_a_run_of_the_origins_log_can_be_shown(tmp_path: Path) -> None:
    found = se.load_run("2026-07-06T11-31-52-934Z-complexity-router", ORIGIN_LOG)
    assert (found.gate, found.delta) == ("PASS", 1 / 8)
    assert "baseline 6/8 (75%)   with-skill 7/8 (88%)   Δ +13%" in str(found)
    assert "trials are not recorded" in found._repr_html_()
    lost = se.load_run("2026-07-06T16-58-07-286Z-verification-before-completion", ORIGIN_LOG)
    assert (lost.gate, lost.delta, lost.exit_code) == ("NOT MEASURED", None, 3)


def test_a_resume_killed_before_its_record_is_made_good_by_the_next(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    server.reply = lambda body, count: text("") if has_skill(body) else magic(body)
    first = run(path)
    assert (first.gate, first.folder is not None) == ("NOT MEASURED", True)
    assert first.folder is not None
    log = tmp_path / "runs" / "log.jsonl"
    before = log.read_text()
    server.reply = magic
    run(path, resume=first.id)
    log.write_text(before)  # as if kill -9 had come between the last trial and the record
    assert se.load_run(first.id, tmp_path / "runs").gate == "PASS"
    calls = len(server.requests)
    again = run(path, resume=first.id)
    assert (again.gate, len(server.requests)) == ("PASS", calls)
    assert json.loads(log.read_text().splitlines()[-1])["gate"] == "PASS"
    assert again.record["durationS"] > 0


def test_a_limit_that_cannot_be_kept_is_refused(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    with pytest.raises(InputError, match="max_cost_usd: the runner anthropic does not say"):
        run(path, max_cost_usd=1.0)
    assert server.requests == []
    server.reply = lambda body, count: message([{"type": "text", "text": "magic"}], usage=None)
    result = run(path, max_tokens_total=10**9, concurrency=1)
    assert len(server.requests) == 1
    assert result.record["partial"] == "budget: an answer came without its tokens"


def test_a_resumed_run_is_no_look_at_itself(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"))
    first = run(path, max_tokens_total=1, concurrency=1)
    again = run(path, resume=first.id, max_tokens_total=10**9)
    assert [item.record["evidence"] and item.record["evidence"]["look"] for item in (first, again)] == [
        None,
        1,
    ]


@pytest.mark.parametrize("key", [f" {KEY}\n", 'sk-"quoted\\key"-0123', "sk-" + "long" * 60])
def test_no_form_of_a_key_reaches_a_file(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    server.reply = lambda body, count: text(f"magic {key.strip()} magic")
    run(project(tmp_path, case("a", check(pattern="magic.*magic"))))
    wanted = key.strip()
    for path in (path for path in tmp_path.rglob("*") if path.is_file()):
        content = path.read_bytes().decode()
        assert wanted not in content, path
        assert json.dumps(wanted)[1:-1] not in content, path
        assert wanted[:60] not in content, path


def test_a_password_in_a_base_url_reaches_no_file(tmp_path: Path, server: Loopback) -> None:
    host = server.url.removeprefix("http://")
    run(project(tmp_path), runner=f"anthropic:http://user:s3cret-word@{host}")
    assert [p for p in tmp_path.rglob("*") if p.is_file() and b"s3cret-word" in p.read_bytes()] == []


def test_everything_wrong_is_said_at_once_settings_and_skill_too(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, case("a", check(pattern="(")))
    path.write_text(path.read_text().replace("skills/magic", "skills/gone"))
    monkeypatch.setenv("EVAL_N", "none")
    with pytest.raises(InputError) as caught:
        run(path, timeout_s=-1)
    text_of = str(caught.value)
    assert all(words in text_of for words in ("pattern", "skills/gone", "EVAL_N", "timeout_s"))


@pytest.mark.parametrize(
    "wrong",
    [{"concurrency": "4"}, {"timeout_s": "x"}, {"judge_n": 1.5}, {"max_drop": "x"}, {"conditions": None},
     {"conditions": "skill"}, {"runner": None}, {"judge_model": 7}, {"model": ""}, {"concurrency": 2.5},
     {"n": True}, {"max_tokens_total": 0}, {"timeout_s": float("nan")}],
    ids=str,
)  # fmt: skip
def test_arguments_of_the_wrong_type_are_bad_input(
    tmp_path: Path, server: Loopback, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        run(project(tmp_path), **wrong)
    assert not (tmp_path / "runs").exists()


def test_retries_of_failed_calls_are_in_the_ledger(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: status(500, "api_error") if has_skill(body) else magic(body)
    result = run(project(tmp_path))
    assert sum(row["calls"] for row in result.record["usage"]) == len(server.requests) == 4


def test_an_answer_survives_a_fault_in_its_grading(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skilleval_nb import grader

    def broken(grades: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(grader, "settle", broken)
    result = run(project(tmp_path))
    assert result.record["outcomes"] == {"runner_error": 2}
    assert result.transcript("one", "skill") == "magic!"
    assert result.record["tokens"] == {"input": 22, "output": 14}


def test_a_progress_function_that_raises_ends_nothing(
    tmp_path: Path, server: Loopback, capsys: pytest.CaptureFixture[str]
) -> None:
    def boom(counts: Any) -> None:
        raise ValueError("boom")

    path = project(tmp_path)
    assert run(path, progress=boom).gate == "PASS"
    assert asyncio.run(se.arun_set(path, runner="anthropic", progress=boom)).gate == "PASS"
    assert capsys.readouterr().err.count("progress: ValueError: boom") == 2


def test_a_transcript_keeps_the_answers_that_a_resume_did_not_ask_again(
    tmp_path: Path, server: Loopback
) -> None:
    path = project(tmp_path, case("a", judged()))
    server.reply = lambda body, count: text("hm") if is_judge(body) else magic(body)
    first = run(path, n=2, concurrency=1)
    assert first.folder is not None
    assert (first.folder / "a.skill.txt").read_text().count("magic!") == 2
    server.reply = magic
    run(path, resume=first.id, max_tokens_total=1, concurrency=1)
    assert (first.folder / "a.skill.txt").read_text().count("magic!") == 2
    assert (first.folder / "a.baseline.txt").read_text().count("plain") == 2


def test_another_host_is_another_model(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    run(path)
    with Loopback(magic) as other:
        again = run(path, runner=f"anthropic:{other.url}", reuse="unchanged")
        assert (again.record["reused"], len(other.requests)) == ({}, 2)


def test_a_run_with_its_own_skill_is_resumed_with_or_without_naming_it(
    tmp_path: Path, server: Loopback
) -> None:
    path = project(tmp_path)
    other = tmp_path / "other.md"
    other.write_text("Another body.")
    for named in ({"skill_path": other}, {}):
        server.reply = lambda body, count: text("")
        first = run(path, skill_path=other)
        server.reply = lambda body, count: text("magic" if body.get("system") == "Another body." else "plain")
        again = run(path, resume=first.id, **named)
        assert (again.id, again.gate, again.record["skill"]) == (first.id, "PASS", "other.md")


def test_only_a_whole_measured_run_confirms(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"))

    def look(**settings: Any) -> int | None:
        evidence = run(path, **settings).record["evidence"]
        return None if evidence is None else int(evidence["look"])

    assert [look(), look(confirm=True, case_ids=["a"]), look()] == [1, 2, 3]
    assert look(confirm=True, conditions=("skill",)) is None
    server.reply = lambda body, count: text("")
    assert look(confirm=True) is None
    server.reply = magic
    assert [look(), look(confirm=True), look()] == [4, 5, 1]


def test_notes_of_the_set_are_shown_with_the_result(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(flag="")), max_token=5)
    shown = str(run(path))
    assert "warning: max_token: unknown key" in shown
    assert "warning: cases[0].assert[0].flag: unknown key" in shown
    assert "2 notes" in repr(se.load_set(path))


def test_the_text_says_why_trials_have_no_measurement(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: (
        status(401, "authentication_error", "no such key") if has_skill(body) else magic(body)
    )
    assert "not measured 2×: executor_failed: HTTP 401 authentication_error: no such key" in str(
        run(project(tmp_path, case("a"), case("b")))
    )


def test_the_judge_is_named_and_a_hint_leads_to_an_answer(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path, case("a", judged())))
    assert "judge sonnet" in str(result).splitlines()[0]
    page = run(project(tmp_path, case("a")), conditions=("baseline",))._repr_html_()
    assert "run.transcript(&#x27;a&#x27;, &#x27;baseline&#x27;)" in page
    with pytest.raises(InputError, match="skill was not run"):
        se.charts.pass_rates(run(project(tmp_path, case("a")), conditions=("baseline",)))


def test_a_plan_shows_itself_and_case_ids_are_a_list(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    plan = se.plan_set(path, runner="anthropic")
    assert repr(plan) == str(plan)
    with pytest.raises(InputError, match="it is a list of ids"):
        run(path, case_ids="one")


def test_paths_are_found_from_a_folder_below_the_root(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    project(tmp_path)
    (tmp_path / "notebooks").mkdir()
    monkeypatch.chdir(tmp_path / "notebooks")
    result = se.run_set("sets/magic.json", runner="anthropic", progress=False, runs_dir="elsewhere")
    assert result.folder is not None
    assert result.folder.parent == tmp_path / "elsewhere"
    opened = re.search(r'se.load_run\("(.*)"\)', str(result))
    assert opened
    assert se.load_run(opened[1]).id == result.id


def test_runs_are_reopened_by_id_folder_or_last(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path))
    assert result.folder is not None
    runs = tmp_path / "runs"
    for handle in (result.id, result.folder, str(result.folder), "last"):
        found = se.load_run(handle, runs)
        assert (found.id, found.gate, str(found)) == (result.id, "PASS", str(result))
        assert found.transcript("one", "skill") == "magic!"
    with pytest.raises(RunNotFound, match="no trial"):
        result.transcript("one", "skill", 2)
    with pytest.raises(RunNotFound, match="no such run"):
        se.load_run("nothing", runs)


def test_a_run_whose_folder_is_gone_is_read_from_the_log(tmp_path: Path, server: Loopback) -> None:
    import shutil

    result = run(project(tmp_path))
    assert result.folder is not None
    shutil.rmtree(result.folder)
    found = se.load_run(result.id, tmp_path / "runs")
    assert (found.gate, found.delta, found.folder) == ("PASS", 1.0, None)
    with pytest.raises(RunNotFound, match="transcripts are not here"):
        found.transcript("one", "skill")


def test_looks_are_counted_and_a_confirmation_starts_anew(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    looks = [run(path).record["evidence"]["look"] for _ in range(2)]
    looks.append(run(path, confirm=True).record["evidence"]["look"])
    looks.append(run(path).record["evidence"]["look"])
    looks.append(run(path, model="other").record["evidence"]["look"])
    assert looks == [1, 2, 3, 1, 1]


def test_a_confirmation_is_judged_alone(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(f"c{number}") for number in range(6)))
    run(path)
    second, third = run(path), run(path, confirm=True)
    assert "look 2: counting the looks" in str(second)
    assert "counting the looks" not in str(third)
    assert "· confirmation" in str(third).splitlines()[0]
    evidence = third.record["evidence"]
    assert evidence["pLooks"] == evidence["pSet"]


def test_judge_equal_to_executor_and_an_even_n_are_warned_of(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path, case("a", judged())), model="sonnet", n=2)
    warnings = " ".join(result.record["warnings"])
    assert "the judge is the model under test (claude-sonnet-4-6)" in warnings
    assert "n = 2 is even" in warnings
    assert all(f"warning: {words}" in str(result) for words in result.record["warnings"])


def test_a_subset_of_cases_says_so(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path, case("a"), case("b")), case_ids=["b"])
    assert [item["id"] for item in result.record["cases"]] == ["b"]
    assert result.record["subset"] is True
    assert "subset" in str(result)


def test_max_drop_decides_the_exit_code_where_it_is_given(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(f"c{number}") for number in range(8)))
    server.reply = lambda body, count: text("magic!")
    # all 8 cases tie at 1: the smoothed interval of Δ is about ±0.34
    loose, tight = run(path, max_drop=0.5), run(path, max_drop=0.1)
    assert (loose.gate, loose.exit_code, tight.exit_code) == ("NO MOVEMENT", 0, 1)
    assert "held" in str(loose)
    assert "not held" in str(tight)


def test_our_own_fault_in_a_trial_is_a_runner_error_and_spares_the_rest(tmp_path: Path) -> None:
    from skilleval_nb.runners import Runner
    from skilleval_nb.values import Answer, Request

    class Broken(Runner):
        name = "broken"

        async def answer(self, request: Request) -> Answer:
            if request.system and "Task b" in request.prompt:
                raise ZeroDivisionError("oh")
            return Answer("magic!" if request.system else "plain")

    result = se.run_set(project(tmp_path, case("a"), case("b")), runner=Broken(), progress=False)
    assert result.record["outcomes"] == {"failed": 2, "passed": 1, "runner_error": 1}
    assert "ZeroDivisionError: oh" in str(trial_lines(result))
    assert Trial is not None


def test_plan_counts_calls_without_making_one(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b"), max_tokens=100)
    plan = se.plan_set(path, runner="anthropic", n=3, judge_n=3)
    assert (plan.executor_calls, plan.judge_calls) == (12, 1 * 2 * 3 * 3)
    assert plan.output_tokens_ceiling == 1200
    assert "12 executor calls" in str(plan)
    assert server.requests == []


def test_a_run_of_several_trials_says_what_would_narrow_its_interval(
    tmp_path: Path, server: Loopback
) -> None:
    # passes of 3 in both conditions: 1 and 2, 1 and 1, 2 and 2: the runs differ, the cases hardly do
    answers = iter("++-+-- ----++ +-++-+".replace(" ", ""))
    server.reply = lambda body, count: text("magic" if next(answers, "-") == "+" else "plain")
    noisy = run(project(tmp_path, case("a"), case("b"), case("c")), n=3, concurrency=1)
    (line,) = (line for line in str(noisy).splitlines() if line.startswith("advice: "))
    assert "raise n" in line
    assert not any(line.startswith("advice") for line in str(run(project(tmp_path))).splitlines())
