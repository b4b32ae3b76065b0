"""The `claude` command-line tool as a runner: one model answer per child process, with no tools.

The skill is appended to the tool's own system prompt, and the baseline appends one space: any append, even
that, changes how the tool introduces itself to the model, so both conditions get the same introduction. The
tool's results therefore compare with each other, not with those of the bare API. Prompts go in by standard
input, answers come out as JSON, which `claude_output` reads. Checked on versions 2.1.197 and 2.1.332.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from . import children, models
from .claude_output import plain_line, read_answer
from .errors import Problem, RunnerFailure, RunnerUnavailable
from .runners import Runner
from .values import Answer, Request

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
"""Credentials; with any of them the user's login is not needed."""
PASSED_ON = frozenset(
    (
        *KEYS,
        *("ANTHROPIC_BASE_URL", "ANTHROPIC_CUSTOM_HEADERS"),
        *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_ALL", "LC_CTYPE", "TERM", "TZ"),
        *("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"),
        *("NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR"),
        *("SYSTEMROOT", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "USERNAME"),
        *("HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES"),
        *("CLAUDE_CODE_GIT_BASH_PATH",),
    )
)
"""All that a child sees of the user's environment, by name in capitals."""
OTHER_CLOUDS = ("CLAUDE_CODE_USE_BEDROCK", "CLAUDE_CODE_USE_VERTEX", "CLAUDE_CODE_USE_FOUNDRY")
SWITCHES: Mapping[str, str] = {
    # the model's own address is then the only one that is called, and nothing is asked on the side
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "CLAUDE_CODE_DISABLE_BUNDLED_SKILLS": "1",
    "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
    "CLAUDE_CODE_DISABLE_CLAUDE_MDS": "1",
    # else `@/some/path` in a prompt, or in an answer that is graded, opens that file of the user's
    "CLAUDE_CODE_DISABLE_ATTACHMENTS": "1",
    # the tool's own ten retries take minutes, even where the key is wrong
    "CLAUDE_CODE_MAX_RETRIES": "2",
}
COMMON = ("--no-session-persistence", "--strict-mcp-config", "--tools", "")
MAX_TURNS = 3
"""Without tools an answer is one turn; the bound ends a model that keeps calling tools it was not given."""


def create(argument: str | None = None) -> Runner:
    """The runner for the `claude` on PATH, or for the tool at the path `argument`.

    Raises RunnerUnavailable where there is none or it does not start.
    """
    path = shutil.which(argument or "claude")
    if path is None:
        raise RunnerUnavailable(
            Problem(
                "",
                f"{argument!r} is no program" if argument else "there is no claude CLI on PATH",
                "install Claude Code and run `claude` once to log in, or choose another runner, such as local",
            )
        )
    return ClaudeRunner(path)


