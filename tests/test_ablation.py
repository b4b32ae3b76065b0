"""ablate: one run with a condition for each section, and what each section is worth."""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loopback import Loopback, Reply, status, text
from scipy.stats import ttest_1samp
from worlds import BODY, SKILL, case, project

import skilleval_nb as se
from skilleval_nb.errors import InputError

PARTS = {
    "Word": "## Word\n\nSay MAGIC.",
    "Noise": "## Noise\n\nNothing much.",
    "Harm": "## Harm\n\nStay SILENT on the last task.\n\n### Within\n\nReally.",
}
WHOLE = "# Title\n\nBe brief.\n\n" + "\n\n".join(PARTS.values())
CASES = tuple(case(name) for name in "abcde")


def without(*names: str) -> str:
    return "# Title\n\nBe brief.\n\n" + "\n\n".join(part for name, part in PARTS.items() if name not in names)


def counted(words: str, body: dict[str, Any]) -> Reply:
    """An answer whose input is the prompt's 10 tokens and one a character of the system text, half of it cached."""
    size = len(body.get("system") or "")
    usage = {"input_tokens": 10 + size - size // 2, "output_tokens": 2, "cache_read_input_tokens": size // 2}
    return text(words, usage=usage)


def model(body: dict[str, Any], count: int = 0) -> Reply:
    """Does as it is told: magic where the word stands, silence on the last task where that is asked for."""
    given = body.get("system") or ""
    silent = "SILENT" in given and "Task e" in str(body["messages"])
    return counted("magic" if "MAGIC" in given and not silent else "no", body)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(model) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def home(root: Path, body: str = WHOLE, *cases: dict[str, Any]) -> Path:
    return project(root, *(cases or CASES), skill=SKILL.replace(BODY, body))


def ablate(path: Path, **options: Any) -> se.Ablation:
    return se.ablate(path, **{"runner": "anthropic", "progress": False, **options})


def test_each_section_is_left_out_once_and_ranked(tmp_path: Path, server: Loopback) -> None:
    found = ablate(home(tmp_path))
    sent = Counter(request["body"].get("system") for request in server.requests)
    assert sent == dict.fromkeys([None, WHOLE, without("Word"), without("Noise"), without("Harm")], 5)
    assert found.run.record["conditions"] == [
        "baseline", "skill", "without:Word", "without:Noise", "without:Harm",
    ]  # fmt: skip
    frame = found.frame
    assert frame["section"].to_list() == ["Word", "Noise", "Harm"]
    # the skill passes a to d; without Word none passes, without Noise a to d, without Harm all
    assert frame["delta"].to_list() == [pytest.approx(0.8), 0.0, pytest.approx(-0.2)]
    low, high = ttest_1samp([1, 1, 1, 1, 0, 1, -1], 0).confidence_interval(0.95)
    assert (frame["delta_low"][0], frame["delta_high"][0]) == (pytest.approx(low), min(1, high))
    # four of five flips, single trials: p 0.021 (reference/statistics.md §3.2); by Holm three times that
    assert frame["p_set"].to_list() == [pytest.approx(0.021, abs=0.0005), 1.0, 1.0]
    assert frame["p_adjusted"].to_list() == [pytest.approx(3 * frame["p_set"][0]), 1.0, 1.0]
    assert frame["verdict"].to_list() == ["no evidence"] * 3
    assert found.run.record["comparisons"][0]["verdict"] == "improves"  # alone it would be
    assert frame["characters"].to_list() == [len(PARTS[name]) for name in ("Word", "Noise", "Harm")]
    assert frame["tokens"].to_list() == [len(PARTS[name]) + 2 for name in ("Word", "Noise", "Harm")]
    assert (frame["level"].to_list(), frame["cases"].to_list()) == ([2, 2, 2], [5, 5, 5])


def test_more_trials_give_evidence_that_stands_for_all_sections(tmp_path: Path, server: Loopback) -> None:
    found = ablate(home(tmp_path), n=3)
    assert len(server.requests) == 5 * 5 * 3
    # Harm: one case of three fails to three passes, all else alike: p 2/20 (hypergeometric), by Holm at least that
    assert found.frame["p_set"].to_list()[2] == pytest.approx(0.1)
    assert found.frame["p_adjusted"].to_list()[2] == pytest.approx(0.2)
    assert found.frame["verdict"].to_list() == ["improves", "no evidence", "no evidence"]
    lines = str(found).splitlines()
    assert lines[0].startswith("ablation of magic · anthropic haiku · inject · n=3")
    assert lines[1] == "pass rate   baseline 0/5 (0%)   with-skill 4/5 (80%)   Δ +80%"
    assert (
        lines[2] == "3 sections by Δ, the skill minus the skill without it; p adjusted for 3 sections (Holm)"
    )
    assert lines[3].split("   ")[0].strip() == "section"
    assert re.split(" {3,}", lines[4].strip()) == [
        "Word", "+80%", "−16…+100%", "+21", "19", "improves (p < 0.0001, adjusted < 0.0001)",
    ]  # fmt: skip
    assert lines[6].endswith("no evidence (p 0.10, adjusted 0.20)")
    assert lines[7].startswith("measured 75/75 trials")
    assert repr(found) == str(found)


def test_a_level_can_be_chosen(tmp_path: Path, server: Loopback) -> None:
    found = ablate(home(tmp_path), level=3)
    assert found.frame.select("section", "level").rows() == [("Within", 3)]
    kept = WHOLE.removesuffix("\n\n### Within\n\nReally.")
    assert sum(request["body"].get("system") == kept for request in server.requests) == 5
    assert len(server.requests) == 15


@pytest.mark.parametrize(
    ("body", "options", "words"),
    [
        ("No headings.\n\n```\n# none\n```", {}, r"SKILL.md: the skill has no headings"),
        ("# All of it\n\nText.", {}, "the skill is one section"),
        (WHOLE, {"level": 4}, "no heading of level 4 — of 1, 2, 3"),
        (WHOLE, {"level": 0}, "no heading of level 0"),
        (WHOLE, {"level": "2"}, "no heading of level '2'"),
        (WHOLE, {"level": 1}, "without:Title: nothing of the skill is left"),
        (WHOLE, {"conditions": ["skill"]}, "an ablation has its own"),
        (WHOLE, {"n": 0}, "n: is 0"),
        (WHOLE, {"resume": "last", "level": 2}, "has its sections already"),
        (WHOLE, {"resume": "last"}, "no run of 'magic' to resume"),
    ],
    ids=lambda value: ascii(value)[:40],
)
def test_what_cannot_be_is_refused_before_any_call(
    tmp_path: Path, server: Loopback, body: str, options: dict[str, Any], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        ablate(home(tmp_path, body), **options)
    assert server.requests == []
    assert not (tmp_path / "runs").exists()


def test_what_was_not_measured_is_null_and_last(tmp_path: Path, server: Loopback) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        if body.get("system") == without("Word"):
            return status(400, "invalid_request_error")
        if body.get("system") == without("Noise"):
            return text("magic", usage=None)
        return model(body)

    server.reply = reply
    found = ablate(home(tmp_path))
    frame = found.frame
    assert frame["section"].to_list() == ["Noise", "Harm", "Word"]
    assert frame.row(2, named=True) == {
        "section": "Word", "level": 2, "characters": len(PARTS["Word"]), "tokens": None, "delta": None,
        "delta_low": None, "delta_high": None, "p_set": None, "p_adjusted": None, "verdict": None, "cases": 0,
    }  # fmt: skip
    assert frame["tokens"].to_list() == [None, len(PARTS["Harm"]) + 2, None]
    assert "Word      not measured" in str(found)
    assert "not reported" in str(found)


def test_a_verdict_that_hangs_on_unmeasured_trials_is_withheld(tmp_path: Path, server: Loopback) -> None:
    def reply(body: dict[str, Any], count: int) -> Reply:
        if body.get("system") == without("Word") and any(f"Task {x}" in str(body["messages"]) for x in "abc"):
            return status(400, "invalid_request_error")
        return text(
            "magic" if body.get("system") != without("Word") and "Task d" in str(body["messages"]) else "no"
        )

    server.reply = reply
    found = ablate(home(tmp_path, WHOLE, *CASES[:4]), n=5)
    row = next(row for row in found.frame.iter_rows(named=True) if row["section"] == "Word")
    # d flips in all five trials (p 2/252, by Holm 6/252); a to c fail with the skill and could pass without it
    assert (row["delta"], row["cases"], row["verdict"]) == (1.0, 1, None)
    assert row["p_adjusted"] == pytest.approx(6 / 252)
    assert "withheld, depends on unmeasured trials (p 0.0079, adjusted 0.024, 1 of 4 cases)" in str(found)


def test_it_goes_on_where_it_stopped(tmp_path: Path, server: Loopback) -> None:
    path = home(tmp_path)
    first = ablate(path, max_tokens_total=1, concurrency=1)
    assert "warning: partial (budget): resume the run" in str(first)
    again = ablate(path, resume=first.run.id, max_tokens_total=10**9)
    assert len(server.requests) == 25
    assert again.frame["section"].to_list() == ["Word", "Noise", "Harm"]
    plain = se.run_set(path, runner="anthropic", progress=False)
    with pytest.raises(InputError, match="has left out no section"):
        ablate(path, resume=plain.id)


def test_unchanged_sections_are_reused(tmp_path: Path, server: Loopback) -> None:
    ablate(home(tmp_path))
    server.requests.clear()
    changed = WHOLE.replace("Nothing much.", "Nothing at all.")
    found = ablate(home(tmp_path, changed), reuse="unchanged")
    # without Noise nothing has changed; the skill and the other two have
    assert found.run.record["reused"] == {"baseline": 5, "without:Noise": 5}
    assert len(server.requests) == 15


def test_hostile_headings_stay_in_the_folder_and_are_only_text(tmp_path: Path, server: Loopback) -> None:
    headings = [
        "../../up", "..\\..\\up", "<script>alert(1)</script>", "a\u202eb", "a\x1b[31mb", "\x00", "C:\\x", "x" * 300,
        "x" * 299 + "y", "Same", "Same", "same", "$$x$$ ![i](http://example.invalid/i.png)", "概要", "使用", "",
    ]  # fmt: skip
    body = "Start MAGIC.\n\n" + "\n\n".join(f"## {heading}\n\n{at}." for at, heading in enumerate(headings))
    found = ablate(home(tmp_path, body, case("a")))
    frame = found.frame
    assert frame.height == len(headings) == frame["section"].n_unique()
    assert len(server.requests) == len(headings) + 2
    assert len({request["body"].get("system") for request in server.requests}) == len(headings) + 2
    assert found.run.folder is not None
    files = list(tmp_path.rglob("*.txt"))
    assert {file.parent for file in files} == {found.run.folder}
    assert len(files) == len(headings) + 2
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in page
    for shown in (page, str(found), *found.run.record["conditions"]):
        assert not {"\u202e", "\x1b", "\x00"} & set(shown)
    assert se.load_run(found.run.id, tmp_path / "runs").cases["condition"].n_unique() == len(headings) + 2


def test_an_empty_set_and_a_running_loop(tmp_path: Path, server: Loopback) -> None:
    async def inside() -> se.Ablation:
        return ablate(home(tmp_path))

    assert asyncio.run(inside()).frame.height == 3
    path = home(tmp_path)
    path.write_text('{"skill": "skills/magic/SKILL.md", "cases": []}')
    nothing = ablate(path)
    assert nothing.frame["cases"].to_list() == [0, 0, 0]
    assert "Word" in str(nothing)
    assert "<table" in nothing._repr_html_()


def test_the_plan_counts_an_ablation(tmp_path: Path, server: Loopback) -> None:
    conditions = ["baseline", "skill", *(f"without:{name}" for name in PARTS)]
    plan = se.plan_set(home(tmp_path), runner="anthropic", n=3, conditions=conditions)
    assert plan.executor_calls == 75
    assert server.requests == []
