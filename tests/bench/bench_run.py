"""What a trial costs beside the bare SDK: CPU and memory, as ratios within one run.

    python tests/bench/bench_run.py [--cases 1000] [--rounds 3]

An instant loopback Messages API in a process of its own answers every call. Each contender runs in a fresh
process, 8 calls at a time: the SDK's `AsyncAnthropic` in a plain loop on its default transport, the same on the
aiohttp transport, and `run_set` with one regular expression a case (call, check, transcript, trial line,
progress; imports, plan and the closing record are outside the window). The least of the rounds counts.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

BARE = """
import asyncio, json, os, resource, sys, time
import anthropic
cases, transport = int(sys.argv[1]), sys.argv[2]
async def main():
    http = anthropic.DefaultAioHttpClient() if transport == "aiohttp" else None
    async with anthropic.AsyncAnthropic(http_client=http, max_retries=2) as client:
        waiting = iter(range(2 * cases))
        async def worker():
            for number in waiting:
                await client.messages.create(model="m", max_tokens=4096, system="Answer with MAGIC." * (number % 2),
                    messages=[{"role": "user", "content": f"Task {number // 2}."}])
        await client.messages.create(model="m", max_tokens=1, messages=[{"role": "user", "content": "warm"}])
        began = time.process_time()
        await asyncio.gather(*(worker() for _ in range(8)))
        return time.process_time() - began
cpu = asyncio.run(main())
rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"cpu_ms": cpu * 1000 / (2 * cases), "rss_mib": rss}))
"""
OURS = """
import json, os, resource, sys, time
import anthropic
import skilleval_nb as se
from skilleval_nb import engine
path, window = sys.argv[1], []
half = None
def progress(counts):
    global half
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    if half is None and counts.done >= counts.total / 2:
        half = rss
    if counts.done == 0 and not window:
        window.append(time.process_time())
    if counts.done == counts.total and len(window) == 1:
        window.extend([time.process_time(), rss])
run = se.run_set(path, runner="anthropic", progress=progress)
assert run.record["trialsMeasured"] == run.record["trialsPlanned"], str(run)
print(json.dumps({"cpu_ms": (window[1] - window[0]) * 1000 / run.record["trialsPlanned"], "rss_mib": window[2],
    "half_mib": half, "end_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}))
"""


def measured(code: str, *arguments: str, env: dict[str, str]) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-c", code, *arguments], env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def creation_ms(folder: Path, count: int = 2000) -> float:
    """CPU milliseconds to create one small file here."""
    (folder / "created").mkdir()
    began = time.process_time()
    for number in range(count):
        os.close(os.open(folder / "created" / f"{number}.txt", os.O_WRONLY | os.O_CREAT, 0o644))
    return (time.process_time() - began) * 1000 / count


def main() -> None:
    from loopback import LoopbackProcess
    from worlds import case, project

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    count = str(options.cases)
    rows: dict[str, list[dict[str, float]]] = {}
    # One folder for all rounds: ext4 makes new files dear for minutes after many were deleted.
    with LoopbackProcess("magic") as server, tempfile.TemporaryDirectory() as folder:
        created_ms = creation_ms(Path(folder))
        env = {**os.environ, **server.env}
        for name in ("EVAL_MODEL", "EVAL_N", "EVAL_JUDGE_MODEL"):
            env.pop(name, None)
        for number in range(options.rounds):
            root = Path(folder) / str(number)
            root.mkdir()
            path = project(root, *(case(f"case-{index}") for index in range(options.cases)))
            for name, result in (
                ("SDK, default transport", measured(BARE, count, "default", env=env)),
                ("SDK, aiohttp transport", measured(BARE, count, "aiohttp", env=env)),
                ("run_set", measured(OURS, str(path), env=env)),
            ):
                rows.setdefault(name, []).append(result)
    best = {name: {key: min(row[key] for row in found) for key in found[0]} for name, found in rows.items()}
    default, same = (best[name]["cpu_ms"] for name in ("SDK, default transport", "SDK, aiohttp transport"))
    print(f"{2 * options.cases} calls, least of {options.rounds} rounds, {os.cpu_count()} cores")
    print("| who | CPU ms a call | × SDK default | × SDK aiohttp | peak MiB while trials run |")
    print("|---|---|---|---|---|")
    for name, row in best.items():
        cpu = row["cpu_ms"]
        print(f"| {name} | {cpu:.2f} | {cpu / default:.2f} | {cpu / same:.2f} | {row['rss_mib']:.0f} |")
    ours = best["run_set"]
    print(f"creating a transcript file costs {created_ms:.2f} CPU ms of that on this file system")
    print(f"run_set: {ours['half_mib']:.0f} MiB at half time, {ours['end_mib']:.0f} MiB with the evidence")


if __name__ == "__main__":
    main()
