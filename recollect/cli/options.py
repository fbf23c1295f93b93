"""Arguments and options that several verbs share."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli import completing


def as_path(text: str) -> Path:
    """An empty text is an unset variable more often than it is this folder."""
    if not text:
        raise typer.BadParameter("'' is no path; this folder is '.'")
    return Path(text)


def _as_they_stand(folders: list[Path]) -> list[Path]:
    from recollect.running.cluster.collect import collect_planned

    return collect_planned(folders)


Folder = Annotated[Path, typer.Argument(parser=as_path, metavar="DIR", help="folder of results")]
Folders = Annotated[
    list[Path],
    typer.Argument(
        parser=as_path,
        metavar="DIR",
        help="folders of results, read as one",
        callback=_as_they_stand,
    ),
]
Out = Annotated[
    Path,
    typer.Option(
        "--out",
        parser=as_path,
        metavar="DIR",
        help="folder for the results; an existing one is continued",
    ),
]
Device = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="auto, cpu, cuda (every GPU: a process on each), cuda:1 (one) or cuda:0,2 (some)",
    ),
]
OneDevice = Annotated[
    str, typer.Option(metavar="NAME", help="auto, cpu, cuda (the first GPU) or cuda:1")
]
Plugins = Annotated[
    list[Path],
    typer.Option(
        "--plugin",
        parser=as_path,
        metavar="FILE.py",
        help="Python file that registers mixers; may be repeated",
    ),
]
Sets = Annotated[
    list[str],
    typer.Option(
        "--set", metavar="A.B=1", help="override a value of the specification; may be repeated"
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME",
        help="fill what the specification leaves open: study, zoology or plain; "
        "see `recollect recipes`",
        autocompletion=completing.offer(completing.recipes),
    ),
]
Keep = Annotated[
    str | None,
    typer.Option(
        metavar="WHAT",
        help="whose weights are kept: best (of each cell; the default), all, none, "
        "seed:N, a run's id",
    ),
]
Minutes = Annotated[
    float | None,
    typer.Option(
        metavar="MINUTES",
        help="stop after this time, start-up included; the most informative runs train first",
    ),
]
Search = Annotated[
    str | None,
    typer.Option(
        metavar="HOW",
        help="edges: train only what the edges of the windows need, the rest stays todo; "
        "best: only what the best scores need; "
        "all: every run, within a budget one cell after another",
        autocompletion=completing.offer(completing.searches),
    ),
]
Workers = Annotated[
    int,
    typer.Option(
        "--workers",
        metavar="N",
        min=0,
        help="processes that train on a CPU; 0: as many as suit the cores and the memory",
    ),
]
AllowDrift = Annotated[
    bool,
    typer.Option(
        "--allow-drift",
        help="continue with runs begun under other versions, threads or devices; their rows say so",
    ),
]
Snapshots = Annotated[
    int | None, typer.Option(metavar="N", help="keep weights at N steps of the training as well")
]
Output = Annotated[
    Path | None,
    typer.Option(
        "-o", "--output", parser=as_path, metavar="FILE", help="write to this file instead"
    ),
]


def load_plugins(paths: list[Path]) -> None:
    if paths:  # without plug-ins torch is not needed here
        from recollect.mixers.plugins.load import load_plugin

        for path in paths:
            load_plugin(path)
