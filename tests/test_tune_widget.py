"""The tuning panel without a browser: what a page sends goes in, what it draws comes out; real HTTP, real SDK."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hostile import EVERY, HIDDEN, texts_in
from loopback import Loopback, Reply, sleep, text
from test_inspector import Page
from test_tuning import finished, slowly, until
from worlds import BODY, SKILL, case, check, project

from skilleval_nb.errors import InputError
from skilleval_nb.tune_widget import TunePanel, tune

EDITED = SKILL.replace(BODY, f"{BODY} Always.")
DULL = SKILL.replace("MAGIC", "nothing")


def magic(body: dict[str, Any], count: int = 0) -> Reply:
    return text("magic!" if "MAGIC" in str(body.get("system")) else "plain")


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Loopback]:
    for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    with Loopback(magic) as loopback:
        for name, value in loopback.env.items():
            monkeypatch.setenv(name, value)
        yield loopback


def panel(root: Path, *cases: dict[str, Any], skill: str = SKILL, **options: Any) -> TunePanel:
    path = project(root, *(cases or (case("a"), case("b"))), skill=skill)
    return tune(root / "skills/magic/SKILL.md", path, **{"runner": "anthropic", **options})


def send(panel: TunePanel, *commands: dict[str, Any], typed: str | None = None) -> dict[str, Any]:
    """What a page sends, as it comes; the view once nothing runs any more."""
    told(panel, *commands, typed=typed)
    assert panel.wait(30)
    return dict(panel.view)


def told(panel: TunePanel, *commands: dict[str, Any], typed: str | None = None) -> dict[str, Any]:
    content = {"page": "p1", "commands": list(commands), **({} if typed is None else {"text": typed})}
    panel._handle_custom_msg(json.loads(json.dumps(content)), [])
    return dict(panel.view)


def on_disk(root: Path) -> str:
    return (root / "skills/magic/SKILL.md").read_text(encoding="utf-8")


def test_a_text_is_checked_as_it_is_typed_and_nothing_is_saved(tmp_path: Path) -> None:
    opened = panel(tmp_path)
    assert (opened.text["value"], opened.view["state"], opened.view["blocked"]) == (SKILL, "saved", False)
    assert opened.view["title"] == "magic · set magic"
    view = told(opened, typed=EDITED.replace("name: magic", "name: Magic"))
    assert view["state"] == "not saved"
    assert "problem: line 2 → name: has capital letters; hosts take none — write magic" in view["remarks"]
    assert view["remarks"][-1].startswith("91 characters; the body")  # 83 and " Always."
    view = told(opened, typed="---\nname: magic\n")
    assert view["blocked"]
    assert (on_disk(tmp_path), opened.text) == (SKILL, {"value": "---\nname: magic\n", "page": "p1"})


def test_a_run_shows_its_result_its_history_and_what_changed(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path, case("a"), case("b", check("includes", "plain")))
    first = send(opened, {"do": "run"}, typed=DULL)
    assert first["said"] == "run ended: Δ 0%, NO MOVEMENT"
    assert first["changes"] == {"said": "", "rows": []}
    view = send(opened, {"do": "run"}, typed=SKILL)
    assert view["result"] == [
        line for line in str(opened.session.last_run).splitlines() if "transcripts" not in line
    ]
    assert "reused from earlier runs: 2 baseline trials" in view["result"]
    assert view["changes"] == {
        "said": f"against the version before ({opened.session.check(DULL).skill.hash[:8]}): 2 of 2 cases stand"
        " otherwise",
        "rows": [["b", "✓ pass 1/1", "✗ fail 0/1", "to fail"], ["a", "✗ fail 0/1", "✓ pass 1/1", "to pass"]],
    }
    newest, oldest = view["runs"]
    name = opened.session.check(SKILL).skill.hash
    assert newest["version"] == name
    assert newest["cells"][:3] == [f"{name[:8]} (saved)", "2", "NO MOVEMENT"]
    # two new answers of 3,211 tokens in and 7 out
    assert newest["cells"][5:] == ["in 6,422, out 14", "2 baseline trials"]
    assert (oldest["cells"][1], oldest["cells"][6]) == ("1", "none")
    assert view["lines"][-1] == "2 of 4 trials are unchanged and reused"
    assert opened.progress["text"].startswith("4/4 · 0 errors")
    assert view["state"] == "saved"  # the text is the file's again
    assert (view["running"], on_disk(tmp_path)) == ("", SKILL)


def test_a_run_that_a_cell_starts_is_shown_too(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    opened.session.run(EDITED)
    opened._repr_mimebundle_()
    assert (len(opened.view["runs"]), opened.text["value"]) == (1, EDITED)
    opened.session.run(SKILL)
    assert len(told(opened)["runs"]) == 2
    assert "look 2" in opened.view["result"][0]


def test_fresh_confirm_and_top_up_do_what_they_say(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    send(opened, {"do": "run"})
    server.requests.clear()
    view = send(opened, {"do": "fresh"})
    assert (len(server.requests), view["runs"][0]["cells"][6]) == (4, "none")
    view = send(opened, {"do": "top_up"})
    assert view["result"][-1].startswith("e-value 2.33 for a rise")  # two wins of two: (2**3 - 1) / 3
    view = send(opened, {"do": "confirm"})
    assert view["runs"][0]["cells"][1] == "confirmation"
    assert "confirmation" in view["result"][0]
    assert len(server.requests) == 12


def test_a_confirmation_of_another_text_than_the_editors_says_so(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    send(opened, {"do": "run"})
    server.reply = lambda body, count: sleep(0.5, magic(body))
    view = told(opened, {"do": "confirm"}, typed=EDITED)
    name = opened.session.check(SKILL).skill.hash
    assert (
        view["said"]
        == f"confirmation begins: of version {name[:8]}, which ran last, not of the text in the editor"
    )
    assert opened.wait(30)
    assert opened.session.history["version"].to_list() == [name, name]
    assert told(opened, {"do": "confirm"}, typed=SKILL)["said"] == "confirmation begins"
    assert opened.wait(30)


def test_stop_works_while_a_run_goes_on_and_nothing_else_starts(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    server.reply = slowly
    assert told(opened, {"do": "run"})["running"] == "run"
    until(lambda: finished(tmp_path) == 2)
    until(lambda: opened.progress["done"] == 2)
    assert told(opened, {"do": "confirm"})["said"] == "a run is under way: stop it, or wait for its end"
    view = told(opened, {"do": "save"}, typed=EDITED)
    assert (view["state"], on_disk(tmp_path)) == ("saved", EDITED)
    view = send(opened, {"do": "stop"})
    assert view["said"] == "run stopped: 2 of 4 trials are kept, and the next takes them over"
    assert (view["running"], view["runs"]) == ("", [])
    assert opened.text["value"] == EDITED, "what was typed meanwhile is still there"
    server.reply = magic
    server.requests.clear()
    view = send(opened, {"do": "run"}, typed=SKILL)
    assert (len(server.requests), view["runs"][0]["cells"][6]) == (2, "1 baseline, 1 skill trials")
    assert told(opened, {"do": "stop"})["said"] == "nothing is running"


def test_what_cannot_be_run_is_said(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    view = send(opened, {"do": "run"}, typed="---\nname: magic\n---\n")
    assert "body: is empty" in view["said"]
    view = send(opened, {"do": "confirm"}, typed=SKILL)
    assert "no run of this skill" in view["said"]
    (tmp_path / "sets/magic.json").write_text("{", encoding="utf-8")
    view = send(opened, {"do": "run"})
    assert "not valid JSON" in view["said"]
    assert server.requests == []


def test_going_back_keeps_the_text_and_shows_what_a_version_changed(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    send(opened, {"do": "run"}, typed=SKILL)
    first = opened.session.versions["version"][0]
    view = send(opened, {"do": "back", "version": first}, typed=EDITED)
    assert opened.text == {"value": SKILL, "page": ""}
    second = opened.session.versions["version"][1]
    assert [name for name, _ in view["versions"]] == [second, first]
    assert "never run" in view["versions"][0][1]
    assert re.search(r"1 run · saved · current$", view["versions"][1][1])
    view = send(opened, {"do": "choose", "version": second})
    assert (
        view["difference"]["said"] == f"what version {second[:8]} changed against {first[:8]}, kept before it"
    )
    assert view["difference"]["lines"][-2:] == [["del", f"-{BODY}"], ["ins", f"+{BODY} Always."]]
    assert view["chosen"] == second
    assert "no kept version" in send(opened, {"do": "choose", "version": "../../x"})["said"]


def test_what_is_typed_while_another_text_comes_is_kept(tmp_path: Path) -> None:
    opened = panel(tmp_path)
    told(opened, {"do": "keep", "text": EDITED})
    assert (opened.text["value"], opened.session.versions["current"].to_list()) == (SKILL, [False])
    assert opened.session.text_of(opened.view["versions"][0][0]) == EDITED


def test_a_change_by_others_is_seen_and_never_saved_over(tmp_path: Path) -> None:
    opened = panel(tmp_path)
    (tmp_path / "skills/magic/SKILL.md").write_text(DULL, encoding="utf-8")
    view = send(opened, {"do": "save"}, typed=EDITED)
    assert "changed by another program" in view["said"]
    assert view["changed_outside"]
    assert on_disk(tmp_path) == DULL
    view = send(opened, {"do": "reload"})
    assert (opened.text["value"], view["changed_outside"], view["state"]) == (DULL, False, "saved")
    assert EDITED in [opened.session.text_of(name) for name, _ in view["versions"]]


def test_closing_loses_nothing_that_was_typed(tmp_path: Path) -> None:
    told(panel(tmp_path), typed=EDITED)  # the kernel ends here
    again = panel(tmp_path)
    assert (again.text["value"], len(again.view["versions"])) == (SKILL, 1)
    name = again.view["versions"][0][0]
    assert f"not saved last time is kept as version {name[:8]}" in again.view["said"]
    send(again, {"do": "back", "version": name})
    assert again.text["value"] == EDITED
    third = panel(tmp_path)
    assert third.view["said"] == "", "a version needs no draft"
    assert list((tmp_path / "runs/versions/magic").glob("draft-*")) == []


def test_a_second_page_gets_the_text_of_the_first(tmp_path: Path) -> None:
    opened = panel(tmp_path)
    told(opened, typed=EDITED)
    assert opened.text == {"value": EDITED, "page": "p1"}


@pytest.mark.parametrize(
    "content",
    [None, 3, [], {}, {"commands": 3}, {"commands": [3, {}, {"do": "fly"}, {"do": ["run"]}]}, {"text": 3}],
)
def test_what_is_no_command_is_passed_over(tmp_path: Path, content: Any) -> None:
    opened = panel(tmp_path)
    turn = opened.view["turn"]
    opened._handle_custom_msg(content, [])
    assert opened.view["turn"] > turn, "a page always hears back"
    assert (opened.text["value"], opened.view["running"]) == (SKILL, "")


def test_without_a_widget_it_is_static_html_and_text(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    assert repr(opened) == "TunePanel(magic · set magic: 0 runs)"
    send(opened, {"do": "run"})
    bundle = opened._repr_mimebundle_()
    data = bundle[0] if isinstance(bundle, tuple) else bundle
    assert data["text/plain"] == "TunePanel(magic · set magic: 1 run)"
    page = Page(data["text/html"])
    for words in (
        "magic · set magic",
        "SKILL.md: saved",
        "ship gate: PASS",
        "tokens of this run",
        "+100% of 2 cases",
    ):
        assert words in page.text


def test_hostile_texts_are_only_text(tmp_path: Path, server: Loopback) -> None:
    server.reply = lambda body, count: text("".join(letter for letter in EVERY if ord(letter) < 0xD800))
    opened = panel(tmp_path, case("a"), skill=f"---\nname: magic\ndescription: x\n---\n{BODY}\n")
    hostile = f"---\nname: {EVERY}\n---\n{EVERY}"
    view = send(opened, {"do": "run"}, typed=hostile)
    assert opened.view["running"] == ""
    view = send(opened, {"do": "choose", "version": view["versions"][0][0]})
    assert not any(HIDDEN.search(found) for found in texts_in(dict(view)))
    json.dumps(
        dict(opened.text), ensure_ascii=False
    ).encode()  # no half character can end the kernel's message
    bundle = opened._repr_mimebundle_()
    html = (bundle[0] if isinstance(bundle, tuple) else bundle)["text/html"]
    assert not {"script", "img", "svg", "a"} & set(Page(html).tags)


def test_bad_options_are_refused(tmp_path: Path) -> None:
    path = project(tmp_path)
    with pytest.raises(InputError, match="n: is 0"):
        tune(tmp_path / "skills/magic", path, n=0)
    with pytest.raises(TypeError, match="colour"):
        tune(tmp_path / "skills/magic", path, colour="red")  # type: ignore[call-arg]


def test_a_run_never_takes_back_what_is_typed(tmp_path: Path, server: Loopback) -> None:
    opened = panel(tmp_path)
    server.reply = lambda body, count: sleep(0.3, magic(body))
    told(opened, {"do": "run"})
    told(opened, typed=EDITED)
    assert opened.wait(30)
    assert (opened.text["value"], opened.session.text) == (EDITED, EDITED)
    assert threading.active_count() < 20
