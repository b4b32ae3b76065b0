"""The arguments and options that several commands have."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

if TYPE_CHECKING:
    from .conditions import Given

SetPath = Annotated[Path, typer.Argument(help="a set file, such as sets/typed-python.json", metavar="SET")]
SetPaths = Annotated[
    Optional[list[Path]], typer.Argument(help="set files, or folders of them; default: sets/")
]
RunsDir = Annotated[Path, typer.Option(help="where runs and their log are, from the project's root")]
RunnerName = Annotated[
    str,
    typer.Option("--runner", "-r", help="auto, anthropic, claude, local, replay:FILE, record:FILE:RUNNER, …"),
]
Model = Annotated[Optional[str], typer.Option("--model", "-m", help="else EVAL_MODEL, the set's, haiku")]
JudgeModel = Annotated[
    Optional[str], typer.Option(help="else EVAL_JUDGE_MODEL, sonnet; anthropic:sonnet names a runner too")
]
JudgeN = Annotated[int, typer.Option(help="votes a judge check, odd")]
Number = Annotated[Optional[int], typer.Option("-n", help="trials a case and condition; else EVAL_N, 1")]
SkillPath = Annotated[Optional[Path], typer.Option("--skill", help="this SKILL.md in place of the set's own")]
CaseIds = Annotated[Optional[list[str]], typer.Option("--case", help="only this case; may be given again")]
Conditions = Annotated[
    Optional[list[str]],
    typer.Option(
        "--condition",
        help="baseline, skill, previous, previous:REVISION, previous:FILE, placebo, without:HEADING, or NAME=FILE for"
        " the text of a file; may be given again; default: baseline and skill",
        metavar="NAME",
    ),
]
Concurrency = Annotated[Optional[int], typer.Option(help="trials at a time, default 8")]
TimeoutS = Annotated[
    Optional[float], typer.Option(help="seconds for a trial's executor and for a judge call, default 180")
]
MaxCost = Annotated[Optional[float], typer.Option(help="start no more trials once this much was spent")]
MaxTokens = Annotated[Optional[int], typer.Option(help="start no more trials once so many tokens were used")]
Json = Annotated[bool, typer.Option("--json", help="print the record as JSON")]


def conditions_of(asked: list[str] | None) -> Given:
    """The conditions as `run_set` takes them; raises InputError where a text cannot be read."""
    from .conditions import CONDITIONS, PREVIOUS
    from .errors import InputError, Problem
    from .sections import WITHOUT

    def one(words: str) -> str | dict[str, str]:
        name, equals, file = words.partition("=")
        if not equals or name.startswith((f"{PREVIOUS}:", WITHOUT)):
            return words
        try:
            text = Path(file).read_bytes().decode("utf-8-sig")
        except OSError as error:
            problem = Problem(file, f"cannot be read ({error.strerror})", "give --condition NAME=FILE")
        except UnicodeDecodeError as error:
            problem = Problem(file, f"not UTF-8 text (byte {error.start})", "save it as UTF-8")
        else:
            return {name: text.replace("\r\n", "\n").strip()}
        raise InputError(problem)

    return [one(words) for words in asked] if asked else CONDITIONS


def print_json(record: Any) -> None:
    """One line of JSON."""
    typer.echo(json.dumps(record, ensure_ascii=False))
