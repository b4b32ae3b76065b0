"""The log: lines are written whole by any number of processes, and read whatever else is in the file."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from skilleval_nb import log
from skilleval_nb.errors import InputError, LogWarning, SkillevalError
from skilleval_nb.log import append_record, count_looks, read_records

KEY = {"setHash": "abc", "model": "m", "judgeModel": None, "delivery": "inject"}


def look(run_id: str, **more: Any) -> dict[str, Any]:
    """A record with what looks are counted by."""
    return {"kind": "eval", "runId": run_id, **KEY, "resumes": 0, "confirm": False, **more, "cases": []}


def looks(path: Path, **more: Any) -> int:
    """The looks at KEY, or at what differs from it."""
    key = {**KEY, **more}
    return count_looks(
        path,
        set_hash=key["setHash"],
        model=key["model"],
        judge_model=key["judgeModel"],
        delivery=key["delivery"],
    )


@contextmanager
def log_warnings() -> Iterator[list[str]]:
    """The texts of the LogWarnings raised inside; any other warning is an error, as everywhere."""
    texts: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield texts
    assert {w.category for w in caught} <= {LogWarning}
    texts += [str(w.message) for w in caught]


def read_all(path: Path, **options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    with log_warnings() as texts:
        found = list(read_records(path, **options))
    return found, texts


# --- writing


def test_a_record_is_one_compact_line_in_its_own_order(tmp_path: Path) -> None:
    path = tmp_path / "runs" / "log.jsonl"
    append_record(path, {"kind": "eval", "b": [1, None], "a": {"text": "Grüße\n\u2028\x85 “ok”"}})
    append_record(path, {"kind": "mdl"})
    assert (
        path.read_bytes()
        == ('{"kind":"eval","b":[1,null],"a":{"text":"Grüße\\n\u2028\x85 “ok”"}}\n{"kind":"mdl"}\n').encode()
    )


@pytest.mark.parametrize(
    ("value", "stored"),
    [
        (float("nan"), None),
        ([1.5, float("inf"), {"x": float("-inf")}], [1.5, None, {"x": None}]),
        ("a\ud800b", "a\ufffdb"),
        ("\ud83d\ude00", "\U0001f600"),
        (("tuple", float("nan")), ["tuple", None]),
    ],
)
def test_what_json_cannot_hold_is_kept_readable(tmp_path: Path, value: Any, stored: Any) -> None:
    path = tmp_path / "log.jsonl"
    append_record(path, {"kind": "eval", "value": value})
    assert json.loads(path.read_bytes()) == {"kind": "eval", "value": stored}


@pytest.mark.parametrize("before", [b'{"kind":"ev', b'{"kind":"eval"}', b'{"kind":"eval"}\n\0\0\0'])
def test_a_file_that_does_not_end_a_line_gets_its_line_end_first(tmp_path: Path, before: bytes) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(before)
    append_record(path, {"kind": "new"})
    assert path.read_bytes() == before + b'\n{"kind":"new"}\n'


WRITER = """
import sys, time
from pathlib import Path
from skilleval_nb.log import append_record
path, name = Path(sys.argv[1]), sys.argv[2]
(path.parent / f"ready-{name}").touch()
while not (path.parent / "go").exists():
    time.sleep(0.001)
for number in range(300):
    append_record(path, {"kind": "eval", "who": name, "number": number, "text": name * (number * 37 % 5000)})
"""


def test_two_processes_append_at_the_same_moment_and_every_line_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b'{"kind":"torn')
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, str(path), name]) for name in "ab"]
    deadline = time.monotonic() + 60
    while len(list(tmp_path.glob("ready-*"))) < 2:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    (tmp_path / "go").touch()
    assert [writer.wait(120) for writer in writers] == [0, 0]
    first, *lines = path.read_bytes().splitlines()
    assert first == b'{"kind":"torn'
    records = [json.loads(line) for line in lines]
    for name in "ab":
        mine = [record for record in records if record["who"] == name]
        assert [record["number"] for record in mine] == list(range(300))
        assert all(record["text"] == name * (record["number"] * 37 % 5000) for record in mine)
    assert len(records) == 600
    switches = sum(a["who"] != b["who"] for a, b in pairwise(records))
    assert switches > 1, "the two did not write at the same time"


def test_a_line_that_does_not_fit_on_the_disk_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_record(path, {"kind": "old"})
    before = path.read_bytes()
    code = f"""
