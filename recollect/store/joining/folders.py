"""The stores of a folder: its own store, or those of all folders inside it."""

import os
from collections.abc import Iterable
from pathlib import Path

from recollect.errors import SpecError, command_text
from recollect.store.database import FILE

MOST_NAMED = 2  # folders in a refusal


def find_stores(folders: Iterable[Path | str]) -> list[Path]:
    """Folders that contain a store.

    A given folder without a store of its own is replaced by the folders below it that have one, in
    the order of their names. If there are none, it stays in the list, and opening it raises the
    error.
    """
    found: dict[Path, None] = {}
    for folder in map(Path, folders):
        for store in _stores_of(folder) or [folder]:
            found[store] = None
    return list(found)


def require_own_store(folder: Path, verb: str, *rest: str) -> None:
    """Refuse a folder without a store of its own if there are some below it; `verb` needs one.

    `rest` is what the command has after the folder.
    """
    if (folder / FILE).is_file() or not (below := _stores_of(folder)):
        return
    commands = [f"`{command_text(verb, store, *rest)}`" for store in below[:MOST_NAMED]]
    if len(below) > MOST_NAMED:
        commands[-1] += f" (`{command_text('status', folder)}` lists all {len(below)})"
    raise SpecError(
        "\n".join(
            [f"{folder}: no results of its own, but folders in it have; name one:", *commands]
        )
    )


def _stores_of(folder: Path) -> list[Path]:
    if (folder / FILE).is_file():
        return [folder]
    below = []
    for parent, names, files in os.walk(folder):
        names[:] = sorted(name for name in names if not name.startswith("."))
        if FILE in files:
            below.append(Path(parent))
            names.clear()  # subfolders of a store's folder belong to that store
    return below
