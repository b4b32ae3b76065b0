"""A run as one HTML file: everything is in it, nothing in it acts, and it says what it leaves out."""

from __future__ import annotations

import re
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hostile import EVERY, HIDDEN, HOSTILE, LONG, run_parts
from run_folders import RUN, F, P, both, case, line, write_run
from scripted import Scripted
from worlds import case as set_case
from worlds import check, project

import skilleval_nb as se
from skilleval_nb.errors import InputError, RunNotFound
from skilleval_nb.export import export_html
from skilleval_nb.labels import add_label

LOADS = {
    "script",
    "img",
    "link",
    "iframe",
    "object",
    "embed",
    "video",
    "audio",
    "source",
    "svg",
    "form",
    "base",
    "input",
}
ADDRESSES = {"src", "srcset", "action", "formaction", "background", "poster", "data", "ping", "xlink:href"}
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Elements with their attributes, and the texts."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.source = path.read_text(encoding="utf-8")
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(self.source)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.texts.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.texts).split())

    @property
    def names(self) -> list[str]:
        return [tag for tag, _ in self.tags]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    cases = [case("up", prompt="Do up."), case("down", check(), prompt="Do down.")]
    lines = [
        *both("up", F, P, text="the answer to up"),
        *(line("down", c, o, f"down {c} {n}", n) for c, o in (("baseline", P), ("skill", F)) for n in (1, 2)),
    ]
    return write_run(tmp_path, cases, lines, n=2)


