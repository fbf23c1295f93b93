"""Signals to a real `python -m recollect run`:
a checkpoint and an honest exit code, and no number changed by it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import run_workers
from harness import child
from run_workers import RUNS_OF_T, T, outcome

import recollect
from recollect.api import Results
from recollect.errors import SpecError
from recollect.running.signals import SECOND_AFTER_S
from recollect.store import Store, checkpoint

Reference = Callable[..., dict[str, str]]
DEADLINE_S = 180  # three starts of torch on a busy machine
SLACK_S = 20  # to be scheduled on a busy machine; a slow step takes 100
# A plugin is a file that is run: this one makes every step so slow that the signal comes before the
# end, until told otherwise.
SLOW = """
import time
from pathlib import Path
from recollect.training.population import Population
step = Population.train_step
def slow(self, batch):
    step(self, batch)
    here = Path(__file__)
    # Planning measures first steps; those may pass.
    if self.step > 1 and not here.with_name("hurry").exists():
        here.with_name("in a step").touch()
        time.sleep({seconds})
Population.train_step = slow
"""


@contextmanager
def running(folder: Path, seconds_a_step: float, *more: str) -> Iterator[subprocess.Popen[str]]:
    """The program at work in a process group of its own, which does not outlive the test."""
    folder.mkdir()
    spec, plugin = folder / "t.toml", folder / "slow.py"
    spec.write_text(T)
    plugin.write_text(SLOW.format(seconds=seconds_a_step))
    program = [
        sys.executable,
        "-m",
        "recollect",
        "run",
        spec,
        "--out",
        folder / "out",
        "--plugin",
        plugin,
        "--device",
        "cpu",
    ]
    program += more
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(Path(recollect.__file__).parents[1]),
    }
    process = subprocess.Popen(
        program,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.02)


def statuses(folder: Path) -> set[str]:
    try:
        return {row.status for row in Results.load(folder / "out").rows}
    except SpecError:  # nothing there yet
        return set()


def is_training(folder: Path) -> bool:
    return "running" in statuses(folder)


def resume(folder: Path) -> None:
    with child(
        folder / "journal", run_workers.command, folder / "resumed", "resume", folder / "out"
    ) as resumed:
        assert resumed.end() == 0
    assert (folder / "resumed.out").read_text().count("] done") == RUNS_OF_T


def test_a_signal_is_granted_after_a_checkpoint(tmp_path: Path, reference: Reference) -> None:
    wanted = {signal.SIGTERM: 143, signal.SIGINT: 130, signal.SIGUSR2: 143}
    folders = {number: tmp_path / number.name for number in wanted}
    with (
        running(folders[signal.SIGTERM], 0.1) as first,
        running(folders[signal.SIGINT], 0.1) as second,
        running(folders[signal.SIGUSR2], 0.1) as third,
    ):
        for number, process in zip(wanted, (first, second, third), strict=True):
            wait_until(lambda folder=folders[number]: is_training(folder), "never trained")
            time.sleep(0.3)  # into the steps; a checkpoint is not yet due by its time
            asked = time.monotonic()
            os.killpg(process.pid, number)
            _, complaint = process.communicate(timeout=60)
            assert time.monotonic() - asked <= 10 + SLACK_S
            assert process.returncode == wanted[number]
            again = f"recollect resume {folders[number] / 'out'}"
            assert complaint == f"recollect: stopped; continue with `{again}`\n"
            assert statuses(folders[number]) == {"todo"}, "the runs were given back"
            with Store.open(folders[number] / "out", read_only=True) as store:
                found = checkpoint.find(folders[number] / "out" / "checkpoints", store.key)
            assert found.problems == ()
            assert max(entry.step for entry in found.saved) > 0
    for folder in folders.values():
        resume(folder)
        assert outcome(folder / "out") == reference(T)


def test_the_second_interrupt_does_not_wait(tmp_path: Path, reference: Reference) -> None:
    folder = tmp_path / "second"
    with running(folder, seconds_a_step=100) as process:
        wait_until(
            (folder / "in a step").exists, "never trained"
        )  # earlier, the first one would be granted at once
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.1)
        os.killpg(process.pid, signal.SIGINT)  # the same one again, as wrappers forward it
        time.sleep(1.1 * SECOND_AFTER_S)
        assert process.poll() is None, "the first one waits for the step"
        asked = time.monotonic()
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert time.monotonic() - asked <= 2 + SLACK_S
    assert statuses(folder) == {"running", "todo"}, "nothing was tidied up"
    resume(folder)
    assert outcome(folder / "out") == reference(T)
