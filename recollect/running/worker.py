"""One worker: claim runs -> train them together -> checkpoint -> finish,
until nothing is left to claim.

All state is in the store and in the checkpoint files, so a worker may die at any point; the next
worker continues from there. Several workers may share a folder. Events go to `listen`; nothing is
printed.

Members of a pack train in lock step, on the same rows. On a GPU, the places of ended runs are
filled: waiting runs of the same shape begin as a separate pack next to it, each on its own stream.
If no more runs of a shape wait and the running packs do not fill the device, a pack of another
shape begins next to them. A pack is stepped whenever the device has few steps of it left to do, so
each advances at its own speed. Small packs then share the device and together do as much as one
large pack would (docs/decisions/packs-side-by-side.md).
"""

import contextlib
import time
import traceback
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import torch

from recollect.analysis import count_text
from recollect.errors import RecollectError, Stopped
from recollect.mixers.plugins.remembered import resume_command
from recollect.running.events import Event, GivenUp, Remark, RunEnded, ignore
from recollect.running.failures import RUNS_HEADER, describe, is_out_of_memory, refuse_if_lost
from recollect.running.pack import LEASE_S, Pack
from recollect.running.pack_queue import EVERYTHING, PackQueue, Selection
from recollect.running.planning.compile_ahead import CompileAhead
from recollect.running.planning.precompile import compiles
from recollect.running.planning.threads import threads_for
from recollect.running.planning.time_shares import TimeShares
from recollect.running.processes.devices import as_current
from recollect.running.processes.spread import Home
from recollect.running.shapes import Kind, Shapes
from recollect.running.signals import never
from recollect.spec.run import RunSpec
from recollect.store import Store, checkpoint
from recollect.store.durable import sweep_orphans
from recollect.store.keep_policy import KeepPolicy
from recollect.store.ownership import host, this_process
from recollect.store.records import Result
from recollect.store.weights import Keeper
from recollect.training.allocator import give_back_freed_memory
from recollect.training.state import MisfitError

MOST_PACKS = 8  # the most packs that train side by side
LOOK_EVERY_S = 0.5  # interval between looks at leases, while there is nothing else to do
TURN_S = 1e-4  # interval between looks at the device, while it has enough to do

# Called while packs train, when some runs have ended and when a pack was first evaluated: the
# selection with the runs that may join them, or None.
More = Callable[[], Selection | None]


def no_more() -> None:
    """Nothing joins."""


