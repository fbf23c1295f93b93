"""Owners: a process is called dead only on proof."""

import math
import os
import subprocess
import sys
from pathlib import Path

import pytest

from recollect.store.ownership import (
    LONGEST_S,
    ForeignLeases,
    Lease,
    host,
    is_dead,
    shares_clock,
    this_process,
)


def test_an_owner_is_dead_only_when_that_is_certain() -> None:
    me = this_process()
    machine, clock, pid, start = me.rsplit("|", 3)
    child = subprocess.Popen(
        [sys.executable, "-c", "from recollect.store.ownership import *; print(this_process())"],
        stdout=-1,
    )
    theirs = child.stdout.readline().decode().strip()
    child.stdout.close()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert is_dead(theirs), "a corpse that nobody waited for"
    child.wait()
    assert is_dead(theirs)
    assert not is_dead(me)
    assert is_dead(f"{machine}|{clock}|{pid}|{int(start) - 1}")
    assert not is_dead(f"{machine}|another boot|4194303|{start}"), "a machine of the same name"
    assert not is_dead(f"another machine|{clock}|4194303|{start}")
    assert not is_dead("nonsense")
    assert not is_dead("a|b|c|d")


def test_an_owner_says_whose_clock_its_lease_is_on() -> None:
    machine, clock, pid, start = this_process().rsplit("|", 3)
    assert Path("/proc/sys/kernel/random/boot_id").read_text().strip() in clock
    assert Path("/proc/self/ns/time").readlink().name in clock
    assert machine == os.uname().nodename + Path("/proc/self/ns/pid").readlink().name
    assert host(this_process()) == os.uname().nodename
    assert shares_clock(f"{machine}|{clock}|1|1")
    for owner in (
        f"another|{clock}|{pid}|{start}",
        f"{machine.replace('pid:[', 'pid:[9')}|{clock}|{pid}|{start}",
        f"{machine}|{clock.replace('time:[', 'time:[9')}|{pid}|{start}",
        f"{machine}|another boot|{pid}|{start}",
        "me",
        "",
    ):
        assert not shares_clock(owner)


@pytest.mark.parametrize(
    ("renewed", "until", "length"),
    [
        (1e9, 1e9 + 60, 60.0),
        (-1e9, -1e9 + 60, 60.0),
        (0.0, 1e18, LONGEST_S),
        (math.nan, 1.0, 0.0),
        (-math.inf, math.inf, 0.0),
        (None, 60.0, 0.0),
        ("x", "y", 0.0),
    ],
)
def test_the_length_of_a_lease_is_all_that_another_clock_tells(
    renewed: object, until: object, length: float
) -> None:
    lease, leases = Lease(1, "other", renewed, until), ForeignLeases()
    assert lease.length_s == length
    assert not leases.is_over("a", lease, 100.0), "the first look begins to watch"
    assert leases.undecided() == {"a": lease}
    if length:
        assert not leases.is_over("a", lease, 99.9 + length)
    assert leases.is_over("a", lease, 100.0 + length)


def test_a_lease_that_is_renewed_is_somebodys() -> None:
    leases = ForeignLeases()
    for beat in range(8):
        lease = Lease(1, "other", 5e6 + 50.0 * beat, 5e6 + 50.0 * beat + 60)
        assert not leases.is_over("a", lease, 50.0 * beat)
    assert leases.undecided() == {}
    assert leases.is_over("a", lease, 50.0 * 7 + 60), "and over once it is not any more"
    assert not leases.is_over("a", lease._replace(attempt=2), 500.0)
    assert "a" in leases.undecided(), "another attempt is another holder"
    leases.forget_others([])
    assert leases.undecided() == {}
