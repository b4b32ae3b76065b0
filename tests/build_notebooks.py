"""Runs the shipped notebooks and writes them back as they are committed: `python tests/build_notebooks.py [name …]`.

A committed notebook holds its outputs and nothing of the machine that made them: no widget state, no time of
execution, no path of a folder that was there for one run.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).parents[1] / "notebooks"
WIDGET = "application/vnd.jupyter.widget-view+json"
TEMPORARY = re.compile(re.escape(tempfile.gettempdir()) + r"/[\w.-]+")


def build(path: Path) -> None:
    """Executes one notebook in its own folder and writes it back."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        record_timing=False,
    )
    client.execute()
    clean(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def clean(notebook: Any) -> None:
    """Takes out what differs between machines and what shows as an error without a live kernel."""
    notebook.metadata = {
        "kernelspec": {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    for number, cell in enumerate(notebook.cells, 1):
        cell.id = f"cell-{number:02}"
        cell.metadata = {name: value for name, value in cell.metadata.items() if name == "tags"}
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            data.pop(WIDGET, None)
            for kind in ("text/plain", "text/html"):
                if kind in data:
                    data[kind] = TEMPORARY.sub("…", data[kind])
            if "text" in output:
                output["text"] = TEMPORARY.sub("…", output["text"])


if __name__ == "__main__":
    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        if len(sys.argv) == 1 or path.stem in sys.argv[1:]:
            build(path)
            print(path.name)
