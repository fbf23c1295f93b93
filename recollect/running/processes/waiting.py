"""The waiting runs that a process knows, by data and by shape."""

from collections.abc import Container, Iterator
from itertools import chain
from typing import NamedTuple

from recollect.running.shapes import Kind, kind_of
from recollect.spec.run import RunSpec


class Waiting(NamedTuple):
    """A todo run, as last read from the store."""

    run: RunSpec
    attempt: int  # how many times it was begun
    pack_limit: int | None


Group = dict[str, Waiting]  # runs of one shape by their ids


class WaitingRuns:
    """Waiting runs grouped by data, then by shape, each in the order of planning."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Group]] = {}
        self._kinds: dict[str, Kind] = {}  # by run
        self._begun: Group = {}
        self._left: set[str] = set()  # shapes whose last waiting run was dropped

    def __len__(self) -> int:
        return len(self._kinds)

    def get(self, run_id: str) -> Waiting | None:
        if run_id not in self._kinds:
            return None
        data, shape = self._kinds[run_id]
        return self._groups[data][shape][run_id]

    def put(self, waiting: Waiting) -> None:
        """Add a run, or update it."""
        run_id = waiting.run.run_id
        self._put(waiting, self._kinds.get(run_id) or kind_of(waiting.run))

    def _put(self, waiting: Waiting, kind: Kind) -> None:
        run_id, (data, shape) = waiting.run.run_id, kind
        self._kinds[run_id] = kind
        shapes = self._groups.setdefault(data, {})
        if shape in self._left and shape not in shapes:
            # The shape was given back to train in smaller packs. It comes first, since its kernels
            # are compiled.
            self._groups[data] = shapes = {shape: {}, **shapes}
        shapes.setdefault(shape, {})[run_id] = waiting
        if waiting.attempt:
            self._begun[run_id] = waiting

    def drop(self, run_id: str) -> None:
        data, shape = self._kinds.pop(run_id)
        self._begun.pop(run_id, None)
        del self._groups[data][shape][run_id]
        if not self._groups[data][shape]:
            del self._groups[data][shape]
            self._left.add(shape)
        if not self._groups[data]:
            del self._groups[data]

    def select(self, run_ids: Container[str]) -> "WaitingRuns":
        """The waiting runs among `run_ids`, in the same order."""
        selected = WaitingRuns()
        for group in chain.from_iterable(shapes.values() for shapes in self._groups.values()):
            for run_id, waiting in group.items():
                if run_id in run_ids:
                    selected._put(waiting, self._kinds[run_id])
        return selected

    def run_ids(self) -> list[str]:
        return list(self._kinds)

    def begun(self, group: Group | None = None) -> Group:
        """The runs that were begun before, of all shapes or of one group.

        Only these can have a checkpoint or a pack limit.
        """
        if group is None:
            return self._begun
        return {run_id: waiting for run_id, waiting in self._begun.items() if run_id in group}

    def of_shape(self, run: RunSpec) -> Group:
        """The waiting runs of the same kind as `run`, which can take its place when it ends."""
        data, shape = kind_of(run)
        return self._groups.get(data, {}).get(shape, {})

    def groups(self, data: str | None) -> Iterator[Group]:
        """The group of each shape, in the order in which shapes are trained.

        Shapes that use `data`, which is in memory, come first: only a model has to be built then.
        """
        there = self._groups.get(data or "", {})
        others = (shapes for shapes in self._groups.values() if shapes is not there)
        return chain.from_iterable(shapes.values() for shapes in chain([there], others))

    def shapes(self, data: str | None, among: Container[str] | None) -> Iterator[RunSpec]:
        """One run of each shape, in the order of `groups`; only runs in `among` if it is given."""
        for group in self.groups(data):
            ids = (run_id for run_id in group if among is None or run_id in among)
            first = next(ids, None)
            if first is not None:
                yield group[first].run