class Worker:
    """Trains the todo runs of one store; use it as `with Worker(...) as worker`.

    The worker calls `stop` between steps. When `stop` returns a nonzero exit code, the worker saves
    and raises Stopped.
    """

    def __init__(
        self,
        store: Store,
        folder: Path,
        device: torch.device,
        listen: Callable[[Event], None] = ignore,
        stop: Callable[[], int] = never,
        *,
        threads: int | None = None,
        processes: int = 1,
        memory_bytes: int | None = None,
        home: Home | None = None,
        side_by_side: bool | None = None,
        checkpoints: Path | None = None,
        allow_drift: bool = False,
        workers: int = 1,
    ):
        """`threads`: CPU threads that may be used, all if None. `processes`: number of workers on
        this device, which share its memory and runs. `memory_bytes`: the most memory that they use
        together. `home`: the runs that this worker begins with, if there are workers on other
        devices. `side_by_side`: whether packs may train side by side; None means on a GPU only,
        since on a CPU the members of a small pack cost no more than those of a large one.
        `checkpoints`: the folder for checkpoints, if it is not next to the store. `allow_drift`:
        see PackQueue. `workers`: number of workers on this machine, including this one.
        """
        self.store, self.folder, self.device = store, folder, device
        self.listen, self.stop = listen, stop
        self.checkpoints = checkpoints or folder / "checkpoints"
        home = home or Home()
        self.shapes = Shapes(
            store,
            folder,
            device,
            threads or torch.get_num_threads(),
            processes,
            memory_bytes,
            splits=not home.is_shared,
        )
        self._compile_ahead = CompileAhead(device, workers)
        self.queue = PackQueue(
            *(store, self.checkpoints, self.shapes, listen, home, allow_drift),
            is_compiled=self._is_compiled,
        )
        self.side_by_side = device.type == "cuda" if side_by_side is None else side_by_side
        self._keeper = Keeper(folder, KeepPolicy.of(store))
        self._selection = EVERYTHING
        self._more: More = no_more
        self._packs: list[Pack] = []
        self._entered = contextlib.ExitStack()
        self._begun = 0  # number of packs begun
        self._watches = False  # whether it watches leases on other clocks, and has reported that
        # By kind in training: the most runs that have trained at once.
        self._places: dict[Kind, int] = {}
        self._shares = TimeShares()

    def __enter__(self) -> Self:
        """Make the worker's device the current one until the exit."""
        self._entered.enter_context(as_current(self.device))
        return self

    def __exit__(self, *_: object) -> None:
        """Stop compiling ahead and restore the current device."""
        self._compile_ahead.close()
        self._entered.close()

    def work(self, selection: Selection = EVERYTHING, more: More = no_more) -> None:
        """Train until no run of the selection is todo.

        Runs held by a living process are left to that process. `more`: asked only where packs train
        side by side.
        """
        self._selection, self._more = selection, more
        sweep_orphans(self.checkpoints)
        self._keeper.tidy(self.store)
        self.queue.read_again()
        try:
            self._train()
        except BaseException:  # interrupts too: in a notebook this process lives on
            for pack in self._packs:
                with contextlib.suppress(RecollectError):  # the first error is the one to raise
                    self.store.release(pack.claims)
            raise
        finally:
            for pack in self._packs:
                pack.close()
            self._packs.clear()
        self._keeper.tidy(self.store)
        checkpoint.discard(
            self.checkpoints,
            [row.run_id for row in self.store.rows() if row.is_finished],
            self.store.key,
        )

    @property
    def left_in_training(self) -> list[tuple[RunSpec, int]]:
        """A run of each pack in training, with the run-steps that the pack still has to make."""
        return [(pack.runs[0], pack.run_steps_left) for pack in self._packs]

    @property
    def training(self) -> int:
        """The number of runs in training."""
        return sum(len(pack.claims) for pack in self._packs)

    def _train(self) -> None:
        self._fill()
        while self._packs or self._watch_foreign():
            if self._packs:
                with threads_for(self._packs[0].runs[0], self.shapes.threads):
                    self._train_packs()
            self._fill()

    def _watch_foreign(self) -> bool:
        """Wait a moment if leases on another clock are undecided; return whether there were any.

        Called when nothing else is left to do. It is not known yet whether these leases are still
        renewed. Only a process that keeps observing a lease can tell.
        """
        held = [
            lease
            for run_id, lease in self.store.undecided().items()
            if self._selection.run_ids is None or run_id in self._selection.run_ids
        ]
        if not held:
            return False
        if not self._watches:
            self._watches = True
            where = ", ".join(sorted({host(str(lease.owner)) or "unknown" for lease in held}))
            longest_s = max(lease.length_s for lease in held)
            self.listen(
                Remark(
                    f"{len(held)} runs are held by a process with another clock ({where}); they "
                    f"are taken over if it does not renew them for {longest_s:.0f} s"
                )
            )
        code = self.stop()
        if code:
            raise self._save_all(code, ())
        time.sleep(LOOK_EVERY_S)
        return True

    def _train_packs(self) -> None:
        """Step the packs until none is left; new packs may join after each evaluation."""
        while self._packs:
            trained, evaluated, is_new, stepped = self.training, False, False, False
            for pack in list(self._packs):
                code = self.stop()
                if code:
                    raise self._save_all(code, self._packs)
                if len(self._packs) > 1 and pack.is_ahead:
                    continue
                stepped, before = True, pack.evaluations
                self._advance(pack)
                evaluated = evaluated or pack.evaluations > before
                if pack.evaluations > before == 0:
                    self._compile_next(pack.runs[0])
                    is_new = True
            if self._packs and evaluated:
                if self.side_by_side and (is_new or self.training < trained):
                    self._let_join()
                self._fill()
            if not stepped:
                time.sleep(TURN_S)

    def _let_join(self) -> None:
        """Select more runs, now that some have ended or another pack can begin."""
        selection = self._more()
        if selection is not None:
            self._selection = selection
            self._compile_next(self._packs[0].runs[0])

    def _training(self, kind: Kind) -> int:
        """The number of runs of a kind in training."""
        return sum(len(pack.claims) for pack in self._packs if pack.kind == kind)

    def _fill(self) -> None:
        """Begin packs while there are waiting runs and places for them."""
        there = {pack.kind for pack in self._packs}
        self._places = {kind: most for kind, most in self._places.items() if kind in there}
        while not self._packs or (self.side_by_side and len(self._packs) < MOST_PACKS):
            if self.store.reclaim():
                self.queue.read_again()
            choice = self.queue.next(self._selection, self._packs, self._places)
            if choice is None:
                return
            self.shapes.compile(choice.runs[0])
            run_ids = [run.run_id for run in choice.runs]
            claims = self.store.claim(run_ids, this_process(), LEASE_S)
            if len(claims) < len(run_ids):  # another worker has claimed some or all of them
                self.queue.read_again()
            if claims:
                pack = Pack(
                    self._begun,
                    choice.select(claims),
                    claims,
                    self.store,
                    self._keeper,
                    self.shapes,
                    self.checkpoints,
                    self.listen,
                    self._shares,
                )
                self._packs.append(pack)
                self._begun += 1
                most = self._places.get(pack.kind, 0)
                self._places[pack.kind] = max(most, self._training(pack.kind))

    def _is_compiled(self, run: RunSpec) -> bool:
        return run.shape_id in self.shapes.compiled or self._compile_ahead.is_ready(run)

    def _compile_next(self, now: RunSpec) -> None:
        """Compile the kernels of the next shapes while the shape of `now` trains."""
        if compiles(self.device):
            self._compile_ahead.prepare(now, self.queue.next_shapes(self._selection))

    def _advance(self, pack: Pack) -> None:
        """Advance a pack by one step, and handle its end and its errors."""
        out_of_memory = False
        try:
            if pack.advance():
                return
        except (RecollectError, KeyboardInterrupt):
            raise
        except MisfitError as error:
            self._set_aside(pack, error)
        except BaseException as error:  # a plug-in may raise any kind of exception
            code = self.stop()
            # A signal also reaches compilers and other children; their errors are not the run's.
            if code:
                others = [other for other in self._packs if other is not pack]
                raise self._save_all(code, others) from error
            out_of_memory = isinstance(error, RuntimeError | MemoryError) and is_out_of_memory(
                error
            )
            if not out_of_memory:
                self._fail(pack, error)
        pack.close()
        self._packs.remove(pack)
        if out_of_memory:  # its memory is free: neither the pack nor the exception refers to it
            self._retry_smaller(pack)

    def _set_aside(self, pack: Pack, error: MisfitError) -> None:
        """Set aside a checkpoint file that does not fit its model.

        Its runs continue from the checkpoint before it, or from the start.
        """
        problem = f"checkpoint: {error}"
        if pack.began_from is not None:
            path = pack.began_from.path
            problem = f"{path}: {error}; kept as {checkpoint.set_aside(path).name}"
        self.store.note("checkpoint", problem)
        self.listen(Remark(problem))
        self.store.release(pack.claims)
        self.queue.read_again()

    def _save_all(self, code: int, packs: Iterable[Pack]) -> Stopped:
        for pack in packs:
            pack.save()
        return Stopped(f"stopped; continue with `{resume_command(self.store)}`", code)

    def _retry_smaller(self, pack: Pack) -> None:
        """Give back a pack that ran out of memory, to train half as many runs together next time.

        A run that does not fit alone fails.
        """
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        else:
            give_back_freed_memory()
        left, others, home = len(pack.claims), self.training, self.queue.home
        same = self._training(pack.kind)
        if left == 1 and not others and home.leaves_large:
            self.store.release(pack.claims)
            self.queue.leave(pack.runs[0])
            self.listen(GivenUp(pack.number))
            return
        if left == 1 and not others:
            self._finish_failed(
                pack, "oom: one run alone does not fit into memory; use a smaller batch or width"
            )
            return
        half = max(1, left // 2)
        if others > same:
            self.queue.keep_alone(pack.shape_id)
        else:
            self.shapes.limit(pack.shape_id, max(half, same))
        # A stored limit applies to every device, and this one may be the smallest.
        self.store.release(pack.claims, pack_limit=None if others or home.is_shared else half)
        self.queue.read_again()
        self.listen(GivenUp(pack.number))
        beside = f" beside {count_text(others, 'other')}" if others else ""
        then = "they wait for those" if others else f"going on with {half}"
        runs = f"{count_text(left, 'run')}{beside}"
        self.store.note("memory", f"{runs} did not fit into memory; {then}")
        self.listen(Remark(f"out of memory with {runs}: {then}"))

    def _fail(self, pack: Pack, error: BaseException) -> None:
        told = "".join(traceback.format_exception(error))
        self.store.note("error", f"{RUNS_HEADER}{' '.join(pack.claims)}\n{told}")
        self._finish_failed(pack, describe(error))
        refuse_if_lost(error, self.store)

    def _finish_failed(self, pack: Pack, failure: str) -> None:
        left = [run for run in pack.runs if run.run_id in pack.claims]
        refused = self.store.finish(
            Result(
                run.run_id, pack.claims[run.run_id], "failed", steps=0, wall_s=0.0, failure=failure
            )
            for run in left
        )
        pack.ended |= {run.run_id for run in left} - refused
        for run in left:
            self.listen(RunEnded(run, "failed", None, 0, failure))
