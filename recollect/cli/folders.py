"""Verbs about folders of results: status, check, merge."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.options import Folder, Plugins, as_path, load_plugins
from recollect.cli.printing import complain, complain_some, render, say
from recollect.errors import StoreError, command_text, noticing_damage

if TYPE_CHECKING:
    from recollect.reports.live.time_left import TimeLeft
    from recollect.rows import RunRow
    from recollect.store import Store

MOST_CELLS, MOST_NOTES = 60, 5  # upper limits for what `status` lists


def status(folder: Folder) -> None:
    """Show what is planned, running and done, in total, by sweep and by cell, and the time left."""
    from recollect.running.cluster.plan import is_planned

    if is_planned(folder):
        from recollect.cli.cluster.view import show_status

        show_status(folder)
        return
    from recollect.analysis import count_statuses, counts_text
    from recollect.analysis.wording import recipes_text
    from recollect.running.results import RunSet
    from recollect.store import Store
    from recollect.store.checking.runs import leave_out_wrong
    from recollect.store.joining.folders import find_stores

    stores = find_stores([folder])
    if len(stores) > 1:
        results = RunSet.load_all(stores)
        complain_some(results.conflicts)
        say(f"{len(stores)} stores: {counts_text(count_statuses(results.rows))}")
    for path in stores:
        with Store.open(path, read_only=True) as store:
            name = f"{path}: " if len(stores) > 1 else ""
            leave_out_wrong(store)
            say(f"{name}{counts_text(count_statuses(store.rows()))}")
            say(f"recipes: {recipes_text(row.recipe for row in store.rows()) or 'none'}")
            _show_progress(store)
            _say_failures(store, path)
            notes = [note for note in store.notes() if note.kind != "error"]  # errors: see above
            for note in notes[-MOST_NOTES:] if len(stores) == 1 else ():
                lines = note.text.strip().splitlines() or [""]
                say(f"note: {note.kind}: {lines[-1]}")


def _say_failures(store: "Store", folder: Path) -> None:
    from recollect.analysis import count_text

    reasons = Counter(row.failure or "unknown" for row in store.rows() if row.status == "failed")
    for reason, count in reasons.most_common(MOST_NOTES):
        say(f"failed: {count_text(count, 'run')}: {reason}")
    if reasons:
        say(f"`{command_text('failures', folder)}` shows where")


def _show_progress(store: "Store") -> None:
    """Print what is done and what is left, by sweep and by cell."""
    from recollect.analysis import group_cells
    from recollect.cli.speed_tables import state_table
    from recollect.reports.live.time_left import TimeLeft
    from recollect.running.planning.order import asked_for, search_texts

    rows = store.rows()
    cells, asked = group_cells(rows), asked_for(store, rows)
    left = TimeLeft(cells)
    _say_sweeps(store, rows, left)
    for text in search_texts(store, rows):
        say(f"  search of {text}")
    _say_drift(rows)
    if cells:
        render(state_table(cells, left, asked, MOST_CELLS))
    if len(cells) > MOST_CELLS:
        say(f"the first {MOST_CELLS} of {len(cells)} cells; `recollect report` has all of them")
    open_ = {row.status for row in rows if not row.is_finished}
    if open_ == {"todo"} and not (asked.in_full or asked.searched):
        again = command_text("resume", store.path.parent)  # which names plug-ins, if it needs some
        say(f"train the rest, if it is wanted, with `{again}`")


def _say_sweeps(store: "Store", rows: list["RunRow"], left: "TimeLeft") -> None:
    """Print a line for each of several sweeps; a run of two sweeps counts in both, and its time in
    those that need it.
    """
    from recollect.analysis import count_statuses, counts_text
    from recollect.running.planning.order import asked_for, sweeps_by_name

    sweeps = sweeps_by_name(store)
    known = {row.run_id: row for row in rows}
    for name, run_ids in sweeps.items() if len(sweeps) > 1 else ():
        own = [known[run_id] for run_id in run_ids if run_id in known]
        time = left.text(own, asked_for(store, own, name))
        say(f"  {name}: {counts_text(count_statuses(own))}{f'; left: {time}' if time else ''}")


def _say_drift(rows: list["RunRow"]) -> None:
    from recollect.analysis import count_text

    drifted = [row.drift for row in rows if row.drift]
    if drifted:
        say(
            f"drift: {count_text(len(drifted), 'run')} trained under more than one environment, "
            f"the first {', '.join(drifted[0])}"
        )


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


def merge(
    into: Annotated[
        Path,
        typer.Argument(
            parser=as_path, metavar="INTO", help="folder that takes over; made if there is none"
        ),
    ],
    others: Annotated[
        list[Path],
        typer.Argument(
            parser=as_path,
            metavar="FROM",
            help="folders of results, or folders of such folders",
        ),
    ],
) -> None:
    """Join results of several machines: copy what is missing, never overwrite.

    Weights and checkpoints stay where they are. Damaged runs are named and left out: exit code 3.
    """
    from recollect.analysis import count_text
    from recollect.store.joining.merging import merge as merge_stores

    conflicts: list[str] = []
    with noticing_damage() as damage:  # all of it is printed here
        merged = merge_stores(into, others)
    for found in merged:
        held = f", {found.held} being trained in {into}" if found.held else ""
        damaged = f", {found.damaged} damaged" if found.damaged else ""
        runs, results = count_text(found.runs, "run"), count_text(found.results, "result")
        say(
            f"{found.folder}: {runs}, {found.new} new, {results} taken over, "
            f"{found.equal} there already{held}{damaged}"
        )
        conflicts += found.conflicts
    if conflicts:
        complain_some(conflicts)
        complain(
            f"{count_text(len(conflicts), 'run')} with different results; {into} keeps its own"
        )
    if damage:
        complain_some(damage, MOST_NOTES)
        if any(line.startswith(f"{into}: ") for line in damage):
            # What it lacks cannot be planned there: the damaged rows stay in the way.
            complain(
                f"{into}: is damaged itself; join all that is intact in a new folder:\n"
                f"`{command_text('merge', 'NEW', into, *others)}`"
            )
        else:
            complain(
                "damaged runs were left out, all others are merged; to train what is lacking then, "
                f"plan it:\n`{command_text('run', 'SPEC', '--out', into)}`"
            )
    if conflicts or damage:
        raise typer.Exit(StoreError.exit_code)
