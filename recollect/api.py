"""The same work from Python: `recollect.run("sweep.toml", out="out").to_pandas()`."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from recollect.analysis import flatten
from recollect.mixers.fla.options import FlaSpec
from recollect.reports.paper.presets import open_sweep
from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep, build_sweep
from recollect.store import Store
from recollect.store.records import Plan, PlannedRun

if TYPE_CHECKING:
    import pandas
    import torch

    from recollect.running.events import Notice


@dataclass(frozen=True)
class Results:
    """What a folder holds: one row per run and its curve."""

    rows: list[RunRow]
    curves: dict[str, list[Evaluation]]

    @classmethod
    def load(cls, folder: Path | str) -> "Results":
        with Store.open(Path(folder), read_only=True) as store:
            return cls(store.rows(), store.curves())

    @classmethod
    def load_all(cls, folders: Iterable[Path | str]) -> "Results":
        """Several folders as one: a run that stands in more than one is taken from the first where
        it ended in a result.
        """
        rows: dict[str, RunRow] = {}
        curves: dict[str, list[Evaluation]] = {}
        for folder in folders:
            found = cls.load(folder)
            for row in found.rows:
                if row.run_id not in rows or (
                    not _has_result(rows[row.run_id]) and _has_result(row)
                ):
                    rows[row.run_id] = row
                    curves[row.run_id] = found.curves.get(row.run_id, [])
        return cls(
            list(rows.values()), {run_id: curve for run_id, curve in curves.items() if curve}
        )

    def to_pandas(self) -> "pandas.DataFrame":
        """One line per run: the specification as dotted columns, then the results.

        Needs pandas installed.
        """
        import pandas

        records = [
            flatten(row.spec) | {name: value for name, value in vars(row).items() if name != "spec"}
            for row in self.rows
        ]
        return pandas.DataFrame(records)


def _has_result(row: RunRow) -> bool:
    return row.status in ("done", "diverged")


def plan(store: Store, sweep: Sweep) -> Plan:
    """Put the runs of a sweep into a store; those it knows already stay as they are."""
    runs = [
        PlannedRun(run.run_id, run.canonical_json(), run.task.score_name, run.task.chance)
        for run in sweep.runs
    ]
    return store.plan(runs, sweep.name, sweep.source)


def run(
    sweep: Sweep | Mapping[str, Any] | Path | str,
    out: Path | str,
    device: str = "auto",
    overrides: Iterable[str] = (),
    listen: "Callable[[Notice], None]" = lambda notice: None,
    keep: str = "best",
    snapshots: int = 0,
    budget: float | None = None,
) -> Results:
    """Train what is not yet done of a sweep (a TOML path, `paper:fig1`, a table, or a Sweep) into
    `out`; returns its results.

    `keep` and `snapshots` say whose weights are kept, as on the command line (see keep.py). With a
    `budget` of minutes the most telling runs come first (see budget.py), and what is not reached
    stays todo.
    """
    started = time.monotonic()
    from recollect.running.spending import spend
    from recollect.running.worker import Worker
    from recollect.store.weights import Policy

    if isinstance(sweep, str | Path):
        sweep = open_sweep(str(sweep), overrides)
    elif not isinstance(sweep, Sweep):
        sweep = build_sweep(sweep)
    target = choose_device(device)
    require_mixers(sweep.runs, target)
    policy = Policy.parse(keep, snapshots)
    policy.require(sweep.runs)
    folder = Path(out)
    with Store.create(folder) as store:
        plan(store, sweep)
        policy.remember(store)
        worker = Worker(store, folder, target, listen)
        if budget is None:
            worker.work()
        else:
            spend(worker, started + 60 * budget)
    return Results.load(folder)


def require_mixers(runs: Iterable[RunSpec], device: "torch.device") -> None:
    """Refuse, before anything is written, mixers whose code is not here or does not run on this
    device.
    """
    layers = {
        kind.model_dump_json(): kind
        for run in runs
        for kind in run.model.mixer.kinds()
        if isinstance(kind, FlaSpec)
    }
    if layers:
        from recollect.mixers.fla.mixer import layer_class

        for layer in layers.values():
            layer_class(layer, device)


def choose_device(name: str) -> "torch.device":
    """`auto` is a GPU if there is one; a device that is not here is refused."""
    import torch

    from recollect.errors import SpecError

    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    known = [
        "cpu",
        *(["cuda"] if torch.cuda.is_available() else []),
        *(f"cuda:{i}" for i in range(torch.cuda.device_count())),
    ]
    if name not in known:
        raise SpecError(
            f"device = {name!r}: not here; use auto or one of "
            f"{', '.join(known)} "
            "(`recollect doctor` says why)"
        )
    return torch.device(name)
