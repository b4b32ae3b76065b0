"""Text from outside, made harmless to look at: no terminal sequence acts, and nothing hides."""

from __future__ import annotations

import re

_ANSI = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # colours and cursor movements
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)"  # titles and links
    r"|\x1b[ -/]*[0-~]"
)
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufe00-\ufe0e\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\ud800-\udfff"
    "\U000e0000-\U000e0fff]"
)


def visible(text: str) -> str:
    r"""`text` without terminal sequences; what is invisible or turns the reading order stands as `\u{..}`."""
    text = _ANSI.sub("", text.replace("\r\n", "\n"))
    return _HIDDEN.sub(lambda found: f"\\u{{{ord(found[0]):x}}}", text)
