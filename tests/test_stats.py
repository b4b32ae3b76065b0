"""The summary of two conditions and the line that says it, against the oracles and by hand."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from skilleval_nb import gate, stats
from skilleval_nb.errors import InputError

ORACLES = Path(__file__).parents[2] / "shared" / "reference" / "oracles.json"


def trials(case: str) -> list[bool | None]:
    """One case as a string: 1 passed, 0 failed, . not measured."""
    return [{"1": True, "0": False, ".": None}[run] for run in case]


def weigh(baseline: str, skill: str, clusters: str | None = None) -> stats.Summary:
    """Cases separated by blanks."""
    return stats.summary(
        [trials(case) for case in baseline.split()],
        [trials(case) for case in skill.split()],
        None if clusters is None else clusters.split(),
    )


def answer(function: str, given_input: dict[str, Any]) -> Any:
    """What the package says to an oracle's question."""
    for name in ("baseline", "skill"):
        values = given_input.get(name)
        if values and isinstance(values[0], str):
            given_input = given_input | {name: [trials(case) for case in values]}
    if function == "render":
        pairs = zip(given_input["baseline"], given_input["skill"], strict=True)
        cells = [
            gate.CaseCells("", *(gate.Cell(sum(map(bool, t)), len(t), len(t)) for t in pair))
            for pair in pairs
        ]
        decision = gate.decide(cells)
        return {"line1": gate.rate_line(decision), "line2": gate.gate_lines(decision)[0]}
    return getattr(stats, function)(**given_input)


