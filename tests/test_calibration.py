"""Judges held against people's labels: the file, a real judge over HTTP, the record, drift, the known error."""

from __future__ import annotations

import ast
import asyncio
import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from loopback import Loopback, Reply, hangup, judge_json, status, text
from test_judge import Scripted, verdict
from typer.testing import CliRunner
from worlds import case, project

from skilleval_nb import runner_local, stats
from skilleval_nb.calibrate import calibrate_judge
from skilleval_nb.calibration import load_calibration
from skilleval_nb.calibration_result import Calibration
from skilleval_nb.cli import app
from skilleval_nb.errors import InputError, LogWarning, SetError
from skilleval_nb.frames import load_log
from skilleval_nb.judge import SYSTEM, prompt_hash
from skilleval_nb.judge_log import corrected, known_error, load_calibrations
from skilleval_nb.runners import Runner
from skilleval_nb.sets import load_set
from skilleval_nb.values import Answer, Request

SHIPPED = Path(__file__).parents[1] / "sets" / "judge.calibration.json"
Body = dict[str, Any]


# --- the file that is shipped ------------------------------------------------------------------------------


def test_the_shipped_set_is_large_balanced_and_defends_each_label() -> None:
    given = load_calibration(SHIPPED)
    assert given.notes == ()
    assert len(given.items) >= 66  # enough to see one in ten flip, by the reference
    assert len(given.rubrics) >= 6
    for rubric in given.rubrics:
        labels = [item.label for item in given.items if item.rubric == rubric]
        assert len(labels) >= 8
        assert 0.4 <= sum(labels) / len(labels) <= 0.6
    assert all(item.reason and item.reason.endswith(".") for item in given.items)
    assert len({(item.task, item.answer) for item in given.items}) == len(given.items)


def labels_of(rubric: str) -> dict[str, tuple[str, str, bool]]:
    return {i.id: (i.task, i.answer, i.label) for i in load_calibration(SHIPPED).items if i.rubric == rubric}


def annotated(answer: str) -> bool:
    """Whether all functions in the answer's code are annotated throughout."""
    blocks = re.findall(r"```python\n(.*?)```", answer, re.DOTALL) or [answer.strip("`")]
    found = [
        node
        for block in blocks
        for node in ast.walk(ast.parse(block))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]
    parameters = [
        one
        for node in found
        for one in (*node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        if one is not None and one.arg not in ("self", "cls")
    ]
    return bool(found) and all(one.annotation for one in parameters) and all(node.returns for node in found)


def plain(answer: str) -> bool:
    prose = re.sub(r"```.*?```|`[^`]*`|\"[^\"]*\"", "", answer, flags=re.DOTALL)
    return not re.search(r"leverag|utiliz|seamless", prose, re.IGNORECASE)


def shaped(answer: str) -> bool:
    subject, empty, body = [*answer.split("\n", 2), "", ""][:3]
    return len(subject) <= 50 and not empty and bool(body)


def numbers(words: str) -> set[str]:
    return set(re.findall(r"\d+(?:[.,]\d+)*", words))


@pytest.mark.parametrize(
    ("rubric", "meets"),
    [
        ("typed-signatures", lambda task, answer: annotated(answer)),
        ("plain-words", lambda task, answer: plain(answer)),
        ("numbers-as-given", lambda task, answer: numbers(answer) <= numbers(task)),
    ],
)
def test_labels_that_a_program_can_check_are_right(rubric: str, meets: Callable[[str, str], bool]) -> None:
    labelled = labels_of(rubric)
    assert {name: meets(task, answer) for name, (task, answer, _) in labelled.items()} == {
        name: label for name, (_, _, label) in labelled.items()
    }


def test_the_form_of_the_commit_messages_is_as_their_labels_say() -> None:
    """A program cannot tell a reason from a list of changes: that is what these two fail by."""
    without_reason = {"commit-message/what-but-not-why", "commit-message/verdict-in-the-body"}
    for name, (_, answer, label) in labels_of("commit-message").items():
        assert shaped(answer) is (label or name in without_reason), name


# --- loading -----------------------------------------------------------------------------------------------


def item(name: str, answer: str, label: bool, **more: Any) -> dict[str, Any]:
    return {
        "id": name, "rubric": "good", "task": f"Task {name}.", "answer": answer, "label": label,
        "reason": f"Because of {name}.", **more,
    }  # fmt: skip


EIGHT = [
    item("p1", "good one", True),
    item("p2", "good two", True),
    item("p3", "good three", True),
    item("p4", "fine", True),
    item("f1", "good, not", False),
    item("f2", "good, no", False),
    item("f3", "bad one", False),
    item("f4", "bad two", False),
]
"""A judge that passes whatever holds `good`: tp 3, fn 1, tn 2, fp 2."""


def written(folder: Path, *items: dict[str, Any], name: str = "house", **top: Any) -> Path:
    (folder / "pyproject.toml").touch()
    (folder / "sets").mkdir(exist_ok=True)
    path = folder / "sets" / f"{name}.calibration.json"
    rubrics = {"good": "The answer is good."}
    content = {"kind": "calibration", "purpose": "p", "rubrics": rubrics, "items": list(items), **top}
    path.write_text(json.dumps(content), encoding="utf-8")
    return path


def test_a_file_is_read_as_it_is(tmp_path: Path) -> None:
    given = load_calibration(written(tmp_path, *EIGHT[3:5]))
    assert (given.name, given.purpose, dict(given.rubrics)) == (
        "house.calibration",
        "p",
        {"good": "The answer is good."},
    )
    first = given.items[0]
    assert (first.id, first.task, first.answer, first.label) == ("p4", "Task p4.", "fine", True)
    assert first.reason == "Because of p4."
    assert repr(given) == "CalibrationSet('house.calibration', 2 items over 1 rubrics, 1 of them passes)"


def test_all_that_is_wrong_is_told_at_once(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        {**item("a", "x", True), "label": "yes", "lable": True},
        item("a", " ", False, rubric="none"),
        {"id": "c"},
        rubrics={"good": 5},
        kind="calibrations",
    )
    with pytest.raises(SetError) as caught:
        load_calibration(path)
    found = [str(problem).removeprefix(str(path)) for problem in caught.value.problems]
    for words in (
        "→ kind: must be 'calibration'",
        "→ rubrics.good: must be text",
        "→ items[0].label: must be true or false",
        "→ items[0].lable: unknown key",
        "→ items[1].answer: is empty",
        "→ items[1].rubric: there is no rubric 'none'",
        "→ items[1].id: the id 'a' is already that of items[0]",
        "→ items[2].rubric: missing",
        "→ items[2].label: missing",
    ):
        assert any(words in problem for problem in found), (words, found)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "this is a list"),
        ('{"kind": "calibration", "kind": "calibration"}', "stands twice"),
        ('{"kind": "calibration", "rubrics": {}, "items": []}', "items"),
        ('{"kind": NaN}', "NaN is not a number"),
        ('{"skill": "s", "cases": []}', "kind: missing"),
    ],
)
def test_what_is_no_calibration_file_is_refused_with_its_place(
    tmp_path: Path, content: str, words: str
) -> None:
    path = tmp_path / "x.calibration.json"
    path.write_text(content)
    with pytest.raises(SetError, match=words):
        load_calibration(path)
    with pytest.raises(SetError, match="no calibration set can be read here"):
        load_calibration(tmp_path / "none.calibration.json")


