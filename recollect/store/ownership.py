"""Who holds a run: a process named so that another process can prove it dead, and whose clock its
lease is on.

An owner is "machine|clock|pid|start". The machine includes the process-id namespace, because a
container that shares its host's name sees other process ids. The clock is that of a boot and a
time namespace: steady clocks of two boots, namespaces or machines have nothing in common. Clock and
start time make a reused process id another owner. Where death is not certain, leases decide.
"""

import math
import os
import socket
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_S = 600.0  # that a lease on another clock can hold without being renewed


def this_process() -> str:
    """The owner this process claims runs under; a forked child is another owner."""
    pid = os.getpid()
    return "|".join([_machine(), _clock(), str(pid), _start(pid)])


def is_dead(owner: str) -> bool:
    """True only if it is certain that `owner` no longer runs; the processes of another machine, or
    of another boot of one with this name, are never certain.
    """
    parts = owner.rsplit("|", 3)
    if not shares_clock(owner) or not parts[2].isdecimal() or os.name != "posix":
        return False
    _, _, pid, start = parts
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    now = _start(int(pid))
    return now == "ended" or (now != "" and start != "" and now != start)


def shares_clock(owner: str) -> bool:
    """Whether times on the steady clock of an owner mean the same here."""
    return owner.rsplit("|", 3)[:2] == [_machine(), _clock()]


def host(owner: str) -> str:
    """What the machine of an owner is called."""
    return owner.partition("|")[0].partition("pid:[")[0]


class Lease(NamedTuple):
    """As the store has it, whatever its times are."""

    attempt: Any
    owner: Any
    renewed: Any
    until: Any

    @property
    def length_s(self) -> float:
        """One without its times holds nothing."""
        if type(self.renewed) is not float or type(self.until) is not float:
            return 0.0
        length = self.until - self.renewed
        return min(length, LONGEST_S) if math.isfinite(length) else 0.0


class ForeignLeases:
    """Leases on clocks that are not ours. Their times mean nothing here: one is over when nobody
    has renewed it for its whole length by our own clock, however far in the past or in the future
    it seems to end.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[Lease, float]] = {}  # by run: the lease, since when
        self._living: set[tuple[str, Any]] = set()  # runs and attempts that were renewed

    def is_over(self, run_id: str, lease: Lease, now: float) -> bool:
        """To be asked again and again: the first look only begins to watch."""
        before, since = self._seen.get(run_id, (None, now))
        if before == lease:
            return now - since >= lease.length_s
        self._seen[run_id] = lease, now
        if before is not None and before.attempt == lease.attempt:
            self._living.add((run_id, lease.attempt))
        return False

    def forget_others(self, run_ids: Collection[str]) -> None:
        """Only these are still held on another clock."""
        for run_id in self._seen.keys() - set(run_ids):
            del self._seen[run_id]

    def undecided(self) -> dict[str, Lease]:
        """Runs of which it is not known yet whether anybody renews their leases."""
        return {
            run_id: lease
            for run_id, (lease, _) in self._seen.items()
            if (run_id, lease.attempt) not in self._living
        }


@cache
def _machine() -> str:
    return socket.gethostname() + _namespace("pid")


@cache
def _clock() -> str:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return boot + _namespace("time")


def _namespace(kind: str) -> str:
    try:
        # A label in the shape of a link, not a path.
        return os.readlink(f"/proc/self/ns/{kind}")  # noqa: PTH115
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Clock ticks between boot and the start of `pid`; "ended" for a process that was not reaped;
    "" where unknown.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The name before ")" may hold blanks and brackets.
    state, *fields = text.rpartition(")")[2].split()
    return "ended" if state in "ZX" else fields[18]
