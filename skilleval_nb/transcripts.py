"""The trials of runs to look at: an index that holds no text, filters and search over it, and people's labels.

Opening reads each line of trials.jsonl once and keeps where it begins; the texts are read when they are shown.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import InputError, Problem, RunNotFound, SkillevalError
from .finder import find_folder, resolve_runs_dir
from .gate import counted, majority
from .labelled import Source, source_of
from .labels import LABELS, HasFolder, add_label
from .marked import needle
from .record import CANDIDATE, REFERENCE, clip, is_measured, key_of, latest
from .values import Outcome, TrialKey

FILTERS: Mapping[str, str] = {
    "all": "all cases",
    "to_pass": "flipped to pass",
    "to_fail": "flipped to fail",
    "failing": "failing",
    "errors": "errors",
    "judge_checks": "judge disagrees with the other checks",
    "judge_label": "judge disagrees with a label",
    "outcome_label": "outcome disagrees with a label",
    "slow": "slow (above p90 of its condition)",
    "costly": "costly (tokens above p90 of its condition)",
    "unlabelled": "not labelled",
}
"""The filters and what each shows; `failing` looks at the right-hand condition, flips go from left to right."""
_NEEDED = ("run_id", "case_id", "condition", "trial")


@dataclass(frozen=True, slots=True)
class Entry:
    """One trial without its texts: `begin` is where its line stands; `grades` are kind and result of its checks.

    `tokens` sums the kinds that the executor reported; `earlier` tells of attempts that do not count.
    """

    at: int
    source: int
    key: TrialKey
    begin: int
    outcome: str
    answered: bool
    grades: tuple[tuple[str, bool | None], ...]
    tokens: int | None
    latency_s: float | None
    earlier: tuple[str, ...]

    @property
    def passed(self) -> bool | None:
        """The outcome as a verdict; None where nothing was measured."""
        return {Outcome.PASSED: True, Outcome.FAILED: False}.get(Outcome(self.outcome))


@dataclass(slots=True)
class Row:
    """One case of a run: `entries` are the trials to be shown, `others` those that were not chosen.

    `cells` has passes and measured trials of the whole run.
    """

    at: int
    source: int
    case: Mapping[str, Any]
    cells: dict[str, tuple[int, int]] = field(default_factory=dict)
    entries: dict[tuple[str, int], Entry] = field(default_factory=dict)
    others: set[tuple[str, int]] = field(default_factory=set)

    @property
    def id(self) -> str:
        """The case's id."""
        return str(self.case["id"])

    @property
    def trials(self) -> list[int]:
        """The numbers of the trials that can be shown."""
        return sorted({number for _, number in self.entries})

    def verdict(self, condition: str) -> bool | None:
        """The majority of the run's trials; None where none was measured."""
        return majority(*self.cells.get(condition, (0, 0)))

    def moved(self, left: str, right: str) -> str:
        """What became of the case from one condition to the other, in words; empty where both verdicts are alike."""
        before, after = self.verdict(left), self.verdict(right)
        if left == right or before is None or after is None or before == after:
            return ""
        return "flipped to pass" if after else "flipped to fail"


@dataclass(frozen=True)
class Found:
    """What a search found: `hits` in all, in how many `trials`, and by row the trials to look at."""

    hits: int
    trials: int
    rows: Mapping[int, Sequence[int]]