def check(found: Any, expected: Any, tol: float) -> None:
    """Compare an answer with an oracle's, field by field."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            check(found[name] if isinstance(found, dict) else getattr(found, name), value, tol)
    elif isinstance(expected, list):
        assert isinstance(found, tuple)
        for part, value in zip(found, expected, strict=True):
            check(part, value, tol)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=tol)
    else:
        assert found == expected


ANSWERED = {
    "summary": 20, "wilson": 7, "delta_ci": 6, "single_run_p": 8, "e_value": 7, "pass_at_k": 7, "pass_hat_k": 4,
    "variance_split": 1, "looks_p": 1, "gwet_ac1": 2, "rogan_gladen": 2, "ppi_mean": 1, "ratio_ci": 1,
    "summary_flips": 2, "render": 1,
}  # fmt: skip
"""How many questions the reference asks of each function."""


def oracles() -> list[dict[str, Any]]:
    if not ORACLES.exists():
        return []
    found: list[dict[str, Any]] = json.loads(ORACLES.read_text(encoding="utf-8"))["oracles"]
    return found


WITH_ORACLES = pytest.mark.skipif(not ORACLES.exists(), reason="the reference file of oracles is not here")


@WITH_ORACLES
def test_every_oracle_of_the_reference_is_asked() -> None:
    assert Counter(oracle["function"] for oracle in oracles()) == ANSWERED
    assert sum(ANSWERED.values()) == 70


@WITH_ORACLES
@pytest.mark.parametrize("oracle", oracles(), ids=lambda oracle: str(oracle["id"]))
def test_oracles_of_the_reference(oracle: dict[str, Any]) -> None:
    check(answer(oracle["function"], oracle["input"]), oracle["expected"], oracle["tol"])


SUMMARIES: list[tuple[str, str, str | None, dict[str, Any]]] = [
    (
        "0 0 0",
        "1 1 1",
        None,
        {
            "gate": "PASS",
            "delta": 1.0,
            "delta_ci": [-0.5105780421, 1.0],
            "p_set": 0.03125,
            "p_set_conditional": 0.25,
            "p_set_min": 0.03125,
            "p_cases": 0.25,
            "p_cases_min": 0.25,
            "base_ci": [0.0, 0.5614970318],
            "verdict": "improves",
            "scope": "these prompts",
        },
    ),
    ("0000", "1111", None, {"p_set": 2 / 70, "delta_ci": [-1.0, 1.0], "p_cases": 1.0, "verdict": "improves"}),
    ("0 0", "1 1", None, {"p_set": 0.125, "p_set_conditional": 0.5, "verdict": "no evidence", "scope": None}),
    ("1 1 0 0", "1 1 0 0", None, {"gate": "FAIL", "delta_ci": [-0.663721376, 0.663721376], "p_set": 1.0}),
    (
        "0 0 0 0 0 0",
        "1 1 1 1 1 1",
        None,
        {"p_cases": 0.03125, "delta_ci": [0.1588439371, 1.0], "scope": "similar prompts"},
    ),
    (
        "1 1 1 1 1 1 1 0",
        "0 0 0 0 0 0 0 0",
        None,
        {"gate": "FAIL", "gate_delta": -0.875, "p_set": 0.0005187988281, "verdict": "regresses"},
    ),
    (
        "1100 0000 1000",
        "1110 1100 1111",
        None,
        {"base_pass": 0, "skill_pass": 2, "p_set": 0.03425655977, "p_set_min": 5.83090379e-06},
    ),
    (
        "0.0 010 1.0 000",
        "111 1.1 ... 110",
        None,
        {
            "scored_cases": 3,
            "unscored_cases": 1,
            "missing_runs": 6,
            "worst": [0.5, "PASS"],
            "best": [1.0, "PASS"],
            "delta": 7 / 9,
            "delta_ci": [-0.572183967, 1.0],
            "p_set": 0.012,
            "p_set_min": 0.001,
        },
    ),
    (
        "00000 " * 6,
        "11000 " * 6,
        None,
        {
            "gate": "FAIL",
            "delta": 0.4,
            "p_set": 0.0002408545822,
            "p_cases": 0.03125,
            "scope": "these prompts",
        },
    ),
    (
        "0 0 0 0 0 0 0 0 1 1 1 1",
        "1 1 1 1 1 1 1 0 1 1 1 1",
        "a a a a b b c c d e f g",
        {
            "delta_ci": [-0.6395255823, 1.0],
            "base_ci": [0.1056348561, 0.6791419556],
            "p_set": 0.004242539406,
            "p_cases": 0.25,
            "p_cases_min": 0.015625,
            "units": 7,
        },
    ),
]


@pytest.mark.parametrize(("baseline", "skill", "clusters", "expected"), SUMMARIES)
def test_summaries_known_from_the_reference(
    baseline: str, skill: str, clusters: str | None, expected: dict[str, Any]
) -> None:
    check(weigh(baseline, skill, clusters), expected, 1e-8)


@pytest.mark.parametrize(
    ("function", "question", "expected"),
    [
        ("single_run_p", {"n": 20, "wins": 6, "losses": 0}, 0.01266577846),
        ("single_run_p", {"n": 50, "wins": 5, "losses": 0}, 0.03846174121),
        ("wilson", {"p": 0.85, "n": 20}, [0.6395811353, 0.9476312541]),
        ("delta_ci", {"d": [1, 1, 1, 1, 1, 1, -1, 0, 0, 0]}, [-0.08715700894, 0.9204903423]),
        ("e_value", {"wins": 9, "losses": 1}, 18.50909091),
        ("looks_p", {"p": [0.04, 0.004, 0.0004], "look": [1, 3, 10]}, [0.08, 0.048, 0.044]),
        ("pass_at_k", {"c": 1, "n": 5, "k": 3}, 0.6),
        ("pass_hat_k", {"c": 3, "n": 5, "k": 3}, 0.1),
        (
            "summary_flips",
            {"n": 40, "up": 0, "down": 6},
            {"p": 0.01863120793, "mcnemar": 0.03125, "flip_rate": 0.15},
        ),
        ("gwet_ac1", {"counts": [[0, 2]] * 18 + [[1, 1]] * 2}, {"ac1": 0.8895027624, "pa": 0.9, "pe": 0.095}),
        (
            "rogan_gladen",
            {"q": 0.9, "n": 20, "tp": 19, "fn": 1, "tn": 14, "fp": 6},
            {"point": 0.9230769231, "ci": [0.5803120631, 1.0]},
        ),
        (
            "ratio_ci",
            {"baseline": [1200, 900, 3100], "skill": [1500, 1300, 3000]},
            {"ratio": 1.20445378, "ci": [0.7277421115, 1.993438177], "p": 0.2530810689},
        ),
        (
            "variance_split",
            {
                "baseline": ["00000", "01000", "11111", "00110", "10000"],
                "skill": ["11111", "11101", "11111", "11110", "00000"],
            },
            {
                "n": 5,
                "total": 0.228,
                "runs": 0.044,
                "cases": 0.184,
                "run_share": 0.1929824561,
                "se": 0.213541565,
            },
        ),
    ],
)
def test_estimators_known_from_the_reference(function: str, question: dict[str, Any], expected: Any) -> None:
    check(answer(function, question), expected, 1e-8)


def test_nothing_scored_is_none_and_not_zero() -> None:
    result = weigh(".. 11", "11 ..")
    assert (result.scored_cases, result.unscored_cases, result.missing_runs) == (0, 2, 4)
    assert result.gate is None
    assert result.gate_delta is result.delta is result.p_set is result.base_rate is None
    assert result.worst == (-0.5, "FAIL")
    assert (result.verdict, result.scope) == ("no evidence", None)
    assert (
        stats.evidence_line(result, n_trials=2) == "evidence: none (0 of 2 cases measured in both conditions)"
    )


def test_an_empty_set() -> None:
    result = stats.summary([], [])
    assert (result.gate, result.worst, result.units) == (None, (None, None), 0)
    assert (
        stats.evidence_line(result, n_trials=1) == "evidence: none (0 of 0 cases measured in both conditions)"
    )


def test_flips_are_counted_among_verdicts() -> None:
    result = weigh("0 0 1 1 .", "1 0 0 1 1")
    assert (result.wins, result.losses, result.ties) == (1, 1, 2)


def test_lengths_must_agree() -> None:
    with pytest.raises(InputError, match="one entry a case"):
        stats.summary([[True]], [])
    with pytest.raises(InputError, match="one entry a case"):
        stats.summary([[True]], [[True]], ["a", "b"])


def test_a_case_without_a_cluster_stands_alone() -> None:
    mixed = stats.summary([[False]] * 4, [[True]] * 4, ["a", "a", None, None])
    assert (mixed.units, mixed.clustered) == (3, True)
    own = stats.summary([[False]] * 4, [[True]] * 4, ["a", "b", "c", "d"])
    assert own.delta_ci == stats.summary([[False]] * 4, [[True]] * 4).delta_ci


def test_no_direction_is_claimed_where_delta_and_the_test_disagree() -> None:
    """Unequal run counts can weigh a case far more in Δ than in the test over runs."""
    baseline = ["0" * 20, "1", "1"]
    skill = ["1" * 19 + "0", "0", "0"]
    result = weigh(" ".join(baseline), " ".join(skill))
    assert result.p_set is not None
    assert result.p_set <= stats.ALPHA
    assert result.delta is not None
    assert result.delta < 0
    assert (result.verdict, result.scope) == ("no evidence", None)


# ---- the line -------------------------------------------------------------------------------------------


def test_the_specs_sample_line() -> None:
    result = weigh("0 0 0 0 0 1 1 0 0", "1 1 1 1 1 0 1 0 0")
    assert stats.evidence_line(result, n_trials=1) == (
        "evidence: no evidence yet (p 0.092 on these prompts). Similar prompts: not shown (p 0.22)."
        " Δ 95% CI −18…+91%; 9 cases × 1 trial find +65 points or more"
    )


def test_the_seeds_example_line() -> None:
    assert stats.evidence_line(weigh("0 0 0", "1 1 1"), n_trials=1) == (
        "evidence: improves on these prompts (p 0.031). Similar prompts: not shown (3 cases; at least 6 are"
        " needed). Δ 95% CI −51…+100%; 3 cases × 1 trial find no rise reliably"
    )


def test_both_scopes_and_a_regression() -> None:
    up = stats.evidence_line(weigh("0 0 0 0 0 0", "1 1 1 1 1 1"), n_trials=1)
    assert up.startswith(
        "evidence: improves on these prompts (p 0.00049). Similar prompts: improves (p 0.031). Δ"
    )
    down = stats.evidence_line(weigh("1 1 1 1 1 1 1 0", "0 0 0 0 0 0 0 0"), n_trials=1)
    assert down.startswith(
        "evidence: regresses on these prompts (p 0.00052). Similar prompts: regresses (p 0.016). Δ"
    )
    assert "CI −100…−22%" in down


def test_one_case_and_groups_in_the_right_number() -> None:
    one = stats.evidence_line(weigh("0000", "1111"), n_trials=4)
    assert "not shown (1 case; at least 6 are needed)" in one
    assert one.endswith("1 case × 4 trials find no rise reliably")
    groups = stats.evidence_line(weigh("0 0 0", "1 1 1", "a a b"), n_trials=1)
    assert "not shown (2 groups; at least 6 are needed)" in groups


def test_a_design_that_cannot_show_anything_says_so() -> None:
    line = stats.evidence_line(weigh("0 0", "1 1"), n_trials=1)
    assert line.startswith(
        "evidence: no evidence yet (p 0.12 on these prompts; no outcome of this design can be evidence)."
    )


def test_similar_prompts_need_these_prompts_and_the_interval() -> None:
    alone = stats.evidence_line(weigh("10000 " * 6, "11000 " * 6), n_trials=5)
    assert "not shown (p 0.031, but no evidence on these prompts)" in alone
    wide = stats.evidence_line(weigh("00000 " * 6, "11000 " * 6), n_trials=5)
    assert "not shown (p 0.031, but the interval of Δ includes 0)" in wide


def test_from_the_second_look_a_claim_is_charged_and_sent_to_confirm() -> None:
    result = weigh("0 0 0", "1 1 1")
    assert "look" not in stats.evidence_line(result, n_trials=1, look=1)
    assert stats.evidence_line(result, n_trials=1, look=2).endswith(
        "; look 2: counting the looks p = 0.19; confirm to settle"
    )
    strong = weigh("0 " * 12, "1 " * 12)
    assert "look 3: counting the looks p < 0.0001; confirm" in stats.evidence_line(strong, n_trials=1, look=3)
    assert "look 5" not in stats.evidence_line(weigh("0 1", "1 1"), n_trials=1, look=5)


def test_no_direction_while_unmeasured_trials_could_turn_the_gate() -> None:
    """0/4 → 4/4 in one case is evidence, but the other case may undo the gate."""
    result = weigh("0000 1111", "1111 1..." + "", None)
    assert result.verdict == "improves"
    line = stats.evidence_line(result, n_trials=4, look=2)
    assert line.startswith(
        "evidence: withheld, the gate depends on 3 unmeasured trials (p 0.029 on these prompts)."
    )
    assert "improves" not in line
    assert "confirm" not in line
    standing = stats.evidence_line(weigh("0000 0000", "1111 11.."), n_trials=4)
    assert standing.startswith("evidence: improves on these prompts")


def test_a_reason_to_withhold_replaces_the_whole_line() -> None:
    line = stats.evidence_line(weigh("0 0 0", "1 1 1"), n_trials=1, look=4, withheld="review required")
    assert line == "evidence: withheld: review required"


@pytest.mark.parametrize(
    ("p", "shown"),
    [
        (1.0, "1.0"),
        (0.5, "0.50"),
        (0.0924, "0.092"),
        (0.03125, "0.031"),
        (0.00025, "0.00025"),
        (0.00009, "< 0.0001"),
        (0.05, "0.050"),
        (0.0501, "0.0501"),
        (0.0504, "0.0504"),
    ],
)
def test_p_values_never_round_across_the_level(p: float, shown: str) -> None:
    assert stats.shown_p(p) == shown


def test_held() -> None:
    assert stats.held((-0.09, 0.4), 0.1) is True
    assert stats.held((-0.11, 0.4), 0.1) is False
    assert stats.held(None, 0.1) is None


@pytest.mark.parametrize(
    ("n_cases", "n_trials", "rate"), [(4, 1, 0.5), (10, 1, 0.5), (5, 3, 0.3), (10, 3, 0.5)]
)
def test_without_an_effect_a_claim_is_rare(n_cases: int, n_trials: int, rate: float) -> None:
    """Nominal 2.5 % a direction; 1,000 sets leave 3 standard errors of 1.5 points."""
    rng = random.Random(20261130)

    def arm() -> list[list[bool | None]]:
        return [[rng.random() < rate for _ in range(n_trials)] for _ in range(n_cases)]

    words = [stats.summary(arm(), arm()).verdict for _ in range(1000)]
    assert words.count("improves") / 1000 <= 0.025 + 0.015
    assert words.count("regresses") / 1000 <= 0.025 + 0.015


def test_large_sets_stay_quick() -> None:
    rng = random.Random(1)

    def arm(n_cases: int, n_trials: int) -> list[list[bool | None]]:
        return [[rng.choice([True, False, None, True]) for _ in range(n_trials)] for _ in range(n_cases)]

    weigh("0", "1")  # the libraries are loaded once
    for n_cases, n_trials in ((1000, 5), (5000, 1), (50, 100)):
        baseline, skill = arm(n_cases, n_trials), arm(n_cases, n_trials)
        clusters = [str(i // 3) for i in range(n_cases)]
        took = []
        for groups in (None, clusters, None, clusters):
            started = time.process_time()
            result = stats.summary(baseline, skill, groups)
            stats.evidence_line(result, n_trials=n_trials)
            took.append(time.process_time() - started)
            assert result.p_cases is not None
        assert min(took[0::2]) < 0.5
        assert min(took[1::2]) < 0.5


def test_the_evidence_needs_no_heavy_library() -> None:
    """`scipy.stats`, polars and the like cost a command line a second."""
    code = (
        "import sys; from skilleval_nb import stats\n"
        "before = {'numpy', 'scipy'} & set(sys.modules)\n"
        "stats.evidence_line(stats.summary([[False]] * 7, [[True]] * 7), n_trials=1)\n"
        "print(sorted(before), sorted({'scipy.stats', 'polars', 'altair', 'pydantic'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] []"
