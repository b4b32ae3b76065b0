"""A run as HTML: the same facts as the text, safe whatever was written by others, bounded, usable without style."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from skilleval_nb.controls import visible
from skilleval_nb.html import escape, line_html, run_html
from skilleval_nb.record import build_record
from skilleval_nb.text import result_lines

P, F = "passed", "failed"
EVIL = '<script>alert(1)</script><img src=x onerror="alert(2)">\u202e\u200b\x1b[31m & \'"'
TAGS = {
    "b", "code", "details", "div", "p", "style", "summary", "table", "tbody", "td", "th", "thead", "tr",
}  # fmt: skip
ATTRIBUTES = {"aria-hidden", "aria-label", "class", "data-gate", "open", "role", "scope", "style", "tabindex"}
VOID: set[str] = set()
LINE = '<div class="tex2jax_ignore mathjax_ignore">'


class Page(HTMLParser):
    """What a browser would see: elements, their attributes, text, and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.texts).split())


def case(identifier: str, difficulty: int | None = 1, checks: Sequence[str] = ("verdict",)) -> dict[str, Any]:
    kinds = [{"kind": kind} for kind in checks]
    return {"id": identifier, "prompt": "p", "difficulty": difficulty, "checks": kinds}


def line(identifier: str, condition: str, outcome: str, trial: int = 1, **more: Any) -> dict[str, Any]:
    return {
        "caseId": identifier, "condition": condition, "trial": trial, "outcome": outcome, "attempt": 1,
        "tokens": [31, 12, None, None], "model": "m", "calls": 1, "text": "an answer",
        "checks": [{"kind": "verdict", "passed": outcome == P}] if outcome in (P, F) else [],
        **more,
    }  # fmt: skip


