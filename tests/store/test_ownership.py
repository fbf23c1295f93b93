"""Owners: a process is called dead only on proof."""

import os
import subprocess
import sys

from recollect.store.ownership import is_dead, this_process


def test_an_owner_is_dead_only_when_that_is_certain() -> None:
    me = this_process()
    machine, boot, pid, start = me.rsplit("|", 3)
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
    assert is_dead(f"{machine}|{boot}|{pid}|{int(start) - 1}")
    assert is_dead(f"{machine}|another boot|{pid}|{start}")
    assert not is_dead(f"another machine|{boot}|4194303|{start}")
    assert not is_dead("nonsense")
    assert not is_dead("a|b|c|d")
