"""Several processes that train one folder: on a CPU, processes of one thread each use the cores
better than threads do.

They share nothing but the store, whose claims keep them apart; each is an ordinary Worker. The
parent trains nothing: it watches the store, passes signals on and replaces a process that was
killed. Whichever of them dies, and whenever, the next start heals it. A run has as many threads as
its specification gives it, however many processes there are, so no number depends on that.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from recollect.errors import RecollectError, ResourceError, SpecError, Stopped
from recollect.mixers.plugins.load import load_plugin
from recollect.mixers.plugins.remembered import resume_command
from recollect.mixers.plugins.runs import loaded_files
from recollect.rows import FINISHED
from recollect.running.events import Event, ignore
from recollect.running.planning import memory
from recollect.running.planning.cost import cost, operations
from recollect.running.planning.speed import SpeedModel, guessed_s
from recollect.running.planning.threads import choose_threads
from recollect.running.signals import Interrupts
from recollect.running.watching import RowWatcher
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.store import MAX_LOST, Store

WATCH_EVERY_S = 1.0
PROCESS_BYTES = 400_000_000  # of a process that has loaded torch
# Of one core, by the guessed speed: a shorter sweep is not worth the start of processes, 2 s each.
WORTHWHILE_S = 20.0
_SAFE_PATH = "PYTHONSAFEPATH"


def suitable_processes(runs: Sequence[RunSpec], device: torch.device, available: int) -> int:
    """How many processes suit these runs:
    as many as there are cores for their threads and memory for their members.
    """
    shapes = {run.shape_id: run for run in runs}.values()
    speeds = SpeedModel(guessed_s(device), operations)
    seconds = sum((speeds.seconds(shape) or 0.0) * shape.train.steps for shape in shapes)
    whole_s = seconds * len(runs) / max(1, len(shapes))
    if device.type != "cpu" or available < 2 or whole_s < WORTHWHILE_S:
        return 1
    cores = available // max(choose_threads(shape, available) for shape in shapes)
    largest = max(cost(shape).memory_bytes for shape in shapes)
    free = memory.MEMORY_SHARE * memory.free_memory(device)
    fitting = int(free / (PROCESS_BYTES + 2 * largest))
    return max(1, min(cores, fitting, len(runs) // 2))


def require_processes(asked: int, device: torch.device) -> None:
    """Refuse more processes than a device can use."""
    if asked > 1 and device.type != "cpu":
        raise SpecError(
            f"--workers {asked}: one process fills a GPU; leave it out, or say --device cpu"
        )


def count_processes(asked: int, store: Store, device: torch.device) -> int:
    """The number asked for; 0 is as many as suit what is todo."""
    require_processes(asked, device)
    return asked or suitable_processes(
        [RunSpec.from_json(todo.spec) for todo in store.todo()], device, torch.get_num_threads()
    )


class WorkerProcesses:
    """`count` processes on one folder, from start to end."""

    def __init__(
        self,
        folder: Path,
        device: torch.device,
        count: int,
        plugins: Sequence[Path],
        stop: Callable[[], int],
        listen: Callable[[Event], None] = ignore,
    ):
        self.folder, self.device, self.count = folder, device, count
        self.plugins, self.stop, self.listen = plugins, stop, listen
        self.threads = torch.get_num_threads()
        self._errors: dict[BaseProcess, Connection] = {}  # of those that live

    def work(self, store: Store) -> None:
        """Until nothing is todo; tells what the store says in between."""
        watcher = RowWatcher(store.rows())
        replacements, ended = MAX_LOST, 0
        try:
            for _ in range(self.count):
                self._start()
            while self._errors:
                time.sleep(WATCH_EVERY_S / 4 if self.stop() else WATCH_EVERY_S)
                self._watch(watcher, store)
                if self.stop():
                    self._ask_to_stop()
                    continue
                now = sum(count for status, count in store.counts().items() if status in FINISHED)
                if now > ended:
                    replacements, ended = MAX_LOST, now
                for _ in range(self._reap()):
                    if not replacements:
                        raise ResourceError(
                            f"{MAX_LOST} processes in a row were killed before any run ended, "
                            "perhaps for want of memory\n"
                            f"go on with fewer: `{resume_command(store)} --workers 1`"
                        )
                    replacements -= 1
                    self._start()
            self._watch(watcher, store)
        finally:
            for process in self._errors:
                process.terminate()
            for process in self._errors:
                process.join()
        code = self.stop()
        if code:
            raise Stopped(f"stopped; go on with `{resume_command(store)}`", code)

    def _watch(self, watcher: RowWatcher, store: Store) -> None:
        for event in watcher.changes(store.rows()):
            self.listen(event)

    def _start(self) -> None:
        # A fork of a process with torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        arguments = (
            self.folder,
            str(self.device),
            self.count,
            self.threads,
            tuple(self.plugins),
            sender,
        )
        process = context.Process(target=_train_in_process, args=arguments, daemon=True)
        with _keyboard_ignored(), _working_directory_not_imported():
            process.start()
        sender.close()
        self._errors[process] = receiver

    def _reap(self) -> int:
        """How many processes were killed since the last call;
        an error that ended one is raised here.
        """
        killed = 0
        for process in [process for process in self._errors if not process.is_alive()]:
            receiver = self._errors.pop(process)
            process.join()
            error = _received_error(receiver)
            if error is not None:
                raise error
            killed += process.exitcode != 0
        return killed

    def _ask_to_stop(self) -> None:
        for process in list(self._errors):
            if process.is_alive():
                process.terminate()  # SIGTERM: it saves and ends
            else:
                self._errors.pop(process)


@contextlib.contextmanager
def _keyboard_ignored() -> Iterator[None]:
    """A process that starts inherits it until it watches for signals itself: the keyboard's reaches
    it too, and would end it with a traceback. Python changes handlers in its main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@contextlib.contextmanager
def _working_directory_not_imported() -> Iterator[None]:
    """A process starts as `python -c`, which imports from the working directory first, and that may
    be a folder of results. It then takes over the import path of this process.
    """
    before = os.environ.get(_SAFE_PATH)
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_SAFE_PATH]
        else:
            os.environ[_SAFE_PATH] = before


def _received_error(receiver: Connection) -> RecollectError | None:
    try:
        received = receiver.recv() if receiver.poll() else None
    except EOFError:  # killed, or done
        return None
    return received if isinstance(received, RecollectError) else None


def _train_in_process(
    folder: Path,
    device: str,
    count: int,
    threads: int,
    plugins: tuple[Path, ...],
    sender: Connection,
) -> None:
    """One process: an ordinary worker that also ends when its parent is gone."""
    interrupts, parent = Interrupts(), multiprocessing.parent_process()

    def stop() -> int:
        orphaned = parent is not None and not parent.is_alive()
        return interrupts.exit_code() or (128 + signal.SIGTERM if orphaned else 0)

    try:
        # A script that started these processes has been imported here, mixers included.
        for plugin in plugins:
            if plugin.resolve() not in loaded_files():
                load_plugin(plugin)
        with (
            Store.open(folder) as store,
            Worker(
                store, folder, torch.device(device), stop=stop, threads=threads, processes=count
            ) as worker,
        ):
            worker.work()
    except Stopped:
        pass
    except RecollectError as error:
        sender.send(error)
