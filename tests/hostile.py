"""Texts that would act, hide or flood if anything ever took them for more than text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from run_folders import F, P, case, grade, line

SCRIPT = "<script>window.__acted = 1</script>"
HOSTILE = {
    "script": f'{SCRIPT}<img src=x onerror="window.__acted = 1"><svg onload="window.__acted = 1">',
    "closes what is around it": "</script></style></pre></title></textarea>--><!-- ]]> \"'><b onclick=x>",
    "ansi": "\x1b[31mred\x1b[0m \x1b]8;;http://example.invalid\x07link\x1b]8;;\x07 \x9b2J",
    "bidi": "user\u202egnp.exe \u2066inner\u2069 \u061c",
    "zero width": "a\u200bb\u2060c\ufeffd\u00ade\U000e0041",
    "nul": "\x00\x01\x08\x0c\x85\u2028",
    "lone surrogates": "\ud800 high, low \udfff",
    "markdown image": "![x](http://example.invalid/x.png) [y](javascript:window.__acted=1)",
    "mathjax": r"$$\href{javascript:window.__acted=1}{x}$$ \(\unicode{60}\) $\require{html}$",
    "comm": json.dumps(
        {"do": "label", "entry": 0, "passed": True, "comm_id": "1", "method": "update", "state": {}}
    ),
    "entities": "&lt;script&gt; &#60; &amp;amp; %3Cscript%3E",
}
EVERY = " ".join(HOSTILE.values())
LONG = "<i>" + "A" * 5_000_000
HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def run_parts(text: str, answer: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]], dict[str, Any]]:
    """Cases, lines and header of a run in which `text` stands wherever others can write, `answer` in the answers."""
    name = f"case {text}"
    checks = [
        {"kind": "includes", "pattern": text},
        {"kind": "excludes", "pattern": text},
        {"kind": "judge", "rubric": text},
        {"kind": f"odd {text}", "value": text},
    ]
    grades = [
        grade("includes", True, evidence=text, span=[0, 3]),
        grade("excludes", False, evidence=text, span=[1, 5]),
        grade("judge", False, evidence=text, quoted=False, reasoning=text, judgeModel=text, judgeTokens=[1, 2, 3, 4],
              before={"passed": True, "judgeModel": text}),
        grade(f"odd {text}", None, reason=text),
    ]  # fmt: skip
    more: dict[str, Any] = {
        "checks": grades, "model": text, "stopReason": text, "reused": True, "from": text, "usageReason": text,
        "events": [{"type": text, "name": text, "text": text}],
    }  # fmt: skip
    cases = [case(name, *checks, prompt=text), case("other")]
    lines = [
        line(name, "baseline", "executor_failed", None, reason=text),
        line(name, "baseline", F, answer, **more),
        line(name, "skill", P, answer, **more),
        line("other", "skill", "executor_failed", None, reason=text),
    ]
    header = {
        "set": text, "model": text, "skill": text, "warnings": [text], "regradeOf": "earlier",
        "systems": {"baseline": text, "skill": text},
    }  # fmt: skip
    return cases, lines, header


def texts_in(value: Any) -> Iterator[str]:
    """Every text of plain data."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from texts_in(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from texts_in(item)
