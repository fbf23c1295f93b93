"""The code of one of several processes: an ordinary worker that reports to its parent how it ended
and does not outlive it.

Heavy modules are imported only after the process watches its parent. So it also ends if the parent
dies while torch is loading.
"""

import contextlib
import ctypes
import multiprocessing
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from recollect.errors import DeviceLostError, RecollectError, Stopped, as_refusal
from recollect.running.processes.devices import DeviceShare
from recollect.running.signals import Interrupts

if TYPE_CHECKING:
    from recollect.rows import RunRow
    from recollect.running.budget import Budget
    from recollect.running.events import Event, Remark
    from recollect.running.planning.priority import Stage

# Time to save in after the parent has died. A longer save is cut off; the last checkpoint remains.
GRACE_S = 1.5
LOOK_EVERY_S = 0.2  # interval between looks at signals, while it waits for the parent
ORPHANED = 128 + signal.SIGTERM


class Said(Enum):
    """Messages of a process to its parent; an error that ends the process is sent as itself."""

    STARTED = "it trains from now on"
    FREE = "it waits to be told what is next"
    ENDED = "nothing is left to claim"
    STOPPED = "somebody asked it to end, and it has saved"


@dataclass(frozen=True)
class Assignment:
    """The folder that a process trains, and the resources and options that it uses."""

    folder: Path
    share: DeviceShare
    threads: int
    plugins: tuple[Path, ...]
    number: int = 0  # of the process
    homes: Mapping[str, int] | None = None  # see spread.py; None: every process may take any run
    leaves_large: bool = False  # there is a larger device
    allow_drift: bool = False
    workers: int = 1  # on this machine
    in_stages: bool = False  # the parent chooses each stage
    budget: "Budget | None" = None


class Tally(ctypes.Structure):
    """The work that a process has done so far, in memory shared with its parent."""

    _fields_ = (
        ("run_steps", ctypes.c_int64),
        ("ended", ctypes.c_int64),
        ("shapes", ctypes.c_int64),
    )


def train_in_process(assignment: Assignment, connection: Connection, tally: Tally) -> None:
    """Train until nothing is left to claim, a signal asks to stop, or the parent has died."""
    interrupts, orphaned = Interrupts(), _watch_parent()

    def stop() -> int:
        return interrupts.exit_code() or (ORPHANED if orphaned.is_set() else 0)

    try:
        _train(assignment, stop, connection, tally)
    except Stopped:
        _tell(connection, Said.STOPPED)
    except RecollectError as error:
        _tell(connection, error)
    except BaseException as error:
        if os.environ.get("RECOLLECT_DEBUG"):
            traceback.print_exc()
        _tell(connection, _refusal(error))
    else:
        _tell(connection, Said.ENDED)


def _train(
    assignment: Assignment, stop: Callable[[], int], connection: Connection, tally: Tally
) -> None:
    import torch

    from recollect.mixers.plugins.load import load_plugin
    from recollect.mixers.plugins.runs import loaded_files
    from recollect.running.events import Advanced, PackStarted, Remark, RunEnded
    from recollect.running.processes.spread import Home
    from recollect.running.spending import train_in_order
    from recollect.running.worker import Worker
    from recollect.store import Store
    from recollect.store.checking.runs import leave_out_wrong

    # The spawned process has imported the script that started it, including its mixers.
    for plugin in assignment.plugins:
        if plugin.resolve() not in loaded_files():
            load_plugin(plugin)
    shapes: set[str] = set()

    def listen(event: "Event") -> None:
        match event:
            case Advanced():
                tally.run_steps += event.members
            case RunEnded():
                tally.ended += 1
            case PackStarted():
                shapes.add(event.runs[0].shape_id)
                tally.shapes = len(shapes)
            case Remark():
                _tell(connection, event)

    share, budget = assignment.share, assignment.budget
    if budget is not None:
        stop = budget.stop(stop)
    with (
        Store.open(assignment.folder) as store,
        Worker(
            store,
            assignment.folder,
            torch.device(share.device),
            listen,
            stop,
            threads=assignment.threads,
            processes=share.processes,
            memory_bytes=share.memory_bytes,
            home=Home(assignment.number, assignment.homes, assignment.leaves_large),
            allow_drift=assignment.allow_drift,
            workers=assignment.workers,
        ) as worker,
    ):
        _tell(connection, Said.STARTED)
        leave_out_wrong(store)
        choose = partial(_ask, connection, stop) if assignment.in_stages else None
        train_in_order(worker, choose, budget, joins=False)


def _ask(
    connection: Connection, stop: Callable[[], int], rows: "Sequence[RunRow]"
) -> "Stage | None":
    """Wait for the parent to name the next stage. The parent reads the rows itself."""
    try:
        connection.send(Said.FREE)
        while not connection.poll(LOOK_EVERY_S):
            code = stop()
            if code:
                raise Stopped("stopped while nothing was to be trained", code)
        stage: Stage | None = connection.recv()
    except (EOFError, OSError):
        raise Stopped("its parent is gone", ORPHANED) from None
    return stage


def _watch_parent() -> threading.Event:
    """Return an event that is set when the parent dies; the process exits GRACE_S later."""
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


def _refusal(error: BaseException) -> RecollectError:
    """The error to report to the parent for an unexpected exception."""
    from recollect.running.failures import is_device_lost

    if is_device_lost(error):
        return DeviceLostError(f"the GPU is lost: {str(error).splitlines()[0]}")
    return as_refusal(error, " in a worker process")


def _tell(connection: Connection, what: "Said | Remark | RecollectError") -> None:
    with contextlib.suppress(OSError):  # the parent has died
        connection.send(what)
