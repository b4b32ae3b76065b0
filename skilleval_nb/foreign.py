"""The kinds of checks of other tools that are read but never run: what each would need.

Collected from promptfoo's assertions, the graders of `claude plugin eval`, waza, vally, agentv, skillgrade and
caliper, and the scorers of Inspect and deepeval. A kind that only looks at the answer and has its counterpart
here (`is-json`, `output-matches`, …) is not among them: it is an unknown kind, which is to be rewritten.
"""

from __future__ import annotations

from collections.abc import Mapping

_NEEDS: Mapping[str, str] = {
    "needs code of another tool, which is never run here": """
        assert bash code code-grader code-judge command custom deterministic exec executable exit-success function
        inline-script javascript json-command js node program pytest python ruby run-command scaffold script shell
    """,
    "needs a service of another tool, which is never called here": """
        classifier guardrails http moderation perplexity perplexity-score pi search-rubric similar webhook
    """,
    "needs a judge in another tool's shape: write its criterion as a `judge` check": """
        agent-rubric answer-relevance baseline closedqa context-faithfulness context-recall context-relevance
        conversation-relevance factuality g-eval geval human llm llm-as-judge llm-grader llm-judge llm-rubric
        max-score model-graded-closedqa model-graded-fact model-graded-factuality model-graded-qa prompt quality
        rubric rubrics select-best
    """,
    "needs a parser or a measure that is not part of this toolkit": """
        bleu contains-html contains-sql contains-xml gleu is-html is-refusal is-sql is-valid-function-call
        is-valid-openai-function-call is-valid-openai-tools-call is-xml levenshtein meteor rouge rouge-l rouge-n
        rouge-s
    """,
    "needs a record of tool calls, time or cost, which no check here looks at": """
        action-sequence behavior cost execution-metrics finish-reason latency mock-calls skill-invocation skill-used
        tool-call-count tool-call-f1 tool-calls tool-constraint tool-input-contains tool-order
        tool-output-contains tool-trajectory tool-used tools-called trace-error-spans trace-span-count
        trace-span-duration trajectory turns-max turns-min
    """,
}
_WHY = {kind: why for why, kinds in _NEEDS.items() for kind in kinds.split()}


def foreign(kind: str) -> str | None:
    """Why a kind of another tool is not run here; None for a kind that is no such.

    `-` and `_`, a leading `not-` and what follows a colon (`similar:cosine`) make no difference.
    """
    plain = kind.lower().replace("_", "-").removeprefix("not-").split(":")[0]
    return _WHY.get(plain)
