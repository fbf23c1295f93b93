"""Compiles the kernels of the next shapes in separate processes, while the worker trains.

Triton compiles a kernel when a shape first needs it. This takes seconds, during which the GPU
waits. Triton keeps compiled kernels on disk, where every process finds them. So while one shape
trains, a few processes precompile the shapes that follow. No result depends on these processes: an
error in them is ignored, and training meets and reports it if it is a real one.

The processes read shapes from a pipe, one specification per line, and write the ids of the shapes
that they have compiled. They end when the pipe is closed, or when nothing has arrived for a while,
since an idle process still holds some GPU memory.
"""

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from queue import Empty, SimpleQueue

import torch

import recollect
from recollect.running.planning.cost import has_foreign_code
from recollect.running.planning.precompile import compiles, precompile
from recollect.running.planning.threads import threads_for
from recollect.running.processes.count import usable_cores
from recollect.spec.run import RunSpec
from recollect.tasks.build import task_of

# The most per worker, with several threads each: other programs need cores too.
PROCESSES = 2
NICE = 10
IDLE_S = 10.0
CLOSE_S = 1.0
SHAPES = 8  # the most sent at a time; they fit into a pipe that is not being read yet


class CompileAhead:
    """The compiling processes of one worker."""

    def __init__(self, device: torch.device, workers: int = 1):
        """`workers`: the number of workers on this machine, which share its cores."""
        self.device, self._count = device, count_compilers(usable_cores(), workers)
        self._sent: set[str] = set()  # shapes that need not be sent any more
        self._ready: set[str] = set()  # shapes that the processes report as done with
        self._compilers: list[_Compiler] = []

    def prepare(self, now: RunSpec, later: Iterable[RunSpec]) -> None:
        """While the shape of `now` trains, compile the first shapes of `later`.

        Each shape is sent once, and again if its process ended before it was compiled. Shapes with
        foreign code are skipped, since the compiling processes do not load it.
        """
        self._sent.add(now.shape_id)
        self._give_up_ended()
        new = (run for run in later if run.shape_id not in self._sent and not has_foreign_code(run))
        shapes = {run.shape_id: run for run in itertools.islice(new, SHAPES)}
        self._sent |= shapes.keys()
        if not shapes:
            return
        while len(self._compilers) < self._count:
            self._compilers.append(_Compiler(_start_process(self.device), self._ready))
        for run in shapes.values():
            min(self._compilers, key=lambda compiler: len(compiler.left)).send(run)

    def is_ready(self, run: RunSpec) -> bool:
        """Whether no process will still compile a run's shape: its kernels are compiled, or are not
        compiled ahead, or its process has ended.
        """
        if not compiles(self.device) or has_foreign_code(run) or run.shape_id in self._ready:
            return True
        is_left = any(run.shape_id in own.left for own in self._compilers if own.is_alive)
        return run.shape_id in self._sent and not is_left

    def close(self) -> None:
        for compiler in self._compilers:
            compiler.close()
        self._compilers = []

    def _give_up_ended(self) -> None:
        for compiler in self._compilers:
            if not compiler.is_alive:
                compiler.close()  # what it has reported is heard then
                self._sent -= compiler.left
        self._compilers = [compiler for compiler in self._compilers if compiler.is_alive]


class _Compiler:
    """A compiling process, and the shapes that it has not reported yet."""

    def __init__(self, process: subprocess.Popen[str], ready: set[str]):
        self._process, self._ready, self.left = process, ready, set[str]()
        self._ear = threading.Thread(target=self._hear, daemon=True)
        self._ear.start()

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    def send(self, run: RunSpec) -> None:
        self.left.add(run.shape_id)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # a process that has ended reads nothing
            self._process.stdin.write(run.canonical_json() + "\n")
            self._process.stdin.flush()

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):  # closing tries to send lines left in the buffer
            self._process.stdin.close()
        self._ear.join(CLOSE_S)  # a compiler that outlives its process may keep the pipe open

    def _hear(self) -> None:
        """Read the output of the process to its end."""
        assert self._process.stdout is not None
        with self._process.stdout as lines:
            for line in lines:
                self._ready.add(line.strip())
                self.left.discard(line.strip())


def count_compilers(cores: int, workers: int) -> int:
    """The number of compiling processes per worker; one core per worker is left for training."""
    return max(1, min(PROCESSES, cores // workers - 1))


def _start_process(device: torch.device) -> subprocess.Popen[str]:
    """Start a compiling process.

    It has a separate session, so that signals from the keyboard do not reach it. -P keeps it from
    importing from the working directory, which may be a folder of results.
    """
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "recollect.running.planning.compile_ahead", str(device)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": _import_path()},
        text=True,
        start_new_session=True,
    )


def _import_path() -> str:
    """PYTHONPATH with the folder of this package and without empty entries.

    The command line may have found the package in its own directory, which is not on the path of
    the new process. Empty entries mean the working directory.
    """
    home = str(Path(recollect.__file__).parents[1])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([home, *filter(None, given)])


# ---- in a compiling process ----


def _read_lines() -> Iterator[str]:
    """Yield the lines from the pipe until none has arrived for IDLE_S.

    When the pipe is closed the process exits at once, whatever it is doing.
    """
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        os._exit(0)

    threading.Thread(target=read, daemon=True).start()
    with contextlib.suppress(Empty):
        while True:
            yield lines.get(timeout=IDLE_S)


def main() -> None:
    os.nice(NICE)
    device = torch.device(sys.argv[1])
    if device.type == "cuda" and device.index is not None:
        torch.cuda.set_device(device)
    for line in _read_lines():
        run = None
        with contextlib.suppress(Exception):
            run = RunSpec.from_json(line)
            with threads_for(run, 1):
                data = task_of(run, device)
                precompile(run, data, device)
        if run is not None:  # said of a failure, too: training will meet and report it
            os.write(1, f"{run.shape_id}\n".encode())
        if device.type == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
