"""Verbs about folders of results: status, merge, export."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli.options import Folder, Output, collect_planned
from recollect.cli.printing import complain, complain_some, say, write
from recollect.errors import SpecError

if TYPE_CHECKING:
    from recollect.store import Store


def status(folder: Folder) -> None:
    """What is planned, running and done, in all and by sweep."""
    from recollect.running.cluster.plan import is_planned

    if is_planned(folder):
        from recollect.cli.cluster.view import show_status

        show_status(folder)
        return
    from recollect.analysis import count_statuses, counts_text
    from recollect.analysis.wording import recipes_text
    from recollect.running.results import Results
    from recollect.store import Store
    from recollect.store.checking.runs import leave_out_wrong
    from recollect.store.joining.folders import find_stores

    stores = find_stores([folder])
    if len(stores) > 1:
        results = Results.load_all(stores)
        complain_some(results.conflicts)
        say(f"{len(stores)} stores: {counts_text(count_statuses(results.rows))}")
    for path in stores:
        with Store.open(path, read_only=True) as store:
            name = f"{path}: " if len(stores) > 1 else ""
            leave_out_wrong(store)
            say(f"{name}{counts_text(store.counts())}")
            say(f"recipes: {recipes_text(row.recipe for row in store.rows()) or 'none'}")
            _say_sweeps(store)
            for note in store.notes()[-5:] if len(stores) == 1 else ():
                lines = note.text.strip().splitlines() or [""]
                say(f"note: {note.kind}: {lines[-1]}")


def _say_sweeps(store: "Store") -> None:
    from recollect.analysis import count_statuses, counts_text
    from recollect.running.planning.order import search_texts

    sweeps = store.sweeps()
    rows = {row.run_id: row for row in store.rows()}
    for sweep in sweeps if len(sweeps) > 1 else ():
        own = [rows[run_id] for run_id in sweep.run_ids if run_id in rows]
        say(f"  {sweep.name}: {counts_text(count_statuses(own))}")
    for text in search_texts(store, list(rows.values())):
        say(f"  search of {text}")


def merge(
    into: Annotated[
        Path, typer.Argument(metavar="INTO", help="folder that takes over; made if there is none")
    ],
    others: Annotated[
        list[Path],
        typer.Argument(metavar="FROM", help="folders of results, or folders of such folders"),
    ],
) -> None:
    """Join results of several machines: copy what is missing, never overwrite."""
    from recollect.analysis import count_text
    from recollect.store.joining.merging import merge as merge_stores

    conflicts: list[str] = []
    for found in merge_stores(into, others):
        held = f", {found.held} being trained in {into}" if found.held else ""
        say(
            f"{found.folder}: {count_text(found.runs, 'run')}, {found.new} new, "
            f"{count_text(found.results, 'result')} taken over, {found.equal} there already{held}"
        )
        conflicts += found.conflicts
    if conflicts:
        complain_some(conflicts)
        complain(
            f"{count_text(len(conflicts), 'run')} with different results; {into} keeps its own"
        )
        raise typer.Exit(3)


def export(
    folder: Folder,
    form: Annotated[str, typer.Option("--format", help="csv or json")] = "csv",
    output: Output = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="with json: every evaluation of every run")
    ] = False,
    salvage: Annotated[
        bool, typer.Option("--salvage", help="read what is readable of a damaged store")
    ] = False,
) -> None:
    """One row per run, to standard output or a file."""
    from recollect.analysis.export import to_csv, to_json
    from recollect.running.results import Results

    if form not in ("csv", "json"):
        raise SpecError(f"--format {form}: must be csv or json")
    collect_planned([folder])
    points = None
    if salvage:
        from recollect.store.salvage import salvage as read_readable

        rows, problems = read_readable(folder)
        for problem in problems:
            complain(problem)
    else:
        results = Results.load_all([folder])
        complain_some(results.conflicts)
        rows, points = results.rows, results.curves if curves else None
    text = to_csv(rows) if form == "csv" else to_json(rows, points)
    if output is None:
        write(text)
    else:
        from recollect.store.durable import write_output

        write_output(output, text.encode())
        say(f"{len(rows)} runs written to {output}")
