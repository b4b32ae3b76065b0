"""The declared columns of the four levels of a log: name, type, unit, source, and what null means.

A frame of a level always has these columns, in this order; `frames` reads the table, docs and tests print it.
A column of the run is repeated at the levels below, so that a filter on it drops whole lines unparsed; where a
level has a column of its own under that name, the run's is called `run_…`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from .errors import InputError, Problem

LEVELS = ("run", "case", "trial", "check")
KINDS = ("eval", "trigger", "suite")
"""The kinds that `load_log` takes unasked: what a model under test was run for."""
READABLE = (*KINDS, "regrade")
"""The kinds that it takes by name: the others too, which look at the same answers again."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: `source` is where its value stands in a record, as `owner:path`.

    The owner is `run`, `case`, `result` (a case under one condition), `trial` or `check`; a number in the path
    is a position in a list. An empty source is a column that `frames` computes. `dtype` is a polars name.
    """

    name: str
    dtype: str
    source: str
    what: str
    null: str
    unit: str = ""

    @property
    def owner(self) -> str:
        """The object of the record that holds the value; empty for a computed column."""
        return self.source.partition(":")[0]

    @property
    def path(self) -> str:
        """The keys that lead from the owner to the value."""
        return self.source.partition(":")[2]


NEVER = "never"
OLD = "written before this was recorded"
TIME = "Datetime[ms, UTC]"


def _columns(owner: str, text: str) -> tuple[Column, ...]:
    """Read a table: name | dtype | path (empty: computed) | unit | what | null."""
    out = []
    for line in text.strip().splitlines():
        name, dtype, path, unit, what, null = (cell.strip() for cell in line.split("|"))
        source = f"{owner}:{path}" if path else ""
        null = f"{null.removesuffix('old')}{OLD}" if null.endswith("old") else null or NEVER
        out.append(Column(name, dtype, source, what, null, unit))
    return tuple(out)


RUN = _columns(
    "run",
    """
    run_id              | String   |                     |        | id of the run; the last part of its folder where none is recorded | neither id nor folder recorded
    ts                  | Datetime[ms, UTC] | ts         | UTC    | when the run began | no readable time recorded
    kind                | String   | kind                |        | eval (a gate set), trigger or suite |
    set                 | String   | set                 |        | name of the set | not recorded
    skill               | String   | skill               |        | path of the skill | the set names no skill
    skill_hash          | String   | skillHash           |        | content hash of what was injected | old
    set_hash            | String   | setHash             |        | content hash of the set | old
    delivery            | String   | delivery            |        | how the skill reached the model | old
    runner              | String   | runner              |        | what ran the trials | old
    model               | String   | model               |        | the model that was asked for | the provider's default
    judge_model         | String   | judgeModel          |        | the judge that was asked for | no judge
    n                   | Int64    | n                   | trials | trials of a case under one condition | not recorded
    graded              | Int64    |                     | cases  | cases measured under every condition of the pair; the denominator of both rates | no cases recorded
    errors              | Int64    |                     | cases  | cases left out of both rates | no cases recorded
    trials_measured     | Int64    | trialsMeasured      | trials | trials with a measurement | old
    trials_errored      | Int64    | trialsErrored       | trials | trials that could not be measured | old
    baseline_rate       | Float64  |                     | rate   | cases passed at baseline / graded | nothing graded, or no such condition
    skill_rate          | Float64  |                     | rate   | cases passed with the skill / graded | nothing graded, or no such condition
    delta               | Float64  |                     | rate   | skill_rate - baseline_rate, recomputed from the cases | nothing graded, or one condition only
    gate                | String   | gate                |        | PASS, NO MOVEMENT, REGRESSION or NOT MEASURED (the origin's ERROR) | no gate recorded
    evidence            | String   | evidence.verdict    |        | improves, no evidence or regresses | nothing graded, withheld while the gate hangs on unmeasured trials, or old
    scope               | String   | evidence.scope      |        | these prompts or similar prompts | no evidence, or old
    p_set               | Float64  | evidence.pSet       |        | p of no effect on these prompts | not computed
    p_cases             | Float64  | evidence.pCases     |        | p of no effect on similar prompts | not computed
    p_looks             | Float64  | evidence.pLooks     |        | p_set with the looks counted | not computed
    look                | Int64    | evidence.look       |        | how many times this set, model and judge were looked at | old
    delta_estimate      | Float64  | evidence.delta      | rate   | mean of the cases' differences in pass rate | not computed
    delta_low           | Float64  | evidence.deltaLow   | rate   | lower end of its 95 % interval | not computed
    delta_high          | Float64  | evidence.deltaHigh  | rate   | upper end of its 95 % interval | not computed
    evidence_line       | String   | evidence.line       |        | the evidence as it was printed | old
    gate_low            | Float64  | gateRange.0         | rate   | delta with every unmeasured trial against the skill | old
    gate_high           | Float64  | gateRange.1         | rate   | delta with every unmeasured trial for the skill | old
    baseline_pass       | Int64    |                     | cases  | cases passed at baseline, of graded | nothing graded, or no such condition
    skill_pass          | Int64    |                     | cases  | cases passed with the skill, of graded | nothing graded, or no such condition
    trials_planned      | Int64    | trialsPlanned       | trials | trials that the run set out to do | old
    requested_model     | String   | requestedModel      |        | the model before aliases were resolved | old
    resolved_model      | String   | resolvedModel       |        | the model id that was called | old
    judge_hash          | String   | judgeHash           |        | content hash of the judge's prompt | no judge, or old
    resolved_judge_model | String  | resolvedJudgeModel  |        | the judge's model id that was called | no judge, or old
    judge_runner        | String   | judgeRunner         |        | what ran the judge | no judge, or old
    judge_n             | Int64    | judgeN              |        | judgements of an answer | no judge, or old
    judge_sensitivity   | Float64  | judgeError.sensitivity | rate | share of human passes that this judge passes, over judge_labelled | no judge, never calibrated, or no human pass
    judge_specificity   | Float64  | judgeError.specificity | rate | share of human fails that this judge fails, over judge_labelled | no judge, never calibrated, or no human fail
    judge_labelled      | Int64    | judgeError.n        | items  | items with a verdict of a person and of this judge | no judge, or never calibrated
    judged_baseline_rate      | Float64 | judgeError.rates.baseline.rate      | rate | judge checks passed at baseline / judged | no judge, never calibrated, or none judged
    judged_baseline_corrected | Float64 | judgeError.rates.baseline.corrected | rate | the same, corrected for the judge's error | the judge cannot measure it, or none judged
    judged_skill_rate         | Float64 | judgeError.rates.skill.rate         | rate | judge checks passed with the skill / judged | no judge, never calibrated, or none judged
    judged_skill_corrected    | Float64 | judgeError.rates.skill.corrected    | rate | the same, corrected for the judge's error | the judge cannot measure it, or none judged
    confirm             | Boolean  | confirm             |        | the run was made to confirm; looks count from it | old
    subset              | Boolean  | subset              |        | only some of the set's cases were run | old
    max_drop            | Float64  | maxDrop             | rate   | the drop that was allowed | none was set
    baseline_reused     | Int64    | reused.baseline     | trials | baseline trials taken from earlier runs | none was
    skill_reused        | Int64    | reused.skill        | trials | skill trials taken from earlier runs | none was
    input_tokens        | Int64    | tokens.input        | tokens | executor and judge together | not reported
    output_tokens       | Int64    | tokens.output       | tokens | executor and judge together | not reported
    executor_calls              | Int64   | | calls  | calls to the model under test, retries included | old
    executor_asked              | Int64   | | trials | trials that called it | old
    executor_reported           | Int64   | | trials | of executor_asked, those whose tokens are known | old
    executor_input_tokens       | Int64   | | tokens | summed over executor_reported | none reported
    executor_output_tokens      | Int64   | | tokens | summed over executor_reported | none reported
    executor_cache_read_tokens  | Int64   | | tokens | summed over executor_reported | none reported
    executor_cache_write_tokens | Int64   | | tokens | summed over executor_reported | none reported
    executor_cost_usd           | Float64 | | USD    | of all conditions | not known for every condition
    executor_latency_s          | Float64 | | s      | summed over the answers | none reported
    judge_calls                 | Int64   | | calls  | calls to the judge, retries included | old
    judge_asked                 | Int64   | | checks | judgements asked for | old
    judge_reported              | Int64   | | checks | of judge_asked, those whose tokens are known | old
    judge_input_tokens          | Int64   | | tokens | summed over judge_reported | no judge, or none reported
    judge_output_tokens         | Int64   | | tokens | summed over judge_reported | no judge, or none reported
    judge_cache_read_tokens     | Int64   | | tokens | summed over judge_reported | no judge, or none reported
    judge_cache_write_tokens    | Int64   | | tokens | summed over judge_reported | no judge, or none reported
    judge_cost_usd              | Float64 | | USD    | of all conditions | no judge, or not known for every condition
    judge_latency_s             | Float64 | | s      | summed over the judgements | no judge, or none reported
    cost_usd            | Float64  |                     | USD    | executor and judge together | not known for every part
    duration_s          | Float64  | durationS           | s      | wall time of the run | old
    regrade_of          | String   | regradeOf           |        | the run whose answers were graded anew | the answers are its own
    partial             | String   | partial             |        | why the run is not complete | it is complete
    resumes             | Int64    | resumes             |        | how often the run was taken up again | never; absent reads as 0
    dir                 | String   | dir                 |        | folder of the run, from the project's root | not recorded
    version             | String   | version             |        | version of the package | old
    git_commit          | String   | git.commit          |        | commit of the project | no repository, or old
    git_dirty           | Boolean  | git.dirty           |        | the work tree differed from that commit | no repository, or old
    schema              | Int64    | schema              |        | version of the record's layout | old
    """,  # noqa: E501
)

_IDENTITY = (
    *("ts", "kind", "set", "skill", "skill_hash", "set_hash", "delivery", "runner"),
    *("model", "judge_model", "n", "resolved_model", "judge_hash"),
)
_RUN_ID = RUN[0]

_CASE = _columns(
    "case",
    """
    case_id    | String | id         | | id of the case | not recorded
    difficulty | Int64  | difficulty | | 1, 2 or 3 | untagged, or old
    """,
)
_CONDITION = _columns(
    "result", "condition | String | condition | | what the model was given: baseline, skill, … | not recorded"
)

CASE = (
    _RUN_ID,
    *_CASE,
    *_CONDITION,
    *_columns(
        "result",
        """
        verdict  | Boolean | verdict  |        | majority over the measured trials | nothing measured
        passes   | Int64   | passes   | trials | trials passed, of measured | old
        measured | Int64   | measured | trials | trials with a measurement | old
        trials   | Int64   | planned  | trials | trials planned | old
        """,
    ),
)

TRIAL = (
    _RUN_ID,
    _CASE[0],
    *_CONDITION,
    *_columns(
        "trial",
        """
        trial              | Int64   | trial      |        | number of the trial, from 1 | not recorded
        outcome            | String  | outcome    |        | passed, failed, or why there is no measurement | not recorded
        reason             | String  | reason     |        | what went wrong | nothing did
        input_tokens       | Int64   | tokens.0   | tokens | not read from a cache | not reported
        output_tokens      | Int64   | tokens.1   | tokens | answer | not reported
        cache_read_tokens  | Int64   | tokens.2   | tokens | input read from a cache | not reported
        cache_write_tokens | Int64   | tokens.3   | tokens | input written to a cache | not reported
        latency_s          | Float64 | latencyS   | s      | executor's wall time, retries and pauses included | no answer, or not reported
        cost_usd           | Float64 | costUsd    | USD    | executor's call | not reported
        model              | String  | model      |        | the model that answered, by its own word | not reported
        stop_reason        | String  | stopReason |        | why the answer ended | no answer, or not reported
        reused             | Boolean | reused     |        | taken from an earlier run | never; absent reads as false
        attempt            | Int64   | attempt    |        | 1, or more after a resume | never; absent reads as 1
        """,  # noqa: E501
    ),
    _CASE[1],
)

CHECK = (
    _RUN_ID,
    _CASE[0],
    *_CONDITION,
    TRIAL[3],
    *_columns(
        "check",
        """
        check                    | Int64   |               |        | number of the check in its case, from 1 |
        kind                     | String  |               |        | kind of the check | not recorded
        passed                   | Boolean | passed        |        | the check's result | could not be decided
        evidence                 | String  | evidence      |        | what decided it | nothing to quote, or not recorded
        judge_model              | String  | judgeModel    |        | the model that judged | no judge
        judge_input_tokens       | Int64   | judgeTokens.0 | tokens | not read from a cache | no judge, or not reported
        judge_output_tokens      | Int64   | judgeTokens.1 | tokens | the verdict | no judge, or not reported
        judge_cache_read_tokens  | Int64   | judgeTokens.2 | tokens | input read from a cache | no judge, or not reported
        judge_cache_write_tokens | Int64   | judgeTokens.3 | tokens | input written to a cache | no judge, or not reported
        judge_cost_usd           | Float64 | judgeCostUsd  | USD    | the judge's call | no judge, or not reported
        judge_latency_s          | Float64 | judgeLatencyS | s      | the judge's wall time | no judge, or not reported
        quoted                   | Boolean | quoted        |        | the judge's quotation occurs in the answer | nothing was quoted, no judge, or not recorded
        """,  # noqa: E501
    ),
    TRIAL[4],
    _CASE[1],
)


def _with_identity(own: tuple[Column, ...], renamed: Iterable[str] = ()) -> tuple[Column, ...]:
    """Add the run's identity; `renamed` are the run's columns whose names mean something else here."""
    by_name = {c.name: c for c in RUN}
    return own + tuple(
        replace(by_name[name], name=f"run_{name}") if name in renamed else by_name[name] for name in _IDENTITY
    )


COLUMNS: Mapping[str, tuple[Column, ...]] = {
    "run": RUN,
    "case": _with_identity(CASE),
    "trial": _with_identity(TRIAL, {"model"}),
    "check": _with_identity(CHECK, {"model", "kind", "judge_model"}),
}


def columns_table(level: str) -> str:
    """The columns of one level as a Markdown table; raises InputError for a level that does not exist."""
    if level not in COLUMNS:
        raise InputError(Problem("level", f"there is no level {level!r}", f"use {', '.join(LEVELS)}"))
    rows = [f"| {c.name} | {c.dtype} | {c.unit} | {c.what} | {c.null} |" for c in COLUMNS[level]]
    return "\n".join(["| column | type | unit | what | null means |", "|---|---|---|---|---|", *rows])
