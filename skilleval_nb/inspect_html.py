"""Transcripts as static HTML: what an inspector shows first, and the parts of which an export is made.

Drawn from the same data as the widget. Every text is escaped by `html.escape`; elements, attributes and classes
are ours alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from .case_view import View
from .html import escape, root_html
from .inspection import Inspection

SHOWN = 4_000
"""The most characters of a text in a notebook's output."""
ROWS = 30
_TAGS = {
    "met": ("mark", "sknb-met"),
    "broken": ("mark", "sknb-broken"),
    "quoted": ("mark", "sknb-quoted"),
    "hit": ("mark", "sknb-hit"),
    "del": ("del", ""),
    "ins": ("ins", ""),
}
TRANSCRIPT_STYLE = """<style>
.sknb.sknb pre.sknb-text{white-space:pre-wrap;overflow-wrap:anywhere;max-height:24em;overflow:auto;margin:.2em 0}
.sknb.sknb pre.sknb-text{font-family:var(--jp-code-font-family,ui-monospace,monospace);unicode-bidi:plaintext}
.sknb.sknb pre.sknb-text{font-size:var(--jp-code-font-size,13px);line-height:1.45;color:inherit;padding:.4em .6em}
.sknb.sknb pre.sknb-text{word-break:normal}
.sknb.sknb pre.sknb-text{background:rgba(128,128,128,.1);border:1px solid rgba(128,128,128,.4);border-radius:3px}
.sknb .sknb-sides{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(20em,100%),1fr));gap:0 1.2em}
.sknb .sknb-sides>*{min-width:0}
.sknb .sknb-facts{display:grid;grid-template-columns:auto 1fr;gap:0 .9em;margin:.3em 0}
.sknb.sknb .sknb-facts dt{opacity:.85;font-weight:400;float:none;width:auto;white-space:nowrap}
.sknb.sknb .sknb-facts dd{margin:0;overflow-wrap:anywhere}
.sknb.sknb ol.sknb-checks{margin:.3em 0;padding-left:1.6em}
.sknb mark{color:inherit;border-radius:2px;background:rgba(58,135,216,.22);border-bottom:2px solid #3a87d8}
.sknb mark.sknb-broken{background:rgba(213,94,0,.22);border-bottom:2px dashed #d55e00}
.sknb mark.sknb-quoted{background:rgba(128,128,128,.22);border-bottom:2px dotted currentColor}
.sknb mark.sknb-hit{background:rgba(230,180,0,.3);border-bottom:0;outline:1px solid currentColor}
.sknb del{background:rgba(213,94,0,.2);color:inherit;text-decoration:line-through}
.sknb ins{background:rgba(58,135,216,.2);color:inherit;text-decoration:underline}
.sknb mark sup{font-size:.75em;line-height:0;padding-right:.15em;user-select:none}
</style>"""


def inspection_html(inspection: Inspection) -> str:
    """What is looked at, bounded in size whatever the run is; it says what it leaves out."""
    view = inspection.view(SHOWN)
    rows = inspection.rows_view()
    parts = [f'<p class="sknb-head"><b>{escape(view["title"])}</b></p>']
    parts += [f"<p>{escape(note)}</p>" for note in view["notes"]]
    shown = rows["rows"][:ROWS]
    left_out = rows["of"] - len(shown)
    title = f"{rows['of']:,} case{'' if rows['of'] == 1 else 's'}"
    if left_out:
        title = f"{len(shown)} of {title}; {left_out:,} are left out here: the widget has all"
    if shown:
        table = cases_html(shown, view["conditions"], title)
        parts.append(f"<details><summary>{escape(title)}</summary>{table}</details>")
    if view["case"] is not None:
        parts.append(case_html(view, inspection.systems_view()))
    else:
        parts.append("<p>no case to look at</p>")
    parts.append(
        '<p class="sknb-soft">One case is shown here; with a running kernel every case is a key away.</p>'
    )
    return root_html(f"transcripts of {view['title']}", "".join(parts), TRANSCRIPT_STYLE)


def cases_html(rows: Sequence[View], conditions: Sequence[str], caption: str, link: str = "") -> str:
    """The cases with their marks; `link` is what a case's anchor begins with, if the page has them."""
    head = "".join(f'<th scope="col">{escape(name)}</th>' for name in conditions)
    lines = []
    for row in rows:
        marks = {name: f"{signs} {words}" for name, signs, words in row["marks"]}
        name = _name(row)
        if link:
            name = f'<a href="#{link}{row["at"]}">{name}</a>'
        cells = "".join(f"<td>{escape(marks.get(condition, 'not run'))}</td>" for condition in conditions)
        more = escape(" · ".join(filter(None, (row["moved"], row["label"]))))
        lines.append(f'<tr><th scope="row">{name}</th>{cells}<td class="sknb-words">{more}</td></tr>')
    top = f'<tr><th scope="col">case</th>{head}<th scope="col">what happened</th></tr>'
    box = escape(caption)
    return (
        f'<div class="sknb-scroll" role="group" aria-label="{box}" tabindex="0">'
        f'<table class="sknb-t sknb-lines"><caption class="sknb-soft">{box}</caption>'
        f"<thead>{top}</thead><tbody>{''.join(lines)}</tbody></table></div>"
    )


