"""A tuning session from text to history, against a real HTTP server and the real SDK."""

from __future__ import annotations

import asyncio
import json
import os
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
from skilleval_nb.progress import Quiet
from skilleval_nb.tuning import TuneSession
from skilleval_nb.versions import Versions

EDITED = SKILL.replace(BODY, f"{BODY} Always.")
SKILL_PATH = Path("/project/skills/magic/SKILL.md")


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


def systems(server: Loopback) -> list[str]:
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


# --- looks, confirmation and topping up --------------------------------------------------------------------


def test_looks_are_counted_and_a_confirmation_runs_all_afresh(tmp_path: Path, server: Loopback) -> None:
    cases = [case(f"c{number}") for number in range(6)]
    tuned = session(tmp_path, *cases, n=3)
    tuned.run(SKILL.replace("MAGIC", "nothing"))
    looked = tuned.run(SKILL)
    # 18 of 18 against 0 of 18 on a reused baseline: a claim, paid for as the second look
    assert "reused from earlier runs: 18 baseline trials" in str(looked)
    line = looked.record["evidence"]["line"]
    assert "improves on these prompts" in line
    assert "look 2: counting the looks p" in line
    assert line.endswith("confirm to settle")
    tuned.text = "---\nname: magic\n---\nNot yet run."
    server.requests.clear()
    settled = tuned.confirm()
    assert systems(server) == sorted([BODY] * 18 + ["None"] * 18)
    record = settled.record
    assert (record["confirm"], record["reused"], record["skillHash"]) == (
        True, {}, looked.record["skillHash"]
    )  # fmt: skip
    assert record["evidence"]["pLooks"] == record["evidence"]["pSet"]
    assert tuned.run(EDITED).record["evidence"]["look"] == 1


def test_a_confirmation_runs_the_whole_set(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, case_ids=["a"])
    tuned.run()
    assert len(server.requests) == 2
    assert not tuned.confirm().record["subset"]
    assert len(server.requests) == 2 + 4


def test_only_fresh_pairs_of_the_version_count_as_evidence(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, n=3)
    assert str(tuned.e_value) == "e-value: none, as nothing was run yet"
    tuned.run(SKILL.replace("MAGIC", "nothing"))
    tuned.run(SKILL)
    assert (tuned.e_value.value, tuned.e_value.pairs) == (None, 0)
    assert "1 of them with a baseline reused" in str(tuned.e_value)
    assert "top_up()" in str(tuned.e_value)
    first = tuned.top_up()
    assert (first.record["reused"], first.record["confirm"]) == ({}, False)
    # 6 wins, no loss: (2**7 - 1) / 7 by the formula of statistics.md
    found = tuned.e_value
    assert found.value == pytest.approx(127 / 7)
    assert found.fall == pytest.approx(1 / 7)
    assert (found.wins, found.losses, found.pairs, found.runs) == (6, 0, 6, 1)
    assert str(found) == (
        "e-value 18.1 for a rise (40 settles it): skill alone passed 6, baseline alone 0 of 6 fresh pairs in 1 run"
    )
    tuned.top_up()
    assert tuned.e_value.value == pytest.approx((2**13 - 1) / 13)
    assert "(settled)" in str(tuned.e_value)
    tuned.run(EDITED)
    assert tuned.e_value.value is None, "evidence belongs to one version"


def test_a_fall_and_a_tie_are_told_apart(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, case("a"), case("b"), case("c"))
    tuned.run()
    server.reply = lambda body, count: text(
        {("Task a.", True): "plain", ("Task a.", False): "magic!"}.get(
            (body["messages"][0]["content"], "system" in body), "magic!"
        )
    )
    tuned.top_up()
    # one loss, two pairs alike: e(0, 1) = 1/2, e(1, 0) = 3/2
    assert (tuned.e_value.wins, tuned.e_value.losses, tuned.e_value.pairs) == (0, 1, 3)
    assert tuned.e_value.value == pytest.approx(0.5)
    assert tuned.e_value.fall == pytest.approx(1.5)
    assert "1.5 for a fall" in str(tuned.e_value)


