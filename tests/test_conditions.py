"""Conditions besides baseline and skill: what is sent, what is refused, what the skill adds to each."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loopback import Loopback, Reply, judge_json, status, text
from scipy.stats import ttest_1samp
from typer.testing import CliRunner
from worlds import BODY, SKILL, case, check, judged, project

import skilleval_nb as se
from skilleval_nb.cli import app
from skilleval_nb.conditions import problems_of_conditions
from skilleval_nb.errors import InputError
from skilleval_nb.paths import condition_stem
from skilleval_nb.placebo import placebo
from skilleval_nb.sections import named_section, sections_of, top_level

PARTS = """# Magic

Be brief.

## Word

Answer with the word MAGIC.

```sh
# no heading
```

### Where

At the end.

## Tone

Be kind."""
TERSE = "Be terse."


def skill_of(body: str) -> str:
    return SKILL.replace(BODY, body)


def system(request: dict[str, Any]) -> str | None:
    found: str | None = request["body"].get("system")
    return found


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(
        lambda body, count: text("magic" if "MAGIC" in body.get("system", "") else "no")
    ) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def run(path: Path, *conditions: Any, **options: Any) -> se.Run:
    chosen = {"conditions": conditions} if conditions else {}
    return se.run_set(path, **{"runner": "anthropic", "progress": False, **chosen, **options})


class Git:
    """A repository of its own, whoever runs the tests."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self("init", "-q", "-b", "main")

    def __call__(self, *arguments: str) -> None:
        settings = ("user.name=a", "user.email=a@b", "commit.gpgsign=false", "core.autocrlf=false")
        options = [option for setting in settings for option in ("-c", setting)]
        subprocess.run(
            ["git", *options, *arguments], cwd=self.root, check=True, capture_output=True,
            env={**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"},
        )  # fmt: skip

    def commit(self, skill: str | bytes) -> None:
        path = self.root / "skills/magic/SKILL.md"
        path.write_bytes(skill.encode() if isinstance(skill, str) else skill)
        self("add", "-A")
        self("commit", "-qm", "a version")


# what is sent


def test_each_condition_is_sent_its_own_text_in_turn(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"), skill=skill_of("Say MAGIC, always."))
    Git(tmp_path).commit(skill_of("Say MAGIC, always."))
    (tmp_path / "skills/magic/SKILL.md").write_text(skill_of(PARTS))
    names = ["baseline", "skill", "previous", "placebo", "without:Tone", {"terse": TERSE}]
    result = run(path, *names, n=2, concurrency=1)
    sent = [system(request) for request in server.requests]
    assert sent[0::6] == [None] * 4
    assert sent[1::6] == [PARTS] * 4
    assert sent[2::6] == ["Say MAGIC, always."] * 4
    filler = sent[3]
    assert filler is not None
    assert sent[3::6] == [filler] * 4
    assert len(PARTS) - 15 < len(filler) <= len(PARTS)
    assert "MAGIC" not in filler
    assert sent[4::6] == [PARTS.removesuffix("\n\n## Tone\n\nBe kind.")] * 4
    assert sent[5::6] == [TERSE] * 4
    assert len(sent) == 2 * 6 * 2
    assert result.record["conditions"] == [
        "baseline",
        "skill",
        "previous",
        "placebo",
        "without:Tone",
        "terse",
    ]
    assert result.folder is not None
    header = json.loads((result.folder / "run.json").read_text())
    assert header["systems"] == dict(zip(result.record["conditions"], sent[:6], strict=True))
    assert (result.gate, result.record["trialsMeasured"]) == ("PASS", 24)


def test_one_mapping_names_conditions_too(tmp_path: Path, server: Loopback) -> None:
    run(project(tmp_path), conditions={"baseline": None, "skill": None, "terse": TERSE})
    assert {system(request) for request in server.requests} == {None, BODY, TERSE}


def test_previous_is_the_body_at_a_revision_or_in_a_file(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    git = Git(tmp_path)
    git.commit(b"\xef\xbb\xbf---\r\nname: magic\r\n---\r\nFirst.\r\nLine two.\r\n")
    git("tag", "v1.0")
    git.commit("---\nname: [broken\n---\nSecond.")
    git("branch", "feature/x")
    git.commit("Third: no frontmatter.")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "v0.md").write_text("---\nname: m\n---\n\nFrom a file.\n")
    (tmp_path / "sets" / "near.md").write_text("Beside the set.")
    names = ["previous", "previous:HEAD", "previous:HEAD~1", "previous:v1.0", "previous:feature/x", "previous:@^",
             "previous:old/v0.md", "previous:./near.md"]  # fmt: skip
    plan = se.plan_set(path, runner="anthropic", conditions=names)
    assert {condition.name: condition.system for condition in plan.conditions} == {
        "previous": "Third: no frontmatter.",
        "previous:HEAD": "Third: no frontmatter.",
        "previous:HEAD~1": "Second.",
        "previous:v1.0": "First.\nLine two.",
        "previous:feature/x": "Second.",
        "previous:@^": "Second.",
        "previous:old/v0.md": "From a file.",
        "previous:./near.md": "Beside the set.",
    }
    assert server.requests == []


def test_a_skill_below_the_repositorys_root_has_its_own_previous(tmp_path: Path, server: Loopback) -> None:
    root = tmp_path / "packages"
    root.mkdir()
    path = project(root)
    git = Git(tmp_path)
    git("add", "-A")
    git("commit", "-qm", "all")
    (root / "skills/magic/SKILL.md").write_text("Another.")
    plan = se.plan_set(path, runner="anthropic", conditions=["previous", "skill"])
    assert [condition.system for condition in plan.conditions] == [BODY, "Another."]


def test_the_same_text_twice_is_warned_of(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path)
    Git(tmp_path).commit(SKILL)
    result = run(path, "baseline", "skill", "previous", {"same": f"{BODY}\n"})
    warnings = result.record["warnings"]
    assert warnings[0].startswith(
        "previous and skill are the same text, so only chance can tell them apart; name an"
    )
    assert warnings[1] == "same and skill are the same text, so only chance can tell them apart"
    assert len(warnings) == 2
    assert f"warning: {warnings[0]}" in str(result)


# what is refused

BAD: list[tuple[Any, str]] = [
    (["without:Nope"], r"no such heading — of 'Magic', 'Word', 'Where', 'Tone'"),
    (["without:no heading"], "no such heading"),
    (["without:Magic"], "nothing of the skill is left"),
    (["without:"], "unknown: 'without:'"),
    (["previous:"], "unknown: 'previous:'"),
    (["previous:nope"], "'nope' is no file in the project, and no git revision"),
    (["previous:--all"], "no git revision"),
    (["previous:HEAD:skills/magic/SKILL.md"], "no git revision"),
    (["previous:HEAD^{tree}"], "no git revision"),
    (["previous:../outside.md"], "leads outside the project's root"),
    (["previous:/etc/hostname"], "an absolute path"),
    (["previous:C:\\x.md"], "an absolute path"),
    (["previous:link.md"], "leads outside the project's root"),
    (["previous:empty.md"], "has no body"),
    (["previous:binary.md"], "not UTF-8 text"),
    (["previous:both"], "is a file and a git revision too — write previous:./both"),
    (["previous:HEAD~1"], "git has no skills/magic/SKILL.md at HEAD~1"),
    (["previous:old-latin"], r"was not UTF-8 text at old-latin \(byte 6\)"),
    (["magic"], r"unknown: 'magic' — use baseline, skill, previous, .*or give a text: \{"),
    (["skill", "skill"], "each condition once"),
    ([], "at least one"),
    ([3], "3 is neither a name"),
    ([{3: "x"}], "3 is no name"),
    (7, "is 7: it is a list of names"),
    ([{"x": ""}], "'x' has no text"),
    ([{"x": 5}], "'x' has no text"),
    ([{"x": "a\ud800"}], "the text of 'x' cannot be sent"),
    ([{"skill": "x"}], "'skill' has a meaning of its own"),
    ([{"previous:HEAD": "x"}], "has a meaning of its own"),
    ([{"without:Tone": "x"}], "has a meaning of its own"),
    ([{"a/b": "x"}], "looks like a path"),
    ([{"a\\b": "x"}], "looks like a path"),
    ([{"..": "x"}], "looks like a path"),
    ([{"~x": "x"}], "looks like a path"),
    ([{"x" * 61: "x"}], "it has 1 to 60 characters"),
    ([{"": "x"}], "it has 1 to 60 characters"),
    ([{" x": "x"}], "on one line"),
    ([{"a\nb": "x"}], "on one line"),
    ([{"a\x1b[2Jb": "x"}], "that can be seen"),
    ([{"a\u202eb": "x"}], "that can be seen"),
    ([{"a\x00b": "x"}], "that can be seen"),
    ([{"Terse": "x"}, {"terse": "y"}], "would share transcript files"),
    ([{"a b": "x"}, {"a_b": "y"}], "would share transcript files"),
    ([{"a.b": "x"}, {"a_b": "y"}], "would share transcript files"),
]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project whose skill has headings, with three commits and files of all kinds."""
    root = tmp_path_factory.mktemp("home") / "project"
    root.mkdir()
    project(root, skill=skill_of(PARTS))
    git = Git(root)
    skill = root / "skills/magic/SKILL.md"
    skill.write_bytes(b"latin \xe9")
    git("add", "-A")
    git("commit", "-qm", "a skill in another encoding")
    git("tag", "old-latin")
    git("rm", "-q", "--cached", "skills/magic/SKILL.md")
    git("commit", "-qm", "no skill")
    git.commit(skill_of(PARTS))
    git("branch", "both")
    (root / "both").write_text("a file")
    (root / "empty.md").write_text("---\nname: x\n---\n")
    (root / "binary.md").write_bytes(b"\xff\xfe\x00")
    (root.parent / "outside.md").write_text("secret")
    (root / "link.md").symlink_to(root.parent / "outside.md")
    return root


@pytest.mark.parametrize(("conditions", "words"), BAD, ids=[ascii(conditions) for conditions, _ in BAD])
def test_what_cannot_be_is_refused_before_any_call(
    home: Path, server: Loopback, conditions: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words):
        run(home / "sets/magic.json", conditions=conditions)
    assert server.requests == []
    assert not (home / "runs").exists()


def test_all_that_cannot_be_looked_up_is_said_at_once(home: Path, server: Loopback) -> None:
    with pytest.raises(InputError) as caught:
        se.plan_set(
            home / "sets/magic.json", runner="anthropic", conditions=["previous:nope", "without:Nope"]
        )
    assert [problem.where for problem in caught.value.problems] == ["previous:nope", "without:Nope"]


def test_without_git_previous_says_so(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(InputError, match=r"HEAD is no git revision \(.*not a git repository"):
        run(path, "previous")
    Git(tmp_path)
    with pytest.raises(InputError, match="HEAD is no git revision"):  # no commit yet
        run(path, "previous")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="git cannot be run here"):
        run(path, "previous")
    fake = tmp_path / "git"
    fake.write_text("#!/bin/sh\nexec /bin/sleep 30\n")
    fake.chmod(0o755)
    monkeypatch.setattr("skilleval_nb.git.TIMEOUT_S", 0.2)
    with pytest.raises(InputError, match="git did not answer in time"):
        run(path, "previous")
    assert server.requests == []


# what it says


def by_condition(passing: dict[str | None, set[str]]) -> Any:
    """A model that passes the named tasks under each system text."""

    def reply(body: dict[str, Any], count: int) -> Reply:
        task = body["messages"][0]["content"]
        return text("magic" if task[len("Task ")] in passing[body.get("system")] else "no")

    return reply


def test_the_skill_is_weighed_against_each_condition(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"), case("c"))
    server.reply = by_condition({None: set(), BODY: set("abc"), "One.": set("ab"), "Two.": set()})
    result = run(path, "baseline", "skill", {"one": "One.", "number two": "Two."})
    # 3 of 3 flip up: p 1/32 (reference/statistics.md §3.2); one flip up of 3: McNemar's p is 1
    assert str(result).splitlines()[1:6] == [
        "pass rate   baseline 0/3 (0%)   with-skill 3/3 (100%)   Δ +100%",
        "other conditions   one 2/3 (67%)   number two 0/3 (0%)",
        "vs one         Δ +33% · no evidence (p 1.0)",
        "vs number two  Δ +100% · improves on these prompts (p 0.031)",
        "ship gate: PASS — skill moves the number",
    ]
    one, two = result.record["comparisons"]
    assert (one["condition"], one["graded"], one["passed"], one["rate"]) == (
        "one",
        3,
        2,
        pytest.approx(2 / 3),
    )
    assert (one["delta"], one["verdict"], one["scope"], one["pSet"]) == (
        pytest.approx(1 / 3), "no evidence", None, 1.0,
    )  # fmt: skip
    low, high = ttest_1samp([0, 0, 1, 1, -1], 0).confidence_interval(0.95)
    assert (one["deltaLow"], one["deltaHigh"]) == (pytest.approx(low), min(1, high))
    assert (two["verdict"], two["scope"], two["pSet"]) == ("improves", "these prompts", 1 / 32)
    assert result.record["evidence"]["pSet"] == 1 / 32
    page = result._repr_html_()
    assert "<p>other conditions   one 2/3 (67%)   number two 0/3 (0%)</p>" in page
    assert "<p>vs number two  Δ +100% · improves on these prompts (p 0.031)</p>" in page
    opened = se.load_run(result.id, tmp_path / "runs")
    assert opened.record["comparisons"] == result.record["comparisons"]


def test_rates_are_majorities_and_the_estimate_is_over_trials(tmp_path: Path, server: Loopback) -> None:
    seen: Counter[str | None] = Counter()

    def reply(body: dict[str, Any], count: int) -> Reply:
        seen[body.get("system")] += 1
        passes = {None: 0, BODY: 2, "One.": 1}[body.get("system")]
        return text("magic" if seen[body.get("system")] <= passes else "no")

    server.reply = reply
    result = run(project(tmp_path), "baseline", "skill", {"one": "One."}, n=3, concurrency=1)
    (one,) = result.record["comparisons"]
    # 2 of 3 is a pass and 1 of 3 is none: Δ +1 by majority, +1/3 over the trials
    assert (one["delta"], one["deltaEstimate"]) == (1.0, pytest.approx(1 / 3))


def test_unmeasured_cases_are_left_out_and_may_withhold_the_verdict(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, *(case(name) for name in "abcdef"))
    passing = by_condition({None: set(), BODY: set("abcdef"), "One.": set("f"), "Two.": set()})

    def reply(body: dict[str, Any], count: int) -> Reply:
        broken = {"One.": "abc", "Two.": "abcdef"}.get(body.get("system", ""), "")
        answer: Reply = passing(body, count)
        return status(400, "invalid_request_error") if body["messages"][0]["content"][5] in broken else answer

    server.reply = reply
    result = run(path, "baseline", "skill", {"one": "One.", "two": "Two."})
    lines = str(result).splitlines()
    # of d, e, f two flip up: 3/8 · 1/2 + 1/8 · 1/4 (§3.2). Had a, b, c passed with one too, Δ were +2/6 still
    assert lines[2:5] == [
        "other conditions   one 1/3 (33%)   two 0/0 (n/a)",
        "vs one  Δ +67% over 3 of 6 cases · no evidence (p 0.22)",
        "vs two  not measured: no case under both",
    ]
    assert result.record["comparisons"][1]["rate"] is None
    server.reply = lambda body, count: (
        status(400, "invalid_request_error")
        if body.get("system") == "One." and body["messages"][0]["content"][5] in "abcd"
        else text(
            "magic" if body.get("system") == BODY and body["messages"][0]["content"][5] in "ef" else "no"
        )
    )
    result = run(path, "baseline", "skill", {"one": "One."}, n=3)
    # e and f flip in all of three trials: p 2/400 on what was measured; had a to d passed, Δ were −2/6
    assert "vs one  Δ +100% over 2 of 6 cases · withheld, depends on 12 unmeasured trials (p 0.0050)" in str(
        result
    )
    assert result.record["comparisons"][0]["verdict"] is None


def test_without_the_gates_pair_rates_are_shown_and_no_gate(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"))
    result = run(path, "baseline", {"one": "One MAGIC."})
    assert str(result).splitlines()[1:4] == [
        "pass rate   baseline 0/2 (0%)",
        "other conditions   one 2/2 (100%)",
        "ship gate: NOT MEASURED — skill was not run, and the gate compares the two",
    ]
    assert (result.gate, result.exit_code, result.record["comparisons"][0]["delta"]) == (
        "NOT MEASURED",
        3,
        None,
    )
    result = run(path, {"one": "One MAGIC."}, "placebo")
    assert str(result).splitlines()[1:4] == [
        "pass rate   of neither baseline nor skill",
        "other conditions   one 2/2 (100%)   placebo 0/2 (0%)",
        "ship gate: NOT MEASURED — baseline and skill were not run, and the gate compares the two",
    ]
    assert "other conditions" in result._repr_html_()


def test_a_run_of_the_pair_alone_says_nothing_of_others(tmp_path: Path, server: Loopback) -> None:
    result = run(project(tmp_path))
    assert "comparisons" not in result.record
    assert "other conditions" not in str(result)


def test_names_cannot_act_where_they_are_shown(tmp_path: Path, server: Loopback) -> None:
    name = "<img src=x onerror=alert(1)>$$x$$"
    result = run(project(tmp_path), "baseline", "skill", {name: TERSE})
    for page in (result._repr_html_(), se.export_html(result, tmp_path / "out.html").read_text()):
        assert "<img" not in page
        assert "&lt;img src=x onerror=alert(1)&gt;" in page
    assert name in str(result)


# where it goes


def test_frames_and_charts_show_all_conditions(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b"), skill=skill_of(PARTS))
    server.reply = lambda body, count: text(judge_json(True) if "output_config" in body else "magic")
    names = {"baseline", "skill", "placebo", "without:Tone", "terse"}
    result = run(path, "baseline", "skill", "placebo", "without:Tone", {"terse": TERSE}, n=2)
    rows = {"case": 2, "trial": 4, "check": 6}
    for level, number in rows.items():
        found = getattr(result, f"{level}s")["condition"].value_counts()
        assert dict(found.iter_rows()) == dict.fromkeys(names, number)
        logged = se.load_log(tmp_path / "runs/log.jsonl", level)
        assert dict(logged["condition"].value_counts().iter_rows()) == dict.fromkeys(names, number)
    assert se.load_log(tmp_path / "runs/log.jsonl", "run")["baseline_rate"].to_list() == [1.0]
    for chart in (se.charts.tokens(result), se.charts.latency(result)):
        drawn = json.dumps(chart.to_dict(), ensure_ascii=False)
        assert all(name in drawn for name in names - {"skill"})
    for two in (se.charts.pass_rates, se.charts.flips_matrix, se.charts.check_discrimination):
        assert two(result).to_dict()
    assert se.inspect(result).inspection.found.conditions == result.record["conditions"]
    both = se.compare(result, conditions=("placebo", "skill"))
    assert both.delta == 0.0
    again = se.regrade(result, runs_dir=tmp_path / "runs", progress=False)
    assert [entry["condition"] for entry in again.record["comparisons"]] == [
        "placebo",
        "without:Tone",
        "terse",
    ]


def test_transcripts_have_safe_names_that_differ(tmp_path: Path, server: Loopback) -> None:
    body = "A\n\n## ../../x\n\nB\n\n## 概要\n\nC\n\n## 使用\n\nD"
    home = tmp_path / "deep" / "project"
    home.mkdir(parents=True)
    path = project(home, case("a.b"), case("a"), skill=skill_of(body))
    result = run(path, "skill", "without:../../x", "without:概要", "without:使用", {"b.skill": "x"})
    assert result.folder is not None
    files = sorted(file.name for file in result.folder.glob("*.txt"))
    stems = [condition_stem(name) for name in result.record["conditions"]]
    assert len(set(stems)) == 5
    assert stems[:2] == ["skill", "without_______x"]
    assert stems[4] == "b_skill"
    assert files == sorted(f"{name}.{stem}.txt" for name in ("a", "a.b") for stem in stems)
    assert not [file for file in tmp_path.rglob("*.txt") if result.folder not in file.parents]


def test_the_plan_counts_every_condition(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a", check(), judged()), case("b"), skill=skill_of(PARTS), max_tokens=10)
    plan = se.plan_set(
        path,
        runner="anthropic",
        n=3,
        conditions=["baseline", "skill", "placebo", "without:Tone", {"terse": TERSE}],
    )
    assert (plan.executor_calls, plan.judge_calls, plan.output_tokens_ceiling) == (2 * 5 * 3, 5 * 3, 300)
    sizes = [len(condition.system or "") for condition in plan.conditions]
    assert sizes[1] - 15 < sizes[2] <= sizes[1] == len(PARTS)
    assert sizes[3:] == [len(PARTS) - len("\n\n## Tone\n\nBe kind."), 9]
    placebos, without, terse = (f"({size} characters)" for size in sizes[2:])
    assert f"besides     placebo {placebos}, without:Tone {without}, terse {terse}" in str(plan)
    assert "2 cases × 5 conditions × 3 = 30 executor calls" in str(plan)
    assert server.requests == []


# going on, and taking over


def test_a_resumed_run_keeps_its_texts_whatever_git_says_now(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, case("a"), case("b"))
    git = Git(tmp_path)
    git.commit("An older text.")
    (tmp_path / "skills/magic/SKILL.md").write_text(SKILL)
    names = ("baseline", "skill", "previous", {"terse": TERSE})
    server.reply = lambda body, count: text("" if "Task b" in str(body) else "magic")
    first = run(path, *names)
    assert len(server.requests) == 8
    git.commit(SKILL)  # now `previous` would be the skill itself
    server.requests.clear()
    server.reply = None
    again = run(path, resume=first.id)
    assert Counter(map(system, server.requests)) == Counter([None, BODY, "An older text.", TERSE])
    assert (again.id, again.record["trialsMeasured"]) == (first.id, 8)
    for same in (names, ["baseline", "skill", "previous", {"terse": TERSE}]):
        assert run(path, *same, resume=first.id).id == first.id
    others: list[Any] = [("baseline", "skill", "previous"), ("skill", "baseline", "previous", {"terse": TERSE}),
                         ("baseline", "skill", "previous", {"terse": "Other."})]  # fmt: skip
    for other in others:
        with pytest.raises(InputError, match="conditions: the run was started with"):
            run(path, *other, resume=first.id)
    assert len(server.requests) == 4


def test_unchanged_conditions_are_reused(tmp_path: Path, server: Loopback) -> None:
    names = ("baseline", "skill", "placebo", "without:Tone", {"terse": TERSE})
    path = project(tmp_path, case("a"), skill=skill_of(PARTS))
    run(path, *names, n=2)
    server.requests.clear()
    again = run(path, *names, n=2, reuse="unchanged")
    assert server.requests == []
    assert again.record["reused"] == {
        "baseline": 2, "placebo": 2, "skill": 2, "terse": 2, "without:Tone": 2,
    }  # fmt: skip
    project(tmp_path, case("a"), skill=skill_of(PARTS.replace("Be kind.", "Be mild.")))
    third = run(path, *names, n=2, reuse="unchanged")
    # as long as before, and the same but for the section that is left out
    assert [system(request) for request in server.requests] == [PARTS.replace("Be kind.", "Be mild.")] * 2
    assert third.record["reused"] == {"baseline": 2, "placebo": 2, "terse": 2, "without:Tone": 2}
    server.requests.clear()
    run(path, *names[:4], {"terse": "Be terser."}, n=2, reuse="unchanged")
    assert [system(request) for request in server.requests] == ["Be terser."] * 2


def test_the_command_takes_conditions(
    tmp_path: Path, server: Loopback, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, skill=skill_of("Be.\n\n## a=b\n\nSay MAGIC."))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "terse.txt").write_bytes(b"\xef\xbb\xbfBe terse.\r\nReally.\n")
    options = ["-r", "anthropic", "--condition", "skill", "--condition", "without:a=b"]
    options += ["--condition", "terse=terse.txt", "--condition", "placebo"]
    planned = CliRunner().invoke(app, ["plan", str(path), *options])
    assert "1 cases × 4 conditions × 1 = 4 executor calls" in planned.output
    done = CliRunner().invoke(app, ["run", str(path), *options, "--condition", "baseline", "--json"])
    record = json.loads(done.stdout.splitlines()[-1])
    assert (done.exit_code, record["conditions"]) == (
        0,
        ["skill", "without:a=b", "terse", "placebo", "baseline"],
    )
    assert {system(request) for request in server.requests} >= {None, "Be.", "Be terse.\nReally."}
    (tmp_path / "latin.txt").write_bytes(b"\xe9")
    for wrong, words in (
        ("x=nowhere.txt", "nowhere.txt: cannot be read"),
        ("x=latin.txt", "latin.txt: not UTF-8"),
    ):
        refused = CliRunner().invoke(app, ["plan", str(path), "--condition", wrong])
        assert isinstance(refused.exception, InputError)
        assert words in str(refused.exception)


# placebo and sections


def test_the_placebo_is_long_neutral_prose() -> None:
    whole = placebo(13_000)
    assert len(whole.split()) > 2000
    sentences = re.findall(r"[A-Z][^.]*\.", whole)
    assert len(sentences) > 250
    assert len(set(sentences)) == len(sentences)
    told = re.findall(
        r"\b(?:you|your|please|must|should|always|never|answer|write|avoid|task|skill|i|we|not?)\b|[?!:#`*]",
        whole.lower(),
    )
    assert set(told) <= {"no", "not"}
    assert not re.search(r"[^A-Za-z ,.]", whole)


@given(st.integers(1, 60_000))
def test_a_placebo_is_as_long_as_asked_but_for_a_word(length: int) -> None:
    whole = " ".join((Path(se.__file__).with_name("placebo.txt").read_text() + " ").split())
    endless = f"{whole} " * 6
    words = placebo(length)
    assert len(words) <= max(length, 3)
    assert endless.startswith(words)
    assert endless[len(words)] == " "
    rest = endless[len(words) + 1 :].partition(" ")[0]
    assert len(words) + 1 + len(rest) > length  # one more word would be too long


MARKDOWN = """before

Setext
===
one

## Two `code` ##
two

```
## fenced
```

~~~
# tilde
~~~

    # indented

> ## quoted

- # listed

<!--
# comment
-->

#hash
### Two `code`
three

## Two `code`
four
####
five
"""


def test_sections_are_headings_and_all_below_them() -> None:
    found = sections_of(MARKDOWN)
    assert [(section.level, section.label) for section in found] == [
        (1, "Setext"),
        (2, "Two `code` (1)"),
        (3, "Two `code` (2)"),
        (2, "Two `code` (3)"),
        (4, "untitled"),
    ]
    assert found[0].rest == "before"
    assert found[2].text == "### Two `code`\nthree"
    assert found[1].text.startswith("## Two `code` ##\ntwo")
    assert found[1].text.endswith("three")
    assert found[1].rest == "before\n\nSetext\n===\none\n\n## Two `code`\nfour\n####\nfive"
    assert top_level(found) == 2
    assert named_section(found, "Two `code`") is None
    assert named_section(found, "Two `code` (3)") == found[3]
    assert named_section(found, "Setext") == found[0]


def test_an_ambiguous_heading_is_refused_with_names_that_are_not(tmp_path: Path, server: Loopback) -> None:
    path = project(tmp_path, skill=skill_of(MARKDOWN))
    with pytest.raises(InputError, match=r"3 headings read so — of 'Setext', 'Two `code` \(1\)'"):
        se.plan_set(path, runner="anthropic", conditions=["without:Two `code`"])
    plan = se.plan_set(path, runner="anthropic", conditions=["without:Two `code` (2)"])
    assert plan.conditions[0].system is not None
    assert "three" not in plan.conditions[0].system
    assert "four" in plan.conditions[0].system
    with pytest.raises(InputError, match="it has no headings at all"):
        se.plan_set(project(tmp_path), runner="anthropic", conditions=["without:x"])


@pytest.mark.parametrize(
    ("body", "level"),
    [
        ("", None),
        ("no heading", None),
        ("# One\n\ntext", None),
        ("before\n# One", 1),
        ("# One\n## Two", 2),
        ("before\n# One\n## Two\n## Three", 2),
        ("# One\n# Two\n## Three", 1),
        ("## One\n\n# Two\n\n## Three", 2),
    ],
)
def test_the_top_level_is_the_highest_that_divides_the_skill(body: str, level: int | None) -> None:
    assert top_level(sections_of(body)) == level


LINES = st.lists(
    st.tuples(st.integers(0, 3), st.text(st.characters(codec="utf-8", exclude_characters="\r"), max_size=12)),
    max_size=12,
)


@given(LINES)
@settings(max_examples=200)
def test_any_headings_give_names_that_can_be_used(lines: list[tuple[int, str]]) -> None:
    body = "\n\n".join(f"{'#' * level} {words}" if level else words for level, words in lines)
    found = sections_of(body)
    names = [section.condition for section in found]
    assert len({condition_stem(name).casefold() for name in names}) == len(names)
    for section, name in zip(found, names, strict=True):
        assert problems_of_conditions([name]) == []
        assert named_section(found, section.label) == section
        stem = condition_stem(name)
        assert re.fullmatch(r"[A-Za-z0-9_-]+", stem)
        kept = [line for line in body.split("\n") if line.strip()]
        divided = [line for part in (section.text, section.rest) for line in part.split("\n") if line.strip()]
        assert Counter(line.strip() for line in divided) == Counter(line.strip() for line in kept)
