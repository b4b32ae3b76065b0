"""What it costs to start: `import skilleval_nb` and `skilleval --help`, over a bare Python, in one run.

python tests/bench/bench_start.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

CONTENDERS = {
    "bare Python": ["-c", "pass"],
    "import skilleval_nb": ["-c", "import skilleval_nb"],
    "skilleval --help": ["-m", "skilleval_nb.cli", "--help"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    best = dict.fromkeys(CONTENDERS, float("inf"))
    for _ in range(options.rounds):
        for name, words in CONTENDERS.items():
            began = time.perf_counter()
            subprocess.run([sys.executable, *words], check=True, stdout=subprocess.DEVNULL)
            best[name] = min(best[name], time.perf_counter() - began)
    bare = best["bare Python"]
    print("| what | s | s over bare Python |")
    print("|---|---|---|")
    for name, seconds in best.items():
        print(f"| {name} | {seconds:.3f} | {seconds - bare:.3f} |")


if __name__ == "__main__":
    main()