class Transcripts:
    """The trials of one run or of several: rows (cases) in the order of the set, each with its entries (trials).

    `only` are the trials to be shown, by the place of their source; None: all.
    """

    def __init__(self, sources: Sequence[Source], only: Mapping[int, set[TrialKey]] | None = None) -> None:
        self.sources = list(sources)
        self.rows: list[Row] = []
        self.entries: list[Entry] = []
        self.conditions: list[str] = []
        self.all_trials = 0
        for at, source in enumerate(self.sources):
            source.read_labels()
            self.conditions += [
                name for name in map(str, source.header["conditions"]) if name not in self.conditions
            ]
            self._take(at, source, None if only is None else only.get(at, set()))
        self._limits = self._percentiles()

    @property
    def pair(self) -> tuple[str, str]:
        """The two conditions to begin with: the gate's, where they were run."""
        left = REFERENCE if REFERENCE in self.conditions else self.conditions[0]
        others = [name for name in self.conditions if name != left]
        return left, CANDIDATE if CANDIDATE in others else [*others, left][0]

    def _take(self, at: int, source: Source, only: set[TrialKey] | None) -> None:
        begins: dict[int, int] = {}
        attempts: dict[TrialKey, list[Mapping[str, Any]]] = {}
        for begin, written in source.folder.located_lines():
            if "text" in written:
                written["text"] = ""  # it is read when it is shown
            begins[id(written)] = begin
            attempts.setdefault(key_of(written), []).append(written)
        counting = latest(line for lines in attempts.values() for line in lines)
        self.all_trials += len(counting)
        by_case: dict[str, list[tuple[TrialKey, Mapping[str, Any]]]] = {}
        for key, line in sorted(counting.items(), key=lambda item: item[0].trial):
            by_case.setdefault(key.case_id, []).append((key, line))
        for case in source.header["cases"]:
            row = Row(len(self.rows), at, case)
            for key, counts in by_case.get(row.id, ()):
                passes, measured = row.cells.get(key.condition, (0, 0))
                passes += counts["outcome"] == Outcome.PASSED
                row.cells[key.condition] = (passes, measured + is_measured(counts))
                if only is not None and key not in only:
                    row.others.add((key.condition, key.trial))
                else:
                    earlier = [_attempt(other) for other in attempts[key] if other is not counts]
                    entry = _entry(len(self.entries), at, key, begins[id(counts)], counts, earlier)
                    self.entries.append(entry)
                    row.entries[key.condition, key.trial] = entry
            if row.entries or only is None:
                self.rows.append(row)

    def _percentiles(self) -> dict[tuple[int, str], tuple[float | None, float | None]]:
        """The 90th percentile of time and of tokens, by source and condition."""
        groups: dict[tuple[int, str], list[Entry]] = {}
        for entry in self.entries:
            groups.setdefault((entry.source, entry.key.condition), []).append(entry)
        return {
            group: (_p90(entry.latency_s for entry in found), _p90(entry.tokens for entry in found))
            for group, found in groups.items()
        }

    def line(self, entry: Entry) -> dict[str, Any]:
        """A trial's line with its texts; raises RunNotFound where the file is gone or no longer has it."""
        found = next(self._lines(entry.source, [entry]), {})
        if not found or key_of(found) != entry.key:
            name = self.sources[entry.source].folder.run_id
            raise RunNotFound(Problem(name, f"the trial {entry.key} can no longer be read", "open it again"))
        return found

    def _lines(self, source: int, entries: Iterable[Entry]) -> Iterator[dict[str, Any]]:
        folder = self.sources[source].folder
        try:
            yield from folder.lines_at(entry.begin for entry in entries)
        except OSError as error:
            raise RunNotFound(
                Problem(folder.run_id, f"its trials cannot be read ({error.strerror})")
            ) from None

    def search(self, words: str) -> Found:
        """Where a text stands, in any case: in the answers, the prompts and the cases' ids."""
        pattern = needle(words)
        if pattern is None:
            return Found(0, 0, {row.at: row.trials for row in self.rows})
        hits = trials = 0
        rows: dict[int, list[int]] = {}
        for row in self.rows:
            number = sum(len(pattern.findall(text)) for text in (row.id, str(row.case.get("prompt", ""))))
            hits += number
            if number:
                rows[row.at] = []
        places = {id(entry): row.at for row in self.rows for entry in row.entries.values()}
        for at in range(len(self.sources)):
            mine = [entry for entry in self.entries if entry.source == at and entry.answered]
            mine.sort(key=lambda entry: entry.begin)
            for entry, line in zip(mine, self._lines(at, mine), strict=True):
                number = len(pattern.findall(str(line.get("text", ""))))
                if number:
                    hits, trials = hits + number, trials + 1
                    rows.setdefault(places[id(entry)], []).append(entry.key.trial)
        return Found(hits, trials, {at: sorted(set(rows[at])) or self.rows[at].trials for at in sorted(rows)})

    def matching(self, name: str, left: str, right: str) -> dict[int, list[int]]:
        """The rows that a filter of `FILTERS` shows, each with the trials that made it match."""
        if name == "all":
            return {row.at: row.trials for row in self.rows}
        if name in ("to_pass", "to_fail"):
            return {row.at: row.trials for row in self.rows if row.moved(left, right) == FILTERS[name]}
        found = {}
        for row in self.rows:
            numbers = {entry.key.trial for entry in row.entries.values() if self._matches(name, entry, right)}
            if numbers:
                found[row.at] = sorted(numbers)
        return found

    def _matches(self, name: str, entry: Entry, right: str) -> bool:
        slow, costly = self._limits[entry.source, entry.key.condition]
        match name:
            case "failing":
                return entry.key.condition == right and entry.passed is False
            case "errors":
                return entry.passed is None
            case "judge_checks":
                return _disagree(entry.grades)
            case "judge_label":
                return self._judge_is_contradicted(entry)
            case "outcome_label":
                said = self.label_of(entry)
                return said is not None and entry.passed is not None and said != entry.passed
            case "slow":
                return slow is not None and entry.latency_s is not None and entry.latency_s > slow
            case "costly":
                return costly is not None and entry.tokens is not None and entry.tokens > costly
            case _:
                return entry.answered and self.label_of(entry) is None

    def _judge_is_contradicted(self, entry: Entry) -> bool:
        """A label on a judge's check, or on a trial that nothing but one judge decides, says other than the judge."""
        for number, (kind, passed) in enumerate(entry.grades, 1):
            if kind == "judge" and passed is not None:
                said = self.label_of(entry, number)
                if said is None and len(entry.grades) == 1:
                    said = self.label_of(entry)
                if said is not None and said != passed:
                    return True
        return False

    def label_of(self, entry: Entry, check: int | None = None) -> bool | None:
        """What a person said of a trial or one of its checks."""
        return self.sources[entry.source].labels.get((entry.key, check))

    def note_of(self, entry: Entry, check: int | None = None) -> str:
        """The note on a trial or one of its checks."""
        return self.sources[entry.source].notes.get((entry.key, check), "")

    def label(self, entry: Entry, passed: bool | None, note: str, check: int | None = None) -> None:  # noqa: FBT001
        """Writes a label and its note down at once; raises as `add_label`, and SkillevalError where it was lost."""
        source = self.sources[entry.source]
        key = entry.key
        add_label(source.folder.path, key.case_id, key.condition, key.trial, passed, check=check, note=note)
        source.read_labels()
        if self.label_of(entry, check) is not passed:
            where = str(source.folder.path / LABELS)
            raise SkillevalError(
                str(Problem(where, f"the label of {clip(str(key), 80)} could not be read back"))
            )


