"""The commands that look at answers again: other grades, other runs, and the judges themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Optional

import typer

from .cli_options import (
    Concurrency,
    Json,
    JudgeModel,
    JudgeN,
    MaxCost,
    MaxTokens,
    RunnerName,
    RunsDir,
    TimeoutS,
    print_json,
)


def add_commands(app: typer.Typer) -> None:
    """Puts these commands beside the others."""
    for command in (regrade, compare, calibrate):
        app.command()(command)


def regrade(
    run_id: Annotated[
        Optional[str], typer.Argument(metavar="RUN", help='a run id, its folder, or "last"')
    ] = None,
    checks: Annotated[
        Optional[Path], typer.Option(help="a changed set: its checks take the place of the run's")
    ] = None,
    judge_model: Annotated[
        Optional[str], typer.Option(help="another judge; anthropic:sonnet names a runner too")
    ] = None,
    judge_n: Annotated[Optional[int], typer.Option(help="votes a judge check, odd; else the run's")] = None,
    runner: Annotated[
        Optional[str], typer.Option("--runner", "-r", help="where the judge runs; else the run's")
    ] = None,
    concurrency: Concurrency = None,
    timeout_s: TimeoutS = None,
    max_cost_usd: MaxCost = None,
    max_tokens_total: MaxTokens = None,
    resume: Annotated[Optional[str], typer.Option(help="the id of a regrade that was interrupted")] = None,
    runs_dir: RunsDir = Path("runs"),
    json: Json = False,
) -> None:
    """Grade stored answers anew, with another judge or edited checks.

    The model under test is not asked again: only the judge costs.
    """
    from .regrading import regrade as grade_anew

    found = grade_anew(
        run_id or (None if resume else "last"), checks=checks, judge_model=judge_model, judge_n=judge_n,
        runner=runner, concurrency=concurrency, timeout_s=timeout_s, max_cost_usd=max_cost_usd,
        max_tokens_total=max_tokens_total, resume=resume, runs_dir=runs_dir,
    )  # fmt: skip
    if json:
        print_json(found.record)
    else:
        typer.echo(str(found))
    raise typer.Exit(found.exit_code)


def compare(
    reference: Annotated[str, typer.Argument(metavar="A", help="the run that is the reference")],
    candidate: Annotated[
        Optional[str],
        typer.Argument(metavar="B", help="the run that is measured against it; else A's own skill"),
    ] = None,
    condition: Annotated[
        Optional[list[str]], typer.Option(help="A's condition, then B's; default: their skill conditions")
    ] = None,
    max_drop: Annotated[
        Optional[float], typer.Option(help="pass while Δ's interval stays above minus this rate")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="compare what does not compare, and say so")] = False,
    runs_dir: RunsDir = Path("runs"),
    json: Json = False,
) -> None:
    """Compare two runs, or the two conditions of one.

    What flipped, how far the rates moved, and how far chance explains it.
    """
    from .comparing import compare as compare_runs

    found = compare_runs(
        reference, candidate, conditions=condition or None, force=force, max_drop=max_drop, runs_dir=runs_dir
    )
    if json:
        print_json(found.record)
    else:
        typer.echo(str(found))
    raise typer.Exit(found.exit_code)


def calibrate(
    path: Annotated[Path, typer.Argument(metavar="SET", help="answers with people's labels")] = Path(
        "sets/judge.calibration.json"
    ),
    judge_model: JudgeModel = None,
    runner: RunnerName = "auto",
    judge_n: JudgeN = 1,
    repeats: Annotated[
        int, typer.Option(help="how often each item is judged; 3 or more tell self-consistency")
    ] = 1,
    concurrency: Concurrency = None,
    timeout_s: TimeoutS = None,
    runs_dir: RunsDir = Path("runs"),
    json: Json = False,
) -> None:
    """Measure a judge against people's labels, and against itself.

    Kept in the log; runs with this judge then show corrected rates beside the raw ones.
    """
    from .calibrate import calibrate_judge

    found = calibrate_judge(
        path, judge_model=judge_model, runner=runner, judge_n=judge_n, repeats=repeats, concurrency=concurrency,
        timeout_s=timeout_s, runs_dir=runs_dir,
    )  # fmt: skip
    if json:
        print_json(found.record)
    else:
        typer.echo(str(found))
