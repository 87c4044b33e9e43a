"""Runs a notebook from its first cell to its last, and fails as they do.

    python run_notebook.py NOTEBOOK            # checks that it still runs
    python run_notebook.py NOTEBOOK --store    # and stores what came of it
"""

import pathlib
import sys
import time

import nbformat
from nbclient import NotebookClient


def main(file, store):
    begun = time.monotonic()
    book = nbformat.read(file, as_version=4)
    client = NotebookClient(book, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(file.parent)}})
    client.execute()
    if store:
        for cell in book.cells:
            # When a cell was run is no part of what it shows.
            cell.metadata.pop("execution", None)
        book.metadata.language_info = {"name": "python"}
        nbformat.write(book, file)
    print(f"{file.name}: {len(book.cells)} cells in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), "--store" in sys.argv[2:])
