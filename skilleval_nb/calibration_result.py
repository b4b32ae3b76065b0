"""A calibration as a result: its record for the log, what has changed since an earlier one, and how it reads."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from functools import cached_property
from math import ceil
from typing import TYPE_CHECKING, Any

from .agreement import (
    Item,
    JudgeAgreement,
    Measure,
    agreement_of,
    flips_between,
    share_words,
    value_words,
    verdict_of,
)
from .controls import visible
from .gate import counted, percent
from .judge_log import FROM_LABELS, KIND
from .stats import NO_DRIFT, UNSTABLE, Drift, drift, shown_p
from .values import Usage

if TYPE_CHECKING:
    import polars as pl

SCHEMA = 1
SHOWN = 6
"""The most items that a line names."""

REASONING_LIMIT = 200
"""How much of a judge's reasoning an item of a record keeps, in characters."""

DESIGN = ("calibrationHash", "repeats", "judgeN")
"""What two calibrations must share to be compared."""

Record = Mapping[str, Any]


class Calibration:
    """A judge held against people's labels, as `calibrate_judge` returns it.

    `record` is what the log holds (camelCase keys). In a notebook a calibration shows itself.
    """

    def __init__(self, record: Record) -> None:
        self.record = record

    @cached_property
    def agreement(self) -> JudgeAgreement:
        """All counts and measures."""
        return agreement_of(self.record["items"])

    @property
    def items(self) -> pl.DataFrame:
        """One row an item, in the file's order.

        `verdict` is the majority of the decided repeats and `right` whether it is the label; both are null where
        most repeats were undecided or they split evenly. `undecided` says why, `reasoning` is the judge's (cut).
        """
        import polars as pl

        schema: dict[str, Any] = {
            "item": pl.String, "rubric": pl.String, "label": pl.Boolean, "verdict": pl.Boolean, "right": pl.Boolean,
            "decided": pl.Int64, "repeats": pl.Int64, "verdicts": pl.List(pl.Boolean), "undecided": pl.String,
            "reasoning": pl.String,
        }  # fmt: skip
        return pl.DataFrame([_item_row(item) for item in self.record["items"]], schema=schema)

    def against(self, earlier: Calibration) -> Drift | None:
        """What flipped between another calibration with the same items and this one; None: nothing in common.

        The other may be by another judge. Counts as a first check: nothing is paid for earlier ones.
        """
        own = _own_noise(self.record, earlier.record)
        n, ups, downs = flips_between(earlier.record["items"], self.record["items"])
        return drift(n, len(ups), len(downs), own=own.value, own_items=own.n)

    def __str__(self) -> str:
        """The result in a few lines."""
        return "\n".join(calibration_lines(self.record))

    def __repr__(self) -> str:
        """The same: a calibration is its result."""
        return str(self)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


def _item_row(item: Item) -> dict[str, Any]:
    verdict = verdict_of(item["verdicts"])
    why = [f"{one['outcome']}: {one.get('reason') or 'no reason is known'}" for one in item["undecided"]]
    return {
        "item": item["id"],
        "rubric": item["rubric"],
        "label": item["label"],
        "verdict": verdict,
        "right": None if verdict is None else verdict is item["label"],
        "decided": sum(one is not None for one in item["verdicts"]),
        "repeats": len(item["verdicts"]),
        "verdicts": item["verdicts"],
        "undecided": "; ".join(dict.fromkeys(why)) or None,
        "reasoning": item.get("reasoning"),
    }


def calibration_record(head: Record, items: Sequence[Item], earlier: Sequence[Record]) -> dict[str, Any]:
    """The record of a calibration; `head` is all that identifies it, `earlier` the calibrations before it."""
    record: dict[str, Any] = {"kind": KIND, "schema": SCHEMA, **head}
    record["drift"], record["driftReason"] = _drift({**record, "items": items}, earlier)
    return {**record, "agreement": agreement_of(items).on_disk(), "items": list(items)}