def test_a_pair_without_a_measurement_does_not_count(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    tuned.run()
    server.reply = lambda body, count: text("") if "Task a" in str(body) else magic(body)
    tuned.top_up()
    assert (tuned.e_value.pairs, tuned.e_value.wins) == (1, 1)


class Seeded(se.Runner):
    """Answers as its seed falls, like a local model: the same question, the same answer."""

    name = "seeded"
    fixed_model = "dice"

    def __init__(self) -> None:
        self.asked: list[tuple[bool, int, bool]] = []

    async def answer(self, request: se.Request) -> se.Answer:
        assert request.seed is not None
        self.asked.append((request.system is not None, request.seed, request.sampled))
        return se.Answer("magic" if request.seed % 2 else "plain")


def test_what_is_to_be_new_evidence_is_drawn_anew_on_a_seeded_runner(tmp_path: Path) -> None:
    runner = Seeded()
    tuned = session(tmp_path, runner=runner)
    tuned.run()
    tuned.run(fresh=True)
    looks, runner.asked = {seed for _, seed, _ in runner.asked}, []
    tuned.top_up()
    tuned.top_up()
    tuned.confirm()
    anew = {seed for _, seed, _ in runner.asked}
    assert (len(looks), len(anew), len(looks & anew)) == (4, 12, 0)
    assert all(sampled for *_, sampled in runner.asked)
    assert tuned.e_value.runs == 3


def test_the_same_draws_count_once(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    tuned.run()
    server.reply = slowly
    behind = Behind(tuned.top_up)
    until(lambda: finished(tmp_path) == 4 + 2)
    tuned.stop()
    stopped = behind.result()
    server.reply = magic
    again = session(tmp_path)  # another kernel, which knows nothing of the run that was stopped
    again.top_up()
    assert (again.e_value.pairs, again.e_value.runs) == (2, 1)
    se.run_set(tmp_path / "sets/magic.json", resume=stopped.id, runner="anthropic", progress=False)
    assert len(again.history) == 3
    assert (again.e_value.pairs, again.e_value.runs) == (2, 1)


def test_a_reused_trial_counts_never_whatever_its_run_says(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    tuned.run()
    tuned.top_up()
    lines = tuned.log.read_text().splitlines()
    record = json.loads(lines[-1])
    for item in record["cases"]:
        item["results"][0]["trials"][0]["reused"] = True
    tuned.log.write_text("\n".join([*lines[:-1], json.dumps(record)]) + "\n")
    assert (tuned.e_value.value, tuned.e_value.pairs) == (None, 0)
    assert "no pair of its fresh runs was measured" in str(tuned.e_value)


# --- history -----------------------------------------------------------------------------------------------


def test_the_history_has_a_row_for_every_run(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    assert tuned.history.is_empty()
    first = tuned.run(SKILL.replace("MAGIC", "nothing"))
    tuned.run(SKILL)
    tuned.run(SKILL)
    tuned.confirm()
    history = tuned.history
    saved = tuned.check(SKILL).skill.hash
    assert history["version"].to_list() == [first.record["skillHash"], saved, saved, saved]
    assert history["saved"].to_list() == [False, True, True, True]
    assert history["run_id"].n_unique() == 4
    assert history["delta"].to_list() == [0.0, 1.0, 1.0, 1.0]
    assert history["gate"].to_list() == ["NO MOVEMENT", "PASS", "PASS", "PASS"]
    assert history["baseline_reused"].to_list() == [0, 2, 2, 0]
    assert history["skill_reused"].to_list() == [0, 0, 2, 0]
    # the server reports 11 + 3000 + 200 tokens in and 7 out for each of 4, 2, 0 and 4 answers
    assert history["input_tokens"].to_list() == [4 * 3211, 2 * 3211, None, 4 * 3211]
    assert history["output_tokens"].to_list() == [28, 14, None, 28]
    assert history["confirm"].to_list() == [False, False, False, True]
    assert history["look"].to_list() == [1, 2, 3, 3]  # a run of reused trials alone is no look
    assert history["ts"].is_sorted()
    assert (history["delta_low"] <= history["delta"]).all()
    assert history["graded"].to_list() == [2] * 4


def test_the_history_survives_the_session_and_leaves_others_out(tmp_path: Path, server: Loopback) -> None:
    first = session(tmp_path)
    run = first.run(EDITED)
    other = project(tmp_path, case("x"), name="other")
    TuneSession(first.path, other, runner="anthropic", progress=False).run()
    skill = tmp_path / "skills/other/SKILL.md"
    skill.parent.mkdir()
    skill.write_text(SKILL, encoding="utf-8")
    TuneSession(skill, tmp_path / "sets/magic.json", runner="anthropic", progress=False).run()
    again = TuneSession(first.path.parent, tmp_path / "sets/magic.json", runner="anthropic", progress=False)
    assert again.history["run_id"].to_list() == [run.id]
    assert again.text_of(run.record["skillHash"]) == EDITED
    assert again.confirm().record["skillHash"] == run.record["skillHash"], "the last run is found in the log"


def test_a_plain_run_of_the_set_is_in_the_history_too(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    plain = se.run_set(tmp_path / "sets/magic.json", runner="anthropic", progress=False)
    assert tuned.history["run_id"].to_list() == [plain.id]
    server.requests.clear()
    assert tuned.run().record["reused"] == {"baseline": 2, "skill": 2}
    assert server.requests == []


def test_the_version_before_is_what_a_run_is_compared_with(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, case("a"), case("b", check("includes", "plain")))
    assert tuned.compared() is None
    tuned.run(SKILL.replace("MAGIC", "nothing"))
    assert tuned.compared() is None
    tuned.run(SKILL)
    tuned.run(SKILL)
    compared = tuned.compared()
    assert compared is not None
    assert compared.flips[:2] == (("a",), ("b",))


# --- versions ----------------------------------------------------------------------------------------------


def test_versions_are_kept_as_whole_files_and_never_rewritten(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    tuned.run(SKILL)
    tuned.run(EDITED)
    folder = tmp_path / "runs/versions/magic"
    names = tuned.versions["version"].to_list()
    assert names == [tuned.check(SKILL).skill.hash, tuned.check(EDITED).skill.hash]
    assert [(folder / f"{name}.md").read_text() for name in names] == [SKILL, EDITED]
    before = [(folder / f"{name}.md").stat().st_mtime_ns for name in names]
    tuned.run(SKILL)
    assert [(folder / f"{name}.md").stat().st_mtime_ns for name in names] == before
    assert tuned.versions["saved"].to_list() == [True, False]
    assert tuned.versions["current"].to_list() == [True, False]
    assert tuned.versions["characters"].to_list() == [len(SKILL), len(EDITED)]
    assert tuned.versions["tokens_estimate"].to_list() == [7, 9]  # 27 and 35 characters of body
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    status = subprocess.run(
        ["git", "status", "--porcelain", "-uall", "runs"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "versions" not in status.stdout


def test_a_new_frontmatter_is_a_version_of_the_same_skill(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    other = SKILL.replace("Says the magic word.", "Another description.")
    run, again = tuned.run(SKILL), tuned.run(other)
    assert run.record["skillHash"] == again.record["skillHash"]
    assert again.record["reused"] == {"baseline": 2, "skill": 2}
    assert tuned.versions["version"].to_list() == [run.record["skillHash"], f"{run.record['skillHash']}-2"]
    assert [tuned.text_of(name) for name in tuned.versions["version"]] == [SKILL, other]
    assert tuned.text_of(run.record["skillHash"][:6]) == SKILL


def test_versions_stay_in_order_whatever_the_clock_says(tmp_path: Path) -> None:
    found = Versions(tmp_path, SKILL_PATH)
    first = found.keep(SKILL)
    os.utime(first.path, (4e9, 4e9))
    second = found.keep(EDITED)
    assert [version.name for version in found.all()] == [first.name, second.name]


def test_versions_that_are_kept_at_once_do_not_mix(tmp_path: Path) -> None:
    texts = [SKILL.replace("the magic", f"the {number}. magic") for number in range(6)]
    kept: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda text=text: kept.append((text, Versions(tmp_path, SKILL_PATH).keep(text)))
        )
        for text in texts * 3
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Versions(tmp_path, SKILL_PATH)
    assert sorted(map(found.text_of, found.all())) == texts
    assert all(found.text_of(version) == text for text, version in kept)
    assert len(kept) == 18
    assert not [path for path in found.folder.iterdir() if path.suffix != ".md"]


def test_going_back_keeps_what_was_there(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    first = tuned.run(SKILL).record["skillHash"]
    tuned.text = EDITED
    assert tuned.go_back(first) == SKILL == tuned.text
    assert EDITED in [tuned.text_of(name) for name in tuned.versions["version"]]
    assert on_disk(tuned) == SKILL


def test_the_difference_to_the_version_before(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    first, second = (tuned.run(one).record["skillHash"] for one in (SKILL, EDITED))
    assert tuned.diff(second).splitlines() == [
        f"--- {first}", f"+++ {second}", "@@ -3,4 +3,4 @@", " description: Says the magic word.", " ---", " ",
        f"-{BODY}", f"+{BODY} Always.",
    ]  # fmt: skip
    assert tuned.diff(first).splitlines()[3] == "+---"
    assert tuned.diff(first, second).splitlines()[-2:] == [f"-{BODY} Always.", f"+{BODY}"]
    assert tuned.diff(first, first) == ""


@pytest.mark.parametrize("name", ["", "zzzz", "../../../pyproject", "0" * 16])
def test_an_unknown_version_is_refused(tmp_path: Path, server: Loopback, name: str) -> None:
    tuned = session(tmp_path)
    kept = tuned.run().record["skillHash"]
    for ask in (tuned.text_of, tuned.diff, tuned.go_back):
        with pytest.raises(InputError, match=f"no kept version.*{kept}"):
            ask(name)


def test_a_text_that_cannot_be_run_is_refused_before_any_call(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    for broken, why in (
        ("---\nname: magic\n", "not closed"),
        ("---\nname: magic\n---\n \n", "body: is empty"),
    ):
        with pytest.raises(SkillError, match=why):
            tuned.run(broken)
        assert tuned.text == broken
    assert server.requests == []
    assert not (tmp_path / "runs").exists()
    with pytest.raises(InputError, match="no run of this skill"):
        tuned.confirm()


# --- saving ------------------------------------------------------------------------------------------------


def test_saving_replaces_the_file_in_one_step_and_keeps_both_texts(tmp_path: Path) -> None:
    tuned = session(tmp_path)
    tuned.path.chmod(0o640)
    inode = tuned.path.stat().st_ino
    assert tuned.save(EDITED) == tuned.path
    assert (on_disk(tuned), tuned.is_saved, tuned.text) == (EDITED, True, EDITED)
    assert stat.S_IMODE(tuned.path.stat().st_mode) == 0o640
    assert tuned.path.stat().st_ino != inode, "the file is replaced, not written into"
    assert [tuned.text_of(name) for name in tuned.versions["version"]] == [SKILL, EDITED]
    assert [path.name for path in tuned.path.parent.iterdir()] == ["SKILL.md"]
    tuned.save("")  # a draft of nothing is the author's business
    tuned.save("")
    assert on_disk(tuned) == ""


def test_an_empty_file_can_be_begun_with(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path, skill="")
    tuned.save()
    assert tuned.versions.is_empty()
    tuned.save(SKILL)
    assert tuned.run().gate == "PASS"


def test_what_others_have_changed_is_not_saved_over(tmp_path: Path) -> None:
    tuned = session(tmp_path)
    theirs = SKILL.replace("Answer", "Reply")
    tuned.path.write_text(theirs, encoding="utf-8")
    assert tuned.is_changed_outside
    with pytest.raises(
        SkillChanged, match=r"changed by another program.*reload\(\).*keeps yours as a version"
    ):
        tuned.save(EDITED)
    assert on_disk(tuned) == theirs
    assert tuned.reload() == theirs == tuned.text
    mine = next(name for name in tuned.versions["version"] if tuned.text_of(name) == EDITED)
    tuned.go_back(mine)
    tuned.save()
    assert on_disk(tuned) == EDITED
    assert theirs in [tuned.text_of(name) for name in tuned.versions["version"]]


def test_a_file_that_is_gone_is_not_written_anew(tmp_path: Path) -> None:
    tuned = session(tmp_path)
    tuned.path.unlink()
    with pytest.raises(SkillChanged, match="is gone"):
        tuned.save(EDITED)
    assert not tuned.path.exists()
    with pytest.raises(SkillError, match="no file here"):
        tuned.reload()
    assert tuned.text == EDITED
    assert tuned.text_of(tuned.check().skill.hash) == EDITED


def test_a_change_while_it_is_saved_is_noticed_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = session(tmp_path)
    chmod = Path.chmod

    def meddle(path: Path, mode: int) -> None:
        chmod(path, mode)
        if path.parent == tuned.path.parent:
            tuned.path.write_text("theirs", encoding="utf-8")

    monkeypatch.setattr(Path, "chmod", meddle)
    with pytest.raises(SkillChanged):
        tuned.save(EDITED)
    assert on_disk(tuned) == "theirs"
    assert [path.name for path in tuned.path.parent.iterdir()] == ["SKILL.md"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    real = tmp_path / "elsewhere/real.md"
    tuned = session(tmp_path)
    real.parent.mkdir()
    tuned.path.rename(real)
    tuned.path.symlink_to(real)
    tuned = TuneSession(tuned.path, tmp_path / "sets/magic.json", progress=False)
    tuned.save(EDITED)
    assert tuned.path.is_symlink()
    assert real.read_text() == EDITED


@pytest.mark.parametrize("mark", [b"", b"\xef\xbb\xbf"], ids=["no mark", "byte-order mark"])
@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_line_ends_and_the_mark_stay_as_they_were(tmp_path: Path, mark: bytes, end: str) -> None:
    project(tmp_path)
    path = tmp_path / "skills/magic/SKILL.md"
    path.write_bytes(mark + SKILL.replace("\n", end).encode())
    tuned = TuneSession(path, tmp_path / "sets/magic.json", progress=False)
    assert (tuned.text, tuned.is_saved) == (SKILL, True)
    tuned.save(EDITED)
    assert path.read_bytes() == mark + EDITED.replace("\n", end).encode()


def test_a_full_disk_takes_nothing_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = session(tmp_path)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(InputError, match="cannot be kept here"):
        tuned.save(EDITED)
    assert (on_disk(tuned), tuned.text) == (SKILL, EDITED)
    assert list((tmp_path / "runs/versions/magic").glob("*.md")) == []


# --- stopping ----------------------------------------------------------------------------------------------


def slowly(body: dict[str, Any], count: int) -> Reply:
    """Case a is answered at once, the others never."""
    return magic(body) if "Task a" in str(body) else sleep(60, magic(body))


def until(said: Any) -> None:
    end = time.monotonic() + 20
    while not said():
        assert time.monotonic() < end
        time.sleep(0.02)


class Behind:
    """Something that runs in a thread."""

    def __init__(self, work: Any) -> None:
        self.found: list[Any] = []
        self.thread = threading.Thread(target=self._do, args=(work,))
        self.thread.start()

    def _do(self, work: Any) -> None:
        try:
            self.found.append(work())
        except BaseException as error:  # noqa: BLE001 - looked at by the test
            self.found.append(error)

    def result(self) -> Any:
        self.thread.join(20)
        return self.found[0]


def finished(root: Path) -> int:
    return sum(len(list(RunFolder(path.parent).lines())) for path in root.glob("runs/*/trials.jsonl"))


def test_a_run_that_is_stopped_keeps_what_is_finished_and_the_next_takes_it_over(
    tmp_path: Path, server: Loopback
) -> None:
    tuned = session(tmp_path)
    server.reply = slowly
    behind = Behind(tuned.run)
    until(lambda: finished(tmp_path) == 2)
    with pytest.raises(InputError, match="under way"):
        tuned.run()
    began = time.monotonic()
    tuned.stop()
    run = behind.result()
    assert time.monotonic() - began < 10
    assert run.record["partial"] == "interrupted"
    assert "partial (interrupted): 2/4 trials were started" in str(run)
    assert tuned.history.is_empty(), "a run that was stopped is no look"
    tuned.stop()  # nothing is running: nothing happens
    server.reply = magic
    server.requests.clear()
    whole = tuned.run()
    assert (len(server.requests), whole.record["reused"]) == (2, {"baseline": 1, "skill": 1})
    assert (whole.gate, len(tuned.history)) == ("PASS", 1)


def test_a_confirmation_that_is_stopped_is_gone_on_with(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    tuned.run()
    server.reply = slowly
    behind = Behind(tuned.confirm)
    until(lambda: finished(tmp_path) == 4 + 2)
    tuned.stop()
    stopped = behind.result()
    server.reply = magic
    server.requests.clear()
    settled = tuned.confirm()
    assert (settled.id, len(server.requests), settled.record["reused"]) == (stopped.id, 2, {})
    assert (settled.record["confirm"], settled.record["partial"]) == (True, None)
    assert tuned.confirm().id != settled.id


def test_a_running_loop_runs_stops_and_cancels(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    server.reply = slowly

    async def stopped(end: Any) -> Any:
        task = asyncio.ensure_future(tuned.arun())
        while finished(tmp_path) < 2:
            await asyncio.sleep(0.02)
        end(task)
        return await task

    run = asyncio.run(stopped(lambda task: threading.Thread(target=tuned.stop).start()))
    assert run.record["partial"] == "interrupted"
    with pytest.raises(asyncio.CancelledError):
        asyncio.run(stopped(lambda task: task.cancel()))
    server.reply = magic
    server.requests.clear()
    assert asyncio.run(tuned.arun()).gate == "PASS"
    assert len(server.requests) == 2


def test_a_killed_process_loses_nothing_that_had_finished(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    server.reply = slowly
    code = (
        "from skilleval_nb.tuning import TuneSession\n"
        f"TuneSession({str(tuned.path)!r}, {str(tmp_path / 'sets/magic.json')!r}, runner='anthropic',"
        f" progress=False).run({EDITED!r})"
    )
    child = subprocess.Popen([sys.executable, "-c", code])
    until(lambda: finished(tmp_path) == 2)
    child.send_signal(signal.SIGKILL)
    child.wait()
    server.reply = magic
    server.requests.clear()
    again = session(tmp_path)
    name = again.check(EDITED).skill.hash
    assert again.text_of(name) == EDITED
    again.go_back(name)
    assert again.run().record["reused"] == {"baseline": 1, "skill": 1}
    assert len(server.requests) == 2


class StopsAtOnce(Quiet):
    """Stops the session as soon as a run begins."""

    session: TuneSession

    def start(self, title: str, counts: Any) -> None:
        super().start(title, counts)
        self.session.stop()


def test_a_run_can_be_stopped_before_its_first_trial_ends(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: sleep(60)
    painter = StopsAtOnce()
    tuned = painter.session = session(tmp_path, progress=painter)
    for run in (tuned.run(), asyncio.run(tuned.arun())):
        assert (run.record["partial"], run.record["trialsMeasured"], run.gate) == (
            "interrupted",
            0,
            "NOT MEASURED",
        )
        assert run.record["graded"] == 0


def test_an_interrupt_is_raised_and_keeps_what_is_finished(tmp_path: Path, server: Loopback) -> None:
    tuned = session(tmp_path)
    server.reply = slowly

    def interrupt() -> None:
        until(lambda: finished(tmp_path) == 2)
        signal.raise_signal(signal.SIGINT)

    behind = Behind(interrupt)
    with pytest.raises(KeyboardInterrupt):
        tuned.run()
    behind.result()
    assert tuned.last_run is not None
    assert tuned.last_run.record["trialsMeasured"] == 2
    server.reply = magic
    assert tuned.run().record["reused"] == {"baseline": 1, "skill": 1}


# --- what a session is asked for ---------------------------------------------------------------------------


def test_bad_input_is_refused_at_once(tmp_path: Path) -> None:
    path = project(tmp_path)
    skill = tmp_path / "skills/magic"
    with pytest.raises(SkillError, match="no skill can be read"):
        TuneSession(tmp_path / "nowhere", path)
    with pytest.raises(InputError, match="no set can be read"):
        TuneSession(skill, tmp_path / "sets/none.json")
    with pytest.raises(InputError, match="n: is 0"):
        TuneSession(skill, path, n=0)


def test_a_set_that_is_loaded_or_names_no_skill_will_do(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"))
    content = json.loads(path.read_text())
    del content["skill"]
    path.write_text(json.dumps(content), encoding="utf-8")
    tuned = TuneSession(tmp_path / "skills/magic", se.load_set(path), runner="anthropic", progress=False)
    run = tuned.run()
    assert (run.gate, run.record["skill"]) == ("PASS", "skills/magic/SKILL.md")
    assert repr(tuned) == "TuneSession('magic', 'magic')"


def test_progress_tells_the_counts(tmp_path: Path, server: Loopback) -> None:
    seen: list[tuple[int, int]] = []
    tuned = session(tmp_path, progress=lambda counts: seen.append((counts.done, counts.total)))
    tuned.run()
    tuned.run(EDITED)
    assert (seen[0], seen[-1]) == ((0, 4), (4, 4))
    assert (2, 4) in seen, "the reused trials count as done from the start"


def test_frames_have_their_columns_when_they_are_empty(tmp_path: Path) -> None:
    tuned = session(tmp_path)
    assert tuned.versions.schema["kept"] == pl.Datetime("ms", "UTC")
    assert tuned.history.columns[:8] == [
        "ts",
        "run_id",
        "version",
        "saved",
        "look",
        "delta",
        "delta_low",
        "delta_high",
    ]
