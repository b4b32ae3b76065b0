"""What an inspector shows and does, without a widget: the case looked at, filter, search, difference, labels.

All state is here. Whatever draws it sends commands, such as `{"do": "next", "by": 1}`, and gets data back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from .case_view import (
    View,
    clean,
    diff_view,
    prompt_view,
    row_view,
    side_view,
    systems_view,
)
from .errors import InputError, Problem, SkillevalError
from .gate import counted
from .marked import needle
from .record import clip
from .transcripts import FILTERS, Entry, Found, Transcripts, said_of

TEXT = 20_000
"""The most characters that are shown of a text at first, and after `more`."""
MORE = 400_000
SYSTEM = 100_000
"""The most characters of a condition's system text."""
PAGE = 100
"""The most cases of the list that are sent at once."""
_WORDS = 1_000


class Inspection:
    """One look at transcripts; begins at the first case, or at `case`, with the gate's two conditions.

    Raises InputError where there is no such case.
    """

    def __init__(self, found: Transcripts, case: str | None = None) -> None:
        self.found = found
        self.left, self.right = found.pair
        self.filter = "all"
        self.words = ""
        self.diff = False
        self.side = 1
        self.whole = False
        self.said = ""
        self._search: Found = found.search("")
        self._shown: dict[int, list[int]] = {}
        self._order: list[int] = []
        self._counts: dict[str, int] = {}
        self.row = 0
        self.trial = 1
        self._choose()
        if case is not None:
            self.go(case)

    def _choose(self) -> None:
        """Applies filter and search; the case looked at stays if it can."""
        matching = self.found.matching(self.filter, self.left, self.right)
        hits = self._search.rows
        self._shown = {}
        for at, trials in matching.items():
            if at in hits:
                both = [number for number in trials if number in hits[at]]
                self._shown[at] = both or trials
        self._order = list(self._shown)
        if self.row not in self._shown and self._order:
            self.row = next((at for at in self._order if at > self.row), self._order[0])
        self._enter()

    def _enter(self, *, keep: bool = False) -> None:
        """Begins to look at a case: at the first trial for which it is shown, unless the one before will do."""
        trials = self._shown.get(self.row) or [1]
        if self.trial not in trials or not keep:
            self.trial = trials[0]
        self.whole = False

    def go(self, case: str, trial: int | None = None) -> None:
        """Looks at a case by its id, and at one of its trials; raises InputError where there is no such one."""
        row = next((row for row in self.found.rows if row.id == case), None)
        if row is None:
            known = ", ".join(clip(row.id, 40) for row in self.found.rows[:20])
            raise InputError(Problem("case", f"there is no case {case!r}", f"cases: {known}"))
        if trial is not None and trial not in row.trials:
            raise InputError(Problem("trial", f"is {trial!r}", f"trials: {', '.join(map(str, row.trials))}"))
        if row.at not in self._shown:
            self.filter, self.words, self._search = "all", "", self.found.search("")
            self._choose()
        self.row = row.at
        self._enter()
        self.trial = trial or self.trial

    def choose(self, name: str) -> None:
        """Shows the cases of a filter; raises InputError for a filter that is not in `FILTERS`."""
        if name not in FILTERS:
            raise InputError(
                Problem("filter", f"there is no filter {name!r}", f"one of {', '.join(FILTERS)}")
            )
        self.filter = name
        self._choose()

    def search(self, words: str) -> None:
        """Shows the cases in which a text stands, within the filter; nothing shows them all again."""
        self.words = words[:_WORDS]
        self._search = self.found.search(self.words)
        self._choose()

    def compare(self, left: str, right: str) -> None:
        """Puts two conditions side by side; raises InputError where one was not run."""
        if unknown := [name for name in (left, right) if name not in self.found.conditions]:
            known = ", ".join(self.found.conditions)
            raise InputError(Problem("condition", f"there is no condition {unknown[0]!r}", f"one of {known}"))
        self.left, self.right = left, right
        self._counts = {}
        self._choose()

    def step(self, by: int) -> None:
        """Looks at the case so many places further down the list; stops at its ends."""
        if not self._order:
            return
        at = self._order.index(self.row) if self.row in self._shown else 0
        to = min(max(at + by, 0), len(self._order) - 1)
        if to == at:
            self.said = "this is the last case" if by > 0 else "this is the first case"
        self.row = self._order[to]
        self._enter()

    def step_trial(self, by: int) -> None:
        """Looks at the next trial of the case, after the last one at the first."""
        trials = self.found.rows[self.row].trials if self.row in self._shown else []
        if trials:
            at = trials.index(self.trial) if self.trial in trials else 0
            self.trial = trials[(at + by) % len(trials)]

    def entry(self, side: int | None = None) -> Entry:
        """The trial on a side (0 left, 1 right; None: where the keys act); raises InputError where none is."""
        condition = (self.left, self.right)[self.side if side is None else side]
        row = self.found.rows[self.row] if self.row in self._shown else None
        entry = row.entries.get((condition, self.trial)) if row else None
        if entry is None:
            raise InputError(
                Problem("", f"there is no trial of {condition} here, so there is nothing to label")
            )
        return entry

    def label(
        self,
        entry: Entry,
        passed: bool | None,  # noqa: FBT001 - a verdict, as the columns have it
        *,
        note: str | None = None,
        check: int | None = None,
    ) -> None:
        """Writes a person's verdict on a trial, or on one check of it, down at once; the note stays if None.

        Raises as `add_label`. The list stays as it is until a filter is chosen again.
        """
        if note is None:
            note = self.found.note_of(entry, check)
        self.found.label(entry, passed, note, check)
        self._counts = {}
        verdict = "no label" if passed is None else "pass" if passed else "fail"
        place = f"{clip(entry.key.case_id, 60)} · {entry.key.condition} · trial {entry.key.trial}"
        part = f" · check {check}" if check else ""
        self.said = f"saved: {verdict}{' with a note' if note else ''} · {place}{part}"

    def handle(self, commands: Any) -> None:
        """Does what a view asks for; what cannot be done is said, and nothing else happens."""
        self.said = ""
        for command in commands if isinstance(commands, list) else ():
            if isinstance(command, Mapping):
                try:
                    self._do(command)
                except SkillevalError as error:
                    self.said = str(error)

    def _do(self, command: Mapping[str, Any]) -> None:
        by = command.get("by")
        by = by if isinstance(by, int) else 1
        word = {name: str(command.get(name) or "") for name in ("filter", "words", "left", "right")}
        doing: Mapping[str, Callable[[], object]] = {
            "step": lambda: self.step(by),
            "row": lambda: self._go_to(command.get("row")),
            "trial": lambda: self.step_trial(by),
            "filter": lambda: self.choose(word["filter"] or self._next_filter(by)),
            "search": lambda: self.search(word["words"]),
            "compare": lambda: self.compare(word["left"], word["right"]),
            "diff": lambda: setattr(self, "diff", not self.diff),
            "side": lambda: setattr(self, "side", 1 if command.get("side") else 0),
            "whole": lambda: setattr(self, "whole", not self.whole),
            "label": lambda: self._label(command),
        }
        act = doing.get(str(command.get("do")))
        if act is not None:
            act()

    def _go_to(self, row: Any) -> None:
        if isinstance(row, int) and row in self._shown:
            self.row = row
            self._enter()

    def _next_filter(self, by: int) -> str:
        """The next filter that shows a case."""
        names = list(FILTERS)
        at = names.index(self.filter)
        turned = [names[(at + by * step) % len(names)] for step in range(1, len(names) + 1)]
        return next(name for name in [*turned, "all"] if name == "all" or self._count(name))

    def _count(self, name: str) -> int:
        if name not in self._counts:
            self._counts[name] = len(self.found.matching(name, self.left, self.right))
        return self._counts[name]

    def _label(self, command: Mapping[str, Any]) -> None:
        at, check, note, passed = (command.get(name) for name in ("entry", "check", "note", "passed"))
        if not isinstance(at, int) or not 0 <= at < len(self.found.entries):
            raise InputError(Problem("", "there is no trial here, so there is nothing to label"))
        entry = self.found.entries[at]
        number = check if isinstance(check, int) else None
        if "passed" not in command:  # a note alone
            passed = self.found.label_of(entry, number)
        self.label(entry, passed, note=note if isinstance(note, str) else None, check=number)

    def rows_view(self) -> View:
        """The part of the list in which the case is."""
        at = self._order.index(self.row) if self.row in self._shown else 0
        begin = at - at % PAGE
        rows = [self.found.rows[number] for number in self._order[begin : begin + PAGE]]
        view = {
            "from": begin,
            "of": len(self._order),
            "rows": [row_view(self.found, row, self.left, self.right) for row in rows],
        }
        return dict(clean(view))

    def systems_view(self) -> Sequence[View]:
        """What each condition was given as system text, in the run of the case."""
        return list(clean(systems_view(self.found, self._source(), SYSTEM)))

    def _source(self) -> int:
        return self.found.rows[self.row].source if self.found.rows else 0

    def view(self, limit: int | None = None) -> View:
        """The case that is looked at and all that stands around it; texts cut to `limit` characters."""
        filters = []
        for name, words in FILTERS.items():
            said = f"failing with {self.right}" if name == "failing" else words
            filters.append([name, f"{said} ({self._count(name):,})"])
        view: View = {
            "title": self.title(),
            "notes": self._notes(),
            "filters": filters,
            "filter": self.filter,
            "words": self.words,
            "found": said_of(self._search) if self.words.strip() else "",
            "conditions": self.found.conditions,
            "pair": [self.left, self.right],
            "mode": "diff" if self.diff else "sides",
            "side": self.side,
            "whole": self.whole,
            "row": self.row if self.row in self._shown else None,
            "case": None,
            "sides": [],
            "diff": None,
            "said": self.said,
        }
        if self.row in self._shown:
            try:
                view |= self._case(limit or (MORE if self.whole else TEXT))
            except SkillevalError as error:
                view["said"] = str(error)
        return dict(clean(view))

    def _case(self, limit: int) -> View:
        row, pattern = self.found.rows[self.row], needle(self.words)
        sides, answers = [], []
        for condition in dict.fromkeys((self.left, self.right)):
            side, answer = side_view(self.found, row, condition, self.trial, pattern=pattern, limit=limit)
            sides.append(side)
            answers.append(answer)
        run = self.found.sources[row.source].folder.run_id
        case = {
            "name": clip(row.id, 200),
            "run": run if len(self.found.sources) > 1 else "",
            "place": f"{self._order.index(row.at) + 1:,} of {counted(len(self._order), 'case')}",
            "moved": row.moved(self.left, self.right),
            "difficulty": row.case.get("difficulty"),
            "trial": self.trial,
            "trials": row.trials,
            "prompt": prompt_view(row, pattern, limit),
        }
        diff = diff_view(answers[0], answers[-1], limit) if self.diff and len(sides) > 1 else None
        return {"case": case, "sides": sides, "diff": diff}

    def title(self) -> str:
        """What is looked at: set, run, cases and trials."""
        sources = self.found.sources
        name = clip(str(sources[0].header["set"]), 60)
        run = sources[0].folder.run_id if len(sources) == 1 else f"{len(sources)} runs"
        return f"{name} · {run} · {self.size()}"

    def size(self) -> str:
        """How many cases and trials there are to look at."""
        return f"{counted(len(self.found.rows), 'case')}, {counted(len(self.found.entries), 'trial')}"

    def _notes(self) -> list[str]:
        shown, every = len(self.found.entries), self.found.all_trials
        return [f"only the {shown:,} of {every:,} trials that were chosen"] if shown < every else []
