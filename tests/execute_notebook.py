"""Execute a notebook in a kernel of its own, then some of its cells again, perhaps edited:

    python execute_notebook.py NOTEBOOK.ipynb AGAIN.json

AGAIN.json is a list of [number of a cell, its new text or null]. What the cells gave is printed as
JSON: a list of the outputs of each cell, those that came again last. The current folder is the
kernel's, and where its sockets are: no port of the machine is taken.
"""

import copy
import json
import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient


def main(path: str, again: str) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=None,
        startup_timeout=900,
        resources={"metadata": {"path": str(Path.cwd())}},
    )
    manager = client.create_kernel_manager()
    manager.transport, manager.ip = "ipc", "kernel"
    cells = list(notebook.cells)
    for number, text in json.loads(Path(again).read_text()):
        cell = copy.deepcopy(notebook.cells[number])
        cell.source = cell.source if text is None else text
        cells.append(cell)
    notebook.cells.extend(cells[len(notebook.cells) :])
    with client.setup_kernel():
        for number, cell in enumerate(cells):
            client.execute_cell(cell, number)
    print(json.dumps([cell.get("outputs", []) for cell in cells]))


if __name__ == "__main__":
    main(*sys.argv[1:])
