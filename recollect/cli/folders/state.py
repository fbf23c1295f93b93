"""`recollect status`: what is planned, running and done, and the time left."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.cli.options import Folder
from recollect.cli.printing import complain_some, render, say
from recollect.errors import command_text

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
    if open_ == {"todo"} and not asked.runs:
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
