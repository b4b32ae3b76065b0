"""Patterns compile as their dialect says, match with its semantics, and never take longer than their bound."""

from __future__ import annotations

import asyncio
import os
import pickle
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
import regress
from hypothesis import given, settings
from hypothesis import strategies as st

from skilleval_nb import pattern_worker
from skilleval_nb.errors import PatternError
from skilleval_nb.patterns import Dialect, Found, Matcher, Pattern, compile_pattern, search_now

T = TypeVar("T")
BOMB = compile_pattern(r"(a+)+$")
BOMB_TEXT = "a" * 50_000 + "!"
BEHIND = compile_pattern(r"(?<=x)!")
"""Look-around: always goes to the worker."""
posix = pytest.mark.skipif(os.name == "nt", reason="signals and /proc")
both_ways = pytest.mark.parametrize("threads", [False, True], ids=["watched", "threads"])


def spans(text: str, *sources: str, flags: str | None = None, dialect: Dialect = "js") -> list[Any]:
    return [f.span for f in search_now([compile_pattern(s, flags, dialect) for s in sources], text)]


def children() -> set[int]:
    tasks = Path("/proc/self/task")
    if not tasks.exists():
        pytest.skip("no /proc to list children from")
    while True:
        try:
            return {int(pid) for task in tasks.iterdir() for pid in (task / "children").read_text().split()}
        except OSError:  # a thread that has just ended
            continue


def in_loop(
    search: Callable[[Matcher], Coroutine[Any, Any, T]], *, limit_s: float, threads: bool = False
) -> T:
    async def run() -> T:
        async with Matcher(limit_s, threads=threads) as matcher:
            return await search(matcher)

    return asyncio.run(run())


class TestCompile:
    @pytest.mark.parametrize(
        ("source", "flags", "want"),
        [
            ("a", None, Pattern("a", "i", "js")),
            ("a", "", Pattern("a", "i", "js")),
            ("a", "m", Pattern("a", "m", "js")),
            ("a", "ydgsmiu", Pattern("a", "dgimsuy", "js")),
            ("(?i)a", "s", Pattern("a", "is", "js")),
            ("(?s)a", None, Pattern("a", "is", "js")),
            ("(?is)(?m)a", "g", Pattern("a", "gims", "js")),
            ("(?-i)a", None, Pattern("a", "", "js")),
            ("(?s-i)a", None, Pattern("a", "s", "js")),
            ("(?i:a)b", "m", Pattern("(?i:a)b", "m", "js")),
            ("", None, Pattern("", "i", "js")),
        ],
    )
    def test_flags_are_the_given_or_default_ones_and_the_leading_inline_ones(
        self, source: str, flags: str | None, want: Pattern
    ) -> None:
        assert compile_pattern(source, flags) == want

    def test_python_patterns_have_their_own_flags(self) -> None:
        assert compile_pattern("(?x) a # b", "sa", "python") == Pattern(" a # b", "asx", "python")
        assert compile_pattern("a", None, "python").flags == "i"

    @pytest.mark.parametrize(
        ("source", "flags", "dialect", "says"),
        [
            ("a", "q", "js", r"flag 'q', which JavaScript .* d, g, i, m, s, u, v, y"),
            ("a", "I", "js", "flag 'I'"),
            ("a", "ii", "js", "repeats a flag"),
            ("a", "uv", "js", "u and v together"),
            ("(?v)a", "u", "js", "u and v together"),
            ("(?x)a", None, "js", "flag 'x'"),
            ("(?-q)a", None, "js", "flag 'q'"),
            ("a", "g", "python", r"flag 'g', which Python .* a, i, m, s, u, x"),
            ("a", "au", "python", "incompatible"),
            ("(", None, "js", "not a valid JavaScript regular expression: Unbalanced parenthesis"),
            ("[b-a]", None, "js", "not a valid JavaScript"),
            ("(", None, "python", "not a valid Python regular expression: missing"),
            ("\\p", "u", "js", "not a valid JavaScript"),
            ("^(?i)a", None, "js", "inline flags stand at the very start"),
            ("a++", None, "js", 'valid in Python: the set may say "regex": "python"'),
            ("(?<n>a)", None, "python", 'valid in JavaScript: the set may say "regex": "js"'),
            ("a)(b", "y", "js", "Unbalanced parenthesis"),
            ("\ud83d", None, "js", "half of a surrogate pair"),
            ("a" * 10_001, None, "js", "10,001 characters; at most 10,000"),
            ("a|" * 1_001, None, "js", "1,001 alternatives"),
            (r"\P{L}" * 101, "u", "js", "101 Unicode classes"),
            ("(" * 2_000 + ")" * 2_000, None, "js", "too deeply nested"),
            ("(" * 4_000 + ")" * 4_000, None, "python", "not a valid Python"),
            ("a{99999999999999999999}", None, "python", "too large"),
        ],
    )
    def test_a_pattern_that_cannot_be_used_says_why(
        self, source: str, flags: str | None, dialect: Dialect, says: str
    ) -> None:
        with pytest.raises(PatternError, match=says) as error:
            compile_pattern(source, flags, dialect)
        (problem,) = error.value.problems
        assert problem.where == ""
        assert len(str(problem)) < 500

    def test_a_message_has_no_character_that_steers_a_terminal(self) -> None:
        with pytest.raises(PatternError) as error:
            compile_pattern("(\x1b[31m\n\u202e")
        assert str(error.value).isprintable()
        assert "\\x1b[31m\\n\\u202e" in str(error.value)

    def test_the_largest_patterns_compile_quickly(self) -> None:
        start = time.thread_time()
        compile_pattern("|".join(f"word{k}" for k in range(1_000)))
        compile_pattern("(?:a{2,1000}){2,1000}" * 450)
        assert time.thread_time() - start < 1.0

    def test_a_pattern_is_a_value(self) -> None:
        pattern = compile_pattern("a|b", "m")
        assert pickle.loads(pickle.dumps(pattern)) == pattern
        assert len({pattern, compile_pattern("(?m)a|b", "m")}) == 1
        assert str(pattern) == "/a|b/m"


