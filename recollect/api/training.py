"""Training from Python: `recollect.run("sweep.toml", out="out")`."""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from recollect.api.arguments import (
    FLAG,
    FUNCTION,
    NUMBER,
    PATH,
    TEXT,
    WHOLE,
    as_list,
    or_none,
    require,
)
from recollect.api.results import Results
from recollect.api.showing import shown
from recollect.errors import SpecError
from recollect.reports.paper.presets import open_sweep
from recollect.running import engine
from recollect.running.budget import Budget
from recollect.running.events import Event, ignore
from recollect.running.signals import Interrupts, never
from recollect.spec.base import shorten
from recollect.spec.overrides import apply_override
from recollect.spec.sweep import Sweep, build_sweep

OneSweep = Sweep | Mapping[str, Any] | Path | str


def run(
    sweep: OneSweep | Sequence[OneSweep] | None,
    out: Path | str,
    *,
    overrides: Iterable[str] | str = (),
    recipe: str | None = None,
    device: str = "auto",
    plugins: Iterable[Path | str] | Path | str = (),
    workers: int = 1,
    budget: float | None = None,
    search: str | None = None,
    progress: bool | None = None,
    keep: str | None = None,
    snapshots: int | None = None,
    retry_failed: bool = False,
    allow_drift: bool = False,
    listen: Callable[[Event], None] = ignore,
    stop: Callable[[], int] = never,
    signals: bool = False,
) -> Results:
    """Train what is not yet done of a sweep into the folder `out`, and return what `out` holds.

    - `sweep`: the path of a TOML file, `"paper:fig1"`, a table, or a `Sweep`; or several of these,
      trained in their order; `None` goes on with what `out` holds.
    - `overrides`: a value as on the command line, such as `"train.lr=1e-3"`, or several.
    - `recipe`: `"study"`, `"zoology"` or `"plain"`, to fill what the sweep leaves open.
    - `device`: `"cpu"`, `"cuda"` (every GPU, a process on each), `"cuda:1"` or `"cuda:0,2"`;
      `"auto"` is `"cuda"` if there is a GPU.
    - `plugins`: a file that registers mixers, or several. A class in this process, in a
      notebook's cell too, needs none: `@recollect.mixer("name")` registers it.
    - `workers`: processes that train on a CPU; 0 takes as many as suit the cores and the memory.
      With more than one process, a script needs the usual `if __name__ == "__main__":`.
    - `budget`: minutes; the most telling runs come first, and what is not reached stays todo.
    - `search`: `"edges"` trains only what the edges of the windows need, `"best"` only what the
      best scores need; the rest stays todo.
    - `progress`: `True` shows it, `False` is silent; without either it is shown on a terminal and
      in a notebook.
    - `keep`, `snapshots`: whose weights are kept, and at how many steps on the way; without both as
      the folder began, or the best of each cell.
    - `retry_failed`: try failed runs once more.
    - `allow_drift`: continue with runs that were begun under other versions, threads or devices,
      which are refused otherwise; their rows then say what differed.
    - `listen`: called with every event of recollect/running/events.py.
    - `stop`: asked between steps; an exit code saves a checkpoint and raises `Stopped`. With
      `signals`, so does a signal that asks the process to end.

    >>> import recollect
    >>> table = {
    ...     "task": {"name": "mqar", "vocabulary": 32, "length": 16, "train_rows": 64},
    ...     "model": {"width": 8, "depth": 1},
    ...     "train": {"batch": 32, "steps": 4, "evaluations": 2},
    ...     "sweep": {"model.mixer": ["attention", "mamba"], "train.lr": [1e-3, 1e-2]},
    ... }
    >>> recollect.run(table, "tiny", overrides=["task.test_rows=32"], device="cpu")
    Results('tiny': 4 runs, 4 done; 2 cells)

    Runs that are done are not trained again:

    >>> more = table["sweep"] | {"train.lr": [1e-3, 1e-2, 1e-1]}
    >>> recollect.run(table | {"sweep": more}, "tiny", overrides=["task.test_rows=32"])
    Results('tiny': 6 runs, 6 done; 2 cells)
    """
    given = as_list(TEXT, '"train.lr=1e-3"', overrides=overrides)
    files = [Path(file) for file in as_list(PATH, '"my_mixer.py"', plugins=plugins)]
    require(PATH, '"out"', out=out)
    require(or_none(TEXT), '"study"', recipe=recipe)
    require(TEXT, '"cpu"', device=device)
    require(WHOLE, "2", workers=workers)
    require(or_none(NUMBER), "10", budget=budget)
    require(or_none(TEXT), '"edges"', search=search)
    require(or_none(TEXT), '"best"', keep=keep)
    require(or_none(WHOLE), "3", snapshots=snapshots)
    require(or_none(FLAG), "True", progress=progress)
    require(FLAG, "True", retry_failed=retry_failed, allow_drift=allow_drift, signals=signals)
    require(FUNCTION, "print", listen=listen)
    require(FUNCTION, "lambda: 0", stop=stop)
    if workers < 0:
        raise SpecError(
            f"workers = {workers}: must be at least 0; 0 takes as many as suit the cores and the "
            "memory"
        )
    limit = Budget.start(budget)
    if files:
        from recollect.mixers.plugins.load import load_plugin

        for file in files:
            load_plugin(file)
    several = isinstance(sweep, Sequence) and not isinstance(sweep, str)
    asked: Any = [] if sweep is None else sweep if several else [sweep]
    sweeps = [_open(one, given, recipe) for one in asked]
    folder = Path(out)
    with (
        shown(folder, progress) as show,
        Interrupts() if signals else contextlib.nullcontext() as interrupts,
    ):

        def hear(event: Event) -> None:
            show(event)
            listen(event)

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
            allow_drift=allow_drift,
            listen=hear,
            stop=(lambda: stop() or interrupts.exit_code()) if interrupts else stop,
        )
    return Results.load(folder)


def _open(sweep: OneSweep, overrides: list[str], recipe: str | None) -> Sweep:
    if isinstance(sweep, str | Path):
        return open_sweep(str(sweep), overrides, recipe)
    if isinstance(sweep, Mapping):
        table = _plain(sweep)
        for override in overrides:
            apply_override(table, override)
        table |= {"recipe": recipe} if recipe is not None else {}
        return build_sweep(table, source=json.dumps(table, indent=1, default=str))
    if not isinstance(sweep, Sweep):
        raise SpecError(
            f"sweep = {shorten(sweep)}: must be a file's path, paper:NAME, a table or a Sweep; for "
            'example recollect.run("sweep.toml", out="out")'
        )
    if overrides or recipe is not None:
        raise SpecError(
            f"sweep = {shorten(sweep.name)}: a Sweep is whole, so overrides and recipe cannot "
            "change it;\ngive them to what makes it, or give its table or file"
        )
    return sweep


def _plain(value: Any) -> Any:
    """Return a copy without types that TOML does not have: tuples and arrays become lists."""
    if isinstance(value, Mapping):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | range):
        return [_plain(inner) for inner in value]
    # An array or a number of NumPy, which is not imported for this test.
    return value.tolist() if type(value).__module__ == "numpy" else value
