"""The stores of a folder: its own, or those of all folders in it."""

import os
from collections.abc import Iterable
from pathlib import Path

from recollect.store.database import FILE


def find_stores(folders: Iterable[Path | str]) -> list[Path]:
    """The folders with a store: each one given, or, where it has none of its own, those below it in
    the order of their names. One that has neither stays, to be refused by whoever opens it.
    """
    found: dict[Path, None] = {}
    for folder in map(Path, folders):
        for store in _stores_of(folder) or [folder]:
            found[store] = None
    return list(found)


def _stores_of(folder: Path) -> list[Path]:
    if (folder / FILE).is_file():
        return [folder]
    below = []
    for parent, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if FILE in files:
            below.append(Path(parent))
            names.clear()  # what lies inside a store's folder is part of it
    return below
