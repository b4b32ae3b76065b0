"""What a notebook needs once: charts that show without a network, in JupyterLab, on GitHub and to a screen reader."""

from __future__ import annotations

import base64
import struct
from collections.abc import Mapping
from typing import Any

from .controls import visible

RENDERER = "skilleval_nb"


def setup() -> None:
    """Makes altair draw charts in this process instead of asking the network for a script.

    Every chart of the notebook is then a picture (SVG, and PNG for where SVG is not shown) with its
    description as text. Call it as often as you like; `altair.renderers.enable("default")` undoes it.
    """
    import altair as alt

    alt.renderers.register(RENDERER, render)
    alt.renderers.enable(RENDERER)


def render(spec: Mapping[str, Any], **_options: object) -> tuple[dict[str, str], dict[str, Any]]:
    """A Vega-Lite specification as a mime bundle and its metadata, drawn offline."""
    import vl_convert

    safe = _clean(spec)
    text = describe(safe)
    png = vl_convert.vegalite_to_png(safe, scale=2)
    width, height = struct.unpack(">II", png[16:24])
    bundle = {
        "image/svg+xml": vl_convert.vegalite_to_svg(safe),
        "image/png": base64.b64encode(png).decode(),
        "text/plain": f"<chart: {text}>",
    }
    return bundle, {"image/png": {"width": width // 2, "height": height // 2, "alt": text}, "alt": text}


def describe(spec: Mapping[str, Any]) -> str:
    """The chart's description, else its title, else the word `chart`."""
    title = spec.get("title") or ""
    if isinstance(title, Mapping):
        title = title.get("text") or ""
    if isinstance(title, list):
        title = " ".join(map(str, title))
    return str(spec.get("description") or title or "chart")


def _clean(value: Any) -> Any:
    """The same specification without control characters: one of them in a label ends the whole kernel."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, Mapping):
        return {visible(str(key)): _clean(item) for key, item in value.items()}
    return [_clean(item) for item in value] if isinstance(value, list | tuple) else value
