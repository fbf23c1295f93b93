"""The parent of several processes that train. It trains nothing itself: it watches the store,
passes signals on and replaces processes that were killed.

If training goes in stages, the parent chooses the next stage for idle processes (stages.py).
A device whose processes are killed repeatedly is given up if there are others, which then take over
its runs.
"""

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path

import torch

from recollect.analysis import count_text
from recollect.errors import DeviceLostError, RecollectError, ResourceError, Stopped
from recollect.mixers.plugins.remembered import resume_command
from recollect.running.events import DeviceProgress, Event, Remark, ignore
from recollect.running.processes.child import Assignment, Said, Tally, train_in_process
from recollect.running.processes.devices import DeviceShare
from recollect.running.processes.stages import Offer, SharedStages
from recollect.running.processes.watching import StoreWatcher
from recollect.store import MAX_LOST, Store, checkpoint

WATCH_EVERY_S = 1.0
_SAFE_PATH = "PYTHONSAFEPATH"


@dataclass
class _Started:
    """A process that was started, and its messages so far."""

    assignment: Assignment
    process: BaseProcess
    connection: Connection
    said: list[Said | Remark | RecollectError] = field(default_factory=list)
    is_free: bool = False  # it waits for its next stage
    offered: Offer | None = None  # the last one sent to it


