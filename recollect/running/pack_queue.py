"""Chooses which runs train together next: runs of one shape, those with a checkpoint first. When a
few runs of one shape train, another shape begins next to them if it fits into the memory left.

A sweep may have tens of thousands of runs in as many packs, so choosing a pack must not cost more
than training it. The queue reads the todo runs once and keeps them by data and by shape. It then
asks the store only about the chosen runs, since other processes may have taken them. It reads all
todo runs again when runs have returned to the store, and when no known run is left.

With several processes on several devices, each process begins with the runs assigned to it. It
takes over runs assigned to others only when it would idle (processes/spread.py).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from recollect.errors import StoreError
from recollect.running.events import Event, Remark
from recollect.running.pack import Choice, Pack
from recollect.running.planning.memory import FULL, count_joining, even_pack_size
from recollect.running.processes.spread import Home
from recollect.running.processes.waiting import Group, Waiting, WaitingRuns
from recollect.running.saved_runs import SavedRuns
from recollect.running.shapes import Kind, Shapes, kind_of
from recollect.spec.run import RunSpec
from recollect.store import Store
from recollect.store.checkpoint import SavedCheckpoint
from recollect.training.environment import Environment


@dataclass(frozen=True)
class Selection:
    """The todo runs that may be trained, and how many of them at a time."""

    run_ids: frozenset[str] | None = None  # None: all
    pack_size: int | None = None  # None: as measured
    later: frozenset[str] = frozenset()  # runs of a later call: compiled ahead, not trained


EVERYTHING = Selection()


class _Candidate(NamedTuple):
    """A choice that the store has not confirmed and whose checkpoint is not loaded."""

    runs: tuple[RunSpec, ...]
    limit: int | None
    saved: SavedCheckpoint | None = None


class PackQueue:
    """The waiting runs of a store."""

    def __init__(
        self,
        store: Store,
        checkpoints: Path,
        shapes: Shapes,
        listen: Callable[[Event], None],
        home: Home | None = None,
        allow_drift: bool = False,
        is_compiled: Callable[[RunSpec], bool] = lambda run: True,
    ):
        """`home`: the runs assigned to this process. `allow_drift`: continue from checkpoints of
        another environment, and record that in the rows. `is_compiled`: whether the kernels of a
        shape are ready. A shape begins next to another only then, because compiling would make the
        other one wait.
        """
        self._allow_drift, self._is_compiled = allow_drift, is_compiled
        self.store, self.shapes, self.listen = store, shapes, listen
        self.home = home or Home()
        self._known = WaitingRuns()  # assigned to this process
        self._chosen: tuple[frozenset[str], WaitingRuns] | None = None  # the selected ones
        self._elsewhere: dict[str, Waiting] = {}  # assigned to other processes
        self._is_stale = True
        self._alone: set[str] = set()  # shapes that did not fit together with others
        self._told: set[str] = set()  # problems already reported
        self._placed: dict[str, int] = {}  # by run: the attempt whose device was checked
        self._saved = SavedRuns(store, checkpoints, shapes, self._tell, allow_drift)

    def next(
        self, selection: Selection, packs: Sequence[Pack], places: Mapping[Kind, int]
    ) -> Choice | None:
        """Choose the runs that should begin now, next to `packs` in training; None if there are
        none.

        `places`: for each kind in training, the most runs that have trained at once. The queue
        treats the chosen runs as claimed; the caller calls `read_again` if it cannot claim them.
        """
        while True:
            waiting = self.waiting(selection)
            if self._leave_begun(waiting):
                continue
            if not packs and (self._take_over(selection) or self._leave_large(waiting)):
                continue
            if packs:
                found = self._beside(waiting, selection, packs, places)
            else:
                found = self._first(waiting, selection) if waiting else None
            if found is None:
                return None
            if self._confirm(found.runs):
                for run in found.runs:
                    self._drop(run.run_id)
                if found.saved is None:
                    return Choice(found.runs, None, found.limit)
                try:
                    state, wall_s = self._saved.load(found.saved, found.runs)
                except StoreError as error:
                    self._tell(str(error))
                    self.read_again()
                    continue
                differ = self._saved.drift(found.saved, found.runs[0])
                if differ:
                    self._tell(f"{len(found.runs)} runs drift {', '.join(differ)}")
                drift = found.saved.drift + differ
                return Choice(found.runs, state, found.limit, found.saved, drift, wall_s)

    def waiting(self, selection: Selection) -> WaitingRuns:
        """The todo runs of this process as last read; other processes may have begun some."""
        if self._is_stale or not self._known:
            self._read()
        if selection.run_ids is None:
            return self._known
        if self._chosen is None or self._chosen[0] is not selection.run_ids:
            self._chosen = selection.run_ids, self._known.select(selection.run_ids)
        return self._chosen[1]

    def next_shapes(self, selection: Selection) -> Iterator[RunSpec]:
        """One run of each waiting shape, in the order in which the shapes will be trained."""
        self.waiting(selection)
        chosen = selection.run_ids
        both = None if chosen is None else chosen | selection.later
        return self._known.shapes(self.shapes.data_there, both)

    def read_again(self) -> None:
        """Make the queue read all todo runs again, because some may have returned to the store."""
        self._is_stale = True

    def keep_alone(self, shape_id: str) -> None:
        """Train this shape only while no other shape trains, since they do not fit together."""
        self._alone.add(shape_id)

    def leave(self, run: RunSpec) -> None:
        """Leave this shape to a larger device, because not even one run of it fits here."""
        self.home.leave(run.shape_id)
        name = f"{run.model.mixer.name} width={run.model.width}"
        self._tell(f"{self.shapes.device}: too small for {name}; left to a larger one", "memory")
        self.read_again()

    def _first(self, waiting: WaitingRuns, selection: Selection) -> _Candidate:
        """Choose the first runs, when nothing is training."""
        found = self._saved.find(waiting.get, waiting.begun())
        if found is not None:
            entries, saved = found
            limit = _limit(entries, ())
            return _Candidate(tuple(entry.run for entry in entries[:limit]), limit, saved)
        group = next(waiting.groups(self.shapes.data_there))
        limit = _limit(waiting.begun(group).values(), ())
        return self._fresh(group, self._room(group, limit, selection, (), 0), limit)

    def _beside(
        self,
        waiting: WaitingRuns,
        selection: Selection,
        packs: Sequence[Pack],
        places: Mapping[Kind, int],
    ) -> _Candidate | None:
        """Choose runs that begin next to `packs`.

        Runs of a kind in training come first, in the places that ended runs have left. If there
        are none and the running packs do not fill the device, choose runs of another kind.
        """
        by_kind: dict[Kind, list[Pack]] = {}
        for pack in packs:
            by_kind.setdefault(pack.kind, []).append(pack)
        for kind, same in by_kind.items():
            group = waiting.of_shape(same[0].runs[0])
            begun = waiting.begun(group)
            limit = _limit(begun.values(), same)
            room = self._room(group, limit, selection, same, places[kind]) if group else 0
            found = self._of_group(group, begun, room, limit)
            if found is not None:
                return found
        # A pack that has been evaluated allocates no more, so memory that is free then stays free.
        is_full = sum(len(pack.claims) for pack in packs) >= FULL
        if is_full or any(not pack.evaluations or pack.shape_id in self._alone for pack in packs):
            return None
        return self._other(waiting, selection, by_kind)

    def _other(
        self, waiting: WaitingRuns, selection: Selection, there: Mapping[Kind, object]
    ) -> _Candidate | None:
        """Choose as many runs as fit of the first waiting kind that is not `there`."""
        for group in waiting.groups(self.shapes.data_there):
            same = [entry.run for entry in group.values()]
            if kind_of(same[0]) in there or same[0].shape_id in self._alone:
                continue
            if self._is_compiled(same[0]):
                begun = waiting.begun(group)
                limit = _limit(begun.values(), ())
                most = self.shapes.fitting_now(same, selection.pack_size)
                room = even_pack_size(len(same), min(most, limit or most)) if most else 0
                return self._of_group(group, begun, room, limit)
        return None

    def _of_group(
        self, group: Group, begun: Group, room: int, limit: int | None
    ) -> _Candidate | None:
        """Choose runs of one kind if there is room: with a checkpoint first, else new ones."""
        if not room:
            return None
        found = self._saved.find(group.get, begun) if begun else None
        if found is None:
            return self._fresh(group, room, limit)
        entries, saved = found
        runs = tuple(entry.run for entry in entries[: _limit(entries, ())])
        return _Candidate(runs, limit, saved) if len(runs) <= room else None

    def _fresh(self, group: Group, room: int, limit: int | None) -> _Candidate:
        return _Candidate(tuple(waiting.run for waiting in islice(group.values(), room)), limit)

    def _room(
        self,
        group: Group,
        limit: int | None,
        selection: Selection,
        packs: Sequence[Pack],
        places: int,
    ) -> int:
        """How many of these waiting runs of one shape should begin now."""
        taken = sum(len(pack.claims) for pack in packs)
        same = [waiting.run for waiting in group.values()]
        size = self.shapes.pack_size(same, taken, selection.pack_size)
        return count_joining(len(same), taken, min(size, limit or len(same) + taken), places)

    def _read(self) -> None:
        """Read all todo runs from the store."""
        gone = set(self._known.run_ids())
        elsewhere: dict[str, Waiting] = {}
        for todo in self.store.todo():
            known = self._known.get(todo.run_id) or self._elsewhere.get(todo.run_id)
            run = known.run if known else RunSpec.from_json(todo.spec)
            if run.run_id != todo.run_id:
                self.store.leave_out(todo.run_id, "its specification is not in its final form")
                continue
            waiting = Waiting(run, todo.attempt, todo.pack_limit)
            if self.home.holds(run):
                gone.discard(todo.run_id)
                self._known.put(waiting)
            else:
                elsewhere[todo.run_id] = waiting
        for run_id in gone:
            self._known.drop(run_id)
        self._elsewhere, self._is_stale, self._chosen = elsewhere, False, None

    def _put(self, waiting: Waiting) -> None:
        """Add or update a run that waits here."""
        self._known.put(waiting)
        if self._chosen is not None and waiting.run.run_id in self._chosen[0]:
            self._chosen[1].put(waiting)

    def _drop(self, run_id: str) -> None:
        """Remove a run that no longer waits here."""
        self._known.drop(run_id)
        if self._chosen is not None and run_id in self._chosen[0]:
            self._chosen[1].drop(run_id)

    def _take_over(self, selection: Selection) -> bool:
        """If no run of this process waits, take over some that wait for other processes.

        Returns whether any were taken over.
        """
        if not self.home.is_shared or self.waiting(selection):
            return False
        if selection.run_ids is not None:
            self._read()  # `waiting` does not read while runs outside the selection are known
        runs = [
            waiting.run
            for run_id, waiting in self._elsewhere.items()
            if selection.run_ids is None or run_id in selection.run_ids
        ]
        self.home.take_over(runs, self.shapes.compiled)
        for run in filter(self.home.holds, runs):
            self._put(self._elsewhere.pop(run.run_id))
        return bool(self.waiting(selection))

    def _leave_large(self, waiting: WaitingRuns) -> bool:
        """Leave the next shape to a larger device if it does not fit here; return whether so."""
        if not (waiting and self.home.leaves_large):
            return False
        run = next(iter(next(waiting.groups(self.shapes.data_there)).values())).run
        if self.shapes.fits(run):
            return False
        self.leave(run)
        return True

    def _leave_begun(self, waiting: WaitingRuns) -> bool:
        """Leave runs that another kind of device began to that kind; return whether any were left.

        The bits of a result depend on the kind of device.
        """
        if self._allow_drift or not self.home.is_shared:
            return False
        new = {
            run_id: entry
            for run_id, entry in waiting.begun().items()
            if self._placed.get(run_id) != entry.attempt
        }
        if not new:
            return False
        self._placed |= {run_id: entry.attempt for run_id, entry in new.items()}
        found = self._saved.all()
        here = Environment.here(self.shapes.device).device
        usable = {run_id: self._saved.usable(entry.run, found) for run_id, entry in new.items()}
        left = [
            run_id
            for run_id, saved in usable.items()
            if saved is not None and saved.environment.device not in ("", here)
        ]
        self.home.leave_begun(left)
        self._is_stale = self._is_stale or bool(left)
        return bool(left)

    def _confirm(self, runs: Sequence[RunSpec]) -> bool:
        """Whether the store has these runs as known here; otherwise update what is known."""
        todo = {entry.run_id: entry for entry in self.store.todo([run.run_id for run in runs])}
        before = [self._known.get(run.run_id) for run in runs]
        for run in runs:
            entry = todo.get(run.run_id)
            if entry is None:
                self._drop(run.run_id)
            else:
                self._put(Waiting(run, entry.attempt, entry.pack_limit))
        return before == [self._known.get(run.run_id) for run in runs]

    def _tell(self, problem: str, kind: str = "checkpoint") -> None:
        """Report a problem once, however often it occurs."""
        if problem not in self._told:
            self._told.add(problem)
            self.store.note(kind, problem)
            self.listen(Remark(problem))


def _limit(waiting: Iterable[Waiting], packs: Iterable[Pack]) -> int | None:
    """The most runs that may train at once, by the limits of the waiting runs and the packs."""
    limits = [*(entry.pack_limit for entry in waiting), *(pack.limit for pack in packs)]
    return min((limit for limit in limits if limit is not None), default=None)
