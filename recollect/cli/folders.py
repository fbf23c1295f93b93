"""Verbs about folders of results: status, check, merge, export."""

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli import completing
from recollect.cli.options import Folder, Plugins, load_plugins
from recollect.cli.printing import complain, complain_some, render, say, show_written, write
from recollect.errors import StoreError, command_text, noticing_damage

if TYPE_CHECKING:
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
            say(f"{name}{counts_text(store.counts())}")
            say(f"recipes: {recipes_text(row.recipe for row in store.rows()) or 'none'}")
            _say_sweeps(store)
            _say_drift(store)
            _show_cells(store)
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


def _say_drift(store: "Store") -> None:
    from recollect.analysis import count_text

    drifted = [row.drift for row in store.rows() if row.drift]
    if drifted:
        say(
            f"drift: {count_text(len(drifted), 'run')} trained under more than one environment, "
            f"the first {', '.join(drifted[0])}"
        )


def _show_cells(store: "Store") -> None:
    from recollect.analysis import group_cells
    from recollect.cli.speed_tables import state_table
    from recollect.running.planning.order import asked_for

    rows = store.rows()
    cells, asked = group_cells(rows), asked_for(store, rows)
    if cells:
        render(state_table(cells, asked, MOST_CELLS))
    if len(cells) > MOST_CELLS:
        say(f"the first {MOST_CELLS} of {len(cells)} cells; `recollect report` has all of them")
    left = {row.status for row in rows if not row.is_finished}
    if left == {"todo"} and not (asked.in_full or asked.searched):
        again = command_text("resume", store.path.parent)  # which names plug-ins, if it needs some
        say(f"train the rest, if it is wanted, with `{again}`")


def _say_sweeps(store: "Store") -> None:
    from recollect.analysis import count_statuses, counts_text
    from recollect.running.planning.order import search_texts, sweeps_by_name

    sweeps = sweeps_by_name(store)
    rows = {row.run_id: row for row in store.rows()}
    for name, run_ids in sweeps.items() if len(sweeps) > 1 else ():
        own = [rows[run_id] for run_id in run_ids if run_id in rows]
        say(f"  {name}: {counts_text(count_statuses(own))}")
    for text in search_texts(store, list(rows.values())):
        say(f"  search of {text}")


def check(folder: Folder, plugin: Plugins = []) -> None:  # noqa: B006
    """Verify everything in a folder: ids, checksums, curves, checkpoints, weights.

    Nothing is changed. Exit code 0: all is as it was written; 3: something is not, one line each.
    """
    from recollect.analysis import count_text
    from recollect.store.checking.folder import check_folder

    load_plugins(plugin)
    with noticing_damage():  # all findings are printed here
        found = check_folder(folder)
    for finding in found.findings:
        complain(finding)
    weights = f"{count_text(found.weights, 'file')} of weights"
    say(
        f"{folder}: {count_text(found.runs, 'run')}, {count_text(found.points, 'evaluation')}, "
        f"{count_text(found.checkpoints, 'checkpoint')}, {weights}"
    )
    if found.unsummed:
        older = count_text(found.unsummed, "run")
        say(f"{older} older than checksums: a changed number would not be noticed")
    if found.unread:
        say(
            f"{count_text(found.unread, 'run')} of mixers that are not loaded: ids are right; "
            "to check options too, add --plugin FILE.py"
        )
    if found.findings:
        raise typer.Exit(StoreError.exit_code)
    say("all else is as it was written" if found.unsummed else "all as it was written")


def merge(
    into: Annotated[
        Path, typer.Argument(metavar="INTO", help="folder that takes over; made if there is none")
    ],
    others: Annotated[
        list[Path],
        typer.Argument(metavar="FROM", help="folders of results, or folders of such folders"),
    ],
) -> None:
    """Join results of several machines: copy what is missing, never overwrite.

    Weights and checkpoints stay where they are.
    """
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
    form: Annotated[
        str | None,
        typer.Option(
            "--format",
            help="csv, json, or parquet: a data set for a hub; else as -o FILE ends, or csv",
            autocompletion=completing.offer(completing.forms),
        ),
    ] = None,
    to: Annotated[
        str | None,
        typer.Option(
            help="replay into a tracker: mlflow, tensorboard, trackio or wandb",
            autocompletion=completing.offer(completing.trackers),
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            metavar="PATH",
            help="file to write, or a folder for parquet or a tracker",
        ),
    ] = None,
    curves: Annotated[
        bool, typer.Option("--curves", help="with json: every evaluation of every run")
    ] = False,
    project: Annotated[
        str, typer.Option(metavar="NAME", help="with --to: the tracker's project or experiment")
    ] = "recall",
    licence: Annotated[
        str, typer.Option("--license", metavar="ID", help="with parquet: for the data set's card")
    ] = "unknown",
    salvage: Annotated[
        bool, typer.Option("--salvage", help="read what is readable of a damaged store")
    ] = False,
) -> None:
    """Export results: a table of runs, a data set, or runs in an experiment tracker.

    \b
    recollect export out -o runs.csv
    recollect export out --format parquet -o dataset
    recollect export out --to tensorboard -o runs
    """
    from recollect.analysis import count_text
    from recollect.reports.exports.request import ExportRequest
    from recollect.running.cluster.collect import collect_planned
    from recollect.running.results import RunSet

    request = ExportRequest.read(form, to, output, curves, project, licence, salvage)
    collect_planned([folder])
    problems = list[str]()
    if salvage:
        from recollect.store.salvage import salvage as read_readable

        rows, problems = read_readable(folder)
        results = RunSet(rows, {})
        for problem in problems:
            complain(problem)
    else:
        results = RunSet.load_all([folder])
        complain_some(results.conflicts)
    runs = count_text(len(results.rows), "run")
    if request.tracker:
        done = request.replay(results, show_written)
        left = len(results.rows) - done.new - done.known
        held = f", {left} without a result left out" if left else ""
        new = count_text(done.new, "run")
        say(f"{new} added to {done.place}, {done.known} there already{held}")
        say(f"show them with `{done.advice}`")
    elif request.form == "parquet":
        say(f"{runs} written to {request.write_data_set(results)}")
    elif output is None:
        write(request.text(results))
    else:
        from recollect.store.durable import write_output

        write_output(output, request.text(results).encode())
        say(f"{runs} written to {output}")
    if problems:
        complain("--salvage left out what is named above; train it again in a new folder")
        raise typer.Exit(StoreError.exit_code)
