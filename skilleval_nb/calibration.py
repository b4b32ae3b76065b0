"""A calibration set: answers that people have graded, by which a judge is measured."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .jsonfile import Report, located, parse_object
from .paths import project_root
from .shapes import explain, listed

if TYPE_CHECKING:
    from pydantic import BaseModel

SUFFIX = ".calibration.json"
"""What the name of a calibration file ends with, so that no one takes it for a set of cases."""


@dataclass(frozen=True, slots=True)
class CalibrationItem:
    """One answer to one task, with the verdict of a person: `label` is True where it meets the rubric.

    `rubric` names one of the set's rubrics; `reason` defends the label, None where the file gives none.
    """

    id: str
    rubric: str
    task: str
    answer: str
    label: bool
    reason: str | None = None


@dataclass(frozen=True)
class CalibrationSet:
    """A loaded calibration file. `notes` are things worth knowing that are not errors."""

    name: str
    path: Path
    root: Path
    rubrics: Mapping[str, str]
    items: tuple[CalibrationItem, ...]
    purpose: str = ""
    notes: tuple[str, ...] = field(default=())

    @cached_property
    def hash(self) -> str:
        """16 hex digits over all that decides a verdict or says whether it is right; the items' order does not."""
        content = sorted((i.id, self.rubrics[i.rubric], i.task, i.answer, i.label) for i in self.items)
        return hashlib.sha256(json.dumps(content).encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        """Short enough for a cell's output."""
        passes = sum(item.label for item in self.items)
        return (
            f"CalibrationSet({self.name!r}, {len(self.items)} items over {len(self.rubrics)} rubrics,"
            f" {passes} of them passes)"
        )


def load_calibration(path: str | Path) -> CalibrationSet:
    """Reads a calibration file.

    Keys that the format does not have, rubrics that no item uses and rubrics with one kind of label are noted.
    Raises SetError with every problem of the file, each as `path:line:column` or `path → items[3].label`.
    """
    file = located(path)
    report = Report(str(path))
    raw = parse_object(
        file, report, "calibration set", "a calibration set is an object with `kind`, `rubrics` and `items`"
    )
    _shape(raw, report)
    rubrics = raw["rubrics"] if isinstance(raw.get("rubrics"), dict) else {}
    seen: dict[str, int] = {}
    for number, item in enumerate(listed(raw.get("items"))):
        if not isinstance(item, dict):
            continue
        name, identifier = item.get("rubric"), item.get("id")
        if isinstance(name, str) and name not in rubrics:
            report.add(f"items[{number}].rubric", f"there is no rubric {name!r}", _known(rubrics))
        if isinstance(identifier, str):
            if identifier in seen:
                what = f"the id {identifier!r} is already that of items[{seen[identifier]}]"
                report.add(f"items[{number}].id", what, "give each item its own")
            seen.setdefault(identifier, number)
    unknown = _unknown_keys(raw)
    if report.problems:  # beside another error it may be the cause: a misspelt key
        for place in unknown:
            report.add(place, "unknown key", "correct or remove it")
    report.raise_if_any()
    fields = CalibrationItem.__slots__
    items = tuple(CalibrationItem(**{k: item[k] for k in fields if k in item}) for item in raw["items"])
    return CalibrationSet(
        name=file.stem,
        path=file.resolve(),
        root=project_root(file.resolve().parent),
        rubrics=rubrics,
        items=items,
        purpose=raw.get("purpose") or "",
        notes=(*(f"{place}: unknown key, not used" for place in unknown), *_notes(rubrics, items)),
    )


@cache
def _model() -> type[BaseModel]:
    """The shape of the file, made on first use: pydantic is not imported before."""
    from typing import Annotated, Literal

    from pydantic import BaseModel, ConfigDict, Field, StringConstraints, create_model

    config = ConfigDict(strict=True, extra="allow")
    text = Annotated[str, StringConstraints(pattern=r"\S")]
    identifier = Annotated[str, StringConstraints(pattern=r"^\S(.*\S)?$", max_length=200)]

    class Item(BaseModel):
        model_config = config
        id: identifier
        rubric: text
        task: text
        answer: text
        label: bool
        reason: text | None = None

    fields: Any = {
        "kind": (Literal["calibration"], ...),
        "purpose": (str | None, None),
        "rubrics": (dict[str, text], ...),
        "items": (Annotated[list[Item], Field(min_length=1)], ...),
    }
    model: type[BaseModel] = create_model("CalibrationFile", __config__=config, **fields)
    return model


def _shape(raw: Mapping[str, Any], report: Report) -> None:
    """Checks types and required keys."""
    from pydantic import ValidationError

    try:
        _model().model_validate(raw)
    except ValidationError as error:
        explain(error, report.add)


def _known(rubrics: Mapping[str, Any]) -> str:
    return f"one of {', '.join(map(repr, rubrics))}" if rubrics else "add it to `rubrics`"


def _unknown_keys(raw: Mapping[str, Any]) -> list[str]:
    known = {"kind", "purpose", "rubrics", "items"}
    found = [key for key in raw if key not in known]
    for number, item in enumerate(listed(raw.get("items"))):
        if isinstance(item, dict):
            found += [f"items[{number}].{key}" for key in item if key not in CalibrationItem.__slots__]
    return found


def _notes(rubrics: Mapping[str, str], items: tuple[CalibrationItem, ...]) -> list[str]:
    """What a calibration with these items could not tell."""
    notes = []
    for name in rubrics:
        labels = {item.label for item in items if item.rubric == name}
        if not labels:
            notes.append(f"rubrics.{name}: no item uses it")
        elif len(labels) == 1:
            kind = "passes" if True in labels else "fails"
            notes.append(f"rubrics.{name}: all its items are {kind}, so it shows one kind of error only")
    return notes
