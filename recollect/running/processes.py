"""Several processes that train one folder: on a CPU, processes of one thread each use the cores
better than threads do.

They share nothing but the store, whose claims keep them apart; each is an ordinary Worker. The
parent trains nothing: it looks at the store, passes signals on and replaces a process that was
killed. Whoever dies, and whenever, the next start heals it. A run has as many threads as its
specification gives it, however many processes there are, so no number depends on that.
"""

import multiprocessing
import signal
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from recollect.errors import RecollectError, ResourceError, SpecError, Stopped
from recollect.mixers.plugins.load import load_plugin
from recollect.rows import FINISHED
from recollect.running.planning import planner
from recollect.running.signals import Interrupts
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.store import MAX_LOST, Store

LOOK_EVERY_S = 1.0
PROCESS_BYTES = 400_000_000  # of a process that has loaded torch
# Multiply-adds of a sweep that are worth the start of processes: some 20 s of one core, against 2 s
# for the start of each.
WORTHWHILE = 4e11


def sensible(runs: Sequence[RunSpec], device: torch.device, threads: int) -> int:
    """How many processes suit these runs: as many as there are cores for their threads and memory
    for their members.
    """
    shapes = {run.shape_id: run for run in runs}.values()
    work = (
        sum((planner.operations(shape) or 0) * shape.train.steps for shape in shapes)
        * len(runs)
        / max(1, len(shapes))
    )
    if device.type != "cpu" or threads < 2 or work < WORTHWHILE:
        return 1
    cores = threads // max(planner.threads(shape, threads) for shape in shapes)
    largest = max(planner.cost(shape).memory_bytes for shape in shapes)
    fitting = int(
        planner.MEMORY_SHARE * planner.free_memory(device) / (PROCESS_BYTES + 2 * largest)
    )
    return max(1, min(cores, fitting, len(runs) // 2))


def count(asked: int, store: Store, device: torch.device) -> int:
    """The number asked for; 0 is as many as suit what is todo."""
    if asked > 1 and device.type != "cpu":
        raise SpecError(
            f"--workers {asked}: one process fills a GPU; leave it out, or say --device cpu"
        )
    return asked or sensible(
        [RunSpec.from_json(todo.spec) for todo in store.todo()], device, torch.get_num_threads()
    )


class Workers:
    """`count` processes on one folder, from start to end."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        count: int,
        plugins: Sequence[Path],
        stop: Callable[[], int],
    ):
        self.folder, self.device, self.count, self.plugins, self.stop = (
            folder,
            device,
            count,
            plugins,
            stop,
        )
        self.threads = torch.get_num_threads()
        self._living: dict[BaseProcess, Connection] = {}

    def work(self, store: Store, look: Callable[[], None]) -> None:
        """Until nothing is todo; `look` is called again and again in between."""
        lives, ended = MAX_LOST, 0
        try:
            for _ in range(self.count):
                self._start()
            while self._living:
                time.sleep(LOOK_EVERY_S / 4 if self.stop() else LOOK_EVERY_S)
                look()
                if self.stop():
                    self._ask_to_stop()
                    continue
                now = sum(count for status, count in store.counts().items() if status in FINISHED)
                lives, ended = (MAX_LOST, now) if now > ended else (lives, ended)
                for _ in range(self._killed()):
                    if not lives:
                        raise ResourceError(
                            f"{MAX_LOST} processes in a row were killed before "
                            "any run "
                            "ended, perhaps for want of memory\n"
                            f"go on with fewer: `recollect resume {self.folder} --workers 1`"
                        )
                    lives -= 1
                    self._start()
            look()
        finally:
            for process in self._living:
                process.terminate()
            for process in self._living:
                process.join()
        code = self.stop()
        if code:
            raise Stopped(f"stopped; go on with `recollect resume {self.folder}`", code)

    def _start(self) -> None:
        context = multiprocessing.get_context(
            "spawn"
        )  # a fork of a process with torch's threads may hang
        told, tell = context.Pipe(duplex=False)
        about = (self.folder, str(self.device), self.count, self.threads, tuple(self.plugins), tell)
        process = context.Process(target=_life, args=about, daemon=True)
        # Until it watches for signals itself: the keyboard's reaches it too, and would end it with
        # a traceback.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        try:
            process.start()
        finally:
            signal.signal(signal.SIGINT, handler)
        tell.close()
        self._living[process] = told

    def _killed(self) -> int:
        """Bury the dead: how many of them were killed; what another could not do is raised here."""
        killed = 0
        for process in [process for process in self._living if not process.is_alive()]:
            told = self._living.pop(process)
            process.join()
            problem = _last_words(told)
            if problem is not None:
                raise problem
            killed += process.exitcode != 0
        return killed

    def _ask_to_stop(self) -> None:
        for process in list(self._living):
            if process.is_alive():
                process.terminate()  # SIGTERM: it saves and ends
            else:
                self._living.pop(process)


def _last_words(told: Connection) -> RecollectError | None:
    try:
        said = told.recv() if told.poll() else None
    except EOFError:  # killed, or done
        return None
    return said if isinstance(said, RecollectError) else None


def _life(
    folder: Path, device: str, count: int, threads: int, plugins: tuple[Path, ...], tell: Connection
) -> None:
    """One process: an ordinary worker that also ends when its parent is gone."""
    interrupts, parent = Interrupts(), multiprocessing.parent_process()

    def stop() -> int:
        return interrupts.exit_code() or (
            0 if parent is None or parent.is_alive() else 128 + signal.SIGTERM
        )

    try:
        for plugin in plugins:
            load_plugin(plugin)
        with Store.open(folder) as store:
            Worker(
                store, folder, torch.device(device), stop=stop, threads=threads, beside=count
            ).work()
    except Stopped:
        pass
    except RecollectError as error:
        tell.send(error)