import resource, signal
from skilleval_nb.errors import SkillevalError
from skilleval_nb.log import append_record
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, ({len(before) + 10}, {len(before) + 10}))
try:
    append_record({str(path)!r}, {{"kind": "new", "text": "x" * 100}})
except SkillevalError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert str(path) in done.stdout
    assert "only 10 of" in done.stdout
    assert "make room" in done.stdout
    assert path.read_bytes() == before


def test_a_log_that_cannot_be_opened_is_an_error_for_people(tmp_path: Path) -> None:
    with pytest.raises(SkillevalError, match=r"could not be written .*its trials are kept"):
        append_record(tmp_path, {"kind": "eval"})


def test_a_lock_that_is_never_released_ends_in_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LOCK_TIMEOUT_S", 0.05)
    path = tmp_path / "log.jsonl"
    with FileLock(f"{path}.lock"), pytest.raises(SkillevalError, match="another process has held its lock"):
        append_record(path, {"kind": "eval"})
    assert not path.exists()


# --- reading

GOOD = b'{"kind":"eval","n":1}\n'


@pytest.mark.parametrize(
    ("content", "kept", "said"),
    [
        (GOOD + b'{"kind":"eval","n":2}', [1, 2], None),
        (GOOD + b'{"kind":"eval","n":', [1], r"1 line .*line 2 \(.+\)"),
        (b'{"kind":"ev\n' + GOOD, [1], "1 line .*line 1 "),
        (GOOD + GOOD.strip() + GOOD + GOOD, [1, 1], "line 2 .*Extra data"),
        (b"\xef\xbb\xbf" + GOOD, [1], None),
        (GOOD.replace(b"\n", b"\r\n") * 2, [1, 1], None),
        (b"\n  \n" + GOOD + b"\n\n", [1], None),
        (GOOD + b"\0" * 9, [1], "line 2 .*NUL"),
        (GOOD + b"\0\0" + GOOD, [1, 1], None),
        (b"17\n[1]\nnull\n" + GOOD, [1], "3 lines .*line 1 .*not an object.*line 2 .*line 3 "),
        (b'{"kind":"eval","n":"\xff"}\n' + GOOD, [1], "line 1 .*UTF-8"),
        (b'{"a":' * 200_000 + b"\n" + GOOD, [1], "line 1 .*nested too deep"),
        (b'{"n":' + b"1" * 5000 + b"}\n" + GOOD, [1], "line 1 .*a number too long"),
        (b'{"kind":"eval","n":1,"x":NaN}\n', [1], "1 line kept with values read as null: line 1 .*NaN"),
        (b"?\n" * 7 + GOOD, [1], "7 lines .*line 5 .*and 2 more"),
        (b"", [], None),
    ],
)
def test_reading_keeps_what_is_whole_and_says_once_what_is_not(
    tmp_path: Path, content: bytes, kept: list[int], said: str | None
) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(content)
    found, texts = read_all(path)
    assert [record["n"] for record in found] == kept
    assert all(record.get("x") is None for record in found)
    if said is None:
        assert texts == []
    else:
        (text,) = texts
        assert text.startswith(f"{path}: ")
        assert re.search(said, text), text


def test_kinds_and_a_literal_choose_records(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    for kind, number in [("eval", 1), ("mdl", 2), ("suite", 3), ("eval", 4)]:
        append_record(path, {"kind": kind, "n": number})
    append_record(path, {"n": 5})
    append_record(path, {"kind": ["eval"], "n": 6})
    assert [r["n"] for r in read_records(path)] == [1, 2, 3, 4, 5, 6]
    assert [r["n"] for r in read_records(path, ("eval", "suite"))] == [1, 3, 4]
    assert [r["n"] for r in read_records(path, ["eval"], contains='"n":4')] == [4]
    with path.open("ab") as file:
        file.write(b"not a line of the search\n")
    assert [r["n"] for r in read_records(path, contains='"kind":"suite"')] == [3]


def test_a_missing_log_is_an_error_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"runs/log\.jsonl: there is no log here .*skilleval run SET"):
        read_records("runs/log.jsonl")
    with pytest.raises(InputError, match="a folder, not a log"):
        read_records(tmp_path)


