"""`recollect unplan`: take back what nobody has begun."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from recollect.cli.options import Folder
from recollect.cli.printing import say
from recollect.errors import SpecError, command_text


def unplan(
    folder: Folder,
    sweep: Annotated[
        str, typer.Argument(metavar="SWEEP", help="a sweep of the folder; `status` lists them")
    ],
    where: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE", help="only these runs, e.g. train.lr=[1e-5,3e-5]; may be repeated"
        ),
    ] = [],  # noqa: B006
) -> None:
    """Take back the runs of a sweep that have not begun.

    \b
    recollect unplan out mine
    recollect unplan out mine --where train.lr=1.0

    What has begun stays, and what another sweep has planned, too.
    """
    from recollect.analysis import count_text
    from recollect.reports.pictures.choosing import choose_rows, what_there_is
    from recollect.running.cluster.plan import is_planned
    from recollect.running.planning.order import sweeps_by_name
    from recollect.spec.base import suggest
    from recollect.store import Store
    from recollect.store.database import FILE

    if is_planned(folder):
        raise SpecError(
            f"{folder}: planned for many machines, which hold its runs; plan anew in another --out"
        )
    if not (folder / FILE).is_file():
        _refuse_several(folder, sweep)
    with Store.open(folder) as store:
        store.reclaim()
        sweeps = sweeps_by_name(store)
        if sweep not in sweeps:
            known = suggest(sweep, sweeps, command_text("status", folder))
            raise SpecError(
                f"{sweep!r} is no sweep of {folder}; {known if sweeps else 'it has none'}"
            )
        rows = [row for row in store.rows() if row.run_id in sweeps[sweep]]
        chosen = choose_rows(rows, where)
        if not chosen:
            asked = " ".join(f"--where {shlex.quote(condition)}" for condition in where)
            raise SpecError(
                f"{asked}: none of the {count_text(len(rows), 'run')} of {sweep} fits;\n"
                f"{what_there_is(rows, where)}"
            )
        taken = store.unplan(sweep, [row.run_id for row in chosen])
    told = [f"{sweep}: {count_text(taken.gone, 'run')} taken back"]
    if taken.begun:
        verbs = "has begun stays" if taken.begun == 1 else "have begun stay"
        told.append(f"{count_text(taken.begun, 'run')} that {verbs}")
    if taken.shared:
        verb = "stays" if taken.shared == 1 else "stay"
        told.append(f"{count_text(taken.shared, 'run')} {verb} in other sweeps")
    say("; ".join(told))


def _refuse_several(folder: Path, sweep: str) -> None:
    """Refuse a folder of folders, and name those that have the sweep."""
    from recollect.running.planning.order import sweeps_by_name
    from recollect.store import Store
    from recollect.store.joining.folders import MOST_NAMED, find_stores

    having = []
    for path in find_stores([folder]):
        with Store.open(path, read_only=True) as store:  # which says so if there is none at all
            if sweep in sweeps_by_name(store):
                having.append(f"`{command_text('unplan', path, sweep)}`")
    if not having:
        raise SpecError(f"{folder}: no folder in it has a sweep {sweep!r}")
    if len(having) > MOST_NAMED:
        having[MOST_NAMED - 1] += f", and {len(having) - MOST_NAMED} more"
    commands = "\n".join(having[:MOST_NAMED])
    raise SpecError(f"{folder}: several folders have their own results; name one:\n{commands}")
