"""What it costs to read a log, as ratios to a bare scan of its lines.

    python tests/bench/bench_log.py [--rounds 3] [--folder FOLDER]

Two logs are made and deleted: 1,000 runs of 10 cases, 2 conditions and 2 trials, and 5,000 runs of 100 cases, 2
conditions and 1 trial, which is a million trials. Every query runs in a fresh process, imports outside its time;
the least of the rounds counts. The bare scan is polars counting the lines, in the same rounds.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

SKILLS = 20
QUERIES = {
    "bare line scan": "pl.scan_lines(path, glob=False).select(pl.len()).collect()",
    "load_log run": "load_log(path, 'run')",
    "load_log case": "load_log(path, 'case')",
    "load_log trial": "load_log(path, 'trial')",
    "one skill, trial": "scan_log(path, 'trial').filter(pl.col('skill') == 'skills/s3/SKILL.md').collect()",
    "all trials, aggregated": "scan_log(path, 'trial').group_by('skill', 'condition')"
    ".agg((pl.col('outcome') == 'passed').mean()).collect()",
    "all cases, aggregated": "scan_log(path, 'case').group_by('skill', 'condition')"
    ".agg(pl.col('verdict').mean()).collect()",
    "looks": "count_looks(path, set_hash='0' * 16, model='haiku', judge_model=None, delivery='inject')",
}
CHILD = """
import json, resource, sys, time
import polars as pl
from skilleval_nb.frames import load_log, scan_log
from skilleval_nb.log import count_looks
path = sys.argv[1]
cpu, began = time.process_time(), time.perf_counter()
found = {query}
wall, cpu = time.perf_counter() - began, time.process_time() - cpu
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([wall, cpu, rss, getattr(found, "height", found)]))
"""


def record(number: int, cases: int, trials: int, rng: random.Random) -> dict[str, Any]:
    """A run as the engine records it, with outcomes drawn by chance."""

    def one_result(condition: str, rate: float) -> dict[str, Any]:
        outcomes = [rng.random() < rate for _ in range(trials)]
        return {
            "condition": condition,
            "verdict": 2 * sum(outcomes) > trials,
            "passes": sum(outcomes),
            "measured": trials,
            "planned": trials,
            "trials": [
                {
                    "trial": place,
                    "outcome": "passed" if passed else "failed",
                    "tokens": [rng.randint(20, 400), rng.randint(5, 400), None, None],
                    "latencyS": round(rng.random() * 3, 3),
                    "model": "smollm2-135m",
                    "stopReason": "end_turn",
                    "checks": [{"passed": passed}],
                }
                for place, passed in enumerate(outcomes, 1)
            ],
        }

    made = []
    for place in range(cases):
        results = [one_result("baseline", 0.4), one_result("skill", 0.6)]
        verdicts = {result["condition"]: result["verdict"] for result in results}
        case = {"id": f"case-{place}", **verdicts, "difficulty": 1 + place % 3, "checks": ["includes"]}
        made.append({**case, "results": results})
    skill, calls = number % SKILLS, cases * trials
    usage = [
        {"role": "executor", "condition": condition, "calls": calls, "asked": calls, "reported": calls}
        | {"tokens": [calls * 200, calls * 200, None, None], "costUsd": None, "latencyS": calls * 1.5}
        for condition in ("baseline", "skill")
    ]
    return {
        "kind": "eval",
        "schema": 1,
        "runId": f"run-{number:06d}",
        "ts": f"2026-{1 + number % 12:02d}-{1 + number % 28:02d}T{number % 24:02d}:15:00.123Z",
        "set": f"set-{skill}",
        "skill": f"skills/s{skill}/SKILL.md",
        "model": "haiku",
        "judgeModel": None,
        "n": trials,
        "setHash": f"{skill:016x}",
        "skillHash": f"{number:016x}",
        "runner": "local",
        "graded": cases,
        "errors": 0,
        "gate": "PASS",
        "dir": f"runs/run-{number:06d}",
        "delivery": "inject",
        "resolvedModel": "smollm2-135m",
        "confirm": False,
        "trialsPlanned": 2 * calls,
        "trialsMeasured": 2 * calls,
        "trialsErrored": 0,
        "usage": usage,
        "evidence": {"verdict": "no evidence", "scope": None, "pSet": 0.09, "look": 3, "deltaLow": -0.2},
        "durationS": 31.0,
        "resumes": 0,
        "cases": made,
    }


def write_log(path: Path, runs: int, cases: int, trials: int) -> int:
    """Write a synthetic log; returns its size in bytes."""
    rng = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        for number in range(runs):
            file.write(json.dumps(record(number, cases, trials, rng), separators=(",", ":")) + "\n")
    return path.stat().st_size


def measure(path: Path, rounds: int) -> dict[str, list[float]]:
    """For every query: least wall and CPU seconds, least peak RSS in MiB, and the height of what came back."""
    best: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, query in QUERIES.items():
            command = [sys.executable, "-c", CHILD.replace("{query}", query), str(path)]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found = json.loads(done.stdout)
            best[name] = [min(pair) for pair in zip(found, best.get(name, found), strict=True)]
    return best


def main() -> None:
    """Make the logs, measure, print, and say which targets are met."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--folder", type=Path, default=None, help="where the logs are made (300 MB)")
    arguments = parser.parse_args()
    report(1000, 10, 2, arguments)
    best = report(5000, 100, 1, arguments)
    bare, one, whole = (
        best[name] for name in ("bare line scan", "one skill, trial", "all trials, aggregated")
    )
    print(f"one skill of a million trials: {one[0]:.2f} s (target 1.5), {one[2]:.0f} MiB (target 500)")
    print(f"the whole of it: {whole[0] / bare[0]:.1f} × a bare line scan (target 6)")


def report(runs: int, cases: int, trials: int, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Make a log, measure it, print the table."""
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "log.jsonl"
        size = write_log(path, runs, cases, trials)
        best = measure(path, arguments.rounds)
    bare = best["bare line scan"]
    print(f"{runs:,} runs × {cases} cases × 2 × {trials}: {size / 1e6:.0f} MB")
    print(f"  {'':24}{'wall s':>8}{'× bare':>8}{'CPU s':>8}{'× bare':>8}{'MiB':>7}{'rows':>11}")
    for name, (wall, cpu, rss, rows) in best.items():
        ratios = f"{wall:8.3f}{wall / bare[0]:8.1f}{cpu:8.3f}{cpu / bare[1]:8.1f}"
        print(f"  {name:24}{ratios}{rss:7.0f}{rows:11,.0f}")
    return best


if __name__ == "__main__":
    main()