class TestSemantics:
    @pytest.mark.parametrize(
        ("source", "flags", "text", "span"),
        [
            ("[^]", None, "\n", (0, 1)),
            ("[]", None, "a]", None),
            (r"\d", None, "٣", None),
            (r"\w", None, "é", None),
            (r"\s", None, "\ufeff", (0, 1)),
            ("a$", None, "a\n", None),
            ("a$", "m", "a\n", (0, 1)),
            (".", None, "\u2028", None),
            (".", "s", "\n", (0, 1)),
            (r"\u{1F600}", "u", "x😀", (1, 2)),
            (r"\u0041", "m", "A", (0, 1)),
            (r"(?<n>a)\k<n>", None, "baa", (1, 3)),
            (r"(?<=a+)b", None, "aab", (2, 3)),
            (r"(?<!\$)\b9", None, "$9 9", (3, 4)),
            (r"[[a-z]--[aeiou]]", "v", "ab", (1, 2)),
            (r"\p{Lu}", "u", "aÉ", (1, 2)),
            (r"\q", None, "q", (0, 1)),
            ("A", None, "a", (0, 1)),
            ("A", "g", "a", None),
            ("b", "y", "ab", None),
            ("a|b", "y", "ab", (0, 1)),
            ("^b", "ym", "a\nb", None),
            ("", None, "", (0, 0)),
            ("b", None, "a\x00b", (2, 3)),
            ("😀", None, "é😀", (1, 2)),
            ("(?i:a)b", "m", "Ab", (0, 2)),
        ],
    )
    def test_javascript(
        self, source: str, flags: str | None, text: str, span: tuple[int, int] | None
    ) -> None:
        assert spans(text, source, flags=flags) == [span]

    @pytest.mark.parametrize(
        ("source", "flags", "text", "span"),
        [
            (r"\d", None, "٣", (0, 1)),
            (r"\d", "a", "٣", None),
            ("a$", None, "a\n", (0, 1)),
            (r"(?P<n>a)(?P=n)", None, "baa", (1, 3)),
            (r"(?>a+)b", None, "aab", (0, 3)),
            (r"(?s-i)A.b", None, "a\nbA\nb", (3, 6)),
            ("a b # c", "x", "ab", (0, 2)),
            ("[[a]", None, "[", (0, 1)),
            ("b", None, "😀\ud800b", (2, 3)),
        ],
    )
    def test_python(self, source: str, flags: str | None, text: str, span: tuple[int, int] | None) -> None:
        assert spans(text, source, flags=flags, dialect="python") == [span]

    def test_half_a_surrogate_pair_in_the_text_is_one_unknown_character(self) -> None:
        assert spans("é\ud800\udfffb", "b", "(?=b)b", "\ufffd", r"\?") == [(3, 4), (3, 4), (1, 2), None]

    @given(text=st.text(st.characters()), needle=st.text(st.characters(exclude_categories=["Cs"])))
    def test_a_literal_is_where_str_find_finds_it(self, text: str, needle: str) -> None:
        source = re.sub(r"[\\^$.*+?()\[\]{}|/]", r"\\\g<0>", needle)
        at = text.find(needle) if needle else 0
        if "\ufffd" not in needle:
            assert spans(text, source, flags="m") == [None if at < 0 else (at, at + len(needle))]
        assert spans(text, re.escape(needle), flags="m", dialect="python") == [
            None if at < 0 else (at, at + len(needle))
        ]

    @settings(max_examples=25)
    @given(
        st.lists(
            st.tuples(
                st.text("ab(?:|)*+.[]^$\\dé", min_size=1, max_size=8), st.text("ab1é\n 😀", max_size=12)
            ),
            max_size=20,
        )
    )
    def test_the_worker_answers_as_the_engine_does_here(self, drawn: list[tuple[str, str]]) -> None:
        pairs, want = [], []
        for source, text in drawn:
            try:
                pairs.append((compile_pattern(f"(?=[^]|$)(?:{source})", "m"), text))
            except PatternError:
                continue
            match = regress.Regex(f"(?:{source})", "m").find(text)
            data = text.encode()
            want.append(
                match and tuple(len(data[:k].decode()) for k in (match.range().start, match.range().stop))
            )
        found = in_loop(lambda matcher: matcher.search_each(pairs), limit_s=5.0)
        assert [f.span for f in found] == want

    @both_ways
    def test_a_text_of_several_megabytes(self, *, threads: bool) -> None:
        text = "é" * 3_000_000 + "needle"
        patterns = [compile_pattern("needle"), compile_pattern("(?:need)+le"), BEHIND]
        found = in_loop(lambda matcher: matcher.search(patterns, text), limit_s=10.0, threads=threads)
        assert found == [Found((3_000_000, 3_000_006)), Found((3_000_000, 3_000_006)), Found()]