def test_what_a_set_cannot_tell_is_noted(tmp_path: Path) -> None:
    path = written(tmp_path, EIGHT[0], rubrics={"good": "g", "idle": "i"}, author="me")
    assert load_calibration(path).notes == (
        "author: unknown key, not used",
        "rubrics.good: all its items are passes, so it shows one kind of error only",
        "rubrics.idle: no item uses it",
    )


def test_the_hash_is_of_what_decides(tmp_path: Path) -> None:
    def hash_of(*items: dict[str, Any], **top: Any) -> str:
        return load_calibration(written(tmp_path, *items, **top)).hash

    same = hash_of(*EIGHT)
    assert hash_of(*reversed(EIGHT)) == same
    assert hash_of(*[{**one, "reason": "Another."} for one in EIGHT], purpose="q") == same
    for change in ({"answer": "x"}, {"label": False}, {"task": "x"}, {"id": "x"}):
        assert hash_of({**EIGHT[0], **change}, *EIGHT[1:]) != same
    assert hash_of(*EIGHT, rubrics={"good": "Other."}) != same


def test_the_command_line_validates_it_and_takes_it_for_no_set(tmp_path: Path) -> None:
    project(tmp_path, case("one", difficulty=2))
    path = written(tmp_path, *EIGHT)
    runner = CliRunner()
    done = runner.invoke(app, ["validate", str(tmp_path / "sets")])
    assert done.exit_code == 0
    assert f"{path}: 8 items over 1 rubric to calibrate judges by" in done.output
    assert "magic.json: 1 case" in done.output
    dark = runner.invoke(app, ["dark-room", str(tmp_path / "sets")])
    assert dark.exit_code == 0
    assert "calibration" not in dark.output
    path.write_text(path.read_text().replace("true", "1"))
    broken = runner.invoke(app, ["validate", str(tmp_path / "sets")])
    assert broken.exit_code == 2
    assert "items[0].label: must be true or false" in broken.output
    with pytest.raises(SetError, match=r"this is a calibration set.*calibrate_judge"):
        load_set(path)


# --- a real judge over HTTP --------------------------------------------------------------------------------

FENCE = re.compile(r"<<<(MARK-[0-9a-f]{12}) answer\n(.*)\n\1>>>", re.DOTALL)


def answer_in(prompt: str) -> str:
    found = FENCE.search(prompt)
    assert found is not None
    return found[2]


def likes_good(body: Body, count: int = 0) -> Reply:
    return text(judge_json("good" in answer_in(body["messages"][0]["content"]), "r", "good"))


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_JUDGE_MODEL", "EVAL_N", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(likes_good) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def calibrated(path: Path, **options: Any) -> Calibration:
    return calibrate_judge(path, **{"runner": "anthropic", "progress": False, **options})


