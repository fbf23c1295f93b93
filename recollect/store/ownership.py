"""Owners of runs: names from which another process can tell whether the owner is dead.

An owner is "machine|clock|pid|start".

- The machine includes the process-id namespace, because a container that shares its host's name
  sees other process ids.
- The clock names a boot and a time namespace. The steady clocks of two boots, namespaces or
  machines cannot be compared.
- Clock and start time distinguish two processes with the same (reused) process id.

Where it is not certain that an owner is dead, its lease decides.
"""

import math
import os
import socket
from collections.abc import Collection
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

LONGEST_S = 600.0  # longest time that a lease on another clock is valid without a renewal


def this_process() -> str:
    """The owner this process claims runs under; a forked child is another owner."""
    pid = os.getpid()
    return "|".join([_machine(), _clock(), str(pid), _start(pid)])


def is_dead(owner: str) -> bool:
    """Return True only if it is certain that `owner` has ended.

    For a process of another machine, or of another boot of a machine with the same name, this is
    never certain.
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
    """Whether `owner` uses the same steady clock as this process."""
    return owner.rsplit("|", 3)[:2] == [_machine(), _clock()]


def host(owner: str) -> str:
    """Host name of the machine of `owner`."""
    return owner.partition("|")[0].partition("pid:[")[0]


class Lease(NamedTuple):
    """A lease as read from the store; its values are not validated."""

    attempt: Any
    owner: Any
    renewed: Any
    until: Any

    @property
    def length_s(self) -> float:
        """Length of the lease in seconds, at most LONGEST_S; 0 if it has no valid times."""
        if type(self.renewed) is not float or type(self.until) is not float:
            return 0.0
        length = self.until - self.renewed
        return min(length, LONGEST_S) if math.isfinite(length) else 0.0


class ForeignLeases:
    """Leases on clocks other than the one of this process.

    Their times cannot be compared with the local clock. Such a lease is over when it has not been
    renewed for its whole length, measured on the local clock, whatever end time it states.
    """

    def __init__(self) -> None:
        # By run id: the lease, and the local time at which it was first seen.
        self._seen: dict[str, tuple[Lease, float]] = {}
        # (run id, attempt) of leases for which a renewal was seen.
        self._living: set[tuple[str, Any]] = set()

    def is_over(self, run_id: str, lease: Lease, now: float) -> bool:
        """Whether the lease is over at `now`.

        Call it repeatedly: the first call for a lease only starts the observation.
        """
        before, since = self._seen.get(run_id, (None, now))
        if before == lease:
            return now - since >= lease.length_s
        self._seen[run_id] = lease, now
        if before is not None and before.attempt == lease.attempt:
            self._living.add((run_id, lease.attempt))
        return False

    def forget_others(self, run_ids: Collection[str]) -> None:
        """Forget all leases except those of `run_ids`, which are still held on another clock."""
        for run_id in self._seen.keys() - set(run_ids):
            del self._seen[run_id]

    def undecided(self) -> dict[str, Lease]:
        """Runs for which it is not known yet whether their leases are renewed."""
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
        # The target is a label such as "pid:[4026531836]", not a path.
        return os.readlink(f"/proc/self/ns/{kind}")  # noqa: PTH115
    except OSError:
        return ""


def _start(pid: int) -> str:
    """Clock ticks between boot and the start of `pid`.

    "ended" for a process that has ended but was not reaped; "" where the start is unknown.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The process name before the last ")" may contain blanks and brackets.
    state, *fields = text.rpartition(")")[2].split()
    return "ended" if state in "ZX" else fields[18]
