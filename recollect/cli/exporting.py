"""Verbs that write results as files of other kinds: figure, export."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli import completing
from recollect.cli.options import Folder, Folders, as_path
from recollect.cli.printing import complain, complain_some, say, show_written, write
from recollect.errors import SpecError, StoreError


def figure(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="rates, windows, curves or scaling, of any rows; or the study's: fig1 to fig7, "
            "fig11 to fig13, table1 to table4; or why: what makes a window wide",
            autocompletion=completing.offer(completing.figures),
        ),
    ],
    folders: Folders,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            parser=as_path,
            metavar="FILE",
            help="ends in .png, .svg or .pdf; a table's also in .md or .tex",
        ),
    ] = None,
    band: Annotated[
        str,
        typer.Option(
            help="how far seeds lie apart: min-max, std or interval",
            autocompletion=completing.offer(completing.bands),
        ),
    ] = "min-max",
    size: Annotated[
        str | None,
        typer.Option(metavar="WxH", help="inches of the whole picture, or of its width alone"),
    ] = None,
    title: Annotated[bool, typer.Option("--title/--no-title", help="a line above")] = True,
    caption: Annotated[
        bool, typer.Option("--caption/--no-caption", help="the small print below")
    ] = True,
    compare: Annotated[
        list[Path],
        typer.Option(
            parser=as_path,
            metavar="DIR",
            help="a second folder, drawn over the first; may be repeated",
        ),
    ] = [],  # noqa: B006
    where: Annotated[
        list[str],
        typer.Option(
            metavar="A.B=1",
            help="only runs with this setting, recipe=NAME or scale=full (or small); a list "
            "allows several values, recipe=all any; may be repeated",
        ),
    ] = [],  # noqa: B006
    tau: Annotated[float | None, typer.Option(help="the level of the windows")] = None,
    against: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="of scaling: width, depth, length, pairs, parameters or state",
            autocompletion=completing.offer(completing.sizes),
        ),
    ] = None,
) -> None:
    """Draw a picture of any rows, or one of the study's figures and tables.

    Of several recipes and sizes it shows one, and says what it leaves out; --where chooses.

    \b
    recollect figure rates out -o rates.pdf --size 7 --no-title
    recollect figure windows mine --compare theirs --where model.width=64
    recollect figure fig1 out --where recipe=plain --where scale=small
    """
    from recollect.analysis import TAU
    from recollect.plotting.sheet import Frame
    from recollect.reports.paper.comparable import choose_for_figure
    from recollect.reports.paper.figures import write_figure
    from recollect.reports.pictures import (
        KINDS,
        Look,
        PictureRequest,
        Source,
        choose_for_picture,
        read_size,
    )
    from recollect.spec.base import shorten, suggest

    if name not in (known := {*completing.figures()}):
        raise SpecError(
            f"{shorten(name)}: no figure of that name; "
            f"{suggest(name, known, 'recollect figure --help')}"
        )
    frame = Frame(*read_size(size), title=title, caption=caption)
    sources = Source.load_each(folders, compare)
    complain_some(sources[0].conflicts)
    if name in KINDS:
        look = Look(band, TAU if tau is None else tau, against)
        choices = [choose_for_picture(name, source, where) for source in sources]
        request = PictureRequest(name, look, frame)
        found = request.write(*(choice.source for choice in choices), output=output)
    elif compare or tau is not None or against:
        raise SpecError(f"{name}: --compare, --tau and --against are for {', '.join(KINDS)}")
    else:
        choices = [choose_for_figure(name, sources[0], where)]
        shown = choices[0].source
        found = write_figure(name, shown.rows, shown.curves, output, band, frame=frame)
    say(f"{name}: {found}")
    for choice in choices:
        if line := choice.line(name if len(choices) == 1 else f"{name} of {choice.source.name}"):
            say(line)


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