class TestBound:
    def test_a_bomb_ends_by_its_limit_and_the_loop_runs_on(self) -> None:
        async def search(matcher: Matcher) -> tuple[list[Found], float, float]:
            gaps = [0.0]

            async def tick() -> None:
                last = time.perf_counter()
                while True:
                    await asyncio.sleep(0.005)
                    now = time.perf_counter()
                    gaps.append(now - last)
                    last = now

            await matcher.search([BEHIND], "x!")
            ticking = asyncio.create_task(tick())
            start = time.perf_counter()
            patterns = [BEHIND, BOMB, compile_pattern("(?=!)!"), compile_pattern("!")]
            found = await matcher.search(patterns, BOMB_TEXT)
            took = time.perf_counter() - start
            ticking.cancel()
            return found, took, max(gaps)

        found, took, gap = in_loop(search, limit_s=1.0)
        assert found == [Found(), Found(ran_over=True), Found((50_000, 50_001)), Found((50_000, 50_001))]
        assert 1.0 <= took < 3.0
        assert gap < 0.2

    @both_ways
    @pytest.mark.parametrize(
        ("source", "dialect", "text"),
        [
            (r"\s+$", "js", " " * 300_000 + "x"),
            (r"\s+$", "python", " " * 300_000 + "x"),
            (r"^(a|a)*$", "js", BOMB_TEXT),
            (r"(x+x+)+y", "python", "x" * 50_000),
            (r"(?=(a+)+$)a", "js", BOMB_TEXT),
        ],
    )
    def test_what_runs_over_is_reported_and_loses_only_itself(
        self, source: str, dialect: Dialect, text: str, *, threads: bool
    ) -> None:
        patterns = [compile_pattern(source, None, dialect), BEHIND]
        found = in_loop(lambda matcher: matcher.search(patterns, text + "x!"), limit_s=0.3, threads=threads)
        assert found == [Found(ran_over=True), Found((len(text) + 1, len(text) + 2))]

    @pytest.mark.parametrize(
        "source",
        [
            "needle",
            "a*b",
            "a*a*b",
            "(?:a|aa)+b",
            "(?:a*)*b",
            "a*?a*?a*?b",
            r"a{0,40}a{0,40}b",
            r"a{20,}b",
            "(a|a|a)(a|a|a)(a|a|a)(a|a|a)(a|a|a)(a|a|a)b",
            "a?" * 20 + "a" * 20 + "b",
            "(?:a?)" * 20 + "b",
            r"[)](?:a+)+b",
            r"[]a]*[]a]*b",
            r"[](a+)+b]",
            r"[^](a+)+b]",
            r"[a[b](?:a+)+[b]",
            r"\[(a+)+b\]",
            r"\\(a+)+b",
            r"(a*)\1b",
            r"(?<n>a*)\k<n>b",
            "(?=a*b)a",
            "(?!a*b)b",
            r"\B\B\b!",
            r"(\W|\w)?\b!",
            "|".join("a" * k + "b" for k in range(1, 40)),
            "[aé]*[^x]*b",
            r"(?:a|\w|[a-z]){0,60}b",
        ],
    )
    def test_nothing_slow_runs_in_the_loops_thread(self, source: str) -> None:
        """Over lengths on both sides of any border between here and the worker."""

        async def search(matcher: Matcher) -> list[float]:
            pattern, held = compile_pattern(source), []
            for length in (10, 30, 100, 400, 2_000, 10_000, 49_999):
                for unit in ("a", "é"):
                    start = time.thread_time()
                    (found,) = await matcher.search([pattern], unit * length)
                    held.append(time.thread_time() - start)
                    if found.ran_over:
                        return held
            return held

        assert max(in_loop(search, limit_s=0.1)) < 0.020

    def test_many_cheap_patterns_do_not_add_up_in_the_loops_thread(self) -> None:
        text = "é" * 49_000
        patterns = [compile_pattern(rf"\B\Bx{k}") for k in range(100)]

        async def search(matcher: Matcher) -> float:
            await matcher.search([BEHIND], "x!")
            start = time.thread_time()
            assert set(await matcher.search(patterns, text)) == {Found()}
            return time.thread_time() - start

        assert in_loop(search, limit_s=5.0) < 0.1

    @posix
    def test_cheap_patterns_start_no_process(self) -> None:
        async def search(matcher: Matcher) -> None:
            sources = ("needle", r"\bfox\b", "fox|dog|apolog(?:y|ise)", r"^\s*[-*] ", "not.{0,5}now")
            await matcher.search([compile_pattern(s) for s in sources], "The quick brown fox. " * 5)
            assert children() == before

        before = children()
        in_loop(search, limit_s=1.0)

    @both_ways
    def test_an_answer_counts_however_late_the_loop_comes_to_it(self, *, threads: bool) -> None:
        async def search(matcher: Matcher) -> list[Found]:
            await matcher.search([BEHIND], "x!")
            searching = asyncio.create_task(matcher.search([BEHIND], "x!"))
            await asyncio.sleep(0)
            time.sleep(0.3)  # a cell that holds the loop
            return await searching

        assert in_loop(search, limit_s=0.2, threads=threads) == [Found((1, 2))]

    def test_a_pattern_that_needs_too_much_memory_is_an_error(self) -> None:
        pytest.importorskip("resource")
        greedy = compile_pattern(r"(?:a|b|(c))*d")
        found = in_loop(lambda matcher: matcher.search([greedy, BEHIND], "abc" * 3_000_000), limit_s=30.0)
        assert found[0].error
        assert "memory" in found[0].error
        assert found[0].span is None
        assert found[1] == Found()

    @posix
    def test_a_worker_that_nobody_watches_ends_itself(self) -> None:
        folder = str(Path(regress.__file__).parent.parent)
        command = [sys.executable, "-I", "-S", pattern_worker.__file__, folder, "0.05"]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
            assert worker.stdin
            worker.stdin.write(pattern_worker.frame([(BOMB_TEXT, BOMB.source, BOMB.flags, BOMB.dialect)]))
            worker.stdin.flush()
            assert worker.wait(timeout=10) == -signal.SIGALRM


