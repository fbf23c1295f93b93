"""What the processes of the running program's fault tests do, and the sweeps they train; imported
once by the fork server.

Two sweeps: T, twelve runs of two mixers, and M, a handful of steps for tests that die at every
place. Both are compared with an undisturbed reference bit for bit, so every process computes with
one thread.
"""

import ctypes
import errno
import hashlib
import os
import random
import resource
import signal
import struct
import sys
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from harness import Acknowledge

from recollect.cli import app as cli
from recollect.reports import page
from recollect.reports.live import view
from recollect.running import engine
from recollect.running import pack as packs
from recollect.running.events import Advanced, Event, PackStarted, RunEnded
from recollect.running.pack_queue import Selection
from recollect.running.results import RunSet
from recollect.running.worker import Worker
from recollect.spec.sweep import Sweep, parse_sweep
from recollect.store import Store, durable, failpoint
from recollect.tasks.base import Batch
from recollect.tasks.build import build_task
from recollect.training.population import Population

# Imported for the command line: the fork server should hold all that it needs.
__all__ = ["page", "view"]

torch.set_num_threads(1)

T = """
[task]
name = "mqar"
vocabulary = 32
length = 16
pairs = 2
data = "fresh"
test_rows = 32
[model]
width = 16
depth = 1
[train]
steps = 60
batch = 32
evaluations = 4
[sweep]
model.mixer = ["attention", { name = "mamba", state = 4 }]
train.lr = [1e-3, 1e-2, 1e-1]
seed = [1, 2]
"""
# Two rates of M may stop early, so that what a run remembers of its last evaluations matters as
# well.
M = (
    T.replace("steps = 60", "steps = 24")
    .replace("evaluations = 4", "evaluations = 6")
    .replace("seed = [1, 2]\n", "[[sweep.zip]]\n")
    .replace("train.lr = [1e-3, 1e-2, 1e-1]\n", "")
    .replace(
        "[[sweep.zip]]\n",
        "[[sweep.zip]]\ntrain.lr = [1e-3, 1e-2, 1e-1]\ntrain.stop_solved = [0.0, 0.01, 0.0]\n"
        "train.stop_hopeless = [0.0, 0.0, 0.05]\n",
    )
)
RUNS_OF_T, STEPS_OF_T = 12, 60
STEPS_A_SAVE = 4
_M_MMAP_THRESHOLD, _CAPABILITY_VERSION_3 = -3, 0x20080522  # of the C library and of the kernel
SECONDS_A_STEP = packs.SAVE_EVERY_S / STEPS_A_SAVE


def sweep(text: str) -> Sweep:
    return parse_sweep(text, name="sweep")


def plan(folder: Path, text: str, order: int | None = None) -> tuple[str, ...]:
    """A folder with the sweep planned, in the order of the text or in a random one; the run ids."""
    runs = list(sweep(text).runs)
    if order is not None:
        random.Random(order).shuffle(runs)
    with Store.create(folder) as store:
        engine.plan(store, Sweep("sweep", text, tuple(runs)))
    return tuple(run.run_id for run in runs)


def outcome(folder: Path) -> dict[str, str]:
    """All that may not depend on what happened on the way, by run; floats as the text that names
    every bit of them.
    """
    results = RunSet.load(folder)
    return {
        row.run_id: f"{row.status} {row.steps} {row.diverged_step} {row.stopped_early} "
        f"{row.failure} {row.parameters} {results.curves.get(row.run_id)!r}"
        for row in results.rows
    }


def move_clock_by_steps() -> None:
    """From here on the time of packs passes by steps alone,
    so that a checkpoint falls on every fourth step.
    """
    now, step = [0.0], Population.train_step

    def counted(self: Population, batch: Batch) -> None:
        step(self, batch)
        now[0] += SECONDS_A_STEP

    Population.train_step = counted  # type: ignore[method-assign]
    packs.time = SimpleNamespace(monotonic=lambda: now[0])  # type: ignore[assignment]


