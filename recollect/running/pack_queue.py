"""Which runs train together next: same-shaped ones, those with a checkpoint first. Beside a few of
one shape another shape begins, where it fits into the memory that is left.

A sweep may have tens of thousands of runs in as many packs, so choosing a pack must not cost more
than the pack. What is todo is read once and kept, by data and by shape; the store is then asked
about the chosen runs alone, since other processes may have taken them. All is read again when
something came back to be done, and when nothing known is left.

Of several processes on several devices each begins with what is at home in it, and takes over what
waits elsewhere only when it would idle (processes/spread.py).
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
    """What may be trained of what is todo, and how much of it at a time."""

    run_ids: frozenset[str] | None = None  # None: all
    pack_size: int | None = None  # None: as measured
    later: frozenset[str] = frozenset()  # comes next: compiled ahead, not trained


EVERYTHING = Selection()


class _Candidate(NamedTuple):
    """A choice before the store is asked and a checkpoint loaded."""

    runs: tuple[RunSpec, ...]
    limit: int | None
    saved: SavedCheckpoint | None = None


class PackQueue:
    """The runs of a store that wait."""

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
        """`allow_drift`: go on from checkpoints of another environment, and say so in the rows.
        `is_compiled`: whether a shape may begin beside another, which would wait for its kernels.
        """
        self._allow_drift, self._is_compiled = allow_drift, is_compiled
        self.store, self.shapes, self.listen = store, shapes, listen
        self.home = home or Home()
        self._known = WaitingRuns()  # at home here
        self._chosen: tuple[frozenset[str], WaitingRuns] | None = None  # of them, by a selection
        self._elsewhere: dict[str, Waiting] = {}
        self._is_stale = True
        self._alone: set[str] = set()  # shapes that did not fit beside others
        self._told: set[str] = set()
        self._placed: dict[str, int] = {}  # of each run the attempt whose device was looked at
        self._saved = SavedRuns(store, checkpoints, shapes, self._tell, allow_drift)

    def next(
        self, selection: Selection, packs: Sequence[Pack], places: Mapping[Kind, int]
    ) -> Choice | None:
        """What should begin now beside `packs`; `places`: of each kind that trains, the most runs
        that have trained at once. It then counts as claimed: say `read_again` if it was not.
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
        """What is todo here, except that other processes may have begun some of it."""
        if self._is_stale or not self._known:
            self._read()
        if selection.run_ids is None:
            return self._known
        if self._chosen is None or self._chosen[0] is not selection.run_ids:
            self._chosen = selection.run_ids, self._known.select(selection.run_ids)
        return self._chosen[1]

    def next_shapes(self, selection: Selection) -> Iterator[RunSpec]:
        """One run of each shape that waits, in the order in which shapes will have their turn."""
        self.waiting(selection)
        chosen = selection.run_ids
        both = None if chosen is None else chosen | selection.later
        return self._known.shapes(self.shapes.data_there, both)

    def read_again(self) -> None:
        """Something came back to be done."""
        self._is_stale = True

    def keep_alone(self, shape_id: str) -> None:
        """Runs of this shape do not fit beside those of others: they train without any."""
        self._alone.add(shape_id)

    def leave(self, run: RunSpec) -> None:
        """Not even one run of this shape fits here: they are for a larger device."""
        self.home.leave(run.shape_id)
        name = f"{run.model.mixer.name} width={run.model.width}"
        self._tell(f"{self.shapes.device}: too small for {name}; left to a larger one", "memory")
        self.read_again()

    def _first(self, waiting: WaitingRuns, selection: Selection) -> _Candidate:
        """Where nothing trains."""
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
        """In the places that ended runs of the same kind left; else, where those that train do not
        fill the device, of another kind.
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
        # A pack that was evaluated has all the memory it wants, so what is free then is free.
        is_full = sum(len(pack.claims) for pack in packs) >= FULL
        if is_full or any(not pack.evaluations or pack.shape_id in self._alone for pack in packs):
            return None
        return self._other(waiting, selection, by_kind)

    def _other(
        self, waiting: WaitingRuns, selection: Selection, there: Mapping[Kind, object]
    ) -> _Candidate | None:
        """Of the first kind that is not there, as many as fit."""
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
        """Those of a kind with a checkpoint, or new ones, if there is room for them."""
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
        """All that is todo."""
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
        """What is new about a run that waits here."""
        self._known.put(waiting)
        if self._chosen is not None and waiting.run.run_id in self._chosen[0]:
            self._chosen[1].put(waiting)

    def _drop(self, run_id: str) -> None:
        """It waits here no longer."""
        self._known.drop(run_id)
        if self._chosen is not None and run_id in self._chosen[0]:
            self._chosen[1].drop(run_id)

    def _take_over(self, selection: Selection) -> bool:
        """Where nothing at home waits, some of what waits elsewhere is at home here from now on;
        whether any was.
        """
        if not self.home.is_shared or self.waiting(selection):
            return False
        if selection.run_ids is not None:
            self._read()  # what is not selected has hidden that nothing known is left
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
        """If what is next does not fit here, it is left to a larger device; whether it was."""
        if not (waiting and self.home.leaves_large):
            return False
        run = next(iter(next(waiting.groups(self.shapes.data_there)).values())).run
        if self.shapes.fits(run):
            return False
        self.leave(run)
        return True

    def _leave_begun(self, waiting: WaitingRuns) -> bool:
        """Runs that another kind of device has begun are left to it, since bits depend on it;
        whether any were.
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
        """Whether these are todo as they are known; what is not is put right."""
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
        """Once, however often it is met."""
        if problem not in self._told:
            self._told.add(problem)
            self.store.note(kind, problem)
            self.listen(Remark(problem))


def _limit(waiting: Iterable[Waiting], packs: Iterable[Pack]) -> int | None:
    """The most runs that these, and those that train, may train beside."""
    limits = [*(entry.pack_limit for entry in waiting), *(pack.limit for pack in packs)]
    return min((limit for limit in limits if limit is not None), default=None)
