"""Several processes on one folder, `recollect run --workers 2`: whichever of them dies, no
number is lost or changed.
"""

import os
import signal
import sqlite3
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from run_workers import RUNS_OF_T, T, outcome
from test_run_signals import SLACK_S, is_training, resume, running, statuses, wait_until

from recollect.store.database import FILE
from recollect.store.ownership import is_dead

Reference = Callable[..., dict[str, str]]


def owners(folder: Path) -> set[str]:
    """Those who hold a run now."""
    with closing(sqlite3.connect(folder / "out" / FILE)) as connection:
        return {
            owner
            for (owner,) in connection.execute(
                "SELECT DISTINCT owner FROM runs WHERE status = 'running'"
            )
        }


def pid(owner: str) -> int:
    return int(owner.rsplit("|", 2)[1])


def test_killed_and_terminated_processes_are_replaced_and_the_sweep_ends(
    tmp_path: Path, reference: Reference
) -> None:
    """Steps are slow until both are replaced: however long a start takes, something is left."""
    folder = tmp_path / "child"
    with running(folder, 1.0, "--workers", "2") as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        victims = owners(folder)
        assert process.pid not in map(pid, victims), "the parent trains nothing"
        for victim, number in zip(victims, (signal.SIGKILL, signal.SIGTERM), strict=True):
            os.kill(pid(victim), number)
        wait_until(lambda: len(owners(folder) - victims) == 2, "never replaced")
        (folder / "hurry").touch()
        said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    assert said.count("] done") == RUNS_OF_T
    assert outcome(folder / "out") == reference(T)


def test_when_the_parent_is_killed_its_processes_save_and_end(
    tmp_path: Path, reference: Reference
) -> None:
    folder = tmp_path / "parent"
    with running(folder, 0.1, "--workers", "2") as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        trainers = owners(folder)
        time.sleep(0.3)
        process.kill()
        process.wait()
        wait_until(lambda: all(is_dead(owner) for owner in trainers), "its processes go on")
    assert statuses(folder) == {"todo"}, "the runs were given back"
    resume(folder)
    assert outcome(folder / "out") == reference(T)


def test_processes_end_soon_after_their_parent_even_within_a_step(tmp_path: Path) -> None:
    folder = tmp_path / "step"
    with running(folder, 100, "--workers", "2") as process:
        wait_until((folder / "in a step").exists, "never trained")
        wait_until(lambda: len(owners(folder)) == 2, "never two at work")
        trainers = owners(folder)
        process.kill()
        process.wait()
        killed = time.monotonic()
        wait_until(lambda: all(is_dead(owner) for owner in trainers), "its processes go on")
        assert time.monotonic() - killed <= 2 + SLACK_S


def test_an_unexpected_error_in_a_process_is_told_in_two_lines(tmp_path: Path) -> None:
    folder = tmp_path / "error"
    with running(folder, 0, "--workers", "2", "--plugin", str(broken(tmp_path))) as process:
        _, complaint = process.communicate(timeout=120)
    assert process.returncode == 1
    assert complaint == (
        "recollect: internal error in a worker process: KeyError: 'no such thing'\n"
        "please report it; RECOLLECT_DEBUG=1 shows where it happened\n"
    )
    assert statuses(folder) == {"todo"}


def broken(folder: Path) -> Path:
    """A plug-in that breaks what is around training, in worker processes alone."""
    file = folder / "broken.py"
    file.write_text(
        "import multiprocessing\n"
        "from recollect.running.pack_queue import PackQueue\n"
        "def broken(*arguments):\n"
        "    raise KeyError('no such thing')\n"
        "if multiprocessing.parent_process():\n"
        "    PackQueue.next = broken\n"
    )
    return file


def test_a_signal_to_the_parent_stops_all_after_a_checkpoint(
    tmp_path: Path, reference: Reference
) -> None:
    folder = tmp_path / "signal"
    with running(folder, 0.1, "--workers", "2") as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        trainers = owners(folder)
        process.send_signal(signal.SIGTERM)
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (
        143,
        f"recollect: stopped; continue with `recollect resume {folder / 'out'}`\n",
    )
    assert all(is_dead(owner) for owner in trainers)
    assert statuses(folder) == {"todo"}
    resume(folder)
    assert outcome(folder / "out") == reference(T)