def train_all(
    acknowledge: Acknowledge, folder: Path, text: str, pack_size: int, side_by_side: bool = False
) -> None:
    """Plan the sweep and train what is todo; says each pack, each step before it is made and each
    end after it is stored.
    """

    def listen(event: Event) -> None:
        match event:
            case PackStarted():
                acknowledge(f"pack {len(event.runs)} {event.from_step}")
            case Advanced():
                acknowledge(f"step {event.members}")
            case RunEnded():
                acknowledge(f"end {event.run.run_id} {event.status}")

    move_clock_by_steps()
    with Store.create(folder) as store:
        engine.plan(store, sweep(text))
        Worker(
            store,
            folder,
            torch.device("cpu"),
            listen,
            threads=1,
            side_by_side=side_by_side,
        ).work(Selection(pack_size=pack_size))
    for name, times in failpoint._passed.items():
        acknowledge(f"passed {name} {times}")


def command(
    acknowledge: Acknowledge, prefix: Path, *arguments: object, output: int | None = None
) -> None:
    """The command line with these arguments; its output goes to files beside `prefix`, or to
    `output`, its exit code is the process's.
    """
    move_clock_by_steps()
    sys.argv = ["recollect", *map(str, arguments)]
    for number, name in ((1, "out"), (2, "err")):
        os.dup2(os.open(f"{prefix}.{name}", os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    if output is not None:
        os.dup2(output, 1)
        os.close(output)
    # What multiprocessing gave this process is bound to the test's own streams.
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    acknowledge("started")
    cli.main()


# ---- sabotage ----


def poison(
    acknowledge: Acknowledge,
    folder: Path,
    what: str,
    value: float,
    at: int,
    victims: Collection[str],
) -> None:
    """Train T while step `at` (from 1) puts `value` into the victims' loss, gradient or weights."""
    step = Population.train_step

    def poisoned(self: Population, batch: Batch) -> None:
        hit = (
            [p for p, run in enumerate(self._padded) if run.run_id in victims]
            if self.step == at - 1
            else []
        )
        weight = self.model.embedding.weight
        if hit and what == "loss":
            loss = self.model.loss
            factor_P = torch.ones(len(self._padded)).index_fill(0, torch.tensor(hit), value)
            self.model.loss = lambda batch: loss(batch) * factor_P  # type: ignore[method-assign]
        handle = (
            weight.register_hook(lambda gradient: gradient.index_fill(0, torch.tensor(hit), value))
            if hit
            else None
        )
        if handle is not None and what != "gradient":
            handle.remove()
        step(self, batch)
        if hit and what == "weights":
            weight.data[hit] = value
        if hit and what == "loss":
            del self.model.loss
        if handle is not None:
            handle.remove()

    Population.train_step = poisoned  # type: ignore[method-assign]
    train_all(acknowledge, folder, T, pack_size=6)


def never_fit(
    acknowledge: Acknowledge, folder: Path, most: int, hopeless: Collection[str], die: bool
) -> None:
    """Train T where more than `most` runs together, or a hopeless one, exhaust the memory: by an
    error, or by the kernel.
    """
    step = Population.train_step

    def exhausted(self: Population, batch: Batch) -> None:
        too_many = len(self.members) > most or any(run.run_id in hopeless for run in self.members)
        if (
            too_many and self.step == 2
        ):  # the third: like a memory that fills up, not a model that is too large to build
            if die:
                os.kill(os.getpid(), signal.SIGKILL)
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        step(self, batch)

    Population.train_step = exhausted  # type: ignore[method-assign]
    train_all(acknowledge, folder, T, pack_size=6)


def come_late(acknowledge: Acknowledge, folder: Path, text: str, pack_size: int) -> None:
    """Train while another worker is a little faster: the first claim finds its first run gone."""
    claim, claims = Store.claim, []

    def claim_the_rest(
        self: Store, run_ids: Iterable[str], owner: str, lease_s: float
    ) -> dict[str, int]:
        wanted = list(run_ids)
        claims.append(wanted)
        return claim(self, wanted if len(claims) > 1 else wanted[1:], owner, lease_s)

    Store.claim = claim_the_rest  # type: ignore[method-assign]
    train_all(acknowledge, folder, text, pack_size)


def in_little_memory(acknowledge: Acknowledge, folder: Path, text: str, more_bytes: int) -> None:
    """Train with no more than so many bytes on top of what the process has taken."""
    # Tensors straight from the system: what the C library keeps of freed ones in its heap would
    # count against the limit.
    ctypes.CDLL(None).mallopt(_M_MMAP_THRESHOLD, 65_536)
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    limit = pages * os.sysconf("SC_PAGE_SIZE") + more_bytes
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    train_all(acknowledge, folder, text, pack_size=8)


def on_full_disk(
    acknowledge: Acknowledge, prefix: Path, failing_write: int, *arguments: object
) -> None:
    """The command line on a disk that is full from the n-th piece of a checkpoint on."""
    written = [0]

    def write(handle: int, data: memoryview) -> int:
        written[0] += 1
        if written[0] >= failing_write:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return os.write(handle, data)

    durable.os = SimpleNamespace(**vars(os) | {"write": write})  # type: ignore[assignment]
    command(acknowledge, prefix, *arguments)


def with_small_files(
    acknowledge: Acknowledge, prefix: Path, largest: int, *arguments: object
) -> None:
    """The command line where no file may grow beyond `largest` bytes."""
    resource.setrlimit(
        resource.RLIMIT_FSIZE, (largest, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
    )
    command(acknowledge, prefix, *arguments)


def without_privileges(acknowledge: Acknowledge, prefix: Path, *arguments: object) -> None:
    """The command line as a user whom the system may refuse something,
    also where the tests run as superuser.
    """
    header, nothing = struct.pack("Ii", _CAPABILITY_VERSION_3, 0), bytes(24)
    assert ctypes.CDLL(None).capset(header, nothing) == 0
    command(acknowledge, prefix, *arguments)


# ---- data ----


def digest(batch: Batch) -> str:
    tensors = (batch.tokens_BL, batch.where_BK, batch.labels_BK, batch.scored_BK)
    return hashlib.sha256(b"".join(tensor.numpy().tobytes() for tensor in tensors)).hexdigest()[:16]


def watch_data(acknowledge: Acknowledge, folder: Path, text: str) -> None:
    """Train and say what every model was shown."""
    step: Callable[..., Any] = Population.train_step

    def watched(self: Population, batch: Batch) -> None:
        acknowledge(f"saw {self.members[0].model.mixer.name} {self.step} {digest(batch)}")
        step(self, batch)

    Population.train_step = watched  # type: ignore[method-assign]
    train_all(acknowledge, folder, text, pack_size=6)


def draw_data(acknowledge: Acknowledge, text: str, burnt: int) -> None:
    """The training batches alone, last first, after the global random state was moved."""
    run = sweep(text).runs[0]
    torch.manual_seed(burnt)
    torch.rand(burnt)
    task = build_task(run.task, run.data_seed, run.train.batch, torch.device("cpu"))
    for number in reversed(range(run.train.steps)):
        acknowledge(f"saw alone {number} {digest(task.batch('train', number))}")


# ---- endings ----


def end_by(acknowledge: Acknowledge, prefix: Path, what: str, *arguments: object) -> None:
    """The command line, which something happens to in its fifth step."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup may be around the tests, not around it
    step = Population.train_step
    read_end, write_end = os.pipe()

    def disturbed(self: Population, batch: Batch) -> None:
        if self.step == 4:
            if what.startswith("SIG"):
                signal.raise_signal(signal.Signals[what])
            elif what == "closed output":
                os.close(read_end)
            elif what == "error":
                raise ValueError("of a mixer")
            elif what == "no Exception":
                raise BaseException("of a mixer")
            elif what == "memory":
                raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB.")
        step(self, batch)

    Population.train_step = disturbed  # type: ignore[method-assign]
    if what == "given back":
        Worker._train = lambda self: None  # type: ignore[method-assign]
    output = write_end if what == "closed output" else None
    if what == "full output":
        output = os.open("/dev/full", os.O_WRONLY)
    command(acknowledge, prefix, *arguments, output=output)


def with_closed_output(acknowledge: Acknowledge, prefix: Path, *arguments: object) -> None:
    """The command line whose reader has gone."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command(acknowledge, prefix, *arguments, output=write_end)


def search(acknowledge: Acknowledge, folder: Path, text: str, kind: str = "edges") -> None:
    """Plan the sweep if it is not planned yet, and train what its search needs. Announces each step
    before it is made.
    """

    def listen(event: Event) -> None:
        if isinstance(event, Advanced):
            acknowledge(f"step {event.members}")

    move_clock_by_steps()
    known = (folder / "recollect.db").exists()
    engine.train(
        folder,
        [] if known else [sweep(text)],
        device="cpu",
        search=None if known else kind,
        listen=listen,
    )
