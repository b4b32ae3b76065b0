"""What the user's own git says of a folder."""

from __future__ import annotations

import subprocess
from pathlib import Path

TIMEOUT_S = 5


def git_output(folder: Path, *arguments: str) -> bytes:
    """What git prints for these arguments in this folder; raises OSError or subprocess.SubprocessError."""
    done = subprocess.run(
        ["git", "-C", str(folder), *arguments],  # noqa: S607 - the user's own git
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    return done.stdout
