"""How often each rule calls a useless skill a success, and how often it finds a real effect.

    python tests/bench/bench_evidence.py [--sets 4000] [--authors 500] [--workers 2]

Evaluations are simulated from known pass probabilities and judged by the package itself: the gate and the
evidence by `stats.summary`, the looks by `stats.looks_p`. Nothing but the model is made up. Four rules:

- plain gate: more cases pass by majority with the skill than without;
- evidence: it says `improves`, on these prompts or on similar ones;
- looks counted: so it does, and p stays within the level when paid for at look k with k·(k+1);
- confirmed: so it does, and one fresh run of both conditions says `improves` again.

Prints Markdown: a short table, then all designs. Seeded, so the same numbers come out of the same arguments; it
takes two to three minutes on two free cores.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from multiprocessing import Pool
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skilleval_nb import stats

Rates = NDArray[np.float64]
SEED = 20_261_130
EDITS = 20
TRIALS = (1, 3, 5)
CASES, LOOP_CASES = (3, 5, 10, 20), (3, 5, 10)
WORTHLESS = ("p=.3", "p=.5", "p=.8", "bimodal")
UNTOUCHED = 0.05
"""Pass probability of the cases that a skill for half of them leaves alone; half of them by chance, case by case."""
EFFECTS = (".3→.6", ".5→.8", ".05→.9", "half .1→.9")


@dataclass(frozen=True)
class Design:
    """A set of `cases`, run `trials` times in both conditions, whose cases pass as `world` says."""

    world: str
    cases: int
    trials: int

    def rates(self, rng: np.random.Generator, sets: int) -> tuple[Rates, Rates]:
        """Each case's pass probability without and with the skill, a row a set."""
        shape = (sets, self.cases)
        if self.world == "bimodal":
            drawn = rng.beta(0.5, 0.5, shape)
            return drawn, drawn
        if self.world.startswith("p="):
            same = np.full(shape, float(self.world[2:]))
            return same, same
        before, after = (float(part) for part in self.world.removeprefix("half ").split("→"))
        baseline, skill = np.full(shape, before), np.full(shape, after)
        if self.world.startswith("half"):
            untouched = rng.random(shape) < 0.5
            baseline[untouched] = skill[untouched] = UNTOUCHED
        return baseline, skill


@dataclass(frozen=True)
class Shares:
    """How many of the sets, or of the authors, each rule called a success; rates."""

    plain: float
    evidence: float
    looks: float
    confirmed: float


@lru_cache(maxsize=400_000)
def weighed(trials: int, counts: bytes) -> tuple[bool, bool, float]:
    """The gate passes, the evidence says `improves`, and its p; of passes a case as `drawn` packs them."""
    pairs = [divmod(code, trials + 1) for code in counts]
    baseline, skill = ([[at < n for at in range(trials)] for n in arm] for arm in zip(*pairs, strict=True))
    found = stats.summary(baseline, skill)
    assert found.p_set is not None
    return found.gate == "PASS", found.verdict == stats.IMPROVES, found.p_set


def drawn(rng: np.random.Generator, trials: int, rates: tuple[Rates, Rates]) -> list[bytes]:
    """One evaluation of every set: the passes of its cases in a fixed order, which changes no number."""
    baseline, skill = (rng.binomial(trials, arm) for arm in rates)
    codes = np.sort(baseline * (trials + 1) + skill, axis=1).astype(np.uint8)
    return [row.tobytes() for row in codes]


def tuned(design: Design, number: int, sets: int, edits: int) -> Shares:
    """Each author evaluates `edits` versions of a skill on one set, both conditions afresh; a success is enough."""
    rng = np.random.default_rng([SEED, number])
    rates = design.rates(rng, sets)
    seen = np.zeros((len(fields(Shares)), sets), dtype=bool)
    for look in range(1, edits + 1):
        runs, again = (drawn(rng, design.trials, rates) for _ in range(2))
        for at, (run, confirming) in enumerate(zip(runs, again, strict=True)):
            gate, improves, p = weighed(design.trials, run)
            paid = improves and stats.looks_p(p, look) <= stats.ALPHA
            confirmed = improves and weighed(design.trials, confirming)[1]
            seen[:, at] |= (gate, improves, paid, confirmed)
    return Shares(*map(float, seen.mean(axis=1)))


def simulate(task: tuple[Design, int, int, int]) -> Shares:
    """One design, in a process of its own."""
    return tuned(*task)


