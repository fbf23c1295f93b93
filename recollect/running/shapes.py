"""What a worker knows of the shapes it trains: their data, whether their kernels are compiled, and
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
    """On one device."""

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
        """`threads`: CPU threads that may be used. `processes` share the memory of the device, of
        which no more than `memory_bytes` is used. `splits`: they share the runs of every shape too.
        """
        self.store, self.folder, self.device = store, folder, device
        self.threads, self.processes, self.splits = threads, processes, splits
        self.memory_bytes = memory_bytes
        self._task: tuple[str, Task] | None = None
        self._compiled: set[str] = set()  # all by shape
        self._sizes: dict[str, _Size] = {}  # measured
        self._needs: dict[str, memory.Need] = {}
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
        if run.shape_id not in self._compiled:
            self._compiled.add(run.shape_id)
            if compiles(self.device):
                precompile(run, self.data(run), self.device)

    @property
    def compiled(self) -> frozenset[str]:
        """The shapes that this process has begun."""
        return frozenset(self._compiled)

    def free(self) -> int:
        """Bytes that this process may use now."""
        free = memory.free_memory(self.device)
        return min(free, free if self.memory_bytes is None else self.memory_bytes) // self.processes

    def fits(self, run: RunSpec) -> bool:
        """Whether one run of this shape should fit, where nothing trains. What cannot be tried out
        does: it then fails for its own reason.
        """
        try:
            return self._need([run]).fits(self.free())
        except Exception as error:
            refuse_if_lost(error, self.store)
            return True

    def limit(self, shape_id: str, most: int) -> None:
        """From now on at most so many runs of this shape train at a time."""
        self._limits[shape_id] = most

    def pack_size(self, runs: Sequence[RunSpec], taken: int = 0, fixed: int | None = None) -> int:
        """How many runs of this shape may train at a time, the `taken` ones that do already
        included; measured once, and again when there are more than could be tried; or `fixed`.
        """
        shape, at_hand = runs[0].shape_id, taken + len(runs)
        if fixed is not None:
            return min(fixed, self._limits.get(shape, fixed))
        known = self._sizes.get(shape)
        if known is None or known.at_hand <= min(known.runs, at_hand - 1):
            known = self._sizes[shape] = _Size(self._measured_size(runs, taken), at_hand)
        return min(known.runs, self._limits.get(shape, known.runs))

    def fitting_now(self, runs: Sequence[RunSpec], fixed: int | None = None) -> int:
        """How many runs of this shape fit beside what trains, no more than `fixed`. None of what
        cannot be tried out: alone it fails for its own reason.
        """
        try:
            need, free = self._need(runs), self.free()
        except Exception as error:
            refuse_if_lost(error, self.store)
            return 0
        most = need.fitting(free) if need.fits(free) else 0
        return min(most, fixed or most, self._limits.get(runs[0].shape_id, most))

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        """How many of these runs of one shape train together,
        and how many seconds a step of so many takes.
        """
        size = min(self.pack_size(runs), len(runs))
        try:
            with threads_for(runs[0], self.threads):
                data = self.data(runs[0])
                # By the time of day: it is for a budget of it.
                return size, speed.seconds_per_step(
                    runs[:size], data, self.device, time.perf_counter
                )
        except Exception as error:
            refuse_if_lost(error, self.store)
            return size, 0.0  # it fails soon enough, and then for its own reason

    def _measured_size(self, runs: Sequence[RunSpec], taken: int) -> int:
        try:
            with threads_for(runs[0], self.threads):
                need, data = self._need(runs), self.data(runs[0])
                size = taken + memory.pack_size(runs, data, self.device, need, self.free())
        except Exception as error:
            refuse_if_lost(error, self.store)
            # Out of memory, or a mixer that fails: a run on its own then fails for its own reason,
            # and no other with it.
            self.store.note(
                "planning", f"{runs[0].model.mixer.name}: {type(error).__name__}: {error}"
            )
            return max(1, taken)
        if not self.splits:
            return size
        # Something is left for the other processes; but one member costs as much as two.
        return min(size, max(2, -(-(taken + len(runs)) // self.processes)))

    def _need(self, runs: Sequence[RunSpec]) -> memory.Need:
        """The memory that runs of this shape need, found once."""
        shape = runs[0].shape_id
        if shape not in self._needs:
            self.compile(runs[0])
            data = self.data(runs[0])
            self._needs[shape] = memory.estimate_need(runs, data, self.device, self.free())
        return self._needs[shape]


@dataclass(frozen=True)
class _Size:
    """So many runs train together, found when there were `at_hand`."""

    runs: int
    at_hand: int


# Of runs that can train as one population: their data and their shape.
Kind = tuple[str, str]


def kind_of(run: RunSpec) -> Kind:
    return data_key(run), run.shape_id


def data_key(run: RunSpec) -> str:
    """Equal for runs that see the same rows."""
    return f"{run.task!r} {run.data_seed} {run.train.batch} {run.train.last_batch}"
