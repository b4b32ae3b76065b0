"""skilleval_nb: does an agent skill (a SKILL.md) earn its place? A number that can be trusted, in a notebook.

    import skilleval_nb as se
    run = se.run_set("sets/typed-python.json", n=3)   # every prompt with the skill and without it
    run                                               # rates, gate, evidence, errors, tokens
    se.load_log()                                     # the history as a polars frame

Nothing heavy is imported before it is used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from . import charts as charts
    from . import stats as stats
    from .ablation import Ablation as Ablation
    from .ablation import ablate as ablate
    from .calibrate import calibrate_judge as calibrate_judge
    from .cases import Case as Case
    from .cases import EvalSet as EvalSet
    from .check_rates import check_report as check_report
    from .comparing import Comparison as Comparison
    from .comparing import compare as compare
    from .engine import arun_set as arun_set
    from .engine import plan_set as plan_set
    from .engine import run_set as run_set
    from .errors import InputError as InputError
    from .errors import RunnerFailure as RunnerFailure
    from .errors import SkillevalError as SkillevalError
    from .export import export_html as export_html
    from .frames import load_log as load_log
    from .frames import scan_log as scan_log
    from .inspector import inspect as inspect
    from .judge_log import load_calibrations as load_calibrations
    from .label_calibration import agreement_with_labels as agreement_with_labels
    from .label_calibration import record_labels as record_labels
    from .lint import lint_set as lint_set
    from .notebook import setup as setup
    from .plan import Plan as Plan
    from .regrading import aregrade as aregrade
    from .regrading import regrade as regrade
    from .runners import Runner as Runner
    from .runs import Run as Run
    from .runs import load_run as load_run
    from .sets import load_set as load_set
    from .skills import Skill as Skill
    from .skills import load_skill as load_skill
    from .tune_widget import tune as tune
    from .tuning import TuneSession as TuneSession
    from .values import Answer as Answer
    from .values import Gate as Gate
    from .values import Outcome as Outcome
    from .values import Request as Request
    from .values import Usage as Usage

_HOME: dict[str, str | None] = {
    "Answer": "values",
    "Request": "values",
    "Usage": "values",
    "InputError": "errors",
    "RunnerFailure": "errors",
    "SkillevalError": "errors",
    "Case": "cases",
    "EvalSet": "cases",
    "Gate": "values",
    "Outcome": "values",
    "Plan": "plan",
    "Run": "runs",
    "Runner": "runners",
    "Skill": "skills",
    "Ablation": "ablation",
    "ablate": "ablation",
    "aregrade": "regrading",
    "arun_set": "engine",
    "Comparison": "comparing",
    "calibrate_judge": "calibrate",
    "check_report": "check_rates",
    "compare": "comparing",
    "lint_set": "lint",
    "load_calibrations": "judge_log",
    "record_labels": "label_calibration",
    "agreement_with_labels": "label_calibration",
    "export_html": "export",
    "inspect": "inspector",
    "load_log": "frames",
    "load_run": "runs",
    "load_set": "sets",
    "load_skill": "skills",
    "plan_set": "engine",
    "regrade": "regrading",
    "run_set": "engine",
    "scan_log": "frames",
    "setup": "notebook",
    "TuneSession": "tuning",
    "tune": "tune_widget",
    "stats": None,
    "charts": None,
}
__all__ = ["__version__", *sorted(_HOME)]  # noqa: PLE0604 - the table above is the list


def __getattr__(name: str) -> Any:
    try:
        home = _HOME[name]
    except KeyError:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
    module = importlib.import_module(f".{home or name}", __name__)
    value = module if home is None else getattr(module, name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return list(__all__)
