"""What a worker knows of the shapes it trains: their data, whether their kernels are compiled, and
how many runs of each train together.
"""

from collections.abc import Sequence
from pathlib import Path

import torch

from recollect.running.failures import refuse_if_lost
from recollect.running.planning import memory, speed
from recollect.running.planning.precompile import compiles, precompile
from recollect.running.planning.threads import threads_for
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.tasks.base import Task
from recollect.tasks.build import task_of


class Shapes:
    """On one device, of which `processes` share the memory and the runs."""

    def __init__(
        self, store: Store, folder: Path, device: torch.device, threads: int, processes: int = 1
    ):
        self.store, self.folder, self.device = store, folder, device
        self.threads, self.processes = threads, processes  # CPU threads that may be used
        self._task: tuple[str, Task] | None = None
        self._compiled: set[str] = set()  # all by shape
        self._sizes: dict[str, int] = {}  # measured
        self._limits: dict[str, int] = {}  # that may train at once after memory ran out

    def data(self, run: RunSpec) -> Task:
        """The data of a run; those of the last pack are kept,
        because the next one often shares them.
        """
        key = data_key(run)
        if self._task is None or self._task[0] != key:
            self._task = None  # before the new one is built: two sets of rows need not fit
            self._task = (key, task_of(run, self.device))
        return self._task[1]

    @property
    def data_there(self) -> str | None:
        """The `data_key` of what is built, if anything is."""
        return self._task[0] if self._task else None

    def compile(self, run: RunSpec) -> None:
        """Once for each shape, before it is measured or begun."""
        if compiles(self.device) and run.shape_id not in self._compiled:
            self._compiled.add(run.shape_id)
            precompile(run, self.data(run), self.device)

    def limit(self, shape_id: str, most: int) -> None:
        """From now on at most so many runs of this shape train at a time."""
        self._limits[shape_id] = most

    def pack_size(self, runs: Sequence[RunSpec], taken: int = 0, fixed: int | None = None) -> int:
        """How many runs of this shape may train at a time, the `taken` ones that do already
        included; measured once, or `fixed`.
        """
        shape = runs[0].shape_id
        if fixed is None and shape not in self._sizes:
            self._sizes[shape] = self._measured_size(runs, taken)
        size = self._sizes[shape] if fixed is None else fixed
        return min(size, self._limits.get(shape, size))

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        """How many of these runs of one shape train together,
        and how many seconds a step of so many takes.
        """
        self._sizes.pop(runs[0].shape_id, None)  # it may have been measured with fewer at hand
        size = min(self.pack_size(runs), len(runs))
        try:
            with threads_for(runs[0], self.threads):
                data = self.data(runs[0])
                return size, speed.seconds_per_step(runs[:size], data, self.device)
        except Exception as error:
            refuse_if_lost(error, self.folder)
            return size, 0.0  # it fails soon enough, and then for its own reason

    def _measured_size(self, runs: Sequence[RunSpec], taken: int) -> int:
        try:
            with threads_for(runs[0], self.threads):
                self.compile(runs[0])
                data = self.data(runs[0])
                size = taken + memory.pack_size(runs, data, self.device, processes=self.processes)
        except Exception as error:
            refuse_if_lost(error, self.folder)
            # Out of memory, or a mixer that fails: a run on its own then fails for its own reason,
            # and no other with it.
            self.store.note(
                "planning", f"{runs[0].model.mixer.name}: {type(error).__name__}: {error}"
            )
            return max(1, taken)
        # Something is left for the other processes; but one member costs as much as two.
        return min(size, max(2, -(-(taken + len(runs)) // self.processes)))


def data_key(run: RunSpec) -> str:
    """Equal for runs that see the same rows."""
    return f"{run.task!r} {run.data_seed} {run.train.batch} {run.train.last_batch}"
