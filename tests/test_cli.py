"""The command line as a user meets it: real processes, exit codes, what is printed where, interrupts and crashes."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, Reply, sleep, status, text
from worlds import BODY, case, check, judged, project

TIMEOUT_S = 60


def magic(body: dict[str, Any], count: int = 0) -> Reply:
    return text("magic!" if body.get("system") == BODY else "plain")


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback(magic) as loopback:
        yield loopback


def environment(server: Loopback | None = None, **more: str) -> dict[str, str]:
    """This process's environment without what would choose a model, plus the loopback server."""
    hidden = ("ANTHROPIC_", "EVAL_", "CLAUDE")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(hidden)}
    return {**kept, "PYTHONWARNINGS": "error", **(server.env if server else {}), **more}


def start(folder: Path, *words: str, env: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "skilleval_nb.cli", *words],
        cwd=folder,
        env=dict(env),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def cli(folder: Path, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    with start(folder, *words, env=env or environment()) as process:
        out, err = process.communicate(timeout=TIMEOUT_S)
    return subprocess.CompletedProcess(words, process.returncode, out, err)


def wait_for(server: Loopback, calls: int) -> None:
    deadline = time.monotonic() + 30
    while len(server.requests) < calls:
        assert time.monotonic() < deadline, "the run never came so far"
        time.sleep(0.01)


HOSTILE = "\x1b[31mred\x1b]0;title\x07\x9b2J\u202e\r\nship gate: PASS"


@pytest.mark.parametrize(
    "words",
    [
        ("validate", "sets/noted.json"),
        ("validate", "--strict", "sets/noted.json"),
        ("validate", "sets/wrong.json"),
        ("run", "--runner", "replay:none", "sets/wrong.json"),
        ("plan", "sets/wrong.json"),
        ("dark-room", "sets/wrong.json"),
        ("validate", "sets/odd.calibration.json"),
        ("calibrate", "sets/bad.calibration.json"),
        ("report", HOSTILE),
        ("regrade", HOSTILE),
        ("regrade", "--resume", HOSTILE),
        ("compare", HOSTILE),
    ],
    ids=" ".join,
)
def test_what_files_and_users_say_steers_no_terminal(tmp_path: Path, words: tuple[str, ...]) -> None:
    odd: dict[str, Any] = {HOSTILE: 1}
    project(tmp_path, case("a", {**check(), **odd}, **odd), name="noted", **odd)
    project(tmp_path, case("b", check(HOSTILE), **odd), case("c", check("sniffs", HOSTILE)), name="wrong")
    item = {"id": "i", "rubric": "r", "task": "t", "answer": "a", "label": True, **odd}
    judges = {"kind": "calibration", "rubrics": {"r": "R.", HOSTILE: "R."}, "items": [item]}
    (tmp_path / "sets" / "odd.calibration.json").write_text(json.dumps(judges))
    bad = {**judges, "items": [{**item, "rubric": HOSTILE + "!"}]}
    (tmp_path / "sets" / "bad.calibration.json").write_text(json.dumps(bad))
    done = cli(tmp_path, *words)
    said = done.stdout + done.stderr
    assert "red" in said
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", said)
    assert not re.search("^ship gate", said, re.MULTILINE)


def test_run_prints_the_result_and_ends_with_the_gate(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"))
    done = cli(tmp_path, "run", str(path), env=environment(server))
    lines = done.stdout.splitlines()
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(r"magic · anthropic haiku · inject · n=1 · look 1", lines[0])
    assert lines[1] == "pass rate   baseline 0/2 (0%)   with-skill 2/2 (100%)   Δ +100%"
    assert lines[2] == "ship gate: PASS — skill moves the number"
    assert lines[3].startswith("evidence: ")
    assert "measured 4/4 trials · 0 errors" in done.stdout
    assert re.search(r"next: .* lab ", done.stdout)
    assert "ANTHROPIC_API_KEY is set; 4 calls" in done.stderr


@pytest.mark.parametrize(
    ("skill_says", "baseline_says", "code", "word"),
    [("magic", "plain", 0, "PASS"), ("plain", "plain", 1, "NO MOVEMENT"), ("plain", "magic", 1, "REGRESSION"),
     (None, "plain", 3, "NOT MEASURED")],
)  # fmt: skip
def test_exit_codes(
    tmp_path: Path, server: Loopback, skill_says: str | None, baseline_says: str, code: int, word: str
) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        says = skill_says if body.get("system") == BODY else baseline_says
        return status(400, "invalid_request_error") if says is None else text(says)

    server.reply = reply
    done = cli(tmp_path, "run", str(project(tmp_path)), env=environment(server))
    assert done.returncode == code
    assert f"ship gate: {word}" in done.stdout


def test_no_movement_is_explained_as_the_seed_does(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: text("plain")
    done = cli(tmp_path, "run", str(project(tmp_path)), env=environment(server))
    assert "already behaves this way" in done.stdout
    assert "pulling its weight" in done.stdout
    assert "does this skill earn its context budget?" in done.stdout


def test_bad_input_is_exit_2_with_every_problem_and_nothing_done(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("../../x"), case("b", check(pattern="(")), {"id": "c"})
    done = cli(tmp_path, "run", str(path), env=environment(server))
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 4
    assert "Traceback" not in done.stderr
    assert server.requests == []
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["run"],
        ["run", "none.json"],
        ["run", "x.json", "--no-such"],
        ["no-such-command"],
        ["report", "none"],
        ["log"],
    ],
)
def test_wrong_words_are_exit_2(tmp_path: Path, words: list[str]) -> None:
    done = cli(tmp_path, *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr
    assert "Traceback" not in done.stderr


def test_without_any_model_the_three_ways_are_named(tmp_path: Path) -> None:
    env = environment(PATH="", HOME=str(tmp_path), XDG_CACHE_HOME=str(tmp_path), SKILLEVAL_GGUF="")
    done = cli(tmp_path, "run", str(project(tmp_path)), env=env)
    assert done.returncode == 2
    for way in ("ANTHROPIC_API_KEY", "claude CLI", "fetch-model"):
        assert way in done.stderr


def test_validate_reports_all_sets_and_refuses_a_missing_skill(tmp_path: Path) -> None:
    good = project(tmp_path, case("a"), name="good")
    bad = project(tmp_path, case("a", check("nope")), name="bad")
    lost = project(tmp_path, case("a"), name="lost")
    lost.write_text(lost.read_text().replace("skills/magic", "skills/gone"))
    done = cli(tmp_path, "validate")
    assert done.returncode == 2
    assert "good.json: 1 case," in done.stdout
    assert "bad.json → cases[0].assert[0]: unknown kind 'nope'" in done.stderr
    assert "'skills/gone/SKILL.md' was not found" in done.stderr
    assert cli(tmp_path, "validate", str(good)).returncode == 0
    assert bad.exists()


def test_plan_calls_nothing(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b"))
    done = cli(tmp_path, "plan", str(path), "-n", "3", env=environment(server))
    assert done.returncode == 0, done.stderr
    assert "2 cases × 2 conditions × 3 = 12 executor calls + up to 6 judge calls" in done.stdout
    assert server.requests == []


def test_report_and_log_show_a_run_again(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    first = cli(tmp_path, "run", str(path), env=environment(server))
    again = cli(tmp_path, "report")
    assert (again.returncode, again.stdout) == (0, first.stdout.rsplit("next:", 1)[0])
    record = json.loads(cli(tmp_path, "report", "last", "--json").stdout)
    assert (record["kind"], record["gate"]) == ("eval", "PASS")
    listed = cli(tmp_path, "log")
    assert record["runId"] in listed.stdout
    assert "0/1 → 1/1" in listed.stdout


def test_the_log_command_counts_from_one_and_names_what_it_did_not_find(
    tmp_path: Path, server: Loopback
) -> None:
    cli(tmp_path, "run", str(project(tmp_path)), env=environment(server))
    assert cli(tmp_path, "log", "--limit", "0").returncode == 2
    done = cli(tmp_path, "log", "--set", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no run of 'nope'" in done.stderr


@pytest.mark.parametrize("level", ["run", "case", "trial", "check"])
def test_the_columns_are_told_with_units_and_what_null_means(tmp_path: Path, level: str) -> None:
    done = cli(tmp_path, "log", "--columns", level)
    assert done.returncode == 0
    assert "| run_id |" in done.stdout
    assert cli(tmp_path, "log", "--columns", "no-level").returncode == 2


def test_version() -> None:
    import skilleval_nb

    assert cli(Path.cwd(), "--version").stdout == f"skilleval_nb {skilleval_nb.__version__}\n"


def test_dark_rooms_are_flagged(tmp_path: Path) -> None:
    project(tmp_path, case("a", difficulty=1), case("b", difficulty=1), name="dark")
    project(tmp_path, case("a"), name="untagged")
    project(tmp_path, case("a", difficulty=2), case("b"), name="some")
    project(tmp_path, case("a", difficulty=1), case("b", difficulty=3), name="fine")
    done = cli(tmp_path, "dark-room")
    verdicts = {
        line.split()[1].removesuffix(":").rsplit("/", 1)[-1]: line.split()[0]
        for line in done.stdout.splitlines()
    }
    assert done.returncode == 1
    assert verdicts == {
        "dark.json": "darkroom",
        "untagged.json": "untagged",
        "some.json": "partial",
        "fine.json": "ok",
    }
    assert cli(tmp_path, "dark-room", "sets/fine.json").returncode == 0


def test_self_test_proves_the_scorer_with_no_model(tmp_path: Path) -> None:
    done = cli(tmp_path, "self-test")
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("\nok  ") >= 30
    assert done.stdout.endswith("self-test: all held\n")


def test_lab_copies_notebooks_and_overwrites_nothing(tmp_path: Path) -> None:
    (tmp_path / "notebooks").mkdir()
    mine = tmp_path / "notebooks" / "01_run_a_set.ipynb"
    mine.write_text("mine")
    done = cli(tmp_path, "lab", "--copy-only")
    assert done.returncode == 0, done.stderr
    assert mine.read_text() == "mine"
    assert (tmp_path / "sets" / "typed-python.json").is_file()


def test_an_empty_set_is_exit_0_and_says_so(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    path.write_text('{"skill": "skills/magic/SKILL.md", "cases": []}')
    done = cli(tmp_path, "run", str(path), env=environment(server))
    assert done.returncode == 0
    assert "no cases" in done.stderr


def test_two_runs_at_once_leave_two_whole_lines(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(f"c{number}") for number in range(20)))
    both = [start(tmp_path, "run", str(path), env=environment(server)) for _ in range(2)]
    for process in both:
        with process:
            process.communicate(timeout=TIMEOUT_S)
        assert process.returncode == 0
    lines = (tmp_path / "runs" / "log.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    assert len({record["runId"] for record in records}) == 2
    assert [record["trialsMeasured"] for record in records] == [40, 40]


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_resume(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: magic(body) if count <= 5 else sleep(60, text("late"))
    path = project(tmp_path, *(case(f"c{number}") for number in range(5)))
    with start(tmp_path, "run", str(path), "--concurrency", "2", env=environment(server)) as process:
        wait_for(server, 7)
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=TIMEOUT_S)
    assert time.monotonic() - began < 10
    assert process.returncode == 130
    resume = re.search(r"interrupted: 5 of 10 trials are kept; go on with skilleval (run .*?) or ", err)
    assert resume, err
    assert "Traceback" not in err
    folder = next((tmp_path / "runs").glob("*-magic"))
    assert len((folder / "trials.jsonl").read_text().splitlines()) == 5
    assert not (tmp_path / "runs" / "log.jsonl").exists()
    report = cli(tmp_path, "report", folder.name)
    assert "partial (interrupted): 5/10 trials were started" in report.stdout
    server.reply = magic
    done = cli(tmp_path, *resume[1].split(), env=environment(server))
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 7 + 5
    assert "measured 10/10 trials" in done.stdout
    assert len(list((tmp_path / "runs").glob("*-magic"))) == 1


def test_kill_9_loses_no_finished_trial(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: magic(body) if count <= 6 else sleep(60, text("late"))
    path = project(tmp_path, *(case(f"c{number}") for number in range(4)))
    with start(
        tmp_path, "run", str(path), "-n", "3", "--concurrency", "1", env=environment(server)
    ) as process:
        wait_for(server, 7)
        process.kill()
        process.communicate(timeout=TIMEOUT_S)
    folder = next((tmp_path / "runs").glob("*-magic"))
    trials = folder / "trials.jsonl"
    assert len(trials.read_text().splitlines()) == 6
    with trials.open("a") as file:
        file.write('{"caseId": "c1", "condi')  # what a crash in the middle of a write would leave
    server.reply = magic
    done = cli(tmp_path, "run", str(path), "--resume", "last", env=environment(server))
    assert done.returncode == 0, done.stderr
    assert len(server.requests) == 7 + (4 * 2 * 3 - 6)
    assert "measured 24/24 trials" in done.stdout
    assert all(json.loads(line) for line in trials.read_text().splitlines())
    texts = sorted(file.name for file in folder.glob("*.txt"))
    assert texts == sorted(f"c{number}.{name}.txt" for number in range(4) for name in ("baseline", "skill"))
    assert (folder / "c0.skill.txt").read_text().count("magic!") == 3
