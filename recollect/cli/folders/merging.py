"""`recollect merge`: join the results of several machines."""

from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.options import as_path
from recollect.cli.printing import complain, complain_some, say
from recollect.errors import StoreError, command_text, noticing_damage

MOST_NOTES = 5  # upper limit for what is listed of the damage


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