def _drift(record: Record, earlier: Sequence[Record]) -> tuple[dict[str, Any] | None, str | None]:
    """What has changed since an earlier calibration, or why that cannot be told.

    Compared with the latest whole calibration with the same items by the same judge (name, runner and prompt),
    else with the latest by one that shares its name or its prompt. Repeats and votes must be the same: what
    most of three say differs from what one says without any drift.
    """
    if record.get("source") == FROM_LABELS:
        return None, "labels of runs are not judged again"
    if record.get("partial"):
        return None, f"this calibration is not whole ({record['partial']})"
    like = [one for one in earlier if all(one.get(key) == record[key] for key in DESIGN)]
    like = [one for one in like if not one.get("partial")]
    if not like:
        return None, "the first calibration with these items, repeats and votes"
    same = [one for one in like if _name(one) == _name(record) and _prompt(one) == _prompt(record)]
    kin = [one for one in like if _name(one) == _name(record) or _prompt(one) == _prompt(record)]
    if not kin:
        return None, "no earlier calibration with these items shares this judge's name or prompt"
    before = (same or kin)[-1]
    n, ups, downs = flips_between(before["items"], record["items"])
    kindred = [
        one for one in reversed(earlier) if _name(one) == _name(record) and _prompt(one) == _prompt(record)
    ]
    own = _own_noise(record, before, *kindred)
    found = drift(n, len(ups), len(downs), own=own.value, own_items=own.n, check=len(like))
    if found is None:
        return None, "no item was decided both times"
    low, high = found.flips.flip_ci
    return {
        "verdict": found.verdict,
        "n": n,
        "up": found.up,
        "down": found.down,
        "upItems": ups,
        "downItems": downs,
        "flipRate": found.flips.flip_rate,
        "flipLow": low,
        "flipHigh": high,
        "p": found.flips.p,
        "check": found.check,
        "pChecks": found.p_checks,
        "couldMiss": found.could_miss,
        "selfDisagreement": own.value,
        "since": before.get("ts"),
        "sinceJudge": _judge_words(before),
        "sinceResolved": before.get("resolvedJudgeModel"),
        "sinceHash": before.get("judgeHash"),
        "sameJudge": bool(same) and before.get("resolvedJudgeModel") == record["resolvedJudgeModel"],
    }, None


def _name(record: Record) -> tuple[Any, ...]:
    return record.get("judgeRunner"), record.get("judgeModel")


def _prompt(record: Record) -> Any:
    return record.get("judgeHash")


def _own_noise(*records: Record) -> Measure:
    """How often a judge contradicts itself, by the first of the calibrations that asked more than once."""
    found = [agreement_of(record["items"]).self_disagreement for record in records]
    return next((measure for measure in found if measure.value is not None), found[0])


def calibration_lines(record: Record) -> list[str]:
    """What was judged by whom, how far it agrees with people and with itself, and what has changed."""
    found = agreement_of(record["items"])
    lines = [_title(record, found), _decided(found)]
    if found.judged:
        lines += [
            f"{'':<12}{'judge: pass':>13}{'judge: fail':>13}",
            f"{'human pass':<12}{found.tp:>13}{found.fn:>13}",
            f"{'human fail':<12}{found.fp:>13}{found.tn:>13}",
        ]
    positives, negatives = found.tp + found.fn, found.tn + found.fp
    lines += [
        f"accuracy {share_words(found.tp + found.tn, found.judged, found.accuracy.ci)}"
        f" · sensitivity {share_words(found.tp, positives, found.sensitivity.ci)}"
        f" · specificity {share_words(found.tn, negatives, found.specificity.ci)}",
        f"Cohen's κ {value_words(found.kappa)} · Gwet's AC1 {value_words(found.ac1)}",
        _self_words(record, found),
    ]
    if found.quotes:
        lines.append(f"quotations that stand in the answer {share_words(found.quotes_found, found.quotes)}")
    if wrong := [item for item in record["items"] if verdict_of(item["verdicts"]) is (not item["label"])]:
        lines.append(f"wrong on {_named([item['id'] for item in wrong])}")
    lines += [_drift_words(record), _spent(record)]
    return [" ".join(visible(line).splitlines()) for line in lines]


def _title(record: Record, found: JudgeAgreement) -> str:
    judge = _judge_words(record)
    resolved = record["resolvedJudgeModel"]
    if resolved not in (record["judgeModel"], None):
        judge += f" ({resolved})"
    parts = ["judge calibration", str(record["calibration"]), judge, f"prompt {record['judgeHash']}"]
    size = counted(found.items, "item")
    if record["repeats"] != 1:
        size += f" × {record['repeats']} repeats"
    if record["judgeN"] != 1:
        size += f" × {record['judgeN']} votes"
    return " · ".join([*parts, size])