def _name(row: View) -> str:
    run = f" ({escape(row['run'])})" if row["run"] else ""
    return f"<bdi>{escape(row['name'])}</bdi>{run}"


def case_html(view: View, systems: Iterable[View]) -> str:
    """One case: prompt, system texts, and each condition's trial with its checks."""
    case = view["case"]
    trials = f" · trial {case['trial']} of {len(case['trials'])}" if len(case["trials"]) > 1 else ""
    about = " · ".join(filter(None, (case["run"], case["moved"])))
    parts = [
        f"<p><b>case <bdi>{escape(case['name'])}</bdi></b>{escape(trials)}{escape(f' · {about}' if about else '')}</p>",
        prompt_html(case["prompt"]),
        systems_html(systems),
        sides_html(view["sides"]),
    ]
    return "".join(parts)


def prompt_html(prompt: View) -> str:
    """The prompt, folded where it is long."""
    is_open = " open" if prompt["short"] else ""
    return f"<details{is_open}><summary>prompt</summary>{text_html(prompt, 'prompt')}</details>"


def systems_html(systems: Iterable[View]) -> str:
    """What each condition was given as system text, folded."""
    parts = []
    for system in systems:
        name = f"system text of {system['condition']}"
        if system["text"] is None:
            parts.append(f"<p>{escape(name)}: {escape(system['said'])}</p>")
        else:
            body = text_html(system["text"], name)
            parts.append(f"<details><summary>{escape(name)}</summary>{body}</details>")
    return "".join(parts)


def sides_html(sides: Iterable[View]) -> str:
    """The trials of one case beside each other; below each other where the page is narrow."""
    return f'<div class="sknb-sides">{"".join(map(side_html, sides))}</div>'


def side_html(side: View) -> str:
    """One trial: its outcome, answer, checks and what is known of it."""
    name = escape(f"{side['condition']}, trial {side['trial']}")
    head = f"<b>{escape(side['condition'])}</b> {escape(side['outcome'])}"
    parts = [f"<p>{head}</p>"]
    if side["absent"]:
        parts.append(f"<p>{escape(side['absent'])}</p>")
    if side["entry"] is not None:
        if side["answer"] is not None:
            said = "<p>the answer is empty</p>" if side["empty"] else ""
            parts.append(
                said or text_html(side["answer"], f"answer of {side['condition']}, trial {side['trial']}")
            )
        parts += [_checks(side["checks"]), _events(side), _label(side), _facts(side["facts"])]
    return f'<div role="group" aria-label="{name}">{"".join(parts)}</div>'


def text_html(text: View, name: str) -> str:
    """A text in parts, its marks as elements; the number of a check stands before what it marks."""
    body = "".join(_part(kind, checks, words) for kind, checks, words in text["parts"])
    more = f"<p>{text['left_out']:,} more characters are not shown here</p>" if text["left_out"] else ""
    label = escape(name)
    # a line break right behind <pre> is not part of it
    return f'<pre class="sknb-text" dir="auto" tabindex="0" role="group" aria-label="{label}">\n{body}</pre>{more}'


def _part(kind: str, checks: str, words: str) -> str:
    if kind not in _TAGS:
        return escape(words)
    tag, name = _TAGS[kind]
    number = f"<sup>[{escape(checks)}]</sup>" if checks else ""
    return f"<{tag}{f' class={chr(34)}{name}{chr(34)}' if name else ''}>{number}{escape(words)}</{tag}>"


def _checks(checks: Sequence[View]) -> str:
    items = []
    for check in checks:
        asks = f": {escape(check['asks'])}" if check["asks"] else ""
        says = "".join(f"<br>{escape(line)}" for line in check["says"])
        items.append(
            f"<li><b>{escape(check['grade'])}</b> {escape(check['kind'])}{asks}{says}{_said(check)}</li>"
        )
    return f'<p>checks</p><ol class="sknb-checks">{"".join(items)}</ol>' if items else "<p>no checks</p>"


def _said(labelled: Mapping[str, object]) -> str:
    """A person's label and note, where there are any."""
    label, note = labelled["label"], labelled["note"]
    word = "" if label is None else "label: pass" if label else "label: fail"
    words = " · ".join(filter(None, (word, f"note: {note}" if note else "")))
    return f"<br>{escape(words)}" if words else ""


def _label(side: View) -> str:
    said = _said(side).removeprefix("<br>")
    return f"<p>{said}</p>" if said else ""


def _events(side: View) -> str:
    if not side["events"]:
        return ""
    items = "".join(
        f"<li>{escape(' '.join(filter(None, event[:2])))}: {escape(event[2])}</li>"
        for event in side["events"]
    )
    more = f"<p>{escape(side['events_said'])}</p>" if side["events_said"] else ""
    return f"<details><summary>events ({len(side['events'])})</summary><ol>{items}</ol>{more}</details>"


def _facts(facts: Iterable[Sequence[str]]) -> str:
    items = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in facts)
    return f'<details><summary>tokens, time, cost and model</summary><dl class="sknb-facts">{items}</dl></details>'
