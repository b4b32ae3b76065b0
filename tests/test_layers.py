"""Imports go downwards only, nothing heavy loads before it is used, and nothing happens at import."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import skilleval_nb

PACKAGE = Path(skilleval_nb.__file__).parent
LAYERS: tuple[tuple[str, ...], ...] = (
    ("values", "marked"),
    ("controls",),
    ("errors",),
    ("paths", "pattern_worker", "json_worker", "skills", "models", "weights", "children"),
    ("sync", "recording", "phrases", "shapes", "foreign", "skill_file", "git", "placebo", "sections"),
    ("pattern_process", "skill_source", "snapshot", "bubblewrap"),
    ("sandbox",),
    ("patterns", "conditions"),
    ("cases", "jsonfile"),
    ("checks",),
    ("suite_file", "trigger_file"),
    ("sets", "gate", "darkroom", "calibration", "lint_subject"),
    ("stats_exact", "stats_estimates", "stats_several"),
    ("stats_judge", "stats_design", "stats_summary"),
    ("stats_advice",),
    ("stats",),
    ("lint_checks", "lint_words", "lint_cases", "skill_text"),
    ("runners", "agreement"),
    ("agents", "routers"),
    ("claude_output", "codex_output", "agent_process", "runner_local_engine"),
    ("claude_events", "load_proof"),
    ("runner_anthropic", "runner_claude", "runner_codex", "runner_local", "runner_replay"),
    ("agent_claude", "agent_codex", "agent_local"),
    ("listing", "router_agent", "router_lexical"),
    ("router_catalogue", "router_claude", "router_codex"),
    ("settings",),
    ("plan", "calls"),
    ("file_checks", "judge"),
    ("grade",),
    ("grader", "execute"),
    ("stored",),
    ("gate_trial", "trigger_trial", "suite_prompts", "suite_verdicts"),
    ("folder", "log", "columns"),
    ("changes", "finder", "ledger", "versions"),
    ("record", "decode", "judge_log", "tune_texts", "suite_files"),
    ("suite_trial", "suite_metrics", "trigger_metrics", "trigger_reasons"),
    ("sanity", "trigger_part"),
    ("benchmark",),
    ("benchmark_read", "benchmark_text", "trigger_text"),
    ("judged", "besides"),
    ("run_record",),
    ("frames", "text", "labels", "calibration_result", "comparison_sides"),
    ("check_rates", "tune_history", "labelled", "comparable", "comparison_spent"),
    ("html", "transcripts", "comparison_record"),
    ("case_view", "comparison_text"),
    ("inspection",),
    ("inspect_html",),
    ("inspector",),
    ("runs", "selftest"),
    ("export",),
    ("lint_run",),
    ("lint",),
    ("charts_look", "charts_data"),
    ("charts_grid", "charts_ledger"),
    ("charts_checks", "charts_cost", "charts_flips", "charts_judges"),
    ("charts_log", "charts_pass", "charts_price", "charts_time", "charts_trigger"),
    ("logview", "charts", "comparing"),
    ("progress", "header", "notebook", "reuse"),
    ("widget",),
    ("live", "job"),
    ("resume", "calibrate", "label_calibration"),
    ("regrade_set", "regrade_trials"),
    ("engine", "regrading", "lab"),
    ("tuning", "tune_words"),
    ("tune_desk",),
    ("tune_widget",),
    ("ablation", "descriptions", "trigger_scaffold"),
    ("trigger_hook", "watch"),
    ("cli_options",),
    ("cli_judges", "cli_suite", "cli_trigger"),
    ("cli",),
    ("__main__",),
)
RANK = {name: rank for rank, names in enumerate(LAYERS) for name in names}
HEAVY = {
    "anthropic",
    "altair",
    "scipy",
    "numpy",
    "polars",
    "ipywidgets",
    "anywidget",
    "IPython",
    "aiohttp",
    "xllamacpp",
}
CHARTS = {
    *("charts_look", "charts_data", "charts_grid", "charts_ledger", "charts_checks", "charts_cost"),
    *("charts_flips", "charts_judges", "charts_log", "charts_pass", "charts_price", "charts_time"),
    "charts_trigger",
}
HOMES = {  # the modules whose whole purpose a heavy library is may import it at the top
    "polars": {"frames", "columns", "decode", "check_rates"} | CHARTS,
    "altair": CHARTS,
    "ipywidgets": {"widget"},
    "IPython": {"widget"},
    "anywidget": {"inspector", "tune_widget"},
}
REGISTRY = {"runners"}
"""Knows the runners by name: the one place that reaches up, on purpose, and only when one is asked for."""

MODULES = sorted(path for path in PACKAGE.glob("*.py") if path.stem != "__init__")


def imported(tree: ast.AST) -> set[str]:
    """Names of this package's modules that `tree` imports, at the top or inside functions."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.level == 1:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("skilleval_nb."):
            found.add(node.module.split(".")[1])
    return found & set(RANK)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_every_module_has_a_layer_and_imports_only_below_it(path: Path) -> None:
    assert path.stem in RANK, "give the module its place in LAYERS"
    if path.stem in REGISTRY:
        return
    upward = {name for name in imported(ast.parse(path.read_text())) if RANK[name] >= RANK[path.stem]}
    same_layer = {name for name in upward if RANK[name] == RANK[path.stem]}
    assert not upward - same_layer, f"{path.stem} imports from above"
    assert not same_layer, f"{path.stem} imports its neighbours"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_heavy_libraries_are_imported_inside_functions(path: Path) -> None:
    tree = ast.parse(path.read_text())
    top = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {alias.name.split(".")[0] for node in top if isinstance(node, ast.Import) for alias in node.names}
    names |= {node.module.split(".")[0] for node in top if isinstance(node, ast.ImportFrom) and node.module}
    assert {name for name in names & HEAVY if path.stem not in HOMES.get(name, ())} == set()


def test_importing_the_package_loads_nothing_heavy_and_says_nothing() -> None:
    code = (
        "import sys, skilleval_nb; dir(skilleval_nb);"
        f"print(sorted(({sorted(HEAVY)!r} + ['pydantic', 'yaml', 'typer', 'asyncio']) and"
        f" [n for n in {sorted(HEAVY | {'pydantic', 'yaml', 'typer', 'asyncio'})!r} if n in sys.modules]))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")


def test_every_public_name_is_there_and_no_module_hides_a_function() -> None:
    for name in skilleval_nb.__all__:
        assert getattr(skilleval_nb, name) is not None
    functions = {name for name in skilleval_nb.__all__ if callable(getattr(skilleval_nb, name))}
    assert not functions & {path.stem for path in MODULES}


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no_such_name"):
        _ = skilleval_nb.no_such_name


def test_modules_are_small() -> None:
    sizes = {path.stem: len(path.read_text().splitlines()) for path in MODULES}
    assert {name: lines for name, lines in sizes.items() if lines > 400} == {}


def test_every_exception_class_is_in_one_module() -> None:
    found = {
        f"{path.stem}.{node.name}"
        for path in MODULES
        if path.stem != "errors"
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ClassDef)
        and any(
            isinstance(base, ast.Name) and base.id.endswith(("Error", "Exception")) for base in node.bases
        )
    }
    assert found == set()
