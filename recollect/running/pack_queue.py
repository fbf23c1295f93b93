"""Which runs train together next: same-shaped ones, those with a checkpoint first.

A sweep may have tens of thousands of runs in as many packs, so choosing a pack must not cost more
than the pack. What is todo is read once and kept, by data and by shape; the store is then asked
about the chosen runs alone, since other processes may have taken them. All is read again when
something came back to be done, and when nothing known is left.

Of several processes on several devices each begins with what is at home in it, and takes over what
waits elsewhere only when it would idle (processes/spread.py).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from recollect.errors import SpecError, StoreError
from recollect.running.events import Event, Remark
from recollect.running.pack import Choice, Pack
from recollect.running.planning.memory import count_joining
from recollect.running.planning.threads import choose_threads
from recollect.running.processes.spread import Home
from recollect.running.processes.waiting import Group, Waiting, WaitingRuns
from recollect.running.shapes import Shapes
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.checkpoint import FoundCheckpoints, SavedCheckpoint
from recollect.training.environment import Environment, differences
from recollect.training.state import PopulationState


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
    ):
        """`allow_drift`: go on from checkpoints of another environment, and say so in the rows."""
        self._allow_drift = allow_drift
        self.store, self.checkpoints, self.shapes, self.listen = store, checkpoints, shapes, listen
        self.home = home or Home()
        self._known = WaitingRuns()  # at home here
        self._chosen: tuple[frozenset[str], WaitingRuns] | None = None  # of them, by a selection
        self._elsewhere: dict[str, Waiting] = {}
        self._is_stale = True
        self._told: set[str] = set()
        self._sought = False  # whether checkpoints were looked for at all
        self._placed: dict[str, int] = {}  # of each run the attempt whose device was looked at
        self._unsaved: dict[str, int] = {}  # of each run the attempt that left no checkpoint

    def next(self, selection: Selection, packs: Sequence[Pack], places: int) -> Choice | None:
        """What should begin now beside `packs`; `places`: the most runs that have trained at once
        since there were none. It then counts as claimed: say `read_again` if it was not.
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
                    state = self._load_state(found.saved, found.runs)
                except StoreError as error:
                    self._tell(str(error))
                    self.read_again()
                    continue
                differ = self._drift(found.saved, found.runs[0])
                if differ:
                    self._tell(f"{len(found.runs)} runs drift {', '.join(differ)}")
                drift = found.saved.drift + differ
                return Choice(found.runs, state, found.limit, found.saved, drift)

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

    def leave(self, run: RunSpec) -> None:
        """Not even one run of this shape fits here: they are for a larger device."""
        self.home.leave(run.shape_id)
        name = f"{run.model.mixer.name} width={run.model.width}"
        self._tell(f"{self.shapes.device}: too small for {name}; left to a larger one", "memory")
        self.read_again()

    def _first(self, waiting: WaitingRuns, selection: Selection) -> _Candidate:
        """Where nothing trains."""
        saved = self._saved(waiting.get, waiting.begun())
        if saved is not None:
            return saved
        group = waiting.first(self.shapes.data_there)
        limit = _limit(waiting.begun(group).values(), ())
        return self._fresh(group, self._room(group, limit, selection, (), 0), limit)

    def _beside(
        self, waiting: WaitingRuns, selection: Selection, packs: Sequence[Pack], places: int
    ) -> _Candidate | None:
        """There is room for the shape that trains alone."""
        group = waiting.of_shape(packs[0].runs[0])
        begun = waiting.begun(group)
        limit = _limit(begun.values(), packs)
        room = self._room(group, limit, selection, packs, places) if group else 0
        if not room:
            return None
        saved = self._saved(group.get, begun) if begun else None
        if saved is None:
            return self._fresh(group, room, limit)
        return saved._replace(limit=limit) if len(saved.runs) <= room else None

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
        run = next(iter(waiting.first(self.shapes.data_there).values())).run
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
        found = checkpoint.find(self.checkpoints, self.store.key)
        here = Environment.here(self.shapes.device).device
        usable = {run_id: self._usable(entry.run, found) for run_id, entry in new.items()}
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

    def _saved(self, waiting: Callable[[str], Waiting | None], begun: Group) -> _Candidate | None:
        """Runs with a checkpoint. Those are read to their last byte when they are looked for: once,
        and after that only for attempts that came back since.
        """
        if self._sought and all(
            self._unsaved.get(run_id) == entry.attempt for run_id, entry in begun.items()
        ):
            return None
        found = checkpoint.find(self.checkpoints, self.store.key)
        for problem in found.problems:
            self._tell(problem)
        usable: dict[str, SavedCheckpoint | None] = {}
        for saved in found.saved:
            members = []
            for entry in filter(None, map(waiting, saved.run_ids)):
                run_id = entry.run.run_id
                if run_id not in usable:
                    usable[run_id] = self._usable(entry.run, found)
                if usable[run_id] == saved:
                    members.append(entry)
            if members:
                self._require_same(saved, members[0].run)
                limit = _limit(members, ())
                return _Candidate(tuple(entry.run for entry in members[:limit]), limit, saved)
        self._sought = True
        self._unsaved |= {run_id: entry.attempt for run_id, entry in begun.items()}
        return None

    def _usable(self, run: RunSpec, found: FoundCheckpoints) -> SavedCheckpoint | None:
        """The furthest checkpoint of a run up to which its curve is whole: what a lost log took
        from the database cannot be had again from there.
        """
        saved = found.of(run.run_id)
        if not saved:
            return None
        there = {point.step for point in self.store.curve(run.run_id)}
        for entry in saved:
            missing = [
                step
                for step in run.train.evaluation_steps()
                if step <= entry.step and step not in there
            ]
            if not missing and entry.step < run.train.steps:
                return entry
            why = (
                f"evaluations from step {missing[0]} on are not in the database, which is older"
                if missing
                else f"the run has only {run.train.steps} steps"
            )
            self._tell(f"run {run.run_id}: its checkpoint at step {entry.step} is not used: {why}")
        return None

    def _require_same(self, saved: SavedCheckpoint, run: RunSpec) -> None:
        """Refuse to go on under another environment, unless that was asked for."""
        differ = self._drift(saved, run)
        if differ and not self._allow_drift:
            changed = "; ".join(line.partition(": ")[2] for line in differ)
            raise SpecError(
                f"{saved.path}: was saved under another environment ({changed}); bits may differ\n"
                "go on with --allow-drift, which their rows will say, or remove that file to start "
                "its runs over"
            )

    def _drift(self, saved: SavedCheckpoint, run: RunSpec) -> tuple[str, ...]:
        """What is not as it was when this was saved, a line each."""
        threads = choose_threads(run, self.shapes.threads)
        here = Environment.here(self.shapes.device, threads)
        differ = differences(saved.environment, here)
        return tuple(f"from step {saved.step}: {text}" for text in differ)

    def _load_state(self, saved: SavedCheckpoint, runs: Iterable[RunSpec]) -> PopulationState:
        """Refuses, and sets aside, a file that cannot be the state of its members."""
        loaded = checkpoint.load(saved.path, self.store.key)
        since, members = loaded.state.get("steps_since_evaluation"), len(loaded.run_ids)
        if type(since) is not int or since < 0:
            raise _misfit(saved.path, "it does not say when its members were evaluated last")
        if any(tensor.ndim < 1 or len(tensor) != members for tensor in loaded.tensors.values()):
            raise _misfit(saved.path, f"its tensors are not those of {members} members")
        state = PopulationState(loaded.run_ids, loaded.step, since, loaded.tensors)
        return state.select([run.run_id for run in runs])

    def _tell(self, problem: str, kind: str = "checkpoint") -> None:
        """Once, however often it is met."""
        if problem not in self._told:
            self._told.add(problem)
            self.store.note(kind, problem)
            self.listen(Remark(problem))


def _misfit(path: Path, why: str) -> StoreError:
    return StoreError(f"{path}: {why}; kept as {checkpoint.set_aside(path).name}")


def _limit(waiting: Iterable[Waiting], packs: Iterable[Pack]) -> int | None:
    """The most runs that these, and those that train, may train beside."""
    limits = [*(entry.pack_limit for entry in waiting), *(pack.limit for pack in packs)]
    return min((limit for limit in limits if limit is not None), default=None)