def open_transcripts(run: HasFolder | str | Path | Any, runs_dir: str | Path = "runs") -> Transcripts:
    """The transcripts of a run, a run id, "last", a folder, or of a frame's trials, which are then the only ones.

    Raises RunNotFound where a run's folder is not here, InputError where it is none of these.
    """
    if isinstance(run, str | Path):
        return Transcripts([source_of(find_folder(run, resolve_runs_dir(runs_dir)), str(run), runs_dir)])
    if hasattr(run, "folder"):
        name = str(getattr(run, "id", "the run"))
        return Transcripts([source_of(run.folder, name, runs_dir)])
    return _of_frame(run, runs_dir)


def _of_frame(frame: Any, runs_dir: str | Path) -> Transcripts:
    columns = getattr(frame, "columns", None)
    if columns is None or not hasattr(frame, "select"):
        what = f"is a {type(frame).__name__}: it is a run, its id, its folder, or a frame of trials"
        raise InputError(Problem("run", what))
    if missing := [name for name in _NEEDED if name not in columns]:
        what = f"is no frame of trials: it has no {', '.join(missing)}"
        raise InputError(
            Problem("run", what, 'give run.trials or load_log(level="trial"), filtered as you like')
        )
    ids: dict[str, set[TrialKey]] = {}
    for run_id, case, condition, trial in frame.select(_NEEDED).iter_rows():
        ids.setdefault(str(run_id), set()).add(TrialKey(str(case), str(condition), int(trial or 0)))
    if not ids:
        raise InputError(Problem("run", "the frame has no row, so there is nothing to look at"))
    home = resolve_runs_dir(runs_dir)
    sources = [source_of(find_folder(name, home), name, runs_dir) for name in ids]
    return Transcripts(sources, dict(enumerate(ids.values())))


def _entry(
    at: int, source: int, key: TrialKey, begin: int, line: Mapping[str, Any], earlier: Iterable[str]
) -> Entry:
    tokens = [count for count in line.get("tokens") or () if count is not None]
    return Entry(
        at,
        source,
        key,
        begin,
        line["outcome"],
        "text" in line,
        tuple((str(check.get("kind")), check.get("passed")) for check in line.get("checks") or ()),
        sum(tokens) if tokens else None,
        line.get("latencyS"),
        tuple(earlier),
    )


def _attempt(line: Mapping[str, Any]) -> str:
    reason = f": {clip(line['reason'])}" if line.get("reason") else ""
    return f"attempt {line.get('attempt', 1)}, {line['outcome']}{reason}"


def _disagree(grades: Sequence[tuple[str, bool | None]]) -> bool:
    """Whether a judge decided other than all the checks without a judge together."""
    judged = {passed for kind, passed in grades if kind == "judge" and passed is not None}
    others = [passed for kind, passed in grades if kind != "judge"]
    return bool(judged and others) and None not in others and judged != {all(others)}


def _p90(values: Iterable[float | None]) -> float | None:
    """The 90th percentile by nearest rank: a value that was measured."""
    known = sorted(value for value in values if value is not None)
    return known[math.ceil(0.9 * len(known)) - 1] if known else None


def said_of(found: Found) -> str:
    """How much a search found."""
    if not found.hits:
        return "not found"
    return f"{counted(found.hits, 'hit')} in {counted(len(found.rows), 'case')} ({counted(found.trials, 'answer')})"
