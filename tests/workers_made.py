"""A worker that trains a small sweep, some runs at a time, and what came of it."""

from collections.abc import Callable
from pathlib import Path

import torch

from recollect.errors import Stopped
from recollect.running import engine
from recollect.running.events import Event, GivenUp, PackStarted, Remark, RunEnded
from recollect.running.pack_queue import Selection
from recollect.running.results import RunSet
from recollect.running.worker import Worker
from recollect.spec.sweep import parse_sweep
from recollect.store import Store

SWEEP = """
[task]
name = "mqar"
vocabulary = 32
length = 8
pairs = 2
data = "fresh"
test_rows = 16
[model]
mixer = "attention"
width = 8
depth = 1
[train]
steps = 40
batch = 32
evaluations = 10
lr = 1e-2
[sweep]
seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
"""


class Trainer:
    """Call it with the name of a folder. A run ends after as many steps as `steps` says of its
    seed.
    """

    def __init__(self, folder: Path):
        self.folder = folder
        self.steps: Callable[[int], int] = lambda seed: 4 * (seed % 5 + 1)

    def __call__(
        self,
        name: str,
        *,
        side_by_side: bool = True,
        steps: Callable[[int], int] | None = None,
        size: int = 4,
        sweep: str = SWEEP,
        **fields: object,
    ) -> list[Event]:
        """What the worker told."""
        self.steps = steps or self.steps
        heard: list[Event] = []
        with Store.create(self.folder / name) as store:
            engine.plan(store, parse_sweep(sweep, name="sweep"))
            worker = Worker(
                store,
                self.folder / name,
                torch.device("cpu"),
                heard.append,
                side_by_side=side_by_side,
                threads=1,
                **fields,
            )
            try:
                worker.work(Selection(pack_size=size))
            except Stopped:
                heard.append(Remark("stopped"))
        return heard


def results(folder) -> dict[str, tuple]:
    found = RunSet.load(folder)
    return {
        row.run_id: (row.status, row.steps, row.stopped_early, repr(found.curves[row.run_id]))
        for row in found.rows
    }


def living(heard: list[Event]) -> list[set[int]]:
    """The packs that train, after each event."""
    packs: dict[int, set[str]] = {}
    seen = []
    for event in heard:
        match event:
            case PackStarted():
                packs[event.pack] = {run.run_id for run in event.runs}
            case RunEnded():
                for runs in packs.values():
                    runs.discard(event.run.run_id)
            case GivenUp():
                packs.pop(event.pack, None)
        seen.append({number for number, runs in packs.items() if runs})
    return seen
