"""The registry of runners: names, third parties, and what `auto` takes."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

import pytest

from skilleval_nb import runner_local, runners
from skilleval_nb.errors import InputError, RunnerUnavailable
from skilleval_nb.values import Answer, Request

if TYPE_CHECKING:
    from pathlib import Path

PLUGIN = """
from skilleval_nb.runners import Runner
from skilleval_nb.values import Answer

class Parrot(Runner):
    name = "parrot"
    def __init__(self, argument):
        self.argument = argument
    async def answer(self, request):
        return Answer(f"{self.argument}: {request.prompt}")
"""
ENTRIES = "[skilleval_nb.runners]\nparrot = parrot_plugin:Parrot\nlocal = parrot_plugin:Parrot\nbroken = nowhere:x\n"


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An installed distribution with runners of its own."""
    (tmp_path / "parrot_plugin.py").write_text(PLUGIN)
    info = tmp_path / "parrot_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrot-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(ENTRIES)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "parrot_plugin", raising=False)


def test_the_built_in_runners_come_first() -> None:
    assert runners.names()[:5] == ["anthropic", "claude", "local", "replay", "record"]


@pytest.mark.usefixtures("plugin")
def test_a_third_party_joins_by_entry_point() -> None:
    assert runners.names() == ["anthropic", "claude", "local", "replay", "record", "broken", "parrot"]
    runner = runners.create("parrot:C:\\seeds")
    assert asyncio.run(runner.answer(Request("hello", "m"))) == Answer("C:\\seeds: hello")
    assert asyncio.run(runners.create("parrot").answer(Request("hello", "m"))) == Answer("None: hello")


@pytest.mark.usefixtures("plugin")
def test_a_third_party_can_be_recorded(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    runner = runners.create(f"record:{path}:parrot:x:y")
    assert asyncio.run(runner.answer(Request("hello", "m"))).text == "x:y: hello"
    asyncio.run(runner.aclose())
    assert asyncio.run(runners.create(f"replay:{path}").answer(Request("hello", "m"))).text == "x:y: hello"


@pytest.mark.usefixtures("plugin")
def test_no_third_party_takes_the_name_of_a_built_in_runner() -> None:
    assert runners.names().count("local") == 1
    with pytest.raises(InputError):
        runners.create("local:no-such-file.gguf")


@pytest.mark.parametrize("spec", ["nobody", "nobody:x", "", ":", "Anthropic"])
def test_an_unknown_name_is_answered_with_the_known_ones(spec: str) -> None:
    name = spec.partition(":")[0]
    with pytest.raises(RunnerUnavailable) as caught:
        runners.create(spec)
    assert f"there is no runner {name!r} — use one of anthropic, claude, local, replay, record" in str(
        caught.value
    )


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No key, no claude; returns the only folder on PATH."""
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "bin"
    folder.mkdir()
    monkeypatch.setenv("PATH", str(folder))
    return folder


def claude(folder: Path) -> Path:
    """A claude command in `folder`; never run here."""
    path = folder / "claude"
    path.write_text("#!/bin/sh\nexit 1\n")
    path.chmod(0o755)
    return path


def test_auto_takes_a_key_before_anything_else(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    claude(bare)
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "secret-token")
    assert runners.choose() == ("anthropic", "ANTHROPIC_AUTH_TOKEN is set")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "secret-key")
    assert runners.choose() == ("anthropic", "ANTHROPIC_API_KEY is set")


def test_auto_takes_the_cli_without_a_key(bare: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    path = claude(bare)
    assert runners.choose() == ("claude", f"no API key; {path} is on PATH")


@pytest.mark.usefixtures("bare")
def test_auto_takes_the_embedded_model_or_names_the_three_ways() -> None:
    if runner_local.installed():
        assert runners.choose() == ("local", "no API key and no claude CLI; the embedded model is installed")
        return
    with pytest.raises(RunnerUnavailable) as caught:
        runners.choose()
    for way in ("ANTHROPIC_API_KEY", "claude CLI", "skilleval fetch-model"):
        assert way in str(caught.value)
