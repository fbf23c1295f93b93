"""The runs that wait, as a process knows them: by data, then by shape."""

from collections.abc import Container, Iterator
from itertools import chain
from typing import NamedTuple

from recollect.running.shapes import Kind, kind_of
from recollect.spec.run import RunSpec


class Waiting(NamedTuple):
    """A run that is todo, as the store last said."""

    run: RunSpec
    attempt: int  # how often it was begun
    pack_limit: int | None


Group = dict[str, Waiting]  # runs of one shape by their ids


class WaitingRuns:
    """By data, then by shape, each in the order of planning."""

    def __init__(self) -> None:
        self._groups: dict[str, dict[str, Group]] = {}
        self._kinds: dict[str, Kind] = {}  # of each run
        self._begun: Group = {}
        self._left: set[str] = set()  # shapes of which none waited any more

    def __len__(self) -> int:
        return len(self._kinds)

    def get(self, run_id: str) -> Waiting | None:
        if run_id not in self._kinds:
            return None
        data, shape = self._kinds[run_id]
        return self._groups[data][shape][run_id]

    def put(self, waiting: Waiting) -> None:
        """A run, or what is new about it."""
        run_id = waiting.run.run_id
        self._put(waiting, self._kinds.get(run_id) or kind_of(waiting.run))

    def _put(self, waiting: Waiting, kind: Kind) -> None:
        run_id, (data, shape) = waiting.run.run_id, kind
        self._kinds[run_id] = kind
        shapes = self._groups.setdefault(data, {})
        if shape in self._left and shape not in shapes:
            # Given back, in order to train with fewer: its kernels are there, so it is next.
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
        """Those of these runs that wait, in the order of all."""
        selected = WaitingRuns()
        for group in chain.from_iterable(shapes.values() for shapes in self._groups.values()):
            for run_id, waiting in group.items():
                if run_id in run_ids:
                    selected._put(waiting, self._kinds[run_id])
        return selected

    def run_ids(self) -> list[str]:
        return list(self._kinds)

    def begun(self, group: Group | None = None) -> Group:
        """Of all or of one shape, those that were begun before: they alone can have a checkpoint
        or a limit.
        """
        if group is None:
            return self._begun
        return {run_id: waiting for run_id, waiting in self._begun.items() if run_id in group}

    def of_shape(self, run: RunSpec) -> Group:
        """Those that can take places which runs like this one leave."""
        data, shape = kind_of(run)
        return self._groups.get(data, {}).get(shape, {})

    def groups(self, data: str | None) -> Iterator[Group]:
        """Of each shape, in the order in which shapes have their turn: what shares the data that
        are there comes first, since then only a model has to be built.
        """
        there = self._groups.get(data or "", {})
        others = (shapes for shapes in self._groups.values() if shapes is not there)
        return chain.from_iterable(shapes.values() for shapes in chain([there], others))

    def shapes(self, data: str | None, among: Container[str] | None) -> Iterator[RunSpec]:
        """One run of each shape that has any among these, or at all, in the order of `groups`."""
        for group in self.groups(data):
            ids = (run_id for run_id in group if among is None or run_id in among)
            first = next(ids, None)
            if first is not None:
                yield group[first].run
