"""P-values of several skills or sets in one report, adjusted for how many there are."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import cast

from .errors import InputError


def holm(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust for claims (Holm): all that are at most α together hold a false one with chance α at most.

    In the order given. None (not measured) stays None and is not counted: no claim can come of it.

    Raises:
        InputError: a value is outside [0, 1].
    """
    known = _known(p_values)
    order = sorted(known, key=known.__getitem__)
    steps = (min(1.0, (len(order) - rank) * known[at]) for rank, at in enumerate(order))
    adjusted = dict(zip(order, accumulate(steps, max), strict=True))
    return tuple(map(adjusted.get, range(len(p_values))))


def bh(p_values: Sequence[float | None]) -> tuple[float | None, ...]:
    """Adjust for a dashboard of many (Benjamini–Hochberg): of all at most α the share α is false on average.

    Order, None and errors as in `holm`.
    """
    from scipy.stats import false_discovery_control

    known = _known(p_values)
    found = cast("list[float]", false_discovery_control(list(known.values())).tolist()) if known else []
    adjusted = dict(zip(known, found, strict=True))
    return tuple(map(adjusted.get, range(len(p_values))))


def _known(p_values: Sequence[float | None]) -> dict[int, float]:
    """The values that were measured, by their place."""
    known = {at: float(p) for at, p in enumerate(p_values) if p is not None}
    if not all(0 <= p <= 1 for p in known.values()):
        raise InputError("p-values are in [0, 1]; None where nothing was measured")
    return known
