"""JupyterLab on the loopback for the browser tests: every file that it keeps lies in a folder of the test's."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_S = 60.0


@dataclass(frozen=True)
class Lab:
    """A running server: its address, its token, and how to set the theme that it starts with."""

    url: str
    token: str
    settings: Path

    def theme(self, name: str) -> None:
        """`Light` or `Dark`, from the next page load on."""
        _write(self.settings, "apputils-extension/themes", {"theme": f"JupyterLab {name}"})

    def page(self, notebook: str) -> str:
        """The address that opens a notebook with a fresh workspace."""
        return f"{self.url}/lab/tree/{notebook}?token={self.token}&reset"


def _write(folder: Path, name: str, content: dict[str, Any]) -> None:
    path = folder / "@jupyterlab" / f"{name}.jupyterlab-settings"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content), encoding="utf-8")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serve(root: Path, home: Path) -> Iterator[Lab]:
    """JupyterLab over the files in `root`, its own in `home`; ends with its kernels when the block does."""
    settings = home / "settings"
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    _write(settings, "apputils-extension/notification", quiet)
    _write(settings, "notebook-extension/tracker", {"windowingMode": "none"})  # every cell is in the page
    places = {
        "JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython", "JUPYTERLAB_SETTINGS_DIR": "settings", "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }  # fmt: skip
    environment = os.environ | {name: str(home / place) for name, place in places.items()}
    lab = Lab(f"http://127.0.0.1:{(port := _free_port())}", secrets.token_hex(8), settings)
    command = [
        sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--ServerApp.ip=127.0.0.1",
        f"--ServerApp.port={port}", "--ServerApp.port_retries=0", f"--IdentityProvider.token={lab.token}",
        f"--ServerApp.root_dir={root}", "--LabApp.extension_manager=readonly",
        "--LanguageServerManager.autodetect=False", "--ServerApp.terminals_enabled=False",
    ]  # fmt: skip
    home.mkdir(parents=True, exist_ok=True)
    with (home / "log").open("w+", encoding="utf-8") as log:
        process = subprocess.Popen(
            command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True
        )
        try:
            _wait(process, f"{lab.url}/api/status?token={lab.token}", home / "log")
            yield lab
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        if process.poll() is not None:
            raise RuntimeError(log.read_text(encoding="utf-8"))
        with contextlib.suppress(urllib.error.URLError, OSError), urllib.request.urlopen(address, timeout=2):
            return
        time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not answer in {START_S} s:\n{log.read_text(encoding='utf-8')}")