def test_a_relative_log_is_found_from_a_folder_of_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "notebooks").mkdir()
    append_record(tmp_path / "runs" / "log.jsonl", {"kind": "eval"})
    monkeypatch.chdir(tmp_path / "notebooks")
    assert list(read_records("runs/log.jsonl")) == [{"kind": "eval"}]


@given(st.lists(st.one_of(st.binary(max_size=30), st.sampled_from([GOOD, b"\n", b"{", b"\0", b"}"]))))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150, deadline=None)
def test_no_bytes_can_make_reading_fail(tmp_path: Path, parts: list[bytes]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_bytes(b"".join(parts))
    found, texts = read_all(path)
    assert all(isinstance(record, dict) for record in found)
    assert len(texts) <= 1
    lines = [line for line in path.read_bytes().split(b"\n") if line == GOOD.strip()]
    assert sum(record == {"kind": "eval", "n": 1} for record in found) >= len(lines)


# --- looks


def test_looks_are_counted_by_run_since_the_last_confirmation(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    assert looks(path) == 0
    for run_id in "ab":
        append_record(path, look(run_id))
    append_record(path, look("b", resumes=1))
    append_record(path, {**look("c"), "skillHash": "another skill is a look too"})
    assert looks(path) == 3
    append_record(path, look("d", confirm=True))
    assert looks(path) == 0
    append_record(path, look("e"))
    assert looks(path) == 1
    append_record(path, look("d", confirm=True, resumes=1))
    assert looks(path) == 0, "a confirmation that was resumed stands where it ended"


@pytest.mark.parametrize(
    "other", [{"setHash": "xyz"}, {"model": "n"}, {"judgeModel": "j"}, {"delivery": "r"}]
)
def test_only_the_same_set_model_judge_and_delivery_count(tmp_path: Path, other: dict[str, str]) -> None:
    path = tmp_path / "log.jsonl"
    append_record(path, look("a"))
    append_record(path, {**look("b"), **other, "note": "abc"})
    append_record(path, {**look("c", confirm=True), **other, "about": {"setHash": "abc"}})
    assert looks(path) == 1
    assert looks(path, **other) == 0


def test_looks_do_not_depend_on_where_a_key_stands(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    append_record(path, look("a"))
    confirmed = look("b", confirm=True)
    append_record(path, {"cases": confirmed.pop("cases"), **confirmed})
    append_record(path, look("c"))
    late = look("d")
    del late["confirm"]
    append_record(path, {**late, "confirm": True, "x": []})
    assert b'"cases":[],"confirm":true,"x":[]}' in path.read_bytes()
    append_record(path, {"nested": {"a": 1, "cases": []}, **look("e")})
    assert looks(path) == 1


LOOK = st.builds(
    look,
    st.sampled_from("abc"),
    confirm=st.booleans(),
    resumes=st.integers(0, 2),
    setHash=st.sampled_from(["abc", "abd"]),
    model=st.sampled_from(["m", "abc"]),
    judgeModel=st.sampled_from([None, "j"]),
)


@given(st.lists(LOOK, max_size=12))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100, deadline=None)
def test_looks_agree_with_counting_by_hand(tmp_path: Path, records: list[dict[str, Any]]) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    alike = [r for r in records if all(r[key] == value for key, value in KEY.items())]
    last: dict[str, tuple[int, dict[str, Any]]] = {}
    for place, record in enumerate(alike):
        known = last.get(record["runId"])
        if known is None or record["resumes"] >= known[1]["resumes"]:
            last[record["runId"]] = (place, record)
    count = 0
    for _, record in sorted(last.values(), key=lambda pair: pair[0]):
        count = 0 if record["confirm"] else count + 1
    assert looks(path) == count
