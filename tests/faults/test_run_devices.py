"""Several devices of one machine, a process on each: whichever dies, no number is lost or changed.

Here they are the CPU under several names, which a plug-in puts in the place of the machine's: torch
takes cpu:1 for cpu, and everything else tells them apart.
"""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen

import run_workers
from harness import child
from run_workers import RUNS_OF_T, T, outcome, sweep
from test_run_processes import owners, pid
from test_run_signals import is_training, resume, running, statuses, wait_until

from recollect.running.planning.cost import cost
from recollect.running.planning.memory import MEMORY_SHARE
from recollect.store.ownership import is_dead

Reference = Callable[..., dict[str, str]]
DEVICES = """
import torch
from recollect.running import engine
from recollect.running.processes import count
engine.choose_devices = lambda name: (torch.device("cpu:0"), torch.device("cpu:1"))
count.WORTHWHILE_S = 0.0
"""
# A count of memory loads torch's compiler, a second in every process; these runs are tiny.
UNCOUNTED = """
from recollect.running.planning import memory
from recollect.running.planning.cost import Cost
memory.cost = count.cost = lambda run: Cost(1_000, 1_000_000, 1_000)
"""
# The second one ends whatever process is started on it; five would be waited for.
DEADLY = """
import os, signal
from recollect.running.processes import parent
from recollect.running.worker import Worker
parent.MAX_LOST = 1
work = Worker.work
def die(self, *arguments):
    if str(self.device) == "cpu:1":
        os.kill(os.getpid(), signal.SIGKILL)
    work(self, *arguments)
Worker.work = die
"""
# The first one has no room for mamba.
SMALL = """
from recollect.running.processes.devices import DeviceShare
count.share_devices = lambda devices: (DeviceShare("cpu:0", 1, {room}), DeviceShare("cpu:1"))
"""


@contextmanager
def on_devices(
    folder: Path, seconds: float, *parts: str, more: Sequence[str] = (), counted: bool = False
) -> Iterator[Popen[str]]:
    """`counted`: their memory matters."""
    plugin = folder.with_suffix(".py")
    plugin.write_text("".join((DEVICES, "" if counted else UNCOUNTED, *parts)))
    with running(folder, seconds, "--plugin", str(plugin), *more) as process:
        yield process


def test_a_device_whose_process_is_killed_goes_on(tmp_path: Path, reference: Reference) -> None:
    folder = tmp_path / "killed"
    with on_devices(folder, 1.0) as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        victim, *_ = before = sorted(owners(folder))
        os.kill(pid(victim), signal.SIGKILL)
        wait_until(lambda: len(owners(folder) - {victim}) == 2, "never replaced")
        assert owners(folder) > {*before} - {victim}, "the other device was disturbed"
        (folder / "hurry").touch()
        said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    assert ": a process ended by SIGKILL; another one takes its place\n" in said
    assert said.count("] done") == RUNS_OF_T
    done = [line for line in said.splitlines() if line.startswith("cpu:0: ") and " of " in line]
    assert len(done) == 1, "what each device did is said once, at the end"
    assert outcome(folder / "out") == reference(T)


def test_a_device_that_ends_all_its_processes_is_given_up_and_others_take_its_runs(
    tmp_path: Path, reference: Reference
) -> None:
    folder = tmp_path / "deadly"
    with on_devices(folder, 0, DEADLY) as process:
        said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    assert (
        "cpu:1: 1 processes in a row were killed before any run ended, the last one by SIGKILL; "
        "it is given up, others take its runs\n"
    ) in said
    assert outcome(folder / "out") == reference(T)


def test_a_search_on_several_devices_trains_the_same_runs_whoever_dies(
    tmp_path: Path, reference: Reference
) -> None:
    with child(tmp_path / "journal", run_workers.search, tmp_path / "alone", T) as searching:
        assert searching.end() == 0
    folder = tmp_path / "searched"
    with on_devices(folder, 1.0, more=("--search", "edges")) as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        victim = min(owners(folder))
        os.kill(pid(victim), signal.SIGKILL)
        wait_until(lambda: len(owners(folder) - {victim}) == 2, "never replaced")
        (folder / "hurry").touch()
        said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    found, whole = outcome(folder / "out"), reference(T)
    assert found == outcome(tmp_path / "alone")
    assert {run_id: whole[run_id] for run_id, end in found.items() if end.startswith("done")} == {
        run_id: end for run_id, end in found.items() if end.startswith("done")
    }
    assert "cpu:1: " in said


def test_one_interrupt_stops_all_devices_after_a_checkpoint(
    tmp_path: Path, reference: Reference
) -> None:
    """As the keyboard sends it: to the whole group."""
    folder = tmp_path / "interrupt"
    with on_devices(folder, 0.1) as process:
        wait_until(lambda: is_training(folder) and len(owners(folder)) == 2, "never two at work")
        trainers = owners(folder)
        os.killpg(process.pid, signal.SIGINT)
        _, complaint = process.communicate(timeout=60)
    assert (process.returncode, complaint) == (
        130,
        f"recollect: stopped; continue with `recollect resume {folder / 'out'}`\n",
    )
    assert all(is_dead(owner) for owner in trainers)
    assert statuses(folder) == {"todo"}
    resume(folder)
    assert outcome(folder / "out") == reference(T)


def test_devices_of_different_memory_train_what_fits(tmp_path: Path, reference: Reference) -> None:
    folder = tmp_path / "small"
    need = {run.model.mixer.name: cost(run).memory_bytes for run in sweep(T).runs}
    assert 1.5 * need["attention"] < need["mamba"]
    room = int(1.4 * need["attention"] / MEMORY_SHARE)
    with on_devices(folder, 0, SMALL.format(room=room), counted=True) as process:
        said, complaint = process.communicate(timeout=120)
    assert (process.returncode, complaint) == (0, "")
    assert outcome(folder / "out") == reference(T)
    # Homes do not know what fits: the small one meets mamba when it has done its own.
    assert said.count("cpu:0: too small for mamba width=16; left to a larger one\n") <= 1
