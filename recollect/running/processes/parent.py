"""The parent of several processes that train: it trains nothing itself, but watches the store,
passes signals on and replaces a process that was killed.
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

from recollect.errors import RecollectError, ResourceError, Stopped
from recollect.mixers.plugins.remembered import resume_command
from recollect.running.events import Event, ignore
from recollect.running.processes.child import Assignment, Said, train_in_process
from recollect.running.processes.watching import StoreWatcher
from recollect.store import MAX_LOST, Store

WATCH_EVERY_S = 1.0
_SAFE_PATH = "PYTHONSAFEPATH"


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
        allow_drift: bool = False,
    ):
        self.count, self.stop, self.listen = count, stop, listen
        self._assignment = Assignment(
            folder, str(device), count, torch.get_num_threads(), tuple(plugins), allow_drift
        )
        self._receivers: dict[BaseProcess, Connection] = {}  # of those that live

    def work(self, store: Store) -> None:
        """Until nothing is todo; tells what the store says in between."""
        watcher = StoreWatcher(store)
        replacements, ended = MAX_LOST, 0
        try:
            for _ in range(self.count):
                self._start()
            while self._receivers:
                time.sleep(WATCH_EVERY_S / 4 if self.stop() else WATCH_EVERY_S)
                self._watch(watcher)
                if self.stop():
                    self._ask_to_stop()
                    continue
                if watcher.ended > ended:
                    replacements, ended = MAX_LOST, watcher.ended
                for death in self._reap(store):
                    if not replacements:
                        raise ResourceError(
                            f"{MAX_LOST} processes in a row were killed before any run ended, the "
                            f"last one {death}, perhaps for want of memory\n"
                            f"go on with fewer: `{resume_command(store)} --workers 1`"
                        )
                    replacements -= 1
                    self._start()
            self._watch(watcher)
        finally:
            for process in self._receivers:
                process.terminate()
            for process in self._receivers:
                process.join()
        code = self.stop()
        if code:
            raise Stopped(f"stopped; go on with `{resume_command(store)}`", code)

    def _watch(self, watcher: StoreWatcher) -> None:
        for event in watcher.changes():
            self.listen(event)

    def _start(self) -> None:
        # A fork of a process with torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        process = context.Process(
            target=train_in_process, args=(self._assignment, sender), daemon=True
        )
        with _keyboard_ignored(), _working_directory_not_imported():
            process.start()
        sender.close()
        self._receivers[process] = receiver

    def _reap(self, store: Store) -> list[str]:
        """How processes died since the last call that should be replaced;
        an error that ended one is raised here.
        """
        deaths = []
        for process in [process for process in self._receivers if not process.is_alive()]:
            said = _received(self._receivers.pop(process))
            process.join()
            how = _exit_text(process.exitcode or 0)
            for word in said:
                if isinstance(word, RecollectError):
                    raise word
            if not said and (process.exitcode or 0) >= 0:
                raise RecollectError(
                    f"a worker process ended before it trained anything, {how}\n"
                    f"`{resume_command(store)} --workers 1` trains without such processes"
                )
            if Said.ENDED not in said:
                deaths.append(how)
        return deaths

    def _ask_to_stop(self) -> None:
        for process in list(self._receivers):
            if process.is_alive():
                process.terminate()  # SIGTERM: it saves and ends
            else:
                self._receivers.pop(process)


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


def _received(receiver: Connection) -> list[Said | RecollectError]:
    """All that a process said before it ended."""
    said = []
    with contextlib.suppress(EOFError, OSError):
        while receiver.poll():
            said.append(receiver.recv())
    return said


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