def table(head: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """A Markdown table."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def percent(share: float) -> str:
    """A share in percent, with a decimal below ten; what rounds to nothing and is not is said."""
    if 0 < share < 0.0005:
        return "< 0.1%"
    return f"{share:.0%}" if share >= 0.0995 else f"{share:.1%}"


def reach(shares: Iterable[float]) -> str:
    """The mean of the designs' shares, and the least and the largest of them."""
    ordered = sorted(shares)
    least, largest = percent(ordered[0]), percent(ordered[-1])
    return f"{percent(fmean(ordered))} ({least} to {largest})"


def grid(
    found: dict[Design, Shares], worlds: Sequence[str], rules: Sequence[str], cases: Sequence[int]
) -> str:
    """Every design, with one column a world and rule."""
    head = ["cases", "trials", *(f"{rule}, {world}" for rule in rules for world in worlds)]
    rows = [
        [n, k, *(percent(getattr(found[Design(world, n, k)], rule)) for rule in rules for world in worlds)]
        for n in cases
        for k in TRIALS
    ]
    return table(head, rows)


def short(once: dict[Design, Shares], loop: dict[Design, Shares], real: dict[Design, Shares]) -> str:
    """What the README quotes."""

    def ranged(found: dict[Design, Shares]) -> list[str]:
        return [
            reach(getattr(one, rule) for one in found.values()) for rule in ("plain", "evidence", "confirmed")
        ]

    def one(text: str, world: str, n: int, k: int) -> list[str]:
        shares = real[Design(world, n, k)]
        return [text, f"{n} × {k}", *map(percent, (shares.plain, shares.evidence, shares.confirmed))]

    plain, evidence, confirmed = ranged(loop)
    paid = reach(shares.looks for shares in loop.values())
    return table(
        ["the skill", "cases × trials", "plain gate: it works", "evidence: `improves`", "and a fresh run confirms"],
        [
            ["does nothing, evaluated once", f"{CASES[0]} × 1 to {CASES[-1]} × {TRIALS[-1]}", *ranged(once)],
            [
                f"does nothing, any of {EDITS} edits", f"{LOOP_CASES[0]} × 1 to {LOOP_CASES[-1]} × {TRIALS[-1]}",
                plain, f"{evidence}; looks counted {paid}", confirmed,
            ],
            one("lifts every case from 30% to 60%", ".3→.6", 10, 3),
            one("lifts every case from 30% to 60%", ".3→.6", 20, 5),
            one("lifts every case from 50% to 80%", ".5→.8", 20, 3),
            one("lifts half the cases from 10% to 90%, leaves the rest at 5%", "half .1→.9", 10, 3),
            one("lifts every case from 5% to 90%", ".05→.9", 5, 1),
            one("lifts every case from 5% to 90%", ".05→.9", 10, 1),
        ],
    )  # fmt: skip


def main() -> None:
    """Simulate, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sets", type=int, default=4000, help="evaluations a design")
    parser.add_argument("--authors", type=int, default=500, help="authors a design, of 20 edits each")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()

    def designs(worlds: Sequence[str], cases: Sequence[int]) -> list[Design]:
        return [Design(world, n, k) for n in cases for k in TRIALS for world in worlds]

    plans: list[tuple[list[Design], int, int]] = [
        (designs(WORTHLESS, CASES), arguments.sets, 1),
        (designs(WORTHLESS, LOOP_CASES), arguments.authors, EDITS),
        (designs(EFFECTS, CASES), arguments.sets, 1),
    ]
    tasks = [(design, sets, edits) for group, sets, edits in plans for design in group]
    numbered = [(design, number, sets, edits) for number, (design, sets, edits) in enumerate(tasks)]
    with Pool(arguments.workers) as pool:
        shares = iter(pool.map(simulate, numbered, chunksize=1))
    once, loop, real = ({design: next(shares) for design in group} for group, _, _ in plans)
    print(
        f"Shares of {arguments.sets:,} simulated evaluations a design, of {arguments.authors:,} authors where there"
        f" are {EDITS} edits.\nOf several designs the mean, and in brackets the least and the largest."
    )
    print(f"\n{short(once, loop, real)}")
    print(
        f"\nA skill that does nothing, evaluated once\n\n{grid(once, WORTHLESS, ('plain', 'evidence'), CASES)}"
    )
    rules = ("plain", "evidence", "looks", "confirmed")
    print(f"\nA skill that does nothing, {EDITS} edits\n\n{grid(loop, WORTHLESS, rules, LOOP_CASES)}")
    print(f"\nA real effect\n\n{grid(real, EFFECTS, ('plain', 'evidence', 'confirmed'), CASES)}")


if __name__ == "__main__":
    main()
