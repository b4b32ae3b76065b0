"""Charts of runs and logs, of judges and of what it all costs: each takes a frame and gives an altair chart.

Each says in its `description` what it shows, so that a reader who sees no picture misses nothing. Every rate
stands beside its counts, what was not measured is said and never drawn as 0, and a log that has nothing of what
a chart is about gives a chart that says so. A frame of the wrong kind is an InputError.
"""

from __future__ import annotations

from .charts_checks import check_discrimination
from .charts_cost import cost, tokens
from .charts_flips import flips_matrix
from .charts_judges import judge_agreement, judge_flips
from .charts_log import delta_over_log
from .charts_pass import difficulty, pass_rates
from .charts_price import cost_per_extra_pass
from .charts_time import latency

__all__ = [
    "check_discrimination",
    "cost",
    "cost_per_extra_pass",
    "delta_over_log",
    "difficulty",
    "flips_matrix",
    "judge_agreement",
    "judge_flips",
    "latency",
    "pass_rates",
    "tokens",
]
