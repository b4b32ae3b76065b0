"""The README, the CI script and the tree keep their promises."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import skilleval_nb as se
from skilleval_nb.sets import load_set

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```sh\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
TOP_LEVEL = {
    "pyproject.toml", "README.md", "skilleval_nb", "notebooks", "sets", "runs", "tests", "LICENSE", "CHANGELOG.md",
}  # fmt: skip


def tracked() -> list[str]:
    done = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a git checkout")
    return done.stdout.splitlines()


def test_the_first_block_runs_the_main_job_and_the_second_the_tests() -> None:
    assert len(BLOCKS) == 2
    assert "skilleval run sets/typed-python.json --runner local" in BLOCKS[0]
    assert "[local,lab]" in BLOCKS[0]
    assert BLOCKS[1].strip().endswith("-m pytest")


def test_what_the_readme_points_to_exists() -> None:
    for path in re.findall(r"\]\(([^)#:]+)\)|`((?:sets|notebooks|tests)/[\w./-]+)`", README):
        name = next(filter(None, path))
        if name not in ("sets/mine.json",):
            assert (ROOT / name).exists(), name


def test_the_readmes_sample_set_is_a_set(tmp_path: Path) -> None:
    sample = re.search(r"^```json\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert sample
    path = tmp_path / "sample.json"
    path.write_text(sample[1])
    assert len(load_set(path).cases[0].checks) == 3


def test_the_readmes_sample_output_is_what_the_committed_log_says() -> None:
    result = re.search(r"^```text\n(typed-python .*?)^```", README, re.MULTILINE | re.DOTALL)
    assert result
    lines = [json.loads(line) for line in (ROOT / "runs" / "log.jsonl").read_text().splitlines()]
    record = next(line for line in lines if line["set"] == "typed-python" and line["n"] == 1)
    shown = str(se.Run(record)).splitlines()
    assert result[1].splitlines()[1:4] == shown[1:4]


def test_nothing_stands_outside_the_fixed_top_level() -> None:
    found = {name.split("/")[0] for name in tracked() if not name.startswith(".")}
    assert found <= TOP_LEVEL


def test_no_file_names_a_registry_or_a_path_of_some_machine() -> None:
    place = re.compile(
        r"(?<![\w.])/(?:wo"
        + r"rk|ro"
        + r"ot|ho"
        + r"me/\w+)/|https?://[^\s\"']+/(?:simple|packages/[0-9a-f]{2})\b"
    )
    bad = [
        name
        for name in tracked()
        if (ROOT / name).is_file() and place.search((ROOT / name).read_bytes().decode("utf-8", "replace"))
    ]
    assert bad == []


def shipped_sets() -> list[Path]:
    """The sets of cases; a calibration set is none."""
    return [path for path in (ROOT / "sets").glob("*.json") if not path.name.endswith(".calibration.json")]


def test_the_shipped_sets_are_clean_tagged_and_have_their_skills() -> None:
    from skilleval_nb.darkroom import coverage

    paths = sorted(shipped_sets())
    assert len(paths) >= 3
    for path in paths:
        found = load_set(path, strict=True)
        assert found.skill_path is not None
        assert coverage(found).verdict == "ok"


def test_the_committed_log_holds_real_runs_of_every_shipped_set() -> None:
    frame = se.load_log(ROOT / "runs" / "log.jsonl", level="run")
    names = {path.stem for path in shipped_sets()}
    assert names <= set(frame["set"])
    assert set(frame["runner"]) == {"local"}
    assert frame["trials_errored"].sum() == 0


def test_the_versions_agree() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["dynamic"] == ["version"]
    assert f"## {se.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_wheel_takes_along_every_shipped_notebook_set_and_skill() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    shipped = [
        *ROOT.glob("notebooks/*.ipynb"),
        *ROOT.glob("sets/*.json"),
        *ROOT.glob("sets/skills/*/SKILL.md"),
    ]
    names = {path.relative_to(ROOT).as_posix() for path in shipped}
    assert packed == {name: f"skilleval_nb/_shipped/{name}" for name in names}
