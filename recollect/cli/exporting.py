"""The verb that writes results for other programs: export."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli import completing
from recollect.cli.options import Folder, as_path
from recollect.cli.printing import complain, complain_some, say, show_written, write
from recollect.errors import StoreError


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
            parser=as_path,
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
        from recollect.store.joining.folders import require_own_store
        from recollect.store.salvage import salvage as read_readable

        require_own_store(folder, "export", "--salvage")
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
