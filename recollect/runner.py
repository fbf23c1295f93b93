"""One worker: claim runs -> train them together -> checkpoint -> finish, until nothing is left to claim.

All state is in the store and in the checkpoint files, so a worker may die anywhere; the next one goes on from there. Several
workers may share a folder. What happens is told to `listen`; nothing is printed.
"""

import contextlib
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from recollect import checkpoint, planner, tasks
from recollect.ahead import Ahead
from recollect.durable import sweep_orphans
from recollect.early import EarlyDecisions
from recollect.errors import RecollectError, ResourceError, Stopped
from recollect.keep import Keeper, Policy
from recollect.notices import Advanced, Notice, PackStarted, Remark, RunEnded, Seen
from recollect.ops.heap import give_back_freed_memory
from recollect.ownership import this_process
from recollect.population import Population, PopulationState
from recollect.rows import FINISHED, Evaluation
from recollect.spec import RunSpec
from recollect.store import Store
from recollect.store_records import Result, Todo
from recollect.tasks.base import Task
from recollect.train import End, Looked, Ready, train

LEASE_S, HEARTBEAT_S = 60.0, 10.0
SAVE_EVERY_S = 0.5  # at least this long between checkpoints ...
SAVE_SHARE = 0.02  # ... and so long that saving takes at most this share of the time


