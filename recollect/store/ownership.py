"""Who holds a run: a process named so that another process can prove it dead.

An owner is "machine|boot|pid|start". The machine includes the process-id namespace, because a
container that shares its host's name sees other process ids; boot and start time make a reused
process id another owner. Where death is not certain, leases decide.
"""

import os
import socket
from functools import cache
from pathlib import Path


def this_process() -> str:
    """The owner this process claims runs under; a forked child is another owner."""
    pid = os.getpid()
    return "|".join([_machine(), _boot(), str(pid), _start(pid)])


def is_dead(owner: str) -> bool:
    """True only if it is certain that `owner` no longer runs;
    another machine's processes are never certain.
    """
    parts = owner.rsplit("|", 3)
    if len(parts) != 4 or not parts[2].isdecimal() or os.name != "posix":
        return False
    machine, boot, pid, start = parts
    if machine != _machine():
        return False
    if boot != _boot():
        return True
    try:
        os.kill(int(pid), 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        return False
    now = _start(int(pid))
    return now == "ended" or (now != "" and start != "" and now != start)


@cache
def _machine() -> str:
    try:
        # A label in the shape of a link, not a path.
        namespace = os.readlink("/proc/self/ns/pid")  # noqa: PTH115
    except OSError:
        namespace = ""
    return socket.gethostname() + namespace


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
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
