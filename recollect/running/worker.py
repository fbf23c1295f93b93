"""One worker: claim runs -> train them together -> checkpoint -> finish, until nothing is left to
claim.

All state is in the store and in the checkpoint files, so a worker may die anywhere; the next one
goes on from there. Several workers may share a folder. What happens is told to `listen`; nothing is
printed.

Members of a pack train in lock step, on the same rows. On a GPU, places that ended runs leave are
filled: waiting runs of the same shape begin as a pack of their own beside it, and the packs are
stepped in turn, each on its own stream. A pack that has become small then shares the device with
them, and together they do as much as one large pack would (docs/decisions/packs-side-by-side.md).
"""

import contextlib
import itertools
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from recollect.errors import RecollectError, ResourceError, Stopped
from recollect.rows import FINISHED
from recollect.running.ahead import Ahead
from recollect.running.events import GivenUp, Notice, Remark, RunEnded
from recollect.running.pack import ClaimedPack, Surroundings
from recollect.running.planning import planner
from recollect.running.rehearsal import compiles, rehearse
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.durable import sweep_orphans
from recollect.store.ownership import this_process
from recollect.store.records import Result, Todo
from recollect.store.weights import Keeper, Policy
from recollect.tasks.base import Task
from recollect.tasks.build import build_task
from recollect.training.heap import give_back_freed_memory
from recollect.training.population import PopulationState

LEASE_S = 60.0
MOST_PACKS = 4  # side by side


class Choice(NamedTuple):
    """What should train together next."""

    runs: tuple[RunSpec, ...]
    state: PopulationState | None  # where they stand, if not at their start
    limit: int | None  # the most runs that they may train beside, themselves included


NOTHING = Choice((), None, None)