@dataclass
class Worker:
    """Trains what is todo in one store. When `stop` asks for it, the worker saves and raises Stopped."""

    store: Store
    folder: Path
    device: torch.device
    listen: Callable[[Notice], None] = lambda notice: None
    pack_size: int | None = None  # fixed, instead of measured
    chosen: frozenset[str] | None = None  # of what is todo only these; None: all
    lease_s: float = LEASE_S
    stop: Callable[[], int] = lambda: 0  # asked between steps: an exit code to stop with, or 0
    threads: int = field(default_factory=torch.get_num_threads)  # CPU threads that may be used
    beside: int = 1  # workers on this machine, this one included: memory and runs are shared among them
    _specs: dict[str, RunSpec] = field(default_factory=dict)
    _sizes: dict[str, int] = field(default_factory=dict)
    _task: tuple[str, Task] | None = None

    def __post_init__(self) -> None:
        self.keeper = Keeper(self.folder, Policy.of(self.store))
        self.ahead = Ahead(self.device)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def work(self) -> None:
        """Until nothing is todo. Runs that a living process holds are left to it."""
        with contextlib.closing(self.ahead):
            self._work()

    def _work(self) -> None:
        sweep_orphans(self.checkpoints)
        self.keeper.tidy(self.store)
        while True:
            self.store.reclaim()
            pack, state = self._next_pack()
            if not pack:
                break
            planner.use_threads(pack[0], self.threads)
            claims = self.store.claim([run.run_id for run in pack], this_process(), self.lease_s)
            pack = tuple(run for run in pack if run.run_id in claims)
            if pack:
                mine = state.select([run.run_id for run in pack]) if state else None  # another worker may have got some
                self._train_claimed(pack, claims, mine)
        self.keeper.tidy(self.store)
        checkpoint.discard(self.checkpoints, [row.run_id for row in self.store.rows() if row.status in FINISHED])

    # ---- choosing ----

    def _next_pack(self) -> tuple[tuple[RunSpec, ...], PopulationState | None]:
        """Same-shaped runs that should train together next, and where they stand; runs with a checkpoint come first."""
        waiting = self._waiting()
        if not waiting:
            return (), None
        resumed = self._from_checkpoint(waiting)
        if resumed is not None:
            return resumed
        specs = self._in_order(waiting)
        same = [run for run in specs if run.shape_id == specs[0].shape_id]
        limits = [waiting[run.run_id].pack_limit or len(same) for run in same]
        return tuple(same[: planner.evenly(len(same), min(self._size(same), *limits))]), None

    def _waiting(self) -> dict[str, Todo]:
        waiting = {todo.run_id: todo for todo in self.store.todo() if self.chosen is None or todo.run_id in self.chosen}
        for run_id, todo in waiting.items():
            if run_id not in self._specs:
                self._specs[run_id] = RunSpec.from_json(todo.spec)
        return waiting

    def _in_order(self, waiting: Iterable[str]) -> list[RunSpec]:
        """What shares the data that are there comes first: the next shape then only has to build its model."""
        specs = [self._specs[run_id] for run_id in waiting]
        return sorted(specs, key=lambda run: self._task is None or _data_key(run) != self._task[0])

    def get_next_ready(self, now: RunSpec) -> None:
        """While the shape of `now` trains, compile what the next ones need."""
        if self.ahead.useful:
            self.ahead.prepare(now, self._in_order(self._waiting()))

    def _from_checkpoint(self, waiting: dict[str, Todo]) -> tuple[tuple[RunSpec, ...], PopulationState] | None:
        found = checkpoint.catalogue(self.checkpoints)
        for problem in found.problems:
            self.store.note("checkpoint", problem)
            self.listen(Remark(problem))
        newest = {run_id: found.newest(run_id) for run_id in waiting}
        for entry in found.entries:
            members = [run_id for run_id in entry.run_ids if run_id in waiting and newest[run_id] == entry]
            if members:
                members = members[: min(waiting[run_id].pack_limit or len(members) for run_id in members)]
                loaded = checkpoint.load(entry.path)
                state = PopulationState(loaded.run_ids, loaded.step, loaded.state["steps_since_evaluation"], loaded.tensors)
                return tuple(self._specs[run_id] for run_id in members), state.select(members)
        return None

    def measure(self, runs: Sequence[RunSpec]) -> tuple[int, float]:
        """How many of these runs of one shape train together, and how many seconds a step of so many takes."""
        self._sizes.pop(runs[0].shape_id, None)  # it may have been measured with fewer at hand
        size = min(self._size(runs), len(runs))
        try:
            return size, planner.seconds_per_step(runs[:size], self._data(runs[0]), self.device)
        except Exception as error:
            self._give_up_if_lost(error)
            return size, 0.0  # it fails soon enough, and then for its own reason

    def _size(self, runs: Sequence[RunSpec]) -> int:
        if self.pack_size is not None:
            return self.pack_size
        shape = runs[0].shape_id
        if shape not in self._sizes:
            planner.use_threads(runs[0], self.threads)
            try:
                size = planner.pack_size(runs, self._data(runs[0]), self.device, beside=self.beside)
                # Something is left for the others; but a lonely member costs as much as two.
                self._sizes[shape] = min(size, max(2, -(-len(runs) // self.beside)))
            except Exception as error:
                self._give_up_if_lost(error)
                # Out of memory, or a mixer that fails: a run on its own then fails for its own reason, and no other with it.
                self.store.note("planning", f"{runs[0].model.mixer.name}: {type(error).__name__}: {error}")
                self._sizes[shape] = 1
        return self._sizes[shape]

    def _data(self, run: RunSpec) -> Task:
        """The data of a run; those of the last pack are kept, because the next one often shares them."""
        key = _data_key(run)
        if self._task is None or self._task[0] != key:
            self._task = None  # before the new one is built: two sets of rows need not fit
            self._task = (key, tasks.build(run.task, run.data_seed, run.train.batch, self.device))
        return self._task[1]

    # ---- training ----

    def _train_claimed(self, pack: tuple[RunSpec, ...], claims: dict[str, int], state: PopulationState | None) -> None:
        """Train a claimed pack to its end, whatever happens to it."""
        with _Heart(self.store, claims, self.lease_s):
            try:
                _Training(self, pack, claims, state).run()
            except RecollectError:
                self.store.release(claims)
                raise
            except Exception as error:
                code = self.stop()
                if code:  # a signal reaches compilers and other children too, and what they then say is no result
                    self.store.release(claims)
                    raise Stopped(f"stopped; go on with `recollect resume {self.folder}`", code) from error
                if isinstance(error, RuntimeError | MemoryError) and is_out_of_memory(error):
                    self._split(pack, claims)
                else:
                    self._fail(pack, claims, error)

    def _split(self, pack: tuple[RunSpec, ...], claims: dict[str, int]) -> None:
        """Out of memory: half the company next time; a run that does not fit alone has failed."""
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        else:
            give_back_freed_memory()
        if len(pack) == 1:
            self._finish_failed(pack, claims, "oom: one run alone does not fit into memory; use a smaller batch or width")
            return
        half = max(1, len(pack) // 2)
        self._sizes[pack[0].shape_id] = half
        self.store.release(claims, pack_limit=half)
        self.store.note("memory", f"{len(pack)} runs did not fit into memory together; going on with {half}")
        self.listen(Remark(f"out of memory with {len(pack)} runs together: going on with {half}"))

    def _fail(self, pack: tuple[RunSpec, ...], claims: dict[str, int], error: Exception) -> None:
        self.store.note("error", "".join(traceback.format_exception(error)))
        self._finish_failed(pack, claims, f"error: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        self._give_up_if_lost(error)

    def _give_up_if_lost(self, error: Exception) -> None:
        """After a kernel that crashed, a GPU refuses everything this process asks: other runs must not fail for that."""
        if is_device_lost(error):
            raise ResourceError(
                f"the GPU is lost to this process: {str(error).splitlines()[0]}\n"
                f"the runs that are still to do are untouched; go on with `recollect resume {self.folder}`"
            )

    def _finish_failed(self, pack: tuple[RunSpec, ...], claims: dict[str, int], failure: str) -> None:
        self.store.finish(
            [Result(run.run_id, claims[run.run_id], "failed", steps=0, wall_s=0.0, failure=failure) for run in pack]
        )
        for run in pack:
            self.listen(RunEnded(run, "failed", None, 0, failure))


def _data_key(run: RunSpec) -> str:
    """Equal for runs that see the same rows."""
    return f"{run.task!r} {run.data_seed} {run.train.batch}"


class _Training:
    """One claimed pack from its checkpoint, or from its start, to its end."""

    def __init__(self, worker: Worker, pack: tuple[RunSpec, ...], claims: dict[str, int], state: PopulationState | None):
        self.worker, self.claims = worker, dict(claims)
        self.population = Population(pack, worker._data(pack[0]), worker.device)
        self.decisions = EarlyDecisions()
        if state is not None:
            self.population.restore(state)
        for run, curve in self._rewind(pack).items():
            self.decisions.remember(run, curve)
        self.clock = self.saved_at = time.monotonic()
        self.wait_s = SAVE_EVERY_S
        self.wall_s = dict.fromkeys(claims, 0.0)
        self.looks = 0
        worker.listen(PackStarted(pack, self.population.step))

    def _rewind(self, pack: tuple[RunSpec, ...]) -> dict[RunSpec, list[Evaluation]]:
        """Drop what an earlier attempt recorded after the checkpoint; each run's curve up to it."""
        self.worker.store.rewind(self.claims, self.population.step)
        return {run: self.worker.store.curve(run.run_id) for run in pack}

    def run(self) -> None:
        for event in train(self.population, self.decisions):
            match event:
                case Ready():
                    self._between_steps(event)
                case Looked():
                    self._looked(event)

    def _between_steps(self, event: Ready) -> None:
        worker = self.worker
        code = worker.stop()
        if code:
            self._save()
            raise Stopped(f"stopped; go on with `recollect resume {worker.folder}`", code)
        if time.monotonic() - self.saved_at >= self.wait_s:
            self._save()
        worker.listen(Advanced(event.members))

    def _save(self) -> None:
        start = time.monotonic()
        state = self.population.state()
        content = {"steps_since_evaluation": state.steps_since_evaluation}
        checkpoint.save(self.worker.checkpoints, checkpoint.Checkpoint(state.run_ids, state.step, state.tensors, content))
        self.worker.store.progress(self.claims, state.step)
        self.saved_at = time.monotonic()
        self.wait_s = max(SAVE_EVERY_S, (self.saved_at - start) / SAVE_SHARE)

    def _looked(self, event: Looked) -> None:
        self._share_time()
        ended = {end.run.run_id for end in event.ends}
        going = {run_id: found for run_id, found in event.evaluations.items() if run_id not in ended}
        store, keeper = self.worker.store, self.worker.keeper
        keeper.look(self.population, event)
        refused = store.record(self.claims, going.items()) if going else set()
        if event.ends:
            refused |= store.finish([self._result(end, event) for end in event.ends])
            keeper.settle(ended - refused)
        self.worker.listen(Seen(event.evaluations))
        for end in event.ends:
            if end.run.run_id not in refused:
                last = event.evaluations.get(end.run.run_id)
                early = f"{end.stopped_early} early" if end.stopped_early else ""
                detail = f"at step {end.diverged_step}" if end.status == "diverged" else early
                self.worker.listen(RunEnded(end.run, end.status, last, event.step, detail))
        for run_id in ended:
            self.claims.pop(run_id, None)
        self.looks += 1
        if self.looks == 1:  # by now this population has all the memory it wants
            self.worker.get_next_ready(self.population.members[0])

    def _share_time(self) -> None:
        """Each living member pays its share of the time since the last look."""
        now = time.monotonic()
        for run_id in self.claims:
            self.wall_s[run_id] += (now - self.clock) / len(self.claims)
        self.clock = now

    def _result(self, end: End, event: Looked) -> Result:
        run_id = end.run.run_id
        device = self.worker.device
        return Result(
            run_id,
            self.claims[run_id],
            end.status,
            steps=event.step,
            wall_s=self.wall_s[run_id],
            last=event.evaluations.get(run_id),
            stopped_early=end.stopped_early,
            diverged_step=end.diverged_step,
            parameters=self.population.model.parameters_per_member(),
            state_size=self.population.model.state_size(),
            device=torch.cuda.get_device_name(device) if device.type == "cuda" else device.type,
            threads=torch.get_num_threads(),
            versions=checkpoint.versions(),
        )


class _Heart(threading.Thread):
    """Renews the leases of a pack while it trains."""

    def __init__(self, store: Store, claims: dict[str, int], lease_s: float):
        super().__init__(daemon=True)
        self.store, self.claims, self.lease_s = store, dict(claims), lease_s
        self.ended = threading.Event()

    def run(self) -> None:
        while not self.ended.wait(min(HEARTBEAT_S, self.lease_s / 6)):
            try:
                self.store.heartbeat(self.claims, self.lease_s)
            except ResourceError:
                continue  # a full disk: the training thread meets it too, and says so

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self.ended.set()
        self.join()


def is_device_lost(error: BaseException) -> bool:
    """An error that stays: an illegal access, a failed assertion on the device, a device that fell off the bus."""
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def is_out_of_memory(error: BaseException) -> bool:
    """torch says it in several ways: on a CPU as a RuntimeError with one of these texts."""
    texts = ("can't allocate memory", "out of memory", "not enough memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(text in str(error).lower() for text in texts)
