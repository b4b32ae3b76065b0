"""A stand-in for the `claude` CLI that tests put on PATH: a real child process, and no model.

`install(folder)` writes it to `folder/claude`. Each call is noted in `folder/calls/` (arguments, environment,
standard input, the texts of the files it was given), and answered as `folder/play.json` says: `stdout`,
`stderr` and `status` as they are; `hang` to wait for ever, `deaf` to ignore SIGTERM meanwhile, `brood` to
leave a process of its own in its group and one outside it. Without a play it says "echo: " and the prompt.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time

TYPE_CHECKING = False  # as in `typing`, without its import
if TYPE_CHECKING:
    from pathlib import Path
    from typing import Any

VERSION = "9.8.7"
MODEL_USAGE = {
    "inputTokens": 5,
    "outputTokens": 3,
    "cacheReadInputTokens": 20,
    "cacheCreationInputTokens": 1,
    "costUSD": 0.25,
    "costBasis": "list",
}


def install(folder: Path, **play: Any) -> Path:
    """Makes `folder/claude`, run by this Python, and returns its path."""
    from pathlib import Path

    (folder / "calls").mkdir(parents=True, exist_ok=True)
    program = folder / "claude"
    program.write_text(f"#!{sys.executable} -IS\n{Path(__file__).read_text()}")
    program.chmod(0o755)
    if play:
        (folder / "play.json").write_text(json.dumps(play))
    return program


def calls(folder: Path) -> list[dict[str, Any]]:
    """What the fake was asked, in the order of the calls' ends."""
    notes = sorted((folder / "calls").glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    return [json.loads(path.read_text()) for path in notes]


def option(argv: list[str], name: str) -> str | None:
    return argv[argv.index(name) + 1] if name in argv else None


def note(folder: str, argv: list[str]) -> str:
    prompt = sys.stdin.buffer.read().decode()
    given = {}
    for name in ("--append-system-prompt-file", "--system-prompt-file"):
        if path := option(argv, name):
            with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
                given[name] = file.read()
    seen = {
        "argv": argv,
        "env": dict(os.environ),
        "stdin": prompt,
        "texts": given,
        "cwd": os.getcwd(),  # noqa: PTH109
        "listing": sorted(os.listdir(".")),  # noqa: PTH208
        "session": os.getsid(0) == os.getpid(),
    }
    path = f"{folder}/calls/{os.getpid()}"
    with open(f"{path}.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump(seen, file)
    os.replace(f"{path}.part", f"{path}.json")  # noqa: PTH105
    return prompt


def brood(folder: str) -> None:
    """Leaves two sleeping processes: one in this group, one in a session of its own."""
    pids = []
    for apart in (False, True):
        pid = os.fork()
        if pid == 0:
            if apart:
                os.setsid()
            else:
                signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
            os._exit(0)
        pids.append(pid)
    with open(f"{folder}/brood.part", "w", encoding="utf-8") as file:  # noqa: PTH123
        json.dump([os.getpid(), *pids], file)
    os.replace(f"{folder}/brood.part", f"{folder}/brood.json")  # noqa: PTH105


def reply(argv: list[str], prompt: str) -> str:
    result: dict[str, Any] = {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "stop_reason": "end_turn",
    }
    result |= {"result": f"echo: {prompt}", "total_cost_usd": 0.25}
    result["modelUsage"] = {option(argv, "--model") or "default": MODEL_USAGE}
    if "--json-schema" in argv:
        result["structured_output"] = {"pass": True}
    if option(argv, "--output-format") == "json":
        return json.dumps(result)
    said = {"model": option(argv, "--model"), "content": [{"type": "text", "text": f"echo: {prompt}"}]}
    event = {"type": "assistant", "message": said, "parent_tool_use_id": None}
    return "\n".join(map(json.dumps, (event, result)))


def main(folder: str, argv: list[str]) -> int:
    if argv == ["--version"]:
        print(f"{VERSION} (Claude Code)")
        return 0
    prompt = note(folder, argv)
    try:
        with open(f"{folder}/play.json", encoding="utf-8") as file:  # noqa: PTH123
            play = json.load(file)
    except FileNotFoundError:
        play = {}
    if play.get("deaf"):
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if play.get("brood"):
        brood(folder)
    while play.get("hang"):
        time.sleep(1)
    sys.stderr.write(play.get("stderr", ""))
    sys.stdout.write(play["stdout"] if "stdout" in play else reply(argv, prompt))
    return int(play.get("status", 0))


if __name__ == "__main__":
    sys.exit(main(os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]))  # noqa: PTH100, PTH120