@dataclass
class Worker:
    """Trains what is todo in one store.

    When `stop` asks for it, the worker saves and raises Stopped.
    """

    store: Store
    folder: Path
    device: torch.device
    listen: Callable[[Notice], None] = lambda notice: None
    pack_size: int | None = None  # fixed, instead of measured
    chosen: frozenset[str] | None = None  # of what is todo only these; None: all
    lease_s: float = LEASE_S
    stop: Callable[[], int] = lambda: 0  # asked between steps: an exit code to stop with, or 0
    threads: int = field(default_factory=torch.get_num_threads)  # CPU threads that may be used
    beside: int = (
        1  # workers on this machine, this one included: memory and runs are shared among them
    )
    side_by_side: bool | None = (
        # whether packs may be; None: on a GPU, since on a CPU a few members cost what they are
        None
    )
    _specs: dict[str, RunSpec] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)  # measured, by shape
    _most: dict[str, int] = field(
        default_factory=dict
    )  # that may train at once after memory ran out, by shape
    _packs: list[ClaimedPack] = field(default_factory=list)
    _places: int = 0  # the most runs that have trained at once since there were none
    _rehearsed: set[str] = field(default_factory=set)
    _task: tuple[str, Task] | None = None

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.folder, Policy.of(self.store))
        self.ahead = Ahead(self.device)
        if self.side_by_side is None:
            self.side_by_side = self.device.type == "cuda"
        self._numbers = itertools.count()
        self._around = Surroundings(
            self.store, self.keeper, self.checkpoints, self.device, self.lease_s, self.listen, self._data,
            under_way=self._under_way, settled=self.get_next_ready,
        )  # fmt: skip

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def work(self) -> None:
        """Until nothing is todo. Runs that a living process holds are left to it."""
        with contextlib.closing(self.ahead):
            sweep_orphans(self.checkpoints)
            self.keeper.tidy(self.store)
            try:
                self._work()
            except RecollectError:
                for pack in self._packs:
                    self.store.release(pack.claims)
                raise
            finally:
                for pack in self._packs:
                    pack.close()
                self._packs.clear()
            self.keeper.tidy(self.store)
            checkpoint.discard(
                self.checkpoints,
                [row.run_id for row in self.store.rows() if row.status in FINISHED],
            )

    def _work(self) -> None:
        self._fill()
        while self._packs:
            before = self._under_way()
            for pack in list(self._packs):
                code = self.stop()
                if code:
                    raise self._stopped(code, self._packs)
                self._advance(pack)
            if self._under_way() < before:
                self._fill()

    def _under_way(self) -> int:
        """Runs that train now."""
        return sum(len(pack.claims) for pack in self._packs)

    # ---- choosing ----

    def _fill(self) -> None:
        """Begin packs for as long as there are runs, and places for them."""
        if not self._packs:
            self._places = 0
        while not self._packs or (self.side_by_side and len(self._packs) < MOST_PACKS):
            self.store.reclaim()
            runs, state, limit = self._next_pack()
            if not runs:
                return
            planner.use_threads(runs[0], self.threads)
            self._rehearse(runs[0])
            claims = self.store.claim([run.run_id for run in runs], this_process(), self.lease_s)
            mine = tuple(
                run for run in runs if run.run_id in claims
            )  # another worker may have got some
            if mine:
                state = state.select([run.run_id for run in mine]) if state else None
                self._packs.append(
                    ClaimedPack(self._around, next(self._numbers), mine, claims, state, limit)
                )
                self._places = max(self._places, self._under_way())

    def _next_pack(self) -> Choice:
        """Same-shaped runs that should train together next; those with a checkpoint come first."""
        waiting = self._waiting()
        if self._packs:
            return self._next_beside(waiting)
        if not waiting:
            return NOTHING
        resumed = self._from_checkpoint(waiting)
        if resumed is not None:
            return Choice(*resumed, self._limit(waiting[run.run_id] for run in resumed[0]))
        specs = self._in_order(waiting)
        same = [run for run in specs if run.shape_id == specs[0].shape_id]
        limit = self._limit(waiting[run.run_id] for run in same)
        return Choice(tuple(same[: self._room(same, limit)]), None, limit)

    def _next_beside(self, waiting: dict[str, Todo]) -> Choice:
        """The same beside what trains already: there is room for its own shape alone."""
        shape = self._packs[0].shape_id
        same = [self._specs[run_id] for run_id in waiting if self._specs[run_id].shape_id == shape]
        limit = self._limit(waiting[run.run_id] for run in same)
        room = self._room(same, limit) if same else 0
        # Checkpoints are read to their last byte when they are looked for: only if there can be
        # any.
        begun = {run.run_id: waiting[run.run_id] for run in same if waiting[run.run_id].attempt}
        resumed = self._from_checkpoint(begun) if room and begun else None
        if resumed is not None:
            return Choice(*resumed, limit) if len(resumed[0]) <= room else NOTHING
        return Choice(tuple(same[:room]), None, limit)

    def _limit(self, todos: Iterable[Todo]) -> int | None:
        """The most runs that these, and those that train, may train beside."""
        limits = [*(todo.pack_limit for todo in todos), *(pack.limit for pack in self._packs)]
        return min((limit for limit in limits if limit is not None), default=None)

    def _room(self, same: Sequence[RunSpec], limit: int | None) -> int:
        """How many of these waiting runs of one shape should begin now."""
        taken = self._under_way()
        return planner.joining(
            len(same), taken, min(self._size(same), limit or len(same) + taken), self._places
        )

    def _waiting(self) -> dict[str, Todo]:
        waiting = {
            todo.run_id: todo
            for todo in self.store.todo()
            if self.chosen is None or todo.run_id in self.chosen
        }
        for run_id, todo in waiting.items():
            if run_id not in self._specs:
                self._specs[run_id] = RunSpec.from_json(todo.spec)
        return waiting

    def _in_order(self, waiting: Iterable[str]) -> list[RunSpec]:
        """What shares the data that are there comes first: the next shape then only has to build
        its model.
        """
        specs = [self._specs[run_id] for run_id in waiting]
        return sorted(specs, key=lambda run: self._task is None or _data_key(run) != self._task[0])

    def get_next_ready(self, now: RunSpec) -> None:
        """While the shape of `now` trains, compile what the next ones need."""
        if compiles(self.device):
            self.ahead.prepare(now, self._in_order(self._waiting()))

    def _from_checkpoint(
        self, waiting: dict[str, Todo]
    ) -> tuple[tuple[RunSpec, ...], PopulationState] | None:
        found = checkpoint.catalogue(self.checkpoints)
        for problem in found.problems:
            self.store.note("checkpoint", problem)
            self.listen(Remark(problem))
        newest = {run_id: found.newest(run_id) for run_id in waiting}
        for entry in found.entries:
            members = [
                run_id for run_id in entry.run_ids if run_id in waiting and newest[run_id] == entry
            ]
            if members:
                members = members[
                    : min(waiting[run_id].pack_limit or len(members) for run_id in members)
                ]
                loaded = checkpoint.load(entry.path)
                state = PopulationState(
                    loaded.run_ids,
                    loaded.step,
                    loaded.state["steps_since_evaluation"],
                    loaded.tensors,
                )
                return tuple(self._specs[run_id] for run_id in members), state.select(members)
        return None

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        """How many of these runs of one shape train together, and how many seconds a step of so
        many takes.
        """
        self._sizes.pop(runs[0].shape_id, None)  # it may have been measured with fewer at hand
        size = min(self._size(runs), len(runs))
        try:
            return size, planner.seconds_per_step(runs[:size], self._data(runs[0]), self.device)
        except Exception as error:
            self._give_up_if_lost(error)
            return size, 0.0  # it fails soon enough, and then for its own reason

    def _size(self, runs: Sequence[RunSpec]) -> int:
        """How many runs of this shape may train at a time, those that do already included."""
        shape = runs[0].shape_id
        if self.pack_size is not None:
            return min(self.pack_size, self._most.get(shape, self.pack_size))
        if shape not in self._sizes:
            planner.use_threads(runs[0], self.threads)
            self._rehearse(runs[0])
            taken = self._under_way()
            try:
                size = taken + planner.pack_size(
                    runs, self._data(runs[0]), self.device, beside=self.beside
                )
                # Something is left for the others; but a lonely member costs as much as two.
                self._sizes[shape] = min(size, max(2, -(-(taken + len(runs)) // self.beside)))
            except Exception as error:
                self._give_up_if_lost(error)
                # Out of memory, or a mixer that fails: a run on its own then fails for its own
                # reason, and no other with it.
                self.store.note(
                    "planning", f"{runs[0].model.mixer.name}: {type(error).__name__}: {error}"
                )
                self._sizes[shape] = max(1, taken)
        return min(self._sizes[shape], self._most.get(shape, self._sizes[shape]))

    def _data(self, run: RunSpec) -> Task:
        """The data of a run; those of the last pack are kept, because the next one often shares
        them.
        """
        key = _data_key(run)
        if self._task is None or self._task[0] != key:
            self._task = None  # before the new one is built: two sets of rows need not fit
            self._task = (key, build_task(run.task, run.data_seed, run.train.batch, self.device))
        return self._task[1]

    def _rehearse(self, run: RunSpec) -> None:
        """Once for each shape, before it is measured or begun."""
        if compiles(self.device) and run.shape_id not in self._rehearsed:
            self._rehearsed.add(run.shape_id)
            rehearse(run, self._data(run), self.device)

    # ---- training ----

    def _advance(self, pack: ClaimedPack) -> None:
        """One step further, whatever happens to it."""
        out_of_memory = False
        try:
            if pack.advance():
                return
        except RecollectError:
            raise
        except Exception as error:
            code = self.stop()
            # a signal reaches compilers and other children too, and what they then say is no result
            if code:
                raise self._stopped(
                    code, [other for other in self._packs if other is not pack]
                ) from error
            out_of_memory = isinstance(error, RuntimeError | MemoryError) and is_out_of_memory(
                error
            )
            if not out_of_memory:
                self._fail(pack, error)
        pack.close()
        self._packs.remove(pack)
        if out_of_memory:  # by now nothing holds its memory, the error neither
            self._split(pack)

    def _stopped(self, code: int, sound: Iterable[ClaimedPack]) -> Stopped:
        for pack in sound:
            pack.save()
        return Stopped(f"stopped; go on with `recollect resume {self.folder}`", code)

    def _split(self, pack: ClaimedPack) -> None:
        """Out of memory: half the company next time; a run that does not fit alone has failed."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        else:
            give_back_freed_memory()
        left, others = len(pack.claims), self._under_way()
        if left == 1 and not others:
            self._finish_failed(
                pack, "oom: one run alone does not fit into memory; use a smaller batch or width"
            )
            return
        half = max(1, left // 2)
        self._most[pack.shape_id] = max(half, others)
        self.store.release(pack.claims, pack_limit=None if others else half)
        self.listen(GivenUp(pack.number))
        beside = f" beside {others} others" if others else ""
        then = "they wait for those" if others else f"going on with {half}"
        self.store.note("memory", f"{left} runs did not fit into memory together{beside}; {then}")
        self.listen(Remark(f"out of memory with {left} runs together{beside}: {then}"))

    def _fail(self, pack: ClaimedPack, error: Exception) -> None:
        self.store.note("error", "".join(traceback.format_exception(error)))
        self._finish_failed(
            pack,
            f"error: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}",
        )
        self._give_up_if_lost(error)

    def _give_up_if_lost(self, error: Exception) -> None:
        """After a kernel that crashed, a GPU refuses everything this process asks: other runs must
        not fail for that.
        """
        if is_device_lost(error):
            raise ResourceError(
                f"the GPU is lost to this process: {str(error).splitlines()[0]}\n"
                "the runs that are still to do are untouched; go on with `recollect "
                f"resume {self.folder}`"
            )

    def _finish_failed(self, pack: ClaimedPack, failure: str) -> None:
        left = [run for run in pack.runs if run.run_id in pack.claims]
        self.store.finish(
            [
                Result(
                    run.run_id,
                    pack.claims[run.run_id],
                    "failed",
                    steps=0,
                    wall_s=0.0,
                    failure=failure,
                )
                for run in left
            ]
        )
        for run in left:
            self.listen(RunEnded(run, "failed", None, 0, failure))


def _data_key(run: RunSpec) -> str:
    """Equal for runs that see the same rows."""
    return f"{run.task!r} {run.data_seed} {run.train.batch}"


def is_device_lost(error: BaseException) -> bool:
    """An error that stays: an illegal access, a failed assertion on the device, a device that fell
    off the bus.
    """
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def is_out_of_memory(error: BaseException) -> bool:
    """torch says it in several ways: on a CPU as a RuntimeError with one of these texts."""
    texts = ("can't allocate memory", "out of memory", "not enough memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        text in str(error).lower() for text in texts
    )
