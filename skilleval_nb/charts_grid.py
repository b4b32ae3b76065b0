"""A table of two verdicts on the same things: how many have each pair, and which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import altair as alt

from .charts_data import listed
from .charts_look import INK, LINE, Row, heading, table

PASS, FAIL = "pass", "fail"
Pairs = Mapping[tuple[str, str], Sequence[str]]
"""For each pair of verdicts the names of what has it."""
_CELL = (190, 74)
_FILLS = ("#cfe3f7", "#fbd5bd", "#e4e8ec", "#c3c9d1", "#ffffff")


def cells(found: Pairs, fates: Sequence[str], missing: str) -> list[Row]:
    """The cells of the table: passes and fails always, the third verdict (`missing`) where it occurs.

    `fates` are what the cells mean: fail to pass, pass to fail, pass in both, fail in both, anything with `missing`.
    """
    up, down, both, neither, unknown = fates
    meaning = {(PASS, PASS): both, (PASS, FAIL): down, (FAIL, PASS): up, (FAIL, FAIL): neither}
    total = sum(map(len, found.values()))
    sides = [
        [word for word in (PASS, FAIL, missing) if word != missing or any(pair[at] == word for pair in found)]
        for at in (0, 1)
    ]
    rows: list[Row] = []
    for pair in ((before, after) for before in sides[0] for after in sides[1]):
        names = found.get(pair, ())
        rows.append(
            {
                "before": pair[0],
                "after": pair[1],
                "fate": meaning.get(pair, unknown),
                "counts": f"{len(names):,} of {total:,}",
                "names": listed(names) if names else "",
                "some": listed([name[:26] for name in names], 2) if names else "",
            }
        )
    return rows


def grid(rows: Sequence[Row], fates: Sequence[str], down: str, across: str, what: str) -> alt.LayerChart:
    """The cells drawn, each with its count, what it means and a few names.

    `down` and `across` say whose verdicts these are, in words of our own: Vega reads an axis' title as part of
    an expression.
    """
    befores, afters = (list(dict.fromkeys(row[side] for row in rows)) for side in ("before", "after"))
    types = {"before": str, "after": str, "fate": str, "counts": str, "names": str, "some": str}
    base = alt.Chart(table(rows, **types), title=heading(what))
    top = alt.Axis(orient="top", labelAngle=0, domain=False, ticks=False, grid=False)
    left = alt.Axis(domain=False, ticks=False, grid=False)
    x = alt.X("after:N", sort=afters, title=across, axis=top)
    y = alt.Y("before:N", sort=befores, title=down, axis=left)
    fill = alt.Scale(domain=list(fates), range=list(_FILLS))
    colour = alt.Color("fate:N", scale=fill, legend=None)
    hover = ["before", "after", "fate", "counts", "names"]
    layers = [base.mark_rect(stroke=LINE, strokeWidth=1).encode(x=x, y=y, color=colour, tooltip=hover)]
    for column, size, lower in (("counts", 17, -18), ("fate", 12, 2), ("some", 11, 20)):
        text = base.mark_text(color=INK, fontSize=size, dy=lower, limit=_CELL[0] - 10)
        layers.append(text.encode(x=x, y=y, text=f"{column}:N", tooltip=hover))
    return alt.LayerChart(layer=layers, width=_CELL[0] * len(afters), height=_CELL[1] * len(befores))


def cell_words(row: Row) -> str:
    """A cell in words."""
    names = f": {row['names']}" if row["names"] else ""
    return f"{row['fate']} ({row['before']} → {row['after']}) {row['counts']}{names}"
