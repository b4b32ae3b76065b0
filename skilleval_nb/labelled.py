"""A run's folder with the labels that hold for it: its own, and those of the run whose answers it grades anew."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from .errors import Problem, RunNotFound
from .folder import HEADER, RunFolder
from .labels import newest
from .values import TrialKey


@dataclass
class Source:
    """A run's folder with its header and the labels and notes that stand, by case, condition, trial and check."""

    folder: RunFolder
    header: Mapping[str, Any]
    labels: dict[tuple[TrialKey, int | None], bool] = field(default_factory=dict)
    notes: dict[tuple[TrialKey, int | None], str] = field(default_factory=dict)

    def read_labels(self) -> None:
        """Takes the labels from disk; those of a regrade's run hold too: of trials, and of checks that are the same."""
        self.labels, self.notes = {}, {}
        for folder in [*self._before(), self.folder.path]:
            fits = self._fits(folder)
            for (case, condition, trial, check), (label, note) in newest(folder).items():
                if fits(case, check):
                    key = (TrialKey(case, condition, trial), check)
                    self.labels.pop(key, None)
                    self.notes[key] = note
                    if label is not None:
                        self.labels[key] = label.passed

    def _before(self) -> list[Path]:
        """The folders of the runs whose answers were graded anew, the first one first."""
        found: list[Path] = []
        header = self.header
        while isinstance(name := header.get("regradeOf"), str) and name:
            folder = self.folder.path.parent / Path(name).name
            if not (folder / HEADER).is_file() or folder in found:
                break
            found.insert(0, folder)
            header = RunFolder(folder).read_header()
        return found

    def _fits(self, folder: Path) -> Callable[[str, int | None], bool]:
        """Whether what was said in another folder of a check is said of the same one here."""
        here = _checks(self.header)
        there = here if folder == self.folder.path else _checks(RunFolder(folder).read_header())

        def fits(case: str, check: int | None) -> bool:
            if check is None:
                return True
            return here.get(case, [])[check - 1 : check] == there.get(case, [])[check - 1 : check]

        return fits


def _checks(header: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {str(case["id"]): list(case.get("checks") or ()) for case in header["cases"]}


def source_of(folder: Path | None, name: str, runs_dir: str | Path) -> Source:
    """The run in a folder; raises RunNotFound where there is none."""
    if folder is None or not (folder / HEADER).is_file():
        what = f"its transcripts are not here (looked in {runs_dir})"
        raise RunNotFound(Problem(name, what, "give its folder, or the runs_dir that it is in"))
    found = RunFolder(folder)
    return Source(found, found.read_header())
