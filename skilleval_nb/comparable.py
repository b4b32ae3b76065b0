"""What speaks against comparing two runs, and what a reader of a comparison has to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .comparison_sides import Record, Side, same_run
from .errors import Problem
from .gate import counted

NAMES = 10
"""The most cases that a sentence names."""
_NOT_DECIDING = {"id", "difficulty", "cluster"}


def named(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{', '.join(names[:NAMES])}{more}"


def obstacles(a: Side, b: Side, case_ids: Sequence[str]) -> list[Problem]:
    """Every reason not to compare: other cases, another delivery, another judge, or a record that does not say."""
    if same_run(a, b):
        return []
    return [
        *_of_sets(a, b, case_ids),
        *_differing(a, b, "delivery", "delivery", "how the skill reached the model", "run one of them anew"),
        *(_of_judges(a, b) if _is_judged(a, case_ids) or _is_judged(b, case_ids) else ()),
    ]


def remarks(a: Side, b: Side, case_ids: Sequence[str]) -> list[str]:
    """What does not forbid a comparison and may explain a difference."""
    found = [
        f"{side.name} is partial ({side.record['partial']}): trials that were not started count as not measured"
        for side in ((a,) if same_run(a, b) else (a, b))
        if side.record.get("partial")
    ]
    if same_run(a, b):
        return found
    limits = [(side.record.get("settings") or {}).get("maxTokens") for side in (a, b)]
    pairs = [
        ("the models differ", models_of(a, b)),
        ("the runners differ", _both(a, b, "runner")),
        ("the longest answers allowed differ (tokens)", limits),
    ]
    if _is_judged(a, case_ids) or _is_judged(b, case_ids):
        pairs.append(("the judges' runners differ", _both(a, b, "judgeRunner")))
        pairs.append(("the judges' votes differ", _both(a, b, "judgeN")))
    for what, (of_a, of_b) in pairs:
        if of_a != of_b:
            found.append(f"{what}: A {_said(of_a)}, B {_said(of_b)}; what moved may be their doing")
    counts = _both(a, b, "n")
    if 1 in counts and counts[0] != counts[1]:
        found.append(f"n={counts[0]} and n={counts[1]}: a runner that can answers without chance where n=1")
    if _hash_differs(a, b) and changed_cases(a.header, b.header, case_ids) == {}:
        found.append(f"the sets differ, but not in the {counted(len(case_ids), 'case')} that are compared")
    for side in (a, b):
        if number := side.unnamed(case_ids):
            trials = counted(number, "reused trial")
            found.append(
                f"{side.name} has {trials} of a run that its record does not name: maybe of the other"
            )
    return found


def changed_cases(a: Record | None, b: Record | None, case_ids: Iterable[str]) -> dict[str, list[str]] | None:
    """The cases that differ between two runs' headers, by what differs in them; None where a header is missing."""
    if a is None or b is None:
        return None
    of_a, of_b = ({str(case["id"]): case for case in header["cases"]} for header in (a, b))
    changed: dict[str, list[str]] = {}
    for name in case_ids:
        before, after = of_a.get(name, {}), of_b.get(name, {})
        for part in sorted({*before, *after} - _NOT_DECIDING):
            if before.get(part) != after.get(part):
                changed.setdefault(part, []).append(name)
        if _patterned(before, after) and a.get("regex", "js") != b.get("regex", "js"):
            changed.setdefault("dialect of patterns", []).append(name)
    if _limit(a) != _limit(b):
        changed["limit of tokens"] = list(case_ids)
    return changed


def _of_sets(a: Side, b: Side, case_ids: Sequence[str]) -> list[Problem]:
    if not _hash_differs(a, b):
        return []
    changed = changed_cases(a.header, b.header, case_ids)
    if changed is None:
        if _missing(a, b, "setHash"):
            return [_unrecorded(a, b, "set", "setHash", "which version of the set was run")]
        hashes = f"hash {a.record['setHash']} and {b.record['setHash']}"
        what = f"the sets differ ({hashes}), and in which cases is not known here: a run's folder is gone"
        return [Problem("set", what, "run one set for both")]
    parts = "; ".join(f"{part} of {named(names)}" for part, names in changed.items())
    return [Problem("set", f"the cases differ: {parts}", "run one set for both")] if parts else []


def _of_judges(a: Side, b: Side) -> list[Problem]:
    fix = "grade one of them anew with the other's judge: se.regrade"
    key = "judgeModel" if _missing(a, b, "resolvedJudgeModel") else "resolvedJudgeModel"
    judge_a, judge_b = (judge or "nobody" for judge in _both(a, b, key))
    found = []
    if judge_a != judge_b:
        found.append(Problem("judge", f"A was judged by {judge_a}, B by {judge_b}", fix))
    return [*found, *_differing(a, b, "judge prompt", "judgeHash", "what the judge was told", fix)]


def _differing(a: Side, b: Side, where: str, key: str, meaning: str, fix: str) -> list[Problem]:
    if _missing(a, b, key):
        return [_unrecorded(a, b, where, key, meaning)]
    if a.record[key] == b.record[key]:
        return []
    return [Problem(where, f"{meaning} differs: A {a.record[key]}, B {b.record[key]}", fix)]


def _unrecorded(a: Side, b: Side, where: str, key: str, meaning: str) -> Problem:
    silent = " and ".join(side.name for side in (a, b) if side.record.get(key) is None)
    return Problem(where, f"{silent} {'do' if ' ' in silent else 'does'} not record {meaning}", "run it anew")


def _missing(a: Side, b: Side, key: str) -> bool:
    return a.record.get(key) is None or b.record.get(key) is None


def _hash_differs(a: Side, b: Side) -> bool:
    return _missing(a, b, "setHash") or bool(a.record["setHash"] != b.record["setHash"])


def _is_judged(side: Side, case_ids: Iterable[str]) -> bool:
    """True where a judge graded one of the cases; the origin's records do not say, but name a judge."""
    if not side.record.get("judgeModel"):
        return False
    return any("judge" in side.cases[name].get("checks", ("judge",)) for name in case_ids)


def models_of(a: Side, b: Side) -> list[Any]:
    """Both models, by the ids that their names stood for where both are known."""
    return _both(a, b, "model" if _missing(a, b, "resolvedModel") else "resolvedModel")


def _both(a: Side, b: Side, key: str) -> list[Any]:
    return [side.record.get(key) for side in (a, b)]


def _said(value: Any) -> str:
    return "not recorded" if value is None else str(value)


def _patterned(*cases: Mapping[str, Any]) -> bool:
    return any("pattern" in check for case in cases for check in case.get("checks", ()))


def _limit(header: Record) -> Any:
    return (header.get("settings") or {}).get("setMaxTokens")
