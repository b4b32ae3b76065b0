"""A tuning session from text to history, against a real HTTP server and the real SDK."""

from __future__ import annotations

import asyncio
import json
import signal
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from loopback import Loopback, Reply, judge_json, sleep, text
from worlds import BODY, SKILL, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, SkillChanged, SkillError
from skilleval_nb.folder import RunFolder
from skilleval_nb.tuning import TuneSession

EDITED = SKILL.replace(BODY, f"{BODY} Always.")


def is_judge(body: dict[str, Any]) -> bool:
    return "output_config" in body or "grade" in str(body.get("system", ""))


def magic(body: dict[str, Any], count: int = 0) -> Reply:
    """A model that says magic where its system text asks for it."""
    if is_judge(body):
        return text(judge_json("magic!" in body["messages"][0]["content"]))
    return text("magic!" if "MAGIC" in str(body.get("system")) else "plain")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(magic) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def session(root: Path, *cases: dict[str, Any], skill: str = SKILL, **settings: Any) -> TuneSession:
    path = project(root, *(cases or (case("a"), case("b"))), skill=skill)
    return TuneSession(
        root / "skills/magic/SKILL.md", path, **{"runner": "anthropic", "progress": False, **settings}
    )


def on_disk(tuned: TuneSession) -> str:
    return tuned.path.read_text(encoding="utf-8")


def systems(server: Loopback) -> list[str | None]:
    """The system texts that the model under test was asked with, sorted."""
    bodies = [request["body"] for request in server.requests]
    return sorted(str(body.get("system")) for body in bodies if not is_judge(body))


# --- what is run again -------------------------------------------------------------------------------------


def test_editing_a_sentence_runs_exactly_the_skill_trials(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, case("a", check(), judged()), case("b"), n=3)
    first = tuned.run()
    assert (len(server.requests), first.record["reused"]) == (2 * 2 * 3 + 2 * 3, {})
    server.requests.clear()
    second = tuned.run(EDITED)
    assert systems(server) == [f"{BODY} Always."] * 6
    assert len(server.requests) == 6 + 3  # the judge grades the three new answers of case a
    assert second.record["reused"] == {"baseline": 6}
    assert "reused from earlier runs: 6 baseline trials" in str(second)
    assert "look 2" in str(second).splitlines()[0]
    assert on_disk(tuned) == SKILL, "a run saves nothing"


def test_editing_a_case_runs_that_case_in_both_conditions(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, n=3)
    tuned.run()
    server.requests.clear()
    project(tmp_path, case("a"), case("b", prompt="Another task."))
    run = tuned.run()
    assert [request["body"]["messages"][0]["content"] for request in server.requests] == ["Another task."] * 6
    assert run.record["reused"] == {"baseline": 3, "skill": 3}


def test_changing_the_judge_runs_only_grades(tmp_path: Path, server: Loopback) -> None:
    session(tmp_path, case("a", check(), judged()), n=3).run()
    server.requests.clear()
    run = session(tmp_path, case("a", check(), judged()), n=3, judge_model="opus").run()
    assert [is_judge(request["body"]) for request in server.requests] == [True] * 6
    assert run.record["reused"] == {"baseline": 3, "skill": 3}


def test_errors_are_never_reused_and_fresh_runs_everything(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    server.reply = lambda body, count: text("") if "Task a" in str(body) else magic(body)
    tuned.run()
    server.reply = magic
    server.requests.clear()
    assert tuned.run().record["reused"] == {"baseline": 1, "skill": 1}
    assert len(server.requests) == 2
    server.requests.clear()
    assert tuned.run(fresh=True).record["reused"] == {}
    assert len(server.requests) == 4


def test_a_version_can_be_resumed_without_the_session(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    server.reply = lambda body, count: text("") if "Task a" in str(body) else magic(body)
    first = tuned.run(EDITED)
    assert first.record["skill"] == "skills/magic/SKILL.md"
    server.reply = magic
    server.requests.clear()
    again = se.run_set(tmp_path / "sets/magic.json", resume=first.id, runner="anthropic", progress=False)
    assert systems(server) == sorted([f"{BODY} Always.", "None"])
    assert (again.id, again.gate, again.record["skill"]) == (first.id, "PASS", "skills/magic/SKILL.md")
    assert tuned.history["version"].to_list() == [again.record["skillHash"]]