def log_lines(path: Path) -> list[dict[str, Any]]:
    log = path.parent.parent / "runs" / "log.jsonl"
    return [json.loads(line) for line in log.read_text().splitlines()]


def test_counts_and_measures_of_a_known_judge(tmp_path: Path, server: Loopback) -> None:
    """Human 4 of 8, judge 5 of 8 passes, 5 agree: κ = (5/8 − ½)/½ = ¼; AC1 with π 9/16, pe 2·9/16·7/16."""
    result = calibrated(written(tmp_path, *EIGHT))
    found = result.agreement
    assert (found.tp, found.fn, found.tn, found.fp) == (3, 1, 2, 2)
    assert (found.items, found.judged, found.abstained, found.missing) == (8, 8, 0, 0)
    assert (found.accuracy.value, found.sensitivity.value, found.specificity.value) == (0.625, 0.75, 0.5)
    assert (found.accuracy.n, found.sensitivity.n, found.specificity.n) == (8, 4, 4)
    assert found.accuracy.ci == stats.wilson(0.625, 8)
    assert found.sensitivity.ci == stats.wilson(0.75, 4)
    assert found.kappa.value == pytest.approx(0.25)
    assert found.ac1.value == pytest.approx((5 / 8 - 63 / 128) / (1 - 63 / 128))
    assert found.self_consistency.value is None
    assert found.self_consistency.reason == "no item was decided twice"
    assert (found.quotes_found, found.quotes) == (5, 8)
    assert len(server.requests) == 8
    words = str(result).splitlines()
    assert words[0].startswith(
        "judge calibration · house.calibration · anthropic sonnet (claude-sonnet-4-6) · prompt "
    )
    assert words[1] == "decided 8/8 items"
    assert words[5].startswith("accuracy 5/8 (63%, 95% CI 31…86%) · sensitivity 3/4 (75%")
    assert "self-consistency not measured (calibrate with repeats=3)" in words
    assert "wrong on 3: p4, f1, f2" in words
    frame = result.items
    assert frame["item"].to_list() == [one["id"] for one in EIGHT]
    assert frame.filter(~pl.col("right"))["item"].to_list() == ["p4", "f1", "f2"]
    assert frame["verdicts"].to_list()[:4] == [[True], [True], [True], [False]]
    assert frame["reasoning"].to_list() == ["r"] * 8


def test_the_judge_sees_task_rubric_and_answer_and_no_label(tmp_path: Path, server: Loopback) -> None:
    calibrated(written(tmp_path, *EIGHT[3:5]))
    for request, one in zip(server.requests, EIGHT[3:5], strict=True):
        body = request["body"]
        sent = json.dumps(body)
        prompt = body["messages"][0]["content"]
        assert body["system"] == SYSTEM
        assert answer_in(prompt) == one["answer"]
        assert one["task"] in prompt
        assert "The answer is good." in prompt
        assert one["reason"] not in sent
        assert not re.search(r"calibrat|label|human|baseline|skill|house", sent.lower())


@pytest.mark.parametrize(
    ("reply", "outcome"),
    [
        (text("The answer passes."), "grader_unparseable"),
        (text("PASS"), "grader_unparseable"),
        (text('{"reasoning": "", "evidence": "", "pass": "true"}'), "grader_unparseable"),
        (text(judge_json(True) + judge_json(False)), "grader_unparseable"),
        (text(""), "grader_unparseable"),
        (status(529, "overloaded_error", headers={"x-should-retry": "false"}), "grader_failed"),
        (status(500, "api_error", headers={"x-should-retry": "false"}), "grader_failed"),
    ],
    ids=["prose", "a word", "a text for true", "two verdicts", "empty", "529", "500"],
)
def test_what_is_no_verdict_is_an_abstention(
    tmp_path: Path, server: Loopback, reply: Reply, outcome: str
) -> None:
    """The judge decides neither f1 nor p1: tp 2, fn 1, tn 2, fp 1 remain, of 6."""

    def script(body: Body, count: int) -> Reply:
        answer = answer_in(body["messages"][0]["content"])
        return reply if answer in ("good one", "good, not") else likes_good(body)

    server.reply = script
    result = calibrated(written(tmp_path, *EIGHT))
    found = result.agreement
    assert (found.tp, found.fn, found.tn, found.fp) == (2, 1, 2, 1)
    assert (found.judged, found.abstained, found.ties) == (6, 2, 0)
    assert found.undecided == {outcome: 2}
    assert f"decided 6/8 items · abstained 2 · undecided 2/8 judgements ({outcome} 2)" in str(result)
    row = result.items.row(0, named=True)
    assert (row["verdict"], row["right"], row["decided"], row["repeats"]) == (None, None, 0, 1)
    assert str(row["undecided"]).startswith(f"{outcome}: judge: ")
    assert log_lines(tmp_path / "sets" / "x")[0]["items"][0]["verdicts"] == [None]