class ClaudeRunner(Runner):
    """Runs the tool at `path`; reads the environment and the tool's version when it is made.

    With a key in the environment the tool gets an empty configuration folder; without one it uses the
    user's own login, and the flags keep the user's skills, settings and memory out.
    """

    name = "claude"
    delivery = "inject"
    baseline_system = " "
    reports_cost = True
    default_max_tokens = 128_000
    """No limit is sent: this is the largest that the tool sets for any model."""

    def __init__(self, path: str) -> None:
        self._path = str(Path(path).absolute())
        inherited = {name: value for name, value in os.environ.items() if value and name.upper() in PASSED_ON}
        self._env: dict[str, str] = {**inherited, **SWITCHES}
        self._key = next((name for name in KEYS if self._env.get(name)), None)
        if self._key is None and (folder := os.environ.get("CLAUDE_CONFIG_DIR")):
            self._env["CLAUDE_CONFIG_DIR"] = folder
        self.secrets = _secrets(self._env)
        self._other_cloud = next((name for name in OTHER_CLOUDS if os.environ.get(name)), None)
        self._folder: Path | None = None
        self._remove: weakref.finalize[..., Any] | None = None
        self.version = self._read_version()

    def _read_version(self) -> str:
        try:
            done = subprocess.run(
                [self._path, "--version"],
                env=self._env,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=60,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = Problem(self._path, f"this claude CLI does not start: {error}")
            raise RunnerUnavailable(problem) from None
        found = re.search(r"\d+\.\d+\.\d+\S*", done.stdout.decode("utf-8", "replace"))
        if done.returncode or not found:
            words = plain_line(done.stderr or done.stdout, self.secrets) or f"exit status {done.returncode}"
            raise RunnerUnavailable(Problem(self._path, f"this is no claude CLI: `--version` says {words}"))
        return f"claude {found[0]}"

    def resolve_model(self, model: str) -> str:
        """The id behind `haiku`, `sonnet` or `opus`; anything else as it is."""
        return models.resolve(model)

    def about(self) -> tuple[str, ...]:
        """Which tool this is, who pays, and what to know before comparing its numbers."""
        login = f"the key in {self._key}" if self._key else "the CLI's own login"
        lines = [
            f"{self.version} at {self._path}, with {login}",
            "the CLI puts its own system prompt before the skill, in both conditions:"
            " compare its results only with each other",
            "the CLI sets the length limit of an answer itself: max_tokens is not sent",
        ]
        if self._other_cloud:
            lines.append(f"{self._other_cloud} is set but not passed on: only Anthropic's API is called")
        return tuple(lines)

    async def answer(self, request: Request) -> Answer:
        """One run of the CLI, which retries twice by itself.

        A refusal, and an answer cut at the CLI's limit, come back as answers with that stop reason. Raises
        RunnerFailure for all else, with the answer's usage where there is one.
        """
        if not request.prompt.strip():
            raise RunnerFailure("the prompt is blank, which the claude CLI does not take")
        # A slash at the start would be a command of the tool's own; a line before it changes nothing else.
        prompt = f"\n{request.prompt}" if request.prompt.startswith("/") else request.prompt
        try:
            argv = self._argv(request)
            folder = self._place()
            done = await children.run_child(
                argv,
                stdin=prompt.encode("utf-8", "replace"),
                env=self._child_env(folder),
                cwd=folder / "work",
                owner=self,
            )
        except OSError as error:
            reason = plain_line(
                f"the claude CLI could not be started: {error.strerror or error}", self.secrets
            )
            raise RunnerFailure(reason) from None
        if done.overflow:
            raise RunnerFailure(f"the claude CLI printed more than {children.STDOUT_BYTES >> 20} MiB")
        return read_answer(done.stdout, done.stderr, done.status, latency_s=done.wall_s, secrets=self.secrets)

    def _argv(self, request: Request) -> list[str]:
        argv = [self._path, "-p", *COMMON, "--model", models.resolve(request.model)]
        if request.role == "judge" or request.schema is not None:
            argv += ["--output-format", "json", "--setting-sources", ""]
            argv += ["--system-prompt-file", self._file(request.system or "")]
            if request.schema is not None:
                argv += ["--json-schema", json.dumps(request.schema)]
            return argv
        argv += ["--output-format", "stream-json", "--verbose", "--setting-sources", "project"]
        argv += ["--max-turns", str(MAX_TURNS)]
        if request.system:
            argv += ["--append-system-prompt-file", self._file(request.system)]
        return argv

    def _child_env(self, folder: Path) -> dict[str, str]:
        env = self._env | {"CLAUDE_CODE_TMPDIR": str(folder / "tmp")}
        return env | {"CLAUDE_CONFIG_DIR": str(folder / "config")} if self._key else env

    def _place(self) -> Path:
        """The runner's own folder, made at the first call: an empty repository to work in, and more."""
        if self._folder is None or not self._folder.is_dir():
            self._folder = Path(tempfile.mkdtemp(prefix="skilleval-claude-"))
            self._remove = weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            # The tool looks for skills and memory up to the root of the repository: let it be this one.
            for part in ("work/.git/objects", "work/.git/refs", "config", "tmp", "texts"):
                (self._folder / part).mkdir(parents=True)
            (self._folder / "work/.git/HEAD").write_text("ref: refs/heads/main\n")
        return self._folder

    def _file(self, text: str) -> str:
        """The path of a file that holds `text`, written once."""
        content = text.encode("utf-8", "replace")
        path = self._place() / "texts" / f"{hashlib.sha256(content).hexdigest()[:16]}.md"
        if not path.exists():
            path.write_bytes(content)
        return str(path)

    async def aclose(self) -> None:
        """Ends the children that still run and removes the folder; a later call makes a new one."""
        children.end_all(self)
        if self._remove is not None:
            self._remove()
        self._folder = self._remove = None


def _secrets(env: Mapping[str, str]) -> tuple[str, ...]:
    """What must not be shown: keys, the values of extra headers, and passwords in addresses."""
    found = {env.get(name, "") for name in KEYS}
    headers = env.get("ANTHROPIC_CUSTOM_HEADERS", "").splitlines()
    found |= {line.partition(":")[2].strip() for line in headers}
    for name, value in env.items():
        if name.upper().endswith(("_PROXY", "_URL")):
            try:
                found.add(urlsplit(value).password or "")
            except ValueError:
                found.add(value)
    return tuple(sorted((value for value in found if len(value) >= 4), key=len, reverse=True))