def test_a_real_run_is_one_page_with_its_result_and_every_transcript(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = project(tmp_path, set_case("one"), set_case("two"))
    answers = {"Task one.": ("no way", "magic"), "Task two.": ("magic too", None)}
    run = se.run_set(path, runner=Scripted(answers), progress=False)
    monkeypatch.chdir(tmp_path)
    for source in (run, run.id, "last", run.folder):
        assert source is not None
        made = export_html(source, "page.html")
        assert made == Path("page.html")
        page = Page(made)
        for words in (
            "ship gate:", "no way", "magic too", "Task two.", "no answer is written", "Answer with the word MAGIC.",
            "trial 1: baseline ✗ fail · skill ✓ pass", "2 cases", "Nothing is left out",
        ):  # fmt: skip
            assert words in page.text, words
    assert not list(tmp_path.glob(".page*"))


def test_the_page_can_be_read_by_everyone_and_asks_the_network_for_nothing(
    folder: Path, tmp_path: Path
) -> None:
    add_label(folder, "up", "skill", 1, False, note="too short")
    page = Page(export_html(folder, tmp_path / "page.html"))
    assert ("html", {"lang": "en"}) in page.tags
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv"))
    assert policy == "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
    assert [page.names.count(tag) for tag in ("title", "header", "main", "h1", "h2", "h3")] == [
        1,
        1,
        1,
        1,
        4,
        2,
    ]
    assert not LOADS & set(page.names)
    assert not ADDRESSES & {name for _, attributes in page.tags for name in attributes}
    assert [a["href"] for tag, a in page.tags if tag == "a"] == ["#case-0", "#case-1"]
    anchors = [a["id"] for _, a in page.tags if "id" in a]
    assert len(anchors) == len(set(anchors))
    assert {"case-0", "case-1"} <= set(anchors)
    assert {a["aria-labelledby"] for _, a in page.tags if "aria-labelledby" in a} <= set(anchors)
    assert page.names.count("table") == page.source.count("<thead>")
    assert "2 cases" in re.findall(r"<caption[^>]*>(.*?)</caption>", page.source)
    for word in ("url(", "@import", "http:", "https:", "javascript:"):
        assert word not in page.source
    assert "label: fail · note: too short" in page.text
    assert "1 of 2 trials started" in page.text


def test_chosen_cases_alone_and_that_is_said(folder: Path, tmp_path: Path) -> None:
    page = Page(export_html(folder, tmp_path / "page.html", cases=["down"]))
    assert "Only 1 of the run's 2 cases were chosen for this page." in page.text
    assert ("down baseline 2" in page.text, "the answer to up" in page.text) == (True, False)
    with pytest.raises(InputError, match="the run has no case nowhere"):
        export_html(folder, tmp_path / "other.html", cases=["down", "nowhere"])
    assert not (tmp_path / "other.html").exists()


def test_long_texts_are_cut_and_a_full_page_leaves_cases_out_and_says_so(tmp_path: Path) -> None:
    names = [f"c{number}" for number in range(6)]
    lines = [made for name in names for made in both(name, F, P, text=f"<{name}>" + "x" * 5_000)]
    folder = write_run(tmp_path, [case(name) for name in names], lines)
    page = Page(export_html(folder, tmp_path / "cut.html", text_limit=1_000))
    assert "12 texts longer than 1,000 characters: cut, each with the number left out." in page.text
    assert page.text.count("4,004 more characters are not shown here") == 12
    page = Page(export_html(folder, tmp_path / "full.html", total_limit=30_000))
    assert (
        "The transcripts of 4 cases are left out: the page was to have at most 30,000 characters" in page.text
    )
    assert page.text.count("This case's transcripts are left out: the page is full.") == 4
    assert [f"<c{n}>" in page.text for n in range(6)] == [True, True, False, False, False, False]
    assert all(name in page.text for name in names)
    assert len(page.source) < 60_000


def test_only_a_page_of_ours_is_replaced_unless_that_is_asked_for(folder: Path, tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    export_html(folder, target)
    first = target.read_text()
    export_html(folder, target, cases=["up"])
    assert target.read_text() != first
    target.write_text("<p>somebody's own page</p>")
    with pytest.raises(InputError, match=r"page\.html: there is another file of that name, which no export"):
        export_html(folder, target)
    assert target.read_text() == "<p>somebody's own page</p>"
    assert export_html(folder, target, overwrite=True).read_text() == first


def test_paths_that_cannot_be_are_refused(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "folder.html").mkdir()
    for path, why in (
        (tmp_path / "page.txt", "give a name that ends in .html"),
        (tmp_path / "no" / "such" / "page.html", "there is no such folder"),
        (tmp_path / "folder.html", "this is a folder"),
        (tmp_path / f"{'x' * 300}.html", "cannot be written"),
    ):
        with pytest.raises(InputError, match=why):
            export_html(folder, path)
    with pytest.raises(RunNotFound):
        export_html("nowhere", tmp_path / "page.html", runs_dir=tmp_path / "runs")
    with pytest.raises(InputError, match="run: is a DataFrame — give a run, its id or its folder"):
        export_html(se.load_run(folder).trials, tmp_path / "page.html")  # type: ignore[arg-type]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder.html", "pyproject.toml", "runs"]


def test_a_disk_that_fails_leaves_the_old_page_and_no_part(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = export_html(folder, tmp_path / "page.html")
    before = target.read_text()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(InputError, match="No space left on device"):
        export_html(folder, target, cases=["up"])
    assert target.read_text() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "pyproject.toml", "runs"]


def test_a_run_with_no_cases_or_no_trials_is_a_page_too(tmp_path: Path) -> None:
    empty = write_run(tmp_path, [], [], run="20261130T181500Z-none")
    assert "the set has no cases" in Page(export_html(empty, tmp_path / "a.html")).text
    waiting = write_run(tmp_path, [case("a")], [], run="20261130T181501Z-waiting")
    assert "0 of 1 trial started" in Page(export_html(waiting, tmp_path / "b.html")).text


@pytest.mark.parametrize("text", [*HOSTILE.values(), EVERY], ids=[*HOSTILE, "every"])
def test_a_hostile_run_is_only_text(tmp_path: Path, text: str) -> None:
    pages = []
    for name, words in (("evil", text), ("calm", "plain words")):
        cases, lines, header = run_parts(words, words)
        del header["regradeOf"]  # the result of a regrade has more in its record
        pages.append(
            Page(export_html(write_run(tmp_path / name, cases, lines, **header), tmp_path / f"{name}.html"))
        )
    evil, calm = pages
    assert evil.names == calm.names
    assert [sorted(a) for _, a in evil.tags] == [sorted(a) for _, a in calm.tags]
    ours = (
        "class",
        "id",
        "href",
        "role",
        "tabindex",
        "scope",
        "dir",
        "http-equiv",
        "style",
        "aria-labelledby",
        "charset",
    )
    for (_, attributes), (_, others) in zip(evil.tags, calm.tags, strict=True):
        assert {name: attributes[name] for name in ours if name in attributes} == {
            name: others[name] for name in ours if name in others
        }
    assert not HIDDEN.search(evil.source.replace("\n", ""))


def test_five_megabytes_in_one_line_are_cut_soon(tmp_path: Path) -> None:
    cases, lines, header = run_parts("text", LONG)
    del header["regradeOf"]
    folder = write_run(tmp_path, cases, lines, **header)
    began = time.process_time()
    made = export_html(folder, tmp_path / "page.html")
    assert time.process_time() - began < 2.0
    assert made.stat().st_size < 1_000_000
    assert "4,800,003 more characters are not shown here" in Page(made).text


def test_the_run_of_a_page_is_named(folder: Path, tmp_path: Path) -> None:
    assert f"<title>magic · {RUN}</title>" in Page(export_html(folder, tmp_path / "page.html")).source
