"""What runs in one of several processes: an ordinary worker that tells its parent how it ended, and
does not outlive it.

Nothing heavy is imported before the parent is watched: a process whose parent dies while torch is
loading ends too.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from pathlib import Path

from recollect.errors import RecollectError, Stopped, as_refusal
from recollect.running.signals import Interrupts

# To save in, after the parent is gone. What takes longer is cut off: the last checkpoint holds.
GRACE_S = 1.5
ORPHANED = 128 + signal.SIGTERM


class Said(Enum):
    """What a process tells its parent; an error that ends it is told as that error."""

    STARTED = "it trains from now on"
    ENDED = "nothing is left to claim"
    STOPPED = "somebody asked it to end, and it has saved"


@dataclass(frozen=True)
class Assignment:
    """What a process trains, and with what."""

    folder: Path
    device: str
    processes: int
    threads: int
    plugins: tuple[Path, ...]
    allow_drift: bool = False


def train_in_process(assignment: Assignment, sender: Connection) -> None:
    """Until nothing is left to claim, somebody asks it to stop, or its parent is gone."""
    interrupts, orphaned = Interrupts(), _watch_parent()

    def stop() -> int:
        return interrupts.exit_code() or (ORPHANED if orphaned.is_set() else 0)

    try:
        _train(assignment, stop, lambda: _tell(sender, Said.STARTED))
    except Stopped:
        _tell(sender, Said.STOPPED)
    except RecollectError as error:
        _tell(sender, error)
    except BaseException as error:
        if os.environ.get("RECOLLECT_DEBUG"):
            traceback.print_exc()
        _tell(sender, as_refusal(error, " in a worker process"))
    else:
        _tell(sender, Said.ENDED)


def _train(assignment: Assignment, stop: Callable[[], int], begin: Callable[[], None]) -> None:
    import torch

    from recollect.mixers.plugins.load import load_plugin
    from recollect.mixers.plugins.runs import loaded_files
    from recollect.running.worker import Worker
    from recollect.store import Store
    from recollect.store.checking.runs import leave_out_wrong

    # A script that started these processes has been imported here, mixers included.
    for plugin in assignment.plugins:
        if plugin.resolve() not in loaded_files():
            load_plugin(plugin)
    with (
        Store.open(assignment.folder) as store,
        Worker(
            store,
            assignment.folder,
            torch.device(assignment.device),
            stop=stop,
            threads=assignment.threads,
            processes=assignment.processes,
            allow_drift=assignment.allow_drift,
        ) as worker,
    ):
        begin()
        leave_out_wrong(store)
        worker.work()


def _watch_parent() -> threading.Event:
    """Set when the parent is gone; soon after that the process ends, whatever it is doing."""
    orphaned, parent = threading.Event(), multiprocessing.parent_process()

    def watch() -> None:
        assert parent is not None
        parent.join()
        orphaned.set()
        time.sleep(GRACE_S)
        os._exit(ORPHANED)

    if parent is not None:
        threading.Thread(target=watch, daemon=True).start()
    return orphaned


def _tell(sender: Connection, what: Said | RecollectError) -> None:
    with contextlib.suppress(OSError):  # the parent is gone
        sender.send(what)