class WorkerProcesses:
    """Processes that train one folder, one for each of `shares`, from start to end.

    `homes`: the number of the process that each run is assigned to, if there are several devices.
    """

    def __init__(
        self,
        folder: Path,
        shares: Sequence[DeviceShare],
        plugins: Sequence[Path],
        stop: Callable[[], int],
        listen: Callable[[Event], None] = ignore,
        homes: Mapping[str, int] | None = None,
        allow_drift: bool = False,
        stages: SharedStages | None = None,
    ):
        self.stop, self.listen = stop, listen
        most = max(share.room for share in shares)
        self._assignments = [
            Assignment(
                folder,
                share,
                torch.get_num_threads(),
                tuple(plugins),
                number,
                homes,
                leaves_large=homes is not None and share.room < most,
                allow_drift=allow_drift,
                workers=len(shares),
                in_stages=stages is not None,
                budget=stages.budget if stages else None,
            )
            for number, share in enumerate(shares)
        ]
        self._stages, self._answered = stages, (0, 0, 0)  # see _answer
        self._devices = dict.fromkeys(share.device for share in shares)
        self._given_up: set[str] = set()  # devices
        self._living: list[_Started] = []
        self._tallies: list[tuple[str, Tally]] = []  # (device, tally) of every process so far
        self._lost = dict.fromkeys(self._devices, 0)  # processes that died in a row
        self._ended = dict.fromkeys(self._devices, 0)  # ended runs when a process last died

    def work(self, store: Store) -> None:
        """Run the processes until nothing is todo, and report changes in the store meanwhile."""
        watcher, ended = StoreWatcher(store), -1
        try:
            # Runs may return to the store after the processes that could train them have ended.
            # Another round trains these.
            while ended < 0 or (watcher.ended > ended and self._is_left(store)):
                ended = watcher.ended
                for assignment in self._assignments:
                    if assignment.share.device not in self._given_up:
                        self._start(assignment)
                self._watch(store, watcher)
        finally:
            for started in self._living:
                started.process.terminate()
            for started in self._living:
                started.process.join()
        for kind, runs in self._begun_elsewhere(store).items():
            self.listen(
                Remark(
                    f"{count_text(runs, 'run')} begun on {kind}, where nobody trains now: left, "
                    "since bits would differ; go on there, or here with "
                    f"`{resume_command(store)} --allow-drift`"
                )
            )
        code = self.stop()
        if code:
            raise Stopped(f"stopped; continue with `{resume_command(store)}`", code)

    def _is_left(self, store: Store) -> bool:
        """Whether todo runs are left that one of the devices can train."""
        if len(self._devices) == 1 or self._stages or self.stop():
            return False
        store.reclaim()
        return len(store.todo()) > self._begun_elsewhere(store).total()

    def _begun_elsewhere(self, store: Store) -> Counter[str]:
        """Waiting runs begun on kinds of devices that no process has, counted by kind."""
        kinds = {
            each.share.kind for each in self._assignments if each.share.device not in self._given_up
        }
        begun = [todo.run_id for todo in store.todo() if todo.attempt]
        if not begun or self._assignments[0].allow_drift:
            return Counter()
        found = checkpoint.find(store.path.parent / "checkpoints", store.key)
        newest = filter(None, map(found.newest, begun))
        devices = (saved.environment.device for saved in newest)
        return Counter(device for device in devices if device and device not in kinds)

    def _watch(self, store: Store, watcher: StoreWatcher) -> None:
        """Watch the processes until none lives."""
        while self._living:
            if self.stop():
                time.sleep(WATCH_EVERY_S / 4)
            else:  # returns at once when a process sends a message or ends
                wait([started.connection for started in self._living], WATCH_EVERY_S)
            self._tell(watcher)
            if self.stop():
                self._ask_to_stop()
                continue
            for assignment, how in self._reap(store):
                self._replace(assignment, how, store)
            if self._stages is not None:
                self._answer(self._stages, watcher.ended)
        self._tell(watcher)

    def _answer(self, stages: SharedStages, ended: int) -> None:
        """Send the next stage to the idle processes, or None if there is none and all are idle.

        A new choice is made only after another process is idle, one has died or a run has ended.
        """
        free = [started for started in self._living if started.is_free]
        if not free or (len(free), len(self._living), ended) == self._answered:
            return
        offer = stages.next()
        takers = [started for started in free if offer is not None and started.offered != offer]
        if not takers and len(free) == len(self._living):
            takers, offer = free, None
        for started in takers:
            started.is_free, started.offered = False, offer
            with contextlib.suppress(OSError):  # it has died, and is replaced
                started.connection.send(offer.stage if offer else None)
        self._answered = (len(free) - len(takers), len(self._living), ended)

    def _tell(self, watcher: StoreWatcher) -> None:
        for event in watcher.changes():
            self.listen(event)
        for device in self._devices:
            own = [tally for place, tally in self._tallies if place == device]
            self.listen(
                DeviceProgress(
                    device,
                    sum(tally.run_steps for tally in own),
                    sum(tally.ended for tally in own),
                    sum(tally.shapes for tally in own),
                )
            )

    def _start(self, assignment: Assignment) -> None:
        # A fork of a process with torch's threads may hang.
        context = multiprocessing.get_context("spawn")
        connection, its_end = context.Pipe()
        tally = context.RawValue(Tally)
        process = context.Process(
            target=train_in_process, args=(assignment, its_end, tally), daemon=True
        )
        with _keyboard_ignored(), _working_directory_not_imported():
            process.start()
        its_end.close()
        self._living.append(_Started(assignment, process, connection))
        self._tallies.append((assignment.share.device, tally))

    def _reap(self, store: Store) -> list[tuple[Assignment, str]]:
        """Return processes that died since the last call and should be replaced, and how they died.

        An error that ended a process is raised here.
        """
        deaths = []
        for started in list(self._living):
            is_alive = started.process.is_alive()  # checked first, so no last message is missed
            for word in _received(started.connection):
                started.said.append(word)
                if isinstance(word, Remark):
                    self.listen(word)
                elif word is Said.FREE:
                    started.is_free = True
            if is_alive:
                continue
            self._living.remove(started)
            started.process.join()
            exitcode = started.process.exitcode or 0
            how = _exit_text(exitcode)
            for word in started.said:
                if isinstance(word, DeviceLostError) and len(self._devices) > 1:
                    how = f"since {str(word).splitlines()[0]}"
                elif isinstance(word, RecollectError):
                    raise word
            if not started.said and exitcode >= 0:
                raise RecollectError(
                    f"a worker process ended before it trained anything, {how}\n"
                    '(a script that calls recollect.run needs `if __name__ == "__main__":`)\n'
                    f"`{resume_command(store)} {self._alone()}` trains without such processes"
                )
            if Said.ENDED not in started.said:
                deaths.append((started.assignment, how))
        return deaths

    def _replace(self, assignment: Assignment, how: str, store: Store) -> None:
        """Start a new process for a dead one; give the device up after MAX_LOST in a row."""
        device = assignment.share.device
        ended = sum(tally.ended for place, tally in self._tallies if place == device)
        if ended > self._ended[device]:
            self._lost[device] = 0
        self._ended[device] = ended
        if self._lost[device] < MAX_LOST:
            self._lost[device] += 1
            self.listen(Remark(f"{device}: a process ended {how}; another one takes its place"))
            self._start(assignment)
            return
        self._given_up.add(device)
        why = f"{MAX_LOST} processes in a row were killed before any run ended, the last one {how}"
        if len(self._given_up) == len(self._devices):
            raise ResourceError(
                f"{why}, perhaps for want of memory\n"
                f"continue with fewer: `{resume_command(store)} {self._alone()}`"
            )
        self.listen(Remark(f"{device}: {why}; it is given up, others take its runs"))

    def _alone(self) -> str:
        """The command-line option that trains without child processes."""
        first = next(iter(self._devices))
        return "--workers 1" if first == "cpu" else f"--device {first}"

    def _ask_to_stop(self) -> None:
        for started in list(self._living):
            if started.process.is_alive():
                started.process.terminate()  # SIGTERM: it saves and ends
            else:
                self._living.remove(started)


@contextlib.contextmanager
def _keyboard_ignored() -> Iterator[None]:
    """Ignore SIGINT while a process starts.

    The new process inherits this until it handles signals itself. Without it, an interrupt from the
    keyboard would end the new process with a traceback. Python can change handlers only in the main
    thread, so in other threads this does nothing.
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
    """Keep a new process from importing modules from the working directory.

    A process starts as `python -c`, which searches the working directory first, and that may be a
    folder of results. The process then takes over the import path of this one.
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


def _received(connection: Connection) -> list[Said | Remark | RecollectError]:
    """The messages of a process since the last call."""
    said = []
    with contextlib.suppress(EOFError, OSError):
        while connection.poll():
            said.append(connection.recv())
    return said


def _exit_text(code: int) -> str:
    if code >= 0:
        return f"with exit code {code}"
    try:
        return f"by {signal.Signals(-code).name}"
    except ValueError:
        return f"by signal {-code}"