def test_a_judge_that_decides_nothing_has_no_numbers_and_says_why(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: hangup()
    result = calibrated(written(tmp_path, *EIGHT[:2]))
    found = result.agreement
    for measure in (found.accuracy, found.sensitivity, found.specificity, found.kappa, found.ac1):
        assert measure.value is None
        assert measure.ci is None
        assert measure.reason
    stored = result.record["agreement"]["accuracy"]
    assert stored == {"value": None, "low": None, "high": None, "n": 0, "reason": "no item was decided"}
    assert "accuracy n/a · sensitivity n/a · specificity n/a" in str(result)
    assert "0%" not in str(result).replace("100%", "")


def test_an_undefined_kappa_is_none_and_ac1_is_not(tmp_path: Path, server: Loopback) -> None:
    """Judge and people pass everything: chance alone would agree on all."""
    found = calibrated(written(tmp_path, *EIGHT[:3])).agreement
    assert (found.kappa.value, found.kappa.reason) == (None, "judge and people say the same of every item")
    assert (found.ac1.value, found.ac1.ci) == (1.0, None)
    assert (found.specificity.value, found.specificity.reason) == (
        None,
        "no decided item is a fail by its label",
    )


def test_the_record_in_the_log(tmp_path: Path, server: Loopback) -> None:
    path = written(tmp_path, *EIGHT)
    result = calibrated(path)
    (record,) = log_lines(path)
    assert record == json.loads(json.dumps(result.record))
    assert {name: record[name] for name in (
        "kind", "schema", "source", "calibration", "calibrationHash", "judgeModel", "resolvedJudgeModel",
        "judgeRunner", "judgeHash", "judgeN", "repeats", "partial",
    )} == {
        "kind": "calibration", "schema": 1, "source": "file", "calibration": "house.calibration",
        "calibrationHash": load_calibration(path).hash, "judgeModel": "sonnet",
        "resolvedJudgeModel": "claude-sonnet-4-6", "judgeRunner": "anthropic", "judgeHash": prompt_hash(),
        "judgeN": 1, "repeats": 1, "partial": None,
    }  # fmt: skip
    assert record["usage"] == {
        "calls": 8, "asked": 8, "reported": 8, "tokens": [88, 56, 24000, 1600], "costUsd": None,
    }  # fmt: skip
    assert record["items"][3] == {
        "id": "p4", "rubric": "good", "label": True, "verdicts": [False], "quoted": [False], "undecided": [],
        "reasoning": "r",
    }  # fmt: skip
    assert (record["agreement"]["tp"], record["agreement"]["accuracy"]["value"]) == (3, 0.625)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", record["ts"])
    assert record["durationS"] >= 0
    assert (tmp_path / "runs" / ".gitignore").read_text() == "*\n!log.jsonl\n!.gitignore\n"


def test_the_other_readers_of_the_log_pass_a_calibration_over(tmp_path: Path, server: Loopback) -> None:
    path = written(tmp_path, *EIGHT)
    log = tmp_path / "runs" / "log.jsonl"
    log.parent.mkdir()
    origin = {
        "kind": "eval", "ts": "2026-05-01T10:00:00.000Z", "set": "s", "model": "haiku", "n": 1,
        "cases": [{"id": "a", "baseline": False, "skill": True}], "gate": "PASS", "dir": "runs/20260501T100000Z-s",
    }  # fmt: skip
    log.write_text(json.dumps(origin) + "\n")
    levels = {level: load_log(log, level=level) for level in ("run", "case", "trial", "check")}
    calibrated(path)
    for level, before in levels.items():
        assert load_log(log, level=level).equals(before)
    assert levels["case"].height == 2


def test_judge_names_go_as_in_a_run(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(tmp_path, EIGHT[0])
    monkeypatch.setenv("EVAL_JUDGE_MODEL", "opus")
    assert calibrated(path).record["resolvedJudgeModel"] == "claude-opus-4-8"
    named = calibrated(path, judge_model="anthropic:haiku", runner="auto")
    assert (named.record["judgeModel"], named.record["judgeRunner"]) == ("haiku", "anthropic")
    assert server.requests[-1]["body"]["model"] == "claude-haiku-4-5-20251001"

    fixed = Scripted(lambda request: verdict(True))
    fixed.fixed_model = "the-only-one"
    assert calibrated(path, runner=fixed).record["judgeModel"] == "the-only-one"


def test_another_prompt_is_another_judge(tmp_path: Path, server: Loopback) -> None:
    result = calibrated(written(tmp_path, EIGHT[0]), system="Grade strictly. Reply with the JSON object.")
    assert server.requests[0]["body"]["system"] == "Grade strictly. Reply with the JSON object."
    assert result.record["judgeHash"] == prompt_hash("Grade strictly. Reply with the JSON object.")
    assert result.record["judgeHash"] != prompt_hash()


def test_it_works_inside_a_running_loop(tmp_path: Path, server: Loopback) -> None:
    async def cell() -> Calibration:
        return calibrated(written(tmp_path, *EIGHT))

    assert asyncio.run(cell()).agreement.judged == 8


def test_everything_wrong_is_told_before_any_call(tmp_path: Path, server: Loopback) -> None:
    path = written(tmp_path, {**EIGHT[0], "label": 1})
    with pytest.raises(SetError) as caught:
        calibrated(path, judge_n=2, repeats=0, timeout_s=-1, system=" ", judge_model="", concurrency=0)
    places = {problem.where.rpartition("→ ")[2] for problem in caught.value.problems}
    assert places == {
        "items[0].label", "judge_n", "repeats", "timeout_s", "system", "judge_model", "concurrency",
    }  # fmt: skip
    with pytest.raises(InputError, match="there is no runner 'nobody'"):
        calibrated(written(tmp_path, EIGHT[0]), runner="nobody")
    assert server.requests == []
    assert not (tmp_path / "runs").exists()


def test_votes_are_taken_as_in_a_run(tmp_path: Path, server: Loopback) -> None:
    replies = iter([True, False, True])
    server.reply = lambda body, count: text(judge_json(next(replies)))
    result = calibrated(written(tmp_path, EIGHT[0]), judge_n=3)
    assert (len(server.requests), result.agreement.judgements) == (3, 1)
    assert result.record["items"][0]["verdicts"] == [True]


# --- repeats -----------------------------------------------------------------------------------------------


def by_item(table: dict[str, str]) -> Scripted:
    """A judge that says of each answer in turn what the table says: y, n, or ? for no verdict."""
    turns = {answer: iter(marks) for answer, marks in table.items()}

    def script(request: Request) -> Answer:
        if "could not be read" in request.prompt:
            return Answer("again nothing")
        mark = next(turns[answer_in(request.prompt)])
        return Answer("hm") if mark == "?" else verdict(mark == "y")

    return Scripted(script)


def test_the_majority_of_the_decided_repeats_counts(tmp_path: Path) -> None:
    """Rows: 3 of 3, 2 of 3, 1 of 1 decided, a tie, nothing decided.

    Of the three items with two or more verdicts one is unanimous; pairs agree on 1, 1/3 and 0 of them.
    """
    judge = by_item({"a": "yyy", "b": "nyn", "c": "??y", "d": "yn?", "e": "???"})
    items = [item(name, name, True) for name in "abcde"]
    result = calibrated(written(tmp_path, *items), runner=judge, repeats=3, concurrency=1)
    found = result.agreement
    assert (found.tp, found.fn, found.judged, found.abstained, found.ties) == (2, 1, 3, 2, 1)
    assert (found.judgements, dict(found.undecided)) == (15, {"grader_unparseable": 6})
    assert found.self_consistency.n == 3
    assert found.self_consistency.value == pytest.approx(1 / 3)
    assert found.self_disagreement.value == pytest.approx((0 + 2 / 3 + 1) / 3)
    ac1 = stats.gwet_ac1([[0, 3], [2, 1], [0, 1], [1, 1]])
    assert ac1 is not None
    assert found.self_ac1.value == ac1.ac1
    assert "abstained 2 (1 by a tie of the repeats)" in str(result)
    assert "self-consistency: all repeats alike on 1/3 (33%" in str(result)
    frame = result.items
    assert frame["verdict"].to_list() == [True, False, True, None, None]
    assert frame["decided"].to_list() == [3, 3, 1, 2, 0]


def test_repeats_are_sampled_with_seeds_of_their_own(tmp_path: Path) -> None:
    def seeds(repeats: int) -> tuple[list[int], set[bool]]:
        judge = Scripted(lambda request: verdict(True))
        calibrated(written(tmp_path, *EIGHT[:2]), runner=judge, repeats=repeats)
        return [one.seed for one in judge.requests], {one.sampled for one in judge.requests}

    once, sampled = seeds(1)
    assert (len(set(once)), sampled) == (2, {False})
    thrice, sampled = seeds(3)
    assert (len(set(thrice)), sampled) == (6, {True})
    assert set(once) < set(thrice)
    assert seeds(3)[0] == thrice


# --- interrupts --------------------------------------------------------------------------------------------


class Closing(Scripted):
    """A judge whose calls take their time, and which knows whether it was closed."""

    closed = False
    cancelled = 0

    async def answer(self, request: Request) -> Answer:
        try:
            await asyncio.sleep(0.05 if len(self.requests) < 3 else 30)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return await super().answer(request)

    async def aclose(self) -> None:
        self.closed = True


def test_an_interrupt_ends_the_judge_and_keeps_what_was_judged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    judge = Closing(lambda request: verdict(True))
    path = written(tmp_path, *EIGHT)

    def interrupt(counts: Any) -> None:
        if counts.done >= 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        calibrated(path, runner=judge, progress=interrupt, concurrency=1)
    assert judge.closed
    assert judge.cancelled == 1
    (record,) = log_lines(path)
    assert record["partial"] == "interrupted"
    kept = Calibration(record).agreement
    assert (kept.judged, kept.missing, kept.abstained) == (3, 5, 0)
    assert "decided 3/8 items · 5 never asked" in str(Calibration(record))
    judge_of: dict[str, Any] = {
        "judge_model": "sonnet",
        "judge_runner": "scripted",
        "judge_hash": prompt_hash(),
    }
    assert known_error(tmp_path / "runs" / "log.jsonl", **judge_of) is None
    whole = calibrated(path, runner=Scripted(lambda request: verdict(True)))
    assert whole.record["driftReason"] == "the first calibration with these items, repeats and votes"


# --- drift -------------------------------------------------------------------------------------------------

FORTY = [item(f"i{number:02}", f"answer {number:02}", number % 2 == 0) for number in range(40)]


def passing(*fails: int, runner_name: str = "scripted") -> Runner:
    """A judge that passes all but these."""
    judge = Scripted(
        lambda request: verdict(int(answer_in(request.prompt).removeprefix("answer ")) not in fails)
    )
    judge.name = runner_name
    return judge


def test_a_judge_that_became_stricter_is_told(tmp_path: Path) -> None:
    """0 up and 6 down of 40: p 0.0186 by the reference."""
    path = written(tmp_path, *FORTY)
    first = calibrated(path, runner=passing())
    assert first.record["drift"] is None
    assert (
        "drift: not compared (the first calibration with these items, repeats and votes)"
        in str(first).splitlines()
    )
    second = calibrated(path, runner=passing(0, 1, 2, 3, 4, 5))
    drift = second.record["drift"]
    assert (drift["verdict"], drift["n"], drift["up"], drift["down"], drift["check"]) == (
        "drifted down", 40, 0, 6, 1,
    )  # fmt: skip
    assert drift["p"] == pytest.approx(0.01863120793, abs=1e-8)
    assert drift["downItems"] == [f"i0{number}" for number in range(6)]
    assert (drift["since"], drift["sameJudge"]) == (first.record["ts"], True)
    line = next(line for line in str(second).splitlines() if line.startswith("drift"))
    assert line.startswith(f"drift: drifted down since {first.record['ts'][:16]} (the same judge and prompt)")
    assert "0 up, 6 down of 40 items · flip rate 6/40 (15%, 95% CI 7…29%) · p 0.019" in line
    back = calibrated(path, runner=passing(0, 1, 2, 3, 4, 5))
    assert (back.record["drift"]["verdict"], back.record["drift"]["check"]) == ("no drift seen", 2)
    smallest = stats.smallest_drift(40, 0.05 / 6)
    assert back.record["drift"]["couldMiss"] == smallest
    third = calibrated(path, runner=passing())
    assert third.record["drift"]["pChecks"] == pytest.approx(12 * 0.01863120793, abs=1e-7)
    assert third.record["drift"]["verdict"] == "no drift seen"
    assert "check 3: counting the checks p 0.22" in str(third)
    found = third.against(first)
    assert found is not None
    assert (found.up, found.down, found.verdict) == (0, 0, "no drift seen")


def test_what_it_is_compared_with(tmp_path: Path) -> None:
    """The same judge and prompt before others; else one that shares name or prompt; else nothing."""
    path = written(tmp_path, *FORTY)
    one = calibrated(path, runner=passing(), judge_model="one")
    other = calibrated(path, runner=passing(1), judge_model="other")
    assert (other.record["drift"]["since"], other.record["drift"]["sinceJudge"]) == (
        one.record["ts"], "scripted one",
    )  # fmt: skip
    assert "(then judge scripted one, model one)" in str(other)
    again = calibrated(path, runner=passing(), judge_model="one")
    assert again.record["drift"]["since"] == one.record["ts"]
    prompt = calibrated(path, runner=passing(), judge_model="one", system="Another text.")
    assert prompt.record["drift"]["since"] == again.record["ts"]
    assert f"(then prompt {prompt_hash()})" in str(prompt)
    stranger = calibrated(path, runner=passing(), judge_model="third", system="A third text.")
    assert stranger.record["driftReason"] == (
        "no earlier calibration with these items shares this judge's name or prompt"
    )
    repeated = calibrated(path, runner=passing(), judge_model="one", repeats=3)
    assert repeated.record["driftReason"] == "the first calibration with these items, repeats and votes"
    changed = calibrated(written(tmp_path, *FORTY[:-1]), runner=passing(), judge_model="one")
    assert changed.record["driftReason"] == "the first calibration with these items, repeats and votes"


def test_flips_both_ways_beyond_its_own_noise_are_instability(tmp_path: Path) -> None:
    path = written(tmp_path, *FORTY)
    calibrated(path, runner=passing(*range(20)), repeats=3)
    second = calibrated(path, runner=passing(*range(8, 28)), repeats=3)
    drift = second.record["drift"]
    assert (drift["up"], drift["down"], drift["verdict"]) == (8, 8, "unstable")
    assert drift["selfDisagreement"] == 0
    assert "it contradicts itself on 0% of pairs of repeats" in str(second)
    calibrated(path, runner=passing(*range(20)))
    single = calibrated(path, runner=passing(*range(8, 28)))
    assert single.record["drift"]["verdict"] == "unstable"  # its noise is known from the repeats above


def test_unknown_noise_is_said(tmp_path: Path) -> None:
    path = written(tmp_path, *FORTY)
    calibrated(path, runner=passing(*range(20)))
    second = calibrated(path, runner=passing(*range(8, 28)))
    assert second.record["drift"]["verdict"] == "no drift seen"
    assert "its own noise is not known: calibrate with repeats=3" in str(second)
    assert "drift: no drift seen (could miss ≤ 17%) since" in str(second)  # 0.162 at 40 items


def test_two_items_can_show_no_drift(tmp_path: Path) -> None:
    path = written(tmp_path, *FORTY[:2])
    calibrated(path, runner=passing())
    assert "no drift seen (so few items can show none)" in str(calibrated(path, runner=passing()))
    nothing = Scripted(lambda request: Answer("hm"))
    assert calibrated(path, runner=nothing).record["driftReason"] == "no item was decided both times"


# --- reading the log ---------------------------------------------------------------------------------------


def test_calibrations_as_a_frame(tmp_path: Path, server: Loopback) -> None:
    path = written(tmp_path, *EIGHT)
    calibrated(path)
    calibrated(path)
    log = tmp_path / "runs" / "log.jsonl"
    frame = load_calibrations(log)
    assert frame.height == 2
    row = frame.row(1, named=True)
    assert {name: row[name] for name in (
        "judge_model", "resolved_judge_model", "judge_runner", "judge_hash", "calibration", "source", "judge_n",
        "repeats", "items", "judged", "abstained", "tp", "fn", "tn", "fp", "accuracy", "sensitivity", "specificity",
        "self_consistency", "drift", "drift_items", "drift_up", "drift_down", "drift_check", "drift_same_judge",
    )} == {
        "judge_model": "sonnet", "resolved_judge_model": "claude-sonnet-4-6", "judge_runner": "anthropic",
        "judge_hash": prompt_hash(), "calibration": "house.calibration", "source": "file", "judge_n": 1, "repeats": 1,
        "items": 8, "judged": 8, "abstained": 0, "tp": 3, "fn": 1, "tn": 2, "fp": 2, "accuracy": 0.625,
        "sensitivity": 0.75, "specificity": 0.5, "self_consistency": None, "drift": "no drift seen",
        "drift_items": 8, "drift_up": 0, "drift_down": 0, "drift_check": 1, "drift_same_judge": True,
    }  # fmt: skip
    assert (row["accuracy_low"], row["accuracy_high"]) == stats.wilson(0.625, 8)
    assert row["kappa"] == pytest.approx(0.25)
    assert row["drift_since"] == frame["ts"][0]
    assert frame.row(0, named=True)["drift"] is None
    assert frame.schema["ts"] == pl.Datetime("ms", "UTC")
    items = load_calibrations(log, level="item")
    assert items.height == 16
    assert items.row(3, named=True) == {
        "ts": frame["ts"][0], "judge_model": "sonnet", "resolved_judge_model": "claude-sonnet-4-6",
        "judge_runner": "anthropic", "judge_hash": prompt_hash(), "calibration": "house.calibration",
        "calibration_hash": load_calibration(path).hash, "item": "p4", "rubric": "good", "label": True,
        "verdict": False, "decided": 1, "repeats": 1,
    }  # fmt: skip


def test_a_log_without_calibrations_is_an_empty_frame_with_its_columns(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    log.write_text('{"kind":"eval","cases":[]}\n')
    full = tmp_path / "full.jsonl"
    full.write_text('{"kind":"calibration","items":[]}\n')
    for level in ("calibration", "item"):
        empty = load_calibrations(log, level=level)
        assert empty.height == 0
        assert empty.schema == load_calibrations(full, level=level).schema
    log.write_text("")
    assert load_calibrations(log).height == 0
    with pytest.raises(InputError, match="there is no log here"):
        load_calibrations(tmp_path / "none.jsonl")
    with pytest.raises(InputError, match="there is no level 'case'"):
        load_calibrations(log, level="case")


def test_what_stands_oddly_in_a_log_reads_as_null(tmp_path: Path) -> None:
    good = {"id": "a", "label": True, "verdicts": [True]}
    odd = [{"id": "b", "label": "yes", "verdicts": [True]}, {"id": 5}, "x", {"id": "c", "label": True}]
    record = {
        "kind": "calibration", "ts": 7, "judgeModel": ["x"], "repeats": "1", "items": [good, *odd],
        "drift": {"verdict": "no drift seen", "n": 1.5, "since": "when"},
    }  # fmt: skip
    log = tmp_path / "log.jsonl"
    lines = [json.dumps(one, separators=(",", ":")) for one in (record, {"kind": "calibration", "items": {}})]
    log.write_text("\n".join([*lines, '{"kind":"calibration","items":[']))
    with pytest.warns(LogWarning, match="line 3"):
        frame = load_calibrations(log)
    assert frame.height == 2
    row = frame.row(0, named=True)
    assert (row["items"], row["tp"], row["ts"], row["judge_model"]) == (1, 1, None, None)
    assert (row["drift"], row["drift_items"], row["drift_since"]) == ("no drift seen", None, None)


# --- the known error ---------------------------------------------------------------------------------------


def sonnet(log: Path, **more: Any) -> dict[str, Any]:
    return {
        "log": log, "judge_model": "claude-sonnet-4-6", "judge_runner": "anthropic", "judge_hash": prompt_hash(),
        **more,
    }  # fmt: skip


def test_the_error_of_exactly_this_judge_and_prompt(tmp_path: Path, server: Loopback) -> None:
    path, log = written(tmp_path, *EIGHT), tmp_path / "runs" / "log.jsonl"
    assert known_error(**sonnet(log)) is None
    calibrated(path)
    server.reply = lambda body, count: text(judge_json(answer_in(body["messages"][0]["content"]) != "fine"))
    last = calibrated(path)  # passes all but one: tp 3, fn 1, tn 0, fp 4
    calibrated(path, system="Another prompt.")
    calibrated(path, judge_model="haiku")
    found = known_error(**sonnet(log))
    assert found is not None
    assert (found.tp, found.fn, found.tn, found.fp, found.n) == (3, 1, 0, 4, 8)
    assert (found.ts, found.calibrations) == (last.record["ts"], ("house.calibration",))
    assert (found.sensitivity.value, found.specificity.value) == (0.75, 0)
    assert str(found).startswith("passes 3/4 (75%, 95% CI 30…95%) of what people pass, fails 0/4 (0%")
    others: list[dict[str, Any]] = [
        {"judge_model": "sonnet"}, {"judge_runner": "claude"}, {"judge_hash": "0" * 16}, {"judge_n": 3},
    ]  # fmt: skip
    for other in others:
        assert known_error(**sonnet(log, **other)) is None
    calibrated(path, judge_n=3)
    of_three = known_error(**sonnet(log, judge_n=3))
    assert of_three is not None
    assert of_three.n == 8
    assert known_error(**sonnet(log)) == found, "what most of three votes say is another judge"


def test_calibrations_of_several_files_count_together_each_once(tmp_path: Path, server: Loopback) -> None:
    first = written(tmp_path, *EIGHT)
    calibrated(first)
    calibrated(first)
    calibrated(written(tmp_path, EIGHT[0], EIGHT[6], name="more"))
    found = known_error(**sonnet(tmp_path / "runs" / "log.jsonl"))
    assert found is not None
    assert (found.tp, found.fn, found.tn, found.fp) == (4, 1, 3, 2)
    assert found.calibrations == ("house.calibration", "more.calibration")


def test_a_judged_rate_is_corrected_by_the_known_error(tmp_path: Path, server: Loopback) -> None:
    """The reference's own: 18 of 20 judged passes, se 19/20, sp 14/20 give 0.923."""
    passes = [item(f"p{n}", "good" if n < 19 else "bad", True) for n in range(20)]
    fails = [item(f"f{n}", "bad" if n < 14 else "good", False) for n in range(20)]
    path = written(tmp_path, *passes, *fails)
    calibrated(path)
    error = known_error(**sonnet(tmp_path / "runs" / "log.jsonl"))
    assert error is not None
    assert (error.tp, error.fn, error.tn, error.fp) == (19, 1, 14, 6)
    found = corrected(error, 18, 20)
    assert found is not None
    assert found.point == pytest.approx(0.9230769231, abs=1e-8)
    assert found.ci == pytest.approx((0.5803120631, 1.0), abs=1e-8)
    assert corrected(error, 0, 0) is None
    calibrated(written(tmp_path, *passes, name="house"))
    one_kind = known_error(**sonnet(tmp_path / "runs" / "log.jsonl"))
    assert one_kind is not None
    assert corrected(one_kind, 18, 20) is None


# --- how it shows itself -----------------------------------------------------------------------------------


def test_text_from_a_file_is_text(tmp_path: Path, server: Loopback) -> None:
    name = "<script>alert(1)</script>\x1b[31m"
    result = calibrated(written(tmp_path, item(name, "bad", True)))
    assert "wrong on 1: <script>alert(1)</script>" in str(result)
    assert "\x1b" not in str(result)
    page = result._repr_html_()
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert repr(result) == str(result)


def test_progress_is_told(tmp_path: Path, server: Loopback, capsys: pytest.CaptureFixture[str]) -> None:
    seen: list[tuple[int, int]] = []
    calibrated(
        written(tmp_path, *EIGHT), progress=lambda counts: seen.append((counts.done, counts.total)), repeats=2
    )
    assert seen[0] == (0, 16)
    assert seen[-1] == (16, 16)
    calibrated(written(tmp_path, *EIGHT), progress=None, runner="auto")
    assert "runner anthropic: ANTHROPIC_API_KEY is set; 8 judge calls" in capsys.readouterr().err


@pytest.mark.skipif(not runner_local.installed(), reason="needs the embedded model")
def test_the_local_model_is_measured_as_it_is(tmp_path: Path) -> None:
    shipped = json.loads(SHIPPED.read_text(encoding="utf-8"))
    wanted = ("plain-words/two-words", "plain-words/leverages", "commit-message/subject-only")
    items = [one for one in shipped["items"] if one["id"] in wanted]
    path = written(tmp_path, *items, rubrics=shipped["rubrics"])
    result = calibrate_judge(path, runner="local", progress=False, timeout_s=2)
    found = result.agreement
    assert (found.items, found.judgements, found.missing) == (3, 3, 0)
    assert found.judged + found.abstained == 3
    assert set(found.undecided) <= {"grader_timeout", "grader_unparseable"}
    assert Counter(result.items["label"].to_list()) == {True: 1, False: 2}
    assert result.record["judgeRunner"] == "local"