class TestMatcher:
    @both_ways
    def test_many_callers_each_get_their_own_answers(self, *, threads: bool) -> None:
        async def caller(matcher: Matcher, k: int) -> list[Found]:
            text = "-" * k + "é😀x!" + "y" * (1_000_000 if k % 10 == 0 else 0)
            patterns = [BEHIND, compile_pattern(f"(?=x)x!{'z' * (k % 2)}"), compile_pattern("😀")]
            return await matcher.search(patterns, text)

        async def search(matcher: Matcher) -> list[list[Found]]:
            bombs = [asyncio.create_task(matcher.search([BOMB], BOMB_TEXT)) for _ in range(2)]
            found = await asyncio.gather(*(caller(matcher, k) for k in range(40)))
            assert [await bomb for bomb in bombs] == [[Found(ran_over=True)]] * 2
            return found

        assert in_loop(search, limit_s=0.4, threads=threads) == [
            [Found((k + 3, k + 4)), Found(None if k % 2 else (k + 2, k + 4)), Found((k + 1, k + 2))]
            for k in range(40)
        ]

    @both_ways
    @pytest.mark.parametrize("text", [BOMB_TEXT, BOMB_TEXT * 100], ids=["reading", "writing"])
    def test_a_cancelled_search_leaves_the_matcher_usable(self, text: str, *, threads: bool) -> None:
        async def search(matcher: Matcher) -> None:
            cancelled = asyncio.create_task(matcher.search([BOMB, BEHIND], text))
            await asyncio.sleep(0)
            other = asyncio.create_task(matcher.search([BEHIND, BEHIND], "-x!"))
            await asyncio.sleep(0.1)
            cancelled.cancel()
            start = time.perf_counter()
            assert await other == [Found((2, 3))] * 2
            assert await matcher.search([BEHIND], "x!") == [Found((1, 2))]
            assert time.perf_counter() - start < 5
            with pytest.raises(asyncio.CancelledError):
                await cancelled

        in_loop(search, limit_s=10.0, threads=threads)

    @posix
    def test_a_worker_that_died_idle_is_replaced(self) -> None:
        async def search(matcher: Matcher) -> None:
            before = children()
            for _ in range(2):
                assert await matcher.search([BEHIND], "x!") == [Found((1, 2))]
                (worker,) = children() - before
                os.kill(worker, signal.SIGKILL)

            assert await matcher.search([BEHIND], "x!") == [Found((1, 2))]

        in_loop(search, limit_s=1.0)

    @posix
    @both_ways
    def test_no_process_is_left_after_aclose(self, *, threads: bool) -> None:
        async def run() -> None:
            matcher = Matcher(threads=threads)
            assert await matcher.search([BEHIND], "x!") == [Found((1, 2))]
            assert len(children() - before) == 1
            await matcher.aclose()
            assert children() == before
            await matcher.aclose()
            assert await matcher.search([compile_pattern("!")], "x!") == [Found((1, 2))]
            (found,) = await matcher.search([BEHIND], "x!")
            assert found.error
            assert "closed" in found.error
            assert children() == before

        before = children()
        asyncio.run(run())

    @posix
    @both_ways
    def test_aclose_ends_a_search_that_is_under_way(self, *, threads: bool) -> None:
        async def run() -> None:
            matcher = Matcher(30.0, threads=threads)
            searches = [asyncio.create_task(matcher.search([BOMB], BOMB_TEXT)) for _ in range(3)]
            await asyncio.sleep(0.2)
            start = time.perf_counter()
            await matcher.aclose()
            assert children() == before
            assert all(found.error and not found.ran_over for (found,) in await asyncio.gather(*searches))
            assert time.perf_counter() - start < 5

        before = children()
        asyncio.run(run())

    def test_a_worker_that_cannot_start_is_an_error_of_the_search(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sys, "executable", str(Path(__file__).with_name("no-such-python")))
        assert spans("x!", "!") == [(1, 2)]
        (found,) = search_now([BEHIND], "x!")
        assert found.error
        assert "cannot start" in found.error

    @posix
    def test_search_now_works_with_and_without_a_running_loop(self) -> None:
        async def inside() -> list[Found]:
            return search_now([BOMB, BEHIND, compile_pattern("a")], "x!" + "a" * 60 + "?", limit_s=0.2)

        before = children()
        want = [Found(ran_over=True), Found((1, 2)), Found((2, 3))]
        assert asyncio.run(inside()) == want
        assert search_now([BEHIND], "x!") == [Found((1, 2))]
        assert search_now([], "x!") == []
        assert children() == before
