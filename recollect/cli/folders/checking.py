"""`recollect check`: whether all is as it was written."""

from pathlib import Path

import typer

from recollect.cli.options import Folder, Plugins, load_plugins
from recollect.cli.printing import complain, say
from recollect.errors import StoreError, noticing_damage


def check(folder: Folder, plugin: Plugins = []) -> None:  # noqa: B006
    """Verify everything in a folder, or in the folders inside it: ids, checksums, curves,
    checkpoints, weights.

    Nothing is changed. Exit code 0: all is as it was written; 3: something is not, one line each.
    """
    from recollect.analysis import count_text
    from recollect.store.joining.folders import find_stores

    load_plugins(plugin)
    stores = find_stores([folder])
    bad = [store for store in stores if not _is_as_written(store, len(stores) > 1)]
    if len(stores) > 1:
        damaged = f"{len(bad)} with damage" if bad else "all as they were written"
        say(f"{folder}: {count_text(len(stores), 'store')}, {damaged}")
    if bad:
        raise typer.Exit(StoreError.exit_code)


def _is_as_written(folder: Path, is_one_of_many: bool) -> bool:
    """Print what a check of one store has found; return whether all is as it was written."""
    from recollect.analysis import count_text
    from recollect.store.checking.folder import check_folder

    name = f"{folder}: " if is_one_of_many else ""
    try:
        with noticing_damage():  # all findings are printed here
            found = check_folder(folder)
    except StoreError as error:
        if not is_one_of_many:
            raise
        complain(str(error))
        return False
    for finding in found.findings:
        complain(f"{name}{finding}")
    weights = f"{count_text(found.weights, 'file')} of weights"
    say(
        f"{folder}: {count_text(found.runs, 'run')}, {count_text(found.points, 'evaluation')}, "
        f"{count_text(found.checkpoints, 'checkpoint')}, {weights}"
    )
    if found.unsummed:
        older = count_text(found.unsummed, "run")
        say(f"{name}{older} older than checksums: a changed number would not be noticed")
    if found.unread:
        say(
            f"{name}{count_text(found.unread, 'run')} of mixers that are not loaded: ids are "
            "right; to check options too, add --plugin FILE.py"
        )
    if not found.findings:
        say(f"{name}all {'else is ' if found.unsummed else ''}as it was written")
    return not found.findings
