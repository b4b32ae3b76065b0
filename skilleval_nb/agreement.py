"""How far a judge's verdicts are those of people: counted from graded items, whatever they come from.

An item is what a calibration's record holds of it: `label` (a person's verdict), `verdict` (the judge's, null
where it did not decide), `verdicts` (one a repeat) and, where a repeat was not decided, why.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from .gate import MINUS, percent, percent_of
from .stats import cohen_kappa, gwet_ac1, wilson

Item = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Measure:
    """A number with its 95 % interval and the count of items it is of.

    `value` is None where it cannot be told, and `ci` where there is none to give; `reason` then says why.
    """

    value: float | None = None
    ci: tuple[float, float] | None = None
    n: int = 0
    reason: str | None = None

    def on_disk(self) -> dict[str, Any]:
        """As a record holds it; what is absent is null, with its reason."""
        low, high = self.ci or (None, None)
        found = {"value": self.value, "low": low, "high": high, "n": self.n}
        return found if self.reason is None else {**found, "reason": self.reason}


@dataclass(frozen=True, slots=True)
class JudgeAgreement:
    """A judge held against people.

    `items` were asked of the judge, `judged` have a verdict; `abstained` have none though the judge was
    asked, `ties` of them because its repeats split evenly; `missing` were never asked. Human passes that it
    passed and failed are `tp` and `fn`, human fails that it failed and passed `tn` and `fp`. `judgements`
    counts all repeats of all items, `undecided` those without a verdict by outcome.

    `self_consistency` is the share of items with two or more verdicts on which all agree,
    `self_disagreement` the share of pairs of verdicts of one item that differ.
    """

    items: int
    judged: int
    abstained: int
    ties: int
    missing: int
    tp: int
    fn: int
    tn: int
    fp: int
    judgements: int
    undecided: Mapping[str, int]
    quotes: int
    quotes_found: int
    accuracy: Measure
    sensitivity: Measure
    specificity: Measure
    kappa: Measure
    ac1: Measure
    self_consistency: Measure
    self_ac1: Measure
    self_disagreement: Measure

    def on_disk(self) -> dict[str, Any]:
        """As a record holds it."""
        values = {_camel(one.name): getattr(self, one.name) for one in fields(self)}
        return {
            name: value.on_disk() if isinstance(value, Measure) else value for name, value in values.items()
        }


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


def verdict_of(verdicts: Iterable[bool | None]) -> bool | None:
    """What most of the decided repeats say; None: none was decided, or they split evenly."""
    counts = Counter(verdict for verdict in verdicts if verdict is not None)
    return None if counts[True] == counts[False] else counts[True] > counts[False]


def agreement_of(items: Iterable[Item]) -> JudgeAgreement:
    """All measures of a judge over graded items."""
    items = list(items)
    table = Counter((item["label"], verdict_of(item["verdicts"])) for item in items)
    tp, fn, tn, fp = (table[cell] for cell in ((True, True), (True, False), (False, False), (False, True)))
    judged = tp + fn + tn + fp
    asked = [item for item in items if item["verdicts"]]
    decided = [[verdict for verdict in item["verdicts"] if verdict is not None] for item in asked]
    quotes = [found for item in asked for found in item.get("quoted") or () if found is not None]
    none = "no item was decided"
    return JudgeAgreement(
        items=len(items),
        judged=judged,
        abstained=len(asked) - judged,
        ties=sum(bool(row) and verdict_of(row) is None for row in decided),
        missing=len(items) - len(asked),
        tp=tp,
        fn=fn,
        tn=tn,
        fp=fp,
        judgements=sum(len(item["verdicts"]) for item in asked),
        undecided=dict(
            Counter(
                str(one["outcome"]) for item in asked for one in item.get("undecided") or ()
            ).most_common()
        ),
        quotes=len(quotes),
        quotes_found=sum(quotes),
        accuracy=rate(tp + tn, judged, none),
        **error_rates(tp, fn, tn, fp),
        kappa=_kappa(tp, fn, tn, fp),
        ac1=_ac1([[0, 2]] * tp + [[2, 0]] * tn + [[1, 1]] * (fn + fp), none),
        **_repeats(decided),
    )


def rate(part: int, whole: int, reason: str) -> Measure:
    """A share with Wilson's interval; `reason` where there is nothing it could be of."""
    return _share(part / whole, whole) if whole else Measure(reason=reason)


def _share(value: float, n: int) -> Measure:
    return Measure(value, wilson(min(1.0, max(0.0, value)), n), n)


def error_rates(tp: int, fn: int, tn: int, fp: int) -> dict[str, Measure]:
    """Sensitivity (human passes that the judge passes) and specificity (human fails that it fails)."""
    return {
        "sensitivity": rate(tp, tp + fn, "no decided item is a pass by its label"),
        "specificity": rate(tn, tn + fp, "no decided item is a fail by its label"),
    }


def _kappa(tp: int, fn: int, tn: int, fp: int) -> Measure:
    n = tp + fn + tn + fp
    found = cohen_kappa(tp, fn, tn, fp)
    if found is None:
        return Measure(
            n=n, reason="judge and people say the same of every item" if n else "no item was decided"
        )
    reason = "the formula gives no width" if found.ci is None else None
    return Measure(found.kappa, found.ci, n, reason)


def _ac1(rows: Sequence[Sequence[int]], reason: str) -> Measure:
    found = gwet_ac1(rows)
    if found is None:
        return Measure(n=len(rows), reason=reason)
    return Measure(found.ac1, found.ci, len(rows), "the formula gives no width" if found.ci is None else None)


def _repeats(decided: Sequence[Sequence[bool]]) -> dict[str, Measure]:
    """How far a judge agrees with itself."""
    rows = [[row.count(False), row.count(True)] for row in decided if row]
    repeated = [row for row in rows if sum(row) > 1]
    reason = "no item was decided twice"
    found = gwet_ac1(rows)
    return {
        "self_consistency": rate(sum(0 in row for row in repeated), len(repeated), reason),
        "self_ac1": _ac1(rows, reason),
        "self_disagreement": Measure(reason=reason) if found is None else _share(1 - found.pa, len(repeated)),
    }


def flips_between(before: Iterable[Item], after: Iterable[Item]) -> tuple[int, list[str], list[str]]:
    """How many items (by id) were decided both times, which went from fail to pass, and which to fail."""
    old = {item["id"]: verdict_of(item["verdicts"]) for item in before}
    pairs = [(item["id"], old.get(item["id"]), verdict_of(item["verdicts"])) for item in after]
    both = [(name, then, now) for name, then, now in pairs if then is not None and now is not None]
    ups = [name for name, then, now in both if now and not then]
    downs = [name for name, then, now in both if then and not now]
    return len(both), ups, downs


def share_words(part: int, whole: int, ci: tuple[float, float] | None = None) -> str:
    """`26/28 (93%, 95% CI 77…98%)`; without a denominator `n/a`."""
    if not whole:
        return "n/a"
    interval = f", 95% CI {percent(ci[0])}…{percent(ci[1])}%" if ci else ""
    return f"{part}/{whole} ({percent_of(part, whole)}%{interval})"


def value_words(measure: Measure) -> str:
    """`0.78 (95% CI 0.61…0.94)`; without a value the reason."""
    if measure.value is None:
        return f"n/a ({measure.reason})"
    words = f"{measure.value:.2f}"
    if measure.ci is not None:
        words += f" (95% CI {measure.ci[0]:.2f}…{measure.ci[1]:.2f})"
    return words.replace("-", MINUS)