def _judge_words(record: Record) -> str:
    return f"{record.get('judgeRunner')} {record.get('judgeModel')}"


def _decided(found: JudgeAgreement) -> str:
    words = f"decided {found.judged}/{found.items} items"
    if found.missing:
        words += f" · {found.missing} never asked"
    if found.abstained:
        words += f" · abstained {found.abstained}"
        words += f" ({found.ties} by a tie of the repeats)" if found.ties else ""
    if found.undecided:
        kinds = ", ".join(f"{name} {number}" for name, number in found.undecided.items())
        words += f" · undecided {sum(found.undecided.values())}/{found.judgements} judgements ({kinds})"
    return words


def _self_words(record: Record, found: JudgeAgreement) -> str:
    consistent = found.self_consistency
    if consistent.value is None:
        hint = "calibrate with repeats=3" if record["repeats"] == 1 else str(consistent.reason)
        return f"self-consistency not measured ({hint})"
    unanimous = round(consistent.value * consistent.n)
    words = share_words(unanimous, consistent.n, consistent.ci)
    return f"self-consistency: all repeats alike on {words} · AC1 {value_words(found.self_ac1)}"


def _named(items: Sequence[str]) -> str:
    more = f" and {len(items) - SHOWN} more" if len(items) > SHOWN else ""
    return f"{len(items)}: {', '.join(items[:SHOWN])}{more}"


def _drift_words(record: Record) -> str:
    found = record.get("drift")
    if not found:
        return f"drift: not compared ({record.get('driftReason')})"
    verdict = found["verdict"]
    if verdict == NO_DRIFT:
        missed = found["couldMiss"]
        verdict += (
            " (so few items can show none)" if missed is None else f" (could miss ≤ {ceil(100 * missed)}%)"
        )
    flips = found["up"] + found["down"]
    words = [
        f"drift: {verdict} since {str(found['since'])[:16]} ({_whose(record, found)})",
        f"{found['up']} up, {found['down']} down of {found['n']} items",
        f"flip rate {share_words(flips, found['n'], (found['flipLow'], found['flipHigh']))}",
        f"p {shown_p(found['p'])}",
    ]
    if found["check"] > 1:
        words.append(f"check {found['check']}: counting the checks p {shown_p(found['pChecks'])}")
    if found["upItems"]:
        words.append(f"to pass {_named(found['upItems'])}")
    if found["downItems"]:
        words.append(f"to fail {_named(found['downItems'])}")
    if found["verdict"] == UNSTABLE:
        words.append(f"it contradicts itself on {percent(found['selfDisagreement'])}% of pairs of repeats")
    elif flips and found["selfDisagreement"] is None and found["verdict"] == NO_DRIFT:
        words.append("its own noise is not known: calibrate with repeats=3")
    return " · ".join(words)


def _whose(record: Record, found: Record) -> str:
    """The judge that was compared with, by what differs."""
    if found["sameJudge"]:
        return "the same judge and prompt"
    differs = []
    if found["sinceJudge"] != _judge_words(record):
        differs.append(f"judge {found['sinceJudge']}")
    if found["sinceResolved"] != record["resolvedJudgeModel"]:
        differs.append(f"model {found['sinceResolved']}")
    if found["sinceHash"] != record["judgeHash"]:
        differs.append(f"prompt {found['sinceHash']}")
    return f"then {', '.join(differs)}"


def _spent(record: Record) -> str:
    usage = record.get("usage")
    if not usage:
        return "no call was made"
    parts = [f"{counted(usage['calls'], 'call')}"]
    if usage["tokens"]:
        tokens = Usage(*usage["tokens"])
        sent = [tokens.input_tokens, tokens.cache_read_tokens, tokens.cache_write_tokens]
        words = f"tokens in {sum(one or 0 for one in sent)}, out {tokens.output_tokens or 0}"
        if usage["reported"] < usage["asked"]:
            words += f" (reported for {usage['reported']} of {usage['asked']})"
        parts.append(words)
    else:
        parts.append("tokens not reported")
    if usage["costUsd"] is not None:
        parts.append(f"${usage['costUsd']:.4f}")
    if record.get("durationS") is not None:
        parts.append(f"{record['durationS']:.0f} s")
    return " · ".join(parts)