def record(cases: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    build = {name: more.pop(name) for name in ("look", "duration_s", "partial") if name in more}
    header = {
        "runId": "20261130T181500Z-polite", "ts": "2026-11-30T18:15:00.000Z", "set": "polite", "skill": "s",
        "model": "m", "judgeModel": None, "n": 1, "setHash": "a", "skillHash": "b", "judgeHash": None,
        "runner": "local", "delivery": "inject", "dir": "runs/20261130T181500Z-polite", "warnings": [],
        "conditions": ["baseline", "skill"], "cases": list(cases), **more,
    }  # fmt: skip
    return build_record(header, lines, **build)


def pairs(verdicts: dict[str, tuple[str, str]], **more: Any) -> dict[str, Any]:
    """A run with one trial a cell: outcome without and with the skill."""
    lines = [
        line(name, condition, outcome)
        for name, both in verdicts.items()
        for condition, outcome in zip(("baseline", "skill"), both, strict=True)
    ]
    return record([case(name) for name in verdicts], lines, **more)


SEED = {
    **dict.fromkeys(("hot", "door", "quiet", "file", "wait"), (F, P)),
    "hurry": (F, F),
    "stop": (F, F),
    "opposite": (P, F),
    "sum": (P, P),
}
"""2/9 without, 6/9 with: five flips up, one down."""
ORIGIN = {
    "kind": "eval", "ts": "2026-01-01T00:00:00Z", "set": "house", "skill": "s", "model": "haiku", "n": 1,
    "cases": [{"id": "a", "baseline": False, "skill": True}, {"id": "b", "baseline": None, "skill": True}],
    "graded": 1, "errors": 1, "baselinePass": 0, "skillPass": 1, "delta": 100, "gate": "PASS",
    "tokens": {"input": 3, "output": 4}, "dir": "runs/x",
}  # fmt: skip


def samples() -> dict[str, dict[str, Any]]:
    failed = [line(EVIL, c, "executor_failed", tokens=None, reason=EVIL) for c in ("baseline", "skill")]
    return {
        "seed": pairs(SEED, look=3, duration_s=31.2),
        "nothing measured": record([case(EVIL)], failed),
        "no movement": pairs({"a": (F, F), "b": (P, P)}),
        "regression": pairs({"a": (P, F)}, maxDrop=0.1, subset=True),
        "partial": record([case("a"), case("b")], [line("a", "baseline", P)], partial="budget"),
        "warned": pairs({"a": (F, P)}, warnings=["the judge is the model's own", EVIL], set=EVIL),
        "no cases": record([], []),
        "judged": record(
            [case("a", checks=("judge",))],
            [
                line("a", c, P, checks=[{"passed": True, "judgeModel": "j", "judgeTokens": [9, 8, 7, 6]}])
                for c in ("baseline", "skill")
            ],
        ),
    }


@pytest.mark.parametrize("name", samples())
def test_notebook_and_terminal_say_the_same(name: str) -> None:
    run = samples()[name]
    said = Page(run_html(run)).text
    title, rates, *lines = (visible(text) for text in result_lines(run))
    assert " ".join(title.split()) in said
    rate, change = re.findall(r"\S+ \([^)]*\)", rates), rates.rpartition("Δ ")[2]
    assert f"baseline{rate[0]}with-skill{rate[1]}Δ{change}" in said
    for text in lines:
        assert " ".join(text.split()) in said


@pytest.mark.parametrize("run", [*samples().values(), ORIGIN])
def test_it_is_plain_closed_html_without_script_or_address(run: dict[str, Any]) -> None:
    page = Page(run_html(run))
    assert page.open == []
    assert {tag for tag, _ in page.tags} <= TAGS
    assert {name for _, attributes in page.tags for name in attributes} <= ATTRIBUTES
    assert "url(" not in run_html(run)
    assert "@import" not in run_html(run)


@pytest.mark.parametrize("run", [*samples().values(), ORIGIN])
def test_tables_have_headers_for_rows_and_columns(run: dict[str, Any]) -> None:
    for table in re.findall(r"<table.*?</table>", run_html(run), re.DOTALL):
        head, _, body = table.partition("</thead>")
        assert head.count('scope="col"') >= 2
        assert body.count('scope="row"') == body.count("<tr")


def test_the_seed_example_names_its_flips_and_marks_its_cases_in_words() -> None:
    said = Page(run_html(samples()["seed"])).text
    assert "flipped to fail (1): opposite" in said
    assert "flipped to pass (5): hot, door, quiet, file, wait" in said
    assert "ship gate: PASS — skill moves the number" in said
    assert "opposite1✓ pass✗ failflipped to fail; skill fails check 1 (verdict)" in said
    assert "sum1✓ pass✓ pass" in said
    assert "se.load_run('20261130T181500Z-polite')" in said
    assert "run.transcript('opposite', 'skill')" in said


def test_bars_are_as_long_as_the_rates_and_hidden_from_screen_readers() -> None:
    text = run_html(samples()["seed"])
    assert re.findall(r'aria-hidden="true"><div class="sknb-bar"><div style="width:(\d+)%"', text) == [
        "22",
        "67",
    ]


def test_repeated_trials_show_their_counts() -> None:
    lines = [line("a", "baseline", outcome, trial) for trial, outcome in enumerate((P, F, F), 1)]
    lines += [line("a", "skill", outcome, trial) for trial, outcome in enumerate((P, P), 1)]
    lines += [line("a", "skill", "executor_timeout", 3, tokens=None, reason="no answer within 180 s")]
    said = Page(run_html(record([case("a", None)], lines, n=3))).text
    assert "a✗ fail 1/3✓ pass 2/2 (1 unmeasured)flipped to pass" in said
    assert "1 trial without a measurement" in said
    assert "askill3executor_timeoutno answer within 180 s" in said
    assert "difficulty" not in said


def test_failed_checks_are_counted_over_the_trials_of_the_skill() -> None:
    outcomes = [[True, False], [True, True], [False, False]]
    lines = [
        line("a", "skill", F, number, checks=[{"passed": passed} for passed in checks])
        for number, checks in enumerate(outcomes, 1)
    ]
    said = Page(run_html(record([case("a", checks=("includes", "judge"))], lines, n=3))).text
    assert "skill fails checks 1 (includes) in 1/3, 2 (judge) in 2/3" in said


def test_tokens_that_nobody_reported_are_not_a_zero() -> None:
    said = Page(run_html(samples()["judged"])).text
    assert "executorbaseline3112not reportednot reportednot reported11 of 1" in said
    assert "judgeskill9876not reported11 of 1" in said
    assert "tokens in all: input 3, output 4" in Page(run_html(ORIGIN)).text


def test_an_unmeasured_case_is_neither_pass_nor_fail() -> None:
    said = Page(run_html(ORIGIN)).text
    assert "b– not measured✓ passnot measured in both" in said
    assert "measured 1/2 cases in both conditions" in said


def test_a_thousand_cases_make_a_short_page_that_begins_with_the_drops() -> None:
    verdicts = {f"case-{i}": (F, P) if i % 4 == 0 else (P, P) if i % 4 == 1 else (F, F) for i in range(1000)}
    verdicts |= {"case-501": (P, F), "case-777": (P, F)}
    text = run_html(pairs(verdicts))
    page = Page(text)
    assert len(text) < 16_000
    assert "30 of 1,000 cases, flips and failures first; 970 left out: run.cases has all" in page.text
    assert "flipped to pass (250): case-0, case-4, " in page.text
    assert "case-44 and 238 more" in page.text
    rows = re.findall(r'<th scope="row">(case-\d+)', text)
    assert (len(rows), rows[:3]) == (30, ["case-501", "case-777", "case-0"])


def test_many_errors_make_a_short_page() -> None:
    names = [f"c{i}" for i in range(400)]
    lines = [
        line(name, c, "executor_failed", reason="429 " * 50) for name in names for c in ("baseline", "skill")
    ]
    text = run_html(record([case(name) for name in names], lines))
    assert len(text) < 40_000
    assert "800 trials without a measurement; the first 30 are shown" in Page(text).text


def test_a_run_whose_folder_is_gone_promises_no_transcripts() -> None:
    said = Page(run_html(samples()["seed"], transcripts=False)).text
    assert "only the log knows this run" in said
    assert "run.transcript" not in said


def test_a_folder_outside_runs_is_opened_by_its_path() -> None:
    run = pairs({"a": (F, P)}, dir="elsewhere/20261130T181500Z-polite")
    assert "se.load_run('elsewhere/20261130T181500Z-polite')" in Page(run_html(run)).text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünï ✓ 漢字 👍🏽", "plain ünï ✓ 漢字 👍🏽"),
        ("a\tb\nc\r\nd", "a\tb\nc\nd"),
        ("a\rb", "a\\u{d}b"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x9b31mred", "red"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x07", "link"),
        ("\x1b(B\x1bM", ""),
        ("lone \x1b", "lone \\u{1b}"),
        ("user\u202egnp.exe", "user\\u{202e}gnp.exe"),
        ("\u2066x\u2069 \u061c \u200e", "\\u{2066}x\\u{2069} \\u{61c} \\u{200e}"),
        ("zero\u200bwidth\u200d\ufeff", "zero\\u{200b}width\\u{200d}\\u{feff}"),
        ("soft\xadhyphen", "soft\\u{ad}hyphen"),
        ("\x00\x07\x7f\x85", "\\u{0}\\u{7}\\u{7f}\\u{85}"),
        ("\u2028\u2029", "\\u{2028}\\u{2029}"),
        ("\ud800", "\\u{d800}"),
        ("tag\U000e0041", "tag\\u{e0041}"),
        ("\uffff\ufffe\ufffd", "\\u{ffff}\\u{fffe}\ufffd"),
    ],
)
def test_what_is_invisible_is_shown(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_escape_makes_text_safe_in_elements_and_attributes() -> None:
    assert (
        escape("<a href=\"x\" b='y'>&\u202e") == "&lt;a href=&quot;x&quot; b=&#x27;y&#x27;&gt;&amp;\\u{202e}"
    )
    assert escape(3) == "3"


def test_lines_of_a_run_under_way_are_text() -> None:
    assert line_html("warning: <b>x</b>") == f"{LINE}<b>warning:</b> &lt;b&gt;x&lt;/b&gt;</div>"
    assert line_html("a: b") == f"{LINE}a: b</div>"


texts = st.text(alphabet=st.characters(), max_size=30) | st.sampled_from(
    [EVIL, "</style>", "<!--", "]]>", "&lt;"]
)


@given(texts, texts, texts, texts)
def test_no_text_of_a_set_or_model_becomes_an_element(name: str, title: str, reason: str, model: str) -> None:
    other = name + "2"
    lines = [
        line(name, "baseline", "executor_failed", reason=reason, model=model),
        line(name, "skill", P, model=model),
        line(other, "baseline", P),
        line(other, "skill", F),
    ]
    plain = [line(key, item["condition"], item["outcome"]) for key, item in zip("aabb", lines, strict=True)]
    evil = record(
        [case(name, checks=(title,)), case(other)], lines, set=title, model=model, runner=reason, delivery=name,
        warnings=[reason], dir=model, runId=name,
    )  # fmt: skip
    calm = record([case("a"), case("b")], plain, warnings=["w"])
    page, other_page = Page(run_html(evil)), Page(run_html(calm))
    assert page.open == []
    skip = {"code"}  # a run that has no dir shows no code
    assert {tag for tag, _ in page.tags} - skip == {tag for tag, _ in other_page.tags} - skip
    assert {key for _, attributes in page.tags for key in attributes} <= ATTRIBUTES
    run_html(evil).encode()
