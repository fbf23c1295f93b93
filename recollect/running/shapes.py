"""A worker's knowledge of the shapes it trains: their data, whether their kernels are compiled, and
how many runs of each train together.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
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
    """The shapes of one worker, on one device."""

    def __init__(
        self,
        store: Store,
        folder: Path,
        device: torch.device,
        threads: int,
        processes: int = 1,
        memory_bytes: int | None = None,
        splits: bool = True,
    ):
        """`threads`: CPU threads that may be used. `processes`: the number of processes that share
        the device's memory. `memory_bytes`: the most memory that they use together. `splits`: the
        processes also share the runs of every shape.
        """
        self.store, self.folder, self.device = store, folder, device
        self.threads, self.processes, self.splits = threads, processes, splits
        self.memory_bytes = memory_bytes
        self._task: tuple[str, Task] | None = None
        # All by shape.
        self._compiled: set[str] = set()
        self._sizes: dict[str, _Size] = {}  # measured
        self._needs: dict[str, memory.Need] = {}
        self._limits: dict[str, int] = {}  # the most runs at once, set after memory ran out

    def data(self, run: RunSpec) -> Task:
        """The data of a run. The last data are kept, because the next pack often shares them."""
        key = data_key(run)
        if self._task is None or self._task[0] != key:
            self._task = None  # freed first: both sets of rows together may not fit in memory
            self._task = (key, task_of(run, self.device))
        return self._task[1]

    @property
    def data_there(self) -> str | None:
        """The `data_key` of the data in memory, or None."""
        return self._task[0] if self._task else None

    def compile(self, run: RunSpec) -> None:
        """Compile the kernels of a shape once, before it is measured or begun."""
        if run.shape_id not in self._compiled:
            self._compiled.add(run.shape_id)
            if compiles(self.device):
                precompile(run, self.data(run), self.device)

    @property
    def compiled(self) -> frozenset[str]:
        """The shapes for which `compile` was called."""
        return frozenset(self._compiled)

    def free(self) -> int:
        """Bytes that this process may use now."""
        free = memory.free_memory(self.device)
        return min(free, free if self.memory_bytes is None else self.memory_bytes) // self.processes

    def fits(self, run: RunSpec) -> bool:
        """Whether one run of this shape should fit into memory while nothing trains.

        True for a shape that cannot be tried out; it will fail with its own error when it trains.
        """
        try:
            return self._need([run]).fits(self.free())
        except Exception as error:
            refuse_if_lost(error, self.store)
            return True

    def limit(self, shape_id: str, most: int) -> None:
        """Let at most this number of runs of a shape train at a time."""
        self._limits[shape_id] = most

    def pack_size(self, runs: Sequence[RunSpec], taken: int = 0, fixed: int | None = None) -> int:
        """How many runs of this shape may train at a time, including `taken` that already do.

        `fixed` replaces the measured size. The size is measured once, and again when it was limited
        by the number of runs at hand and there are more of them now.
        """
        shape, at_hand = runs[0].shape_id, taken + len(runs)
        if fixed is not None:
            return min(fixed, self._limits.get(shape, fixed))
        known = self._sizes.get(shape)
        if known is None or known.at_hand <= min(known.runs, at_hand - 1):
            known = self._sizes[shape] = _Size(self._measured_size(runs, taken), at_hand)
        return min(known.runs, self._limits.get(shape, known.runs))

    def fitting_now(self, runs: Sequence[RunSpec], fixed: int | None = None) -> int:
        """How many runs of this shape fit next to the packs in training, at most `fixed`.

        Returns 0 for a shape that cannot be tried out; it will fail with its own error when it
        trains alone.
        """
        try:
            need, free = self._need(runs), self.free()
        except Exception as error:
            refuse_if_lost(error, self.store)
            return 0
        most = need.fitting(free) if need.fits(free) else 0
        return min(most, fixed or most, self._limits.get(runs[0].shape_id, most))

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        """Return how many of these runs of one shape train together, and the seconds of a step of
        that many.
        """
        size = min(self.pack_size(runs), len(runs))
        try:
            with threads_for(runs[0], self.threads):
                data = self.data(runs[0])
                # Wall-clock time, because the budget is one of wall-clock time.
                return size, speed.seconds_per_step(
                    runs[:size], data, self.device, time.perf_counter
                )
        except Exception as error:
            refuse_if_lost(error, self.store)
            return size, 0.0  # training will fail with the same error and report it

    def _measured_size(self, runs: Sequence[RunSpec], taken: int) -> int:
        try:
            with threads_for(runs[0], self.threads):
                need, data = self._need(runs), self.data(runs[0])
                size = taken + memory.pack_size(runs, data, self.device, need, self.free())
        except Exception as error:
            refuse_if_lost(error, self.store)
            # Out of memory, or a mixer that fails. A run that trains alone reports its own error,
            # and no other run fails with it.
            self.store.note(
                "planning", f"{runs[0].model.mixer.name}: {type(error).__name__}: {error}"
            )
            return max(1, taken)
        if not self.splits:
            return size
        # Leave runs for the other processes. At least 2, since one member costs as much as two.
        return min(size, max(2, -(-(taken + len(runs)) // self.processes)))

    def _need(self, runs: Sequence[RunSpec]) -> memory.Need:
        """The memory that runs of this shape need, estimated once."""
        shape = runs[0].shape_id
        if shape not in self._needs:
            self.compile(runs[0])
            data = self.data(runs[0])
            self._needs[shape] = memory.estimate_need(runs, data, self.device, self.free())
        return self._needs[shape]


@dataclass(frozen=True)
class _Size:
    """The number of runs that train together, measured when `at_hand` runs were available."""

    runs: int
    at_hand: int


# Data key and shape id; runs with the same kind can train as one population.
Kind = tuple[str, str]


def kind_of(run: RunSpec) -> Kind:
    return data_key(run), run.shape_id


def data_key(run: RunSpec) -> str:
    """A key that is equal for runs that see the same rows."""
    return f"{run.task!r} {run.data_seed} {run.train.batch} {run.train.last_batch}"
