"""The verb figure: a picture of any rows, or one of the study's."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli import completing
from recollect.cli.options import Folders, as_path
from recollect.cli.printing import complain_some, say
from recollect.errors import SpecError


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
