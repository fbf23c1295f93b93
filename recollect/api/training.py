"""The same work from Python: `recollect.run("sweep.toml", out="out").to_pandas()`."""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect.api.results import Results
from recollect.reports.paper.presets import open_sweep
from recollect.running import engine
from recollect.running.budget import Budget
from recollect.running.events import Event, ignore
from recollect.running.signals import Interrupts, never
from recollect.spec.sweep import Sweep, build_sweep


def run(
    sweep: Sweep | Mapping[str, Any] | Path | str | Sequence[Sweep | Path | str] | None,
    out: Path | str,
    device: str = "auto",
    overrides: Iterable[str] = (),
    recipe: str | None = None,
    listen: Callable[[Event], None] = ignore,
    keep: str | None = None,
    snapshots: int | None = None,
    budget: float | None = None,
    search: str | None = None,
    workers: int = 1,
    plugins: Iterable[Path | str] = (),
    stop: Callable[[], int] = never,
    signals: bool = False,
    retry_failed: bool = False,
) -> Results:
    """Train what is not yet done of a sweep (a TOML path, `paper:fig1`, a table, or a Sweep), or of
    several in their order, into `out`; returns its results. Without a sweep, train what `out`
    holds.

    `recipe` ("study", "zoology" or "plain") fills what a file or table leaves open, in place of the
    one it names. `keep` and `snapshots` say whose weights are kept, as on the command line; without
    both, as the folder began, or the best of each cell. With a `budget` of minutes the most telling
    runs come first, and what is not reached stays todo. With `search="edges"` only what the edges
    of the windows need is trained, the rest stays todo (docs/decisions/search-edges.md). `workers`
    are processes that train; 0 takes as many as suit the cores and the memory. With more than one,
    the calling script needs the usual
    `if __name__ == "__main__":`. `plugins` are files that register mixers. `listen` gets the events
    of recollect/running/events.py. When `stop`, asked between steps, returns an exit code, or with
    `signals` when the process is asked to end, checkpoints are saved and Stopped is raised.
    """
    limit = Budget.start(budget, workers)
    files = [Path(plugin) for plugin in plugins]
    if files:
        from recollect.mixers.plugins.load import load_plugin

        for file in files:
            load_plugin(file)
    if sweep is None:
        sweeps = []
    elif isinstance(sweep, Sequence) and not isinstance(sweep, str):
        sweeps = [_open(one, overrides, recipe) for one in sweep]
    else:
        sweeps = [_open(sweep, overrides, recipe)]
    folder = Path(out)
    with Interrupts() if signals else contextlib.nullcontext() as interrupts:
        engine.train(
            folder,
            sweeps,
            device=device,
            keep=keep,
            snapshots=snapshots,
            budget=limit,
            search=search,
            workers=workers,
            plugins=files,
            retry_failed=retry_failed,
            listen=listen,
            stop=(lambda: stop() or interrupts.exit_code()) if interrupts else stop,
        )
    return Results.load(folder)


def _open(
    sweep: Sweep | Mapping[str, Any] | Path | str, overrides: Iterable[str], recipe: str | None
) -> Sweep:
    if isinstance(sweep, Sweep):
        return sweep
    if isinstance(sweep, str | Path):
        return open_sweep(str(sweep), overrides, recipe)
    return build_sweep({**sweep, "recipe": recipe} if recipe else sweep)
