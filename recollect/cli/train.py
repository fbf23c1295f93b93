"""Verbs that train (demo, run, resume), and the verb about failed runs."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from recollect.cli import completing
from recollect.cli.options import (
    AllowDrift,
    Device,
    Folder,
    Keep,
    Minutes,
    Out,
    Plugins,
    RecipeName,
    Search,
    Sets,
    Snapshots,
    Workers,
    load_plugins,
)
from recollect.cli.printing import render, say, show_step, write
from recollect.cli.show import write_report
from recollect.cli.training import train_and_tell
from recollect.errors import printable
from recollect.running.budget import Budget

if TYPE_CHECKING:
    from recollect.spec.run import RunSpec
    from recollect.spec.sweep import Sweep


def demo(out: Out = Path("demo-out"), device: Device = "auto") -> None:
    """The main job in miniature on any CPU:
    attention and Mamba over learning rates, their windows, a report. The report also has their
    windows at the study's size, measured on a GPU.
    """
    from recollect.reports.demo import demo_sweep

    train_and_tell(out, [demo_sweep()], device=device, workers=0)
    page = write_report([out], None)
    if sys.stdout.isatty() and (
        sys.platform != "linux" or os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    ):
        import webbrowser

        webbrowser.open(page.resolve().as_uri())


def run(
    specs: Annotated[
        list[str],
        typer.Argument(
            metavar="SPEC.toml",
            help="the sweeps to train, in this order, or one of the study's: paper:fig1, "
            "paper:fig1:small, ...",
            autocompletion=completing.offer(completing.sweeps, or_files=True),
        ),
    ],
    out: Out,
    recipe: RecipeName = None,
    sets: Sets = [],  # noqa: B006 (typer copies it)
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    budget: Minutes = None,
    search: Search = None,
    keep: Keep = None,
    snapshots: Snapshots = None,
    workers: Workers = 0,
    allow_drift: AllowDrift = False,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="say what would be trained and what it costs; write nothing"
        ),
    ] = False,
) -> None:
    """Plan and train one or several sweeps, and store the results.

    \b
    recollect run sweep.toml --out out --dry-run
    recollect run sweep.toml --out out --set 'model.mixer="mamba"'
    recollect run paper:fig1:small --out out --budget 10
    """
    limit = Budget.start(budget)
    from recollect.reports.paper.presets import open_sweep

    load_plugins(plugin)
    sweeps = [open_sweep(spec, sets, recipe) for spec in specs]
    if dry_run:
        show_forecast(sweeps, out, device, search)
        return
    train_and_tell(
        out,
        sweeps,
        device=device,
        keep=keep,
        snapshots=snapshots,
        budget=limit,
        search=search,
        workers=workers,
        plugins=plugin,
        allow_drift=allow_drift,
    )


def resume(
    folder: Folder,
    device: Device = "auto",
    plugin: Plugins = [],  # noqa: B006
    budget: Minutes = None,
    search: Search = None,
    workers: Workers = 0,
    allow_drift: AllowDrift = False,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="try failed runs once more")
    ] = False,
) -> None:
    """Continue the sweeps of a folder after an interruption."""
    limit = Budget.start(budget)
    load_plugins(plugin)
    train_and_tell(
        folder,
        device=device,
        budget=limit,
        search=search,
        workers=workers,
        plugins=plugin,
        retry_failed=retry_failed,
        allow_drift=allow_drift,
    )


def show_forecast(
    sweeps: "Sequence[Sweep]", out: Path, device: str, search: str | None = None
) -> None:
    from recollect.analysis.wording import recipes_text
    from recollect.cli.speed_tables import forecast_table, spread_text
    from recollect.mixers.plugins.runs import require_mixers
    from recollect.running.planning.forecast import forecast
    from recollect.running.processes.devices import choose_devices, share_devices
    from recollect.running.results import RunSet
    from recollect.running.searching.searches import IN_ROUNDS
    from recollect.spec.recipes import recipe_of
    from recollect.spec.sweep import require_search
    from recollect.store.database import FILE

    require_search(search, "--search ")
    known = RunSet.load(out).rows if (out / FILE).exists() else []
    finished = {row.run_id for row in known if row.is_finished}
    devices = choose_devices(device)
    target = devices[0]
    runs = list({run.run_id: run for sweep in sweeps for run in sweep.runs}.values())
    require_mixers(runs, target)
    found = forecast(runs, finished, target, _tell_timing)
    render(forecast_table(found))
    if len(devices) > 1:
        todo = [run for run in runs if run.run_id not in finished]
        say(spread_text(found, todo, share_devices(devices)))
    for kind in sorted({search or sweep.search or "" for sweep in sweeps} & IN_ROUNDS.keys()):
        say(
            f"--search {kind} trains only a part of that: on stored grids of 13 rates "
            f"{IN_ROUNDS[kind].share} of the run-steps"
        )
    say(f"recipes: {recipes_text(recipe_of(run.model_dump(mode='json')) for run in runs)}")
    _say_others(out, {run.run_id for run in runs})


def _say_others(out: Path, given: set[str]) -> None:
    """Print how many runs that the folder has already would be trained after the given ones."""
    from recollect.analysis import count_text
    from recollect.running.planning.order import asked_for
    from recollect.store import Store
    from recollect.store.database import FILE

    if not (out / FILE).exists():
        return
    with Store.open(out, read_only=True) as store:
        asked = asked_for(store, store.rows())
    others = asked.runs - given
    if others:
        most = "at most " * bool(others & asked.searched)
        runs = count_text(len(others), "run")
        say(f"then {most}{runs} planned in {out} before, which are not in the table")


def _tell_timing(done: int, of: int, run: "RunSpec") -> None:
    show_step(f"timing shape {done + 1} of {of}: {run.model.mixer.name}, width {run.model.width}")


def failures(folder: Folder) -> None:
    """Show why runs failed: each reason once, with its stored traceback."""
    from recollect.analysis import count_text
    from recollect.running.failures import stored_failures
    from recollect.store import Store
    from recollect.store.checking.runs import leave_out_wrong
    from recollect.store.joining.folders import require_own_store

    require_own_store(folder, "failures")
    with Store.open(folder, read_only=True) as store:
        leave_out_wrong(store)
        found = stored_failures(store.rows(), store.notes())
    if not found:
        say("no run has failed")
    for failure in found:
        mixers = dict.fromkeys(str(row.spec["model"]["mixer"]["name"]) for row in failure.rows)
        say(f"{count_text(len(failure.rows), 'run')} of {', '.join(mixers)}: {failure.reason}")
        say(f"  {' '.join(row.run_id for row in failure.rows)}")
        if failure.traceback:
            write(printable(failure.traceback))
