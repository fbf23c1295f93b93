"""Verbs that show results: report, watch, inspect, claims."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.options import Folder, Folders, OneDevice, Output, Plugins, load_plugins
from recollect.cli.printing import complain_some, render, say, show_step, write
from recollect.errors import SpecError


def report(folders: Folders, output: Output = None) -> None:
    """Write one self-contained HTML page about one or several folders."""
    write_report(folders, output)


def write_report(folders: list[Path], output: Path | None) -> Path:
    from recollect.reports.page.gather import write_page

    page = write_page(folders, output)
    say(f"report: {page}")
    return page


def watch(
    folders: Folders,
    port: Annotated[
        int,
        typer.Option(
            min=0, max=65_535, help="port to listen on, for this machine only; 0: any free port"
        ),
    ] = 8642,
    token: Annotated[
        bool,
        typer.Option("--token", help="require the secret token that the printed address contains"),
    ] = False,
) -> None:
    """Show the same page live while a sweep runs; Ctrl-C ends it."""
    from recollect.cli.cluster.following import following
    from recollect.reports.page.server import serving

    with following(folders), serving(folders, port, token) as server:
        say(f"{server.address} (Ctrl-C ends it)")
        server.serve_forever()


def inspect(
    folder: Folder,
    run: Annotated[
        str, typer.Argument(metavar="RUN", help="a run's id, the beginning of one, or best:MIXER")
    ],
    again: Annotated[
        bool, typer.Option("--again", help="train it once more, to see its scores at many steps")
    ] = False,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="where its weights were not kept, train it again unasked"),
    ] = False,
    untrained: Annotated[
        bool, typer.Option("--untrained", help="or show it as it was initialised")
    ] = False,
    device: OneDevice = "auto",
    plugin: Plugins = [],  # noqa: B006
) -> None:
    """Look inside a trained run: attention, induction scores, how far back it looks.

    \b
    recollect inspect out best:mamba
    recollect inspect out 3f2a --again
    """
    load_plugins(plugin)
    from recollect.reports.inspect import inspect_run, summary_lines
    from recollect.running.processes.devices import choose_device

    def tell(done: int, of: int) -> None:
        if done == 0:
            why = "" if again else ": its weights were not kept"
            say(f"training it once more, {of:,} steps{why}")
        else:
            show_step(f"step {done:,} of {of:,}", done == of)

    consent = None if yes else _ask_to_train
    found = inspect_run(folder, run, choose_device(device), again, untrained, tell, consent)
    for line in summary_lines(found):
        say(line)
    for picture in found.pictures:
        say(f"{picture.title}: {folder / picture.file}")


def _ask_to_train(steps: int, seconds: float) -> None:
    """Ask before a run is trained again; refuse if there is no terminal to ask on."""
    from recollect.analysis.wording import about_text

    cost = f"{steps:,} steps, {about_text(seconds)}"
    if not sys.stdin.isatty():
        raise SpecError(
            f"its weights were not kept, and to train it again takes {cost}\n"
            "say --yes for that, or --untrained to see it as initialised; "
            "`recollect run --keep all` keeps every run's weights"
        )
    if not typer.confirm(f"its weights were not kept; train it again ({cost})?", err=True):
        raise typer.Exit(1)


def claims(
    folders: Folders,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="rows of this recipe alone, with the numbers"),
    ] = None,
    only: Annotated[str | None, typer.Option(metavar="C3,C15", help="these claims alone")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="a list of one object per claim and recipe")
    ] = False,
    output: Output = None,
) -> None:
    """Judge every claim of the study, by recipe: reproduced, holds or fails in n of m cells,
    contradicted, or not enough data and what to train next.
    """
    from recollect.reports.paper.claims import verdicts as shown
    from recollect.reports.paper.claims.asking import choose_claims, judge_results
    from recollect.running.results import RunSet
    from recollect.store.joining.folders import find_stores

    chosen = choose_claims(only)
    results = RunSet.load_all(folders)
    complain_some(results.conflicts)
    found = judge_results(results, find_stores(folders), recipe, chosen)
    text = shown.to_json(found) if as_json else "\n".join(map(shown.to_lines, found.values()))
    if output is not None:
        from recollect.store.durable import write_output

        write_output(output, text.encode())
        say(f"{shown.summary(next(iter(found.values())))}; written to {output}")
    elif as_json or not sys.stdout.isatty():
        write(text)
    else:
        for table in shown.tables(found, by_recipe=recipe is None):
            render(table)
        for command in shown.commands(next(iter(found.values())))[: shown.MOST_CELLS]:
            say(command)
