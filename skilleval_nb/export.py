"""A whole run as one HTML file that opens anywhere: no script, nothing to load, every transcript in it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from .case_view import View, clean, prompt_view, row_view, side_view, systems_view
from .errors import InputError, Problem, SkillevalError
from .gate import counted
from .html import escape, run_html
from .inspect_html import TRANSCRIPT_STYLE, cases_html, prompt_html, sides_html, systems_html
from .record import clip
from .runs import Run, load_run
from .transcripts import Row, Transcripts, open_transcripts

TEXT_LIMIT = 200_000
"""The most characters of one text."""
TOTAL_LIMIT = 50_000_000
"""The most characters of all transcripts together."""
_MADE_BY = '<meta name="generator" content="skilleval_nb transcripts">'
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_STYLE = """<style>
:root{color-scheme:light dark}
body{margin:0 auto;padding:1em;max-width:84em;line-height:1.5;font-family:system-ui,sans-serif;color:CanvasText}
body{background:Canvas;overflow-wrap:anywhere}
h1,h2,h3,h4{line-height:1.25;margin:1.1em 0 .3em}
h1{font-size:1.4em}h2{font-size:1.2em}h3{font-size:1.05em}h4{font-size:1em}
article{border-top:1px solid GrayText;margin-top:1em}
.sknb.sknb{max-width:none}
a{color:LinkText}
summary{cursor:pointer}
@media print{.sknb.sknb pre.sknb-text{max-height:none}}
</style>"""


def export_html(
    run: Run | str | Path,
    path: str | Path,
    *,
    cases: Sequence[str] | None = None,
    overwrite: bool = False,
    runs_dir: str | Path = "runs",
    text_limit: int = TEXT_LIMIT,
    total_limit: int = TOTAL_LIMIT,
) -> Path:
    """Writes the result of a run and all its transcripts as one HTML file; its path.

    `run` is a Run, its id, "last", or its folder; `cases` are the ids of those to be written (None: all). A text
    is cut to `text_limit` characters, and where all of them reach `total_limit` the transcripts of the cases
    that follow are left out; the page says both. A file of that name is replaced if it is such a page, any
    other only with `overwrite`.
    Raises InputError where the file cannot be written or a case does not exist, RunNotFound where the run's
    transcripts are not here.
    """
    if not isinstance(run, Run | str | Path):
        raise InputError(Problem("run", f"is a {type(run).__name__}", "give a run, its id or its folder"))
    target = _target(Path(path), overwrite=overwrite)
    found = open_transcripts(run, runs_dir)
    rows = _chosen(found, cases)
    if not isinstance(run, Run):
        run = load_run(found.sources[0].folder.path)
    page = "".join(_page(run, found, rows, text_limit, total_limit))
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        part.write_text(page, encoding="utf-8")
        part.replace(target)
    except OSError as error:
        with suppress(OSError):
            part.unlink()
        raise _unwritable(target, error.strerror or str(error)) from None
    return target


def _target(path: Path, *, overwrite: bool) -> Path:
    """The file to write; raises InputError where that cannot be or would destroy something else."""
    if path.suffix.lower() not in (".html", ".htm"):
        raise InputError(
            Problem(str(path), "a browser opens it by its name", "give a name that ends in .html")
        )
    try:
        if not path.parent.is_dir():
            raise InputError(
                Problem(str(path), "there is no such folder", f"make the folder {path.parent} first")
            )
        if path.is_dir():
            raise InputError(Problem(str(path), "this is a folder", "name a file in it"))
        if path.exists() and not overwrite and not _is_ours(path):
            what = "there is another file of that name, which no export has written"
            raise InputError(Problem(str(path), what, "give another name, or overwrite=True"))
    except OSError as error:
        raise _unwritable(path, error.strerror or str(error)) from None
    return path


def _is_ours(path: Path) -> bool:
    with path.open("rb") as file:
        return _MADE_BY.encode() in file.read(1_000)


def _unwritable(path: Path, why: str) -> InputError:
    return InputError(Problem(str(path), f"the page cannot be written ({why})", "give another path"))


def _chosen(found: Transcripts, cases: Sequence[str] | None) -> list[Row]:
    if cases is None:
        return found.rows
    known = {row.id for row in found.rows}
    wanted = [cases] if isinstance(cases, str) else list(cases)
    if unknown := [name for name in wanted if name not in known]:
        named = ", ".join(clip(str(name), 60) for name in unknown[:10])
        raise InputError(
            Problem("cases", f"the run has no case {named}", f"it has {counted(len(known), 'case')}")
        )
    return [row for row in found.rows if row.id in wanted]


def _page(run: Run, found: Transcripts, rows: Sequence[Row], limit: int, total: int) -> Iterable[str]:
    source = found.sources[0]
    title = escape(f"{source.header['set']} · {source.folder.run_id}")
    systems = clean(systems_view(found, 0, limit))
    cut = sum(bool(system["text"] and system["text"]["left_out"]) for system in systems)
    parts, left_out, size = [], [], 0
    for row in rows:
        part, cut_here = _case(found, row, limit) if size < total else ("", 0)
        if size + len(part) > total or not part:
            size = total  # what follows is left out too, so that the page has no holes
            left_out.append(row)
            parts.append(
                _heading(row) + "<p>This case's transcripts are left out: the page is full.</p></article>"
            )
            continue
        size += len(part)
        cut += cut_here
        parts.append(part)
    yield f'<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n{_MADE_BY}\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
    yield f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{title}</title>\n'
    yield f"{_STYLE}{TRANSCRIPT_STYLE}\n</head>\n<body>\n<header><h1>{title}</h1></header>\n<main>\n"
    yield f'<section aria-labelledby="result"><h2 id="result">Result</h2>{run_html(run.record)}</section>\n'
    yield '<section aria-labelledby="cases"><h2 id="cases">Cases</h2><div class="sknb">'
    yield "".join(f"<p>{escape(line)}</p>" for line in _omissions(found, rows, left_out, cut, limit, total))
    views = [clean(row_view(found, row, *found.pair)) for row in rows]
    yield cases_html(views, clean(found.conditions), counted(len(rows), "case"), link="case-")
    yield "</div></section>\n"
    yield '<section aria-labelledby="systems"><h2 id="systems">System texts</h2><div class="sknb">'
    yield systems_html(systems)
    yield "</div></section>\n"
    yield '<section aria-labelledby="transcripts"><h2 id="transcripts">Transcripts</h2><div class="sknb">\n'
    yield from parts
    yield "</div></section>\n</main>\n</body>\n</html>\n"


def _omissions(
    found: Transcripts, rows: Sequence[Row], left_out: Sequence[Row], cut: int, limit: int, total: int
) -> list[str]:
    """What the page does not have, in sentences."""
    lines = []
    if len(rows) < len(found.rows):
        lines.append(
            f"Only {len(rows):,} of the run's {counted(len(found.rows), 'case')} were chosen for this page."
        )
    if left_out:
        what = f"The transcripts of {counted(len(left_out), 'case')} are left out"
        lines.append(f"{what}: the page was to have at most {total:,} characters of transcripts.")
    if cut:
        lines.append(
            f"{counted(cut, 'text')} longer than {limit:,} characters: cut, each with the number left out."
        )
    return lines or ["Nothing is left out: every transcript of the run is on this page, whole."]


def _heading(row: Row) -> str:
    name = escape(clip(row.id, 200))
    return f'<article aria-labelledby="case-{row.at}"><h3 id="case-{row.at}"><bdi>{name}</bdi></h3>'


def _case(found: Transcripts, row: Row, limit: int) -> tuple[str, int]:
    """One case with all its trials, and how many of its texts were cut."""
    prompt = clean(prompt_view(row, None, limit))
    moved = row.moved(*found.pair)
    parts = [_heading(row), f"<p>{moved}</p>" if moved else "", prompt_html({**prompt, "short": False})]
    cut = int(prompt["left_out"] > 0)
    planned = int(found.sources[row.source].header["n"])
    if len(row.trials) < planned:
        parts.append(f"<p>{len(row.trials):,} of {counted(planned, 'trial')} started</p>")
    for trial in row.trials:
        sides = [clean(_side(found, row, condition, trial, limit)) for condition in _conditions(found, row)]
        cut += sum(bool(side.get("answer") and side["answer"]["left_out"]) for side in sides)
        outcomes = " · ".join(f"{side['condition']} {side['outcome'] or side['absent']}" for side in sides)
        summary = escape(f"trial {trial}: {outcomes}")
        parts.append(f"<details><summary>{summary}</summary>{sides_html(sides)}</details>")
    return f"{''.join(parts)}</article>\n", cut


def _conditions(found: Transcripts, row: Row) -> list[str]:
    return [str(name) for name in found.sources[row.source].header["conditions"]]


def _side(found: Transcripts, row: Row, condition: str, trial: int, limit: int) -> View:
    try:
        return side_view(found, row, condition, trial, pattern=None, limit=limit)[0]
    except SkillevalError as error:  # the other trials are worth having
        return {"condition": condition, "trial": trial, "entry": None, "outcome": "", "absent": str(error)}
