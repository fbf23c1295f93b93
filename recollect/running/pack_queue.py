"""Which runs train together next: same-shaped ones, those with a checkpoint first."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.running.events import Event, Remark
from recollect.running.pack import Choice, Pack
from recollect.running.planning.memory import count_joining
from recollect.running.shapes import Shapes
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.records import Todo
from recollect.training.state import PopulationState


@dataclass(frozen=True)
class Selection:
    """What may be trained of what is todo, and how much of it at a time."""

    run_ids: frozenset[str] | None = None  # None: all
    pack_size: int | None = None  # None: as measured


EVERYTHING = Selection()


class PackQueue:
    """The runs of a store that wait."""

    def __init__(
        self,
        store: Store,
        checkpoints: Path,
        shapes: Shapes,
        listen: Callable[[Event], None],
    ):
        self.store, self.checkpoints, self.shapes, self.listen = store, checkpoints, shapes, listen
        self._specs: dict[str, RunSpec] = {}

    def next(self, selection: Selection, packs: Sequence[Pack], places: int) -> Choice | None:
        """What should begin now beside `packs`; `places`: the most runs that have trained at once
        since there were none.
        """
        waiting = self._waiting(selection)
        if packs:
            return self._next_beside(waiting, selection, packs, places)
        if not waiting:
            return None
        resumed = self._from_checkpoint(waiting)
        if resumed is not None:
            runs, state = resumed
            return Choice(runs, state, _limit((waiting[run.run_id] for run in runs), packs))
        specs = self._in_order(waiting)
        same = [run for run in specs if run.shape_id == specs[0].shape_id]
        limit = _limit((waiting[run.run_id] for run in same), packs)
        room = self._room(same, limit, selection, packs, places)
        return Choice(tuple(same[:room]), None, limit)

    def waiting(self, selection: Selection) -> list[RunSpec]:
        """All that is todo, in the order in which shapes will have their turn."""
        return self._in_order(self._waiting(selection))

    def _next_beside(
        self, waiting: dict[str, Todo], selection: Selection, packs: Sequence[Pack], places: int
    ) -> Choice | None:
        """There is room for the shape that trains alone."""
        shape = packs[0].shape_id
        same = [self._specs[run_id] for run_id in waiting if self._specs[run_id].shape_id == shape]
        limit = _limit((waiting[run.run_id] for run in same), packs)
        room = self._room(same, limit, selection, packs, places) if same else 0
        if not room:
            return None
        # Checkpoints are read to their last byte when they are looked for: only if there can be
        # any.
        begun = {run.run_id: waiting[run.run_id] for run in same if waiting[run.run_id].attempt}
        resumed = self._from_checkpoint(begun) if begun else None
        if resumed is None:
            return Choice(tuple(same[:room]), None, limit)
        return Choice(*resumed, limit) if len(resumed[0]) <= room else None

    def _room(
        self,
        same: Sequence[RunSpec],
        limit: int | None,
        selection: Selection,
        packs: Sequence[Pack],
        places: int,
    ) -> int:
        """How many of these waiting runs of one shape should begin now."""
        taken = sum(len(pack.claims) for pack in packs)
        size = self.shapes.pack_size(same, taken, selection.pack_size)
        return count_joining(len(same), taken, min(size, limit or len(same) + taken), places)

    def _waiting(self, selection: Selection) -> dict[str, Todo]:
        chosen = selection.run_ids
        waiting = {
            todo.run_id: todo
            for todo in self.store.todo()
            if chosen is None or todo.run_id in chosen
        }
        for run_id, todo in waiting.items():
            if run_id not in self._specs:
                self._specs[run_id] = RunSpec.from_json(todo.spec)
        return waiting

    def _in_order(self, waiting: Iterable[str]) -> list[RunSpec]:
        """What shares the data that are there comes first:
        the next shape then only has to build its model.
        """
        specs = [self._specs[run_id] for run_id in waiting]
        return sorted(specs, key=lambda run: not self.shapes.has_data(run))

    def _from_checkpoint(
        self, waiting: dict[str, Todo]
    ) -> tuple[tuple[RunSpec, ...], PopulationState] | None:
        found = checkpoint.find(self.checkpoints)
        for problem in found.problems:
            self.store.note("checkpoint", problem)
            self.listen(Remark(problem))
        newest = {run_id: found.newest(run_id) for run_id in waiting}
        for entry in found.saved:
            members = [
                run_id for run_id in entry.run_ids if run_id in waiting and newest[run_id] == entry
            ]
            if members:
                most = min(waiting[run_id].pack_limit or len(members) for run_id in members)
                members = members[:most]
                loaded = checkpoint.load(entry.path)
                state = PopulationState(
                    loaded.run_ids,
                    loaded.step,
                    loaded.state["steps_since_evaluation"],
                    loaded.tensors,
                )
                return tuple(self._specs[run_id] for run_id in members), state.select(members)
        return None


def _limit(todos: Iterable[Todo], packs: Iterable[Pack]) -> int | None:
    """The most runs that these, and those that train, may train beside."""
    limits = [*(todo.pack_limit for todo in todos), *(pack.limit for pack in packs)]
    return min((limit for limit in limits if limit is not None), default=None)
