"""Kernels of the shapes that come next, compiled in processes beside the one that trains.

Triton compiles a kernel when a shape first asks for it: seconds, in which a GPU waits. What it has
compiled it keeps on the disk, where every process finds it. So while one shape trains, a few
processes precompile those that follow. No result depends on them: whatever goes wrong there goes
wrong, or does not, when the shape is trained. They read shapes from a pipe, one specification a
line, and write which ones are compiled; they end with it, or when nothing came for a while, since
an idle one still holds some of the GPU's memory.
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

# Of a worker at most, with several threads each: other programs want cores too.
PROCESSES = 2
NICE = 10
IDLE_S = 10.0
CLOSE_S = 1.0
SHAPES = 8  # sent at a time: so many fit into a pipe that is not read yet


class CompileAhead:
    """The processes of one worker."""

    def __init__(self, device: torch.device, workers: int = 1):
        """`workers`: on this machine, among which its cores are shared."""
        self.device, self._count = device, count_compilers(usable_cores(), workers)
        self._sent: set[str] = set()  # shapes
        self._ready: set[str] = set()  # shapes, as the processes say
        self._processes: list[subprocess.Popen[str]] = []
        self._ears: list[threading.Thread] = []  # one for each

    def prepare(self, now: RunSpec, later: Iterable[RunSpec]) -> None:
        """While the shape of `now` trains, compile for the first ones of `later`; each is sent
        once. Other processes do not know code from outside.
        """
        self._sent.add(now.shape_id)
        new = (run for run in later if run.shape_id not in self._sent and not has_foreign_code(run))
        shapes = {run.shape_id: run for run in itertools.islice(new, SHAPES)}
        self._sent |= shapes.keys()
        if not shapes:
            return
        if not any(process.poll() is None for process in self._processes):
            self.close()
            self._processes = [_start_process(self.device) for _ in range(self._count)]
            self._ears = [
                threading.Thread(target=self._hear, args=(process,), daemon=True)
                for process in self._processes
            ]
            for ear in self._ears:
                ear.start()
        for number, run in enumerate(shapes.values()):
            with contextlib.suppress(OSError):  # a process that has ended reads nothing
                pipe = self._processes[number % self._count].stdin
                assert pipe is not None
                pipe.write(run.canonical_json() + "\n")
                pipe.flush()

    def is_ready(self, run: RunSpec) -> bool:
        """Whether nothing of its shape is left to compile; always, where nothing is compiled ahead
        for it.
        """
        return not compiles(self.device) or has_foreign_code(run) or run.shape_id in self._ready

    def _hear(self, process: subprocess.Popen[str]) -> None:
        """To its end."""
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self._ready.add(line.strip())

    def close(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            with contextlib.suppress(OSError):  # what was not sent
                assert process.stdin is not None
                process.stdin.close()
        for ear in self._ears:
            ear.join(CLOSE_S)  # a compiler that outlives its process may still hold the pipe
        self._processes, self._ears = [], []


def count_compilers(cores: int, workers: int) -> int:
    """How many processes compile for each of so many workers: a core is each worker's own."""
    return max(1, min(PROCESSES, cores // workers - 1))


def _start_process(device: torch.device) -> subprocess.Popen[str]:
    """A session of its own: the keyboard's signal is not for it. -P: the working directory may be a
    folder of results, from which nothing may be imported.
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
    """PYTHONPATH with this package, which the command line may have found in its own directory, and
    without empty entries, which mean the working directory.
    """
    home = str(Path(recollect.__file__).parents[1])
    given = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return os.pathsep.join([home, *filter(None, given)])


# ---- in such a process ----


def _read_lines() -> Iterator[str]:
    """What comes through the pipe, until nothing came for a while. Its end ends the process at
    once, whatever it is doing.
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
        with contextlib.suppress(Exception):
            run = RunSpec.from_json(line)
            with threads_for(run, 1):
                data = task_of(run, device)
                precompile(run, data, device)
            os.write(1, f"{run.shape_id}\n".encode())
            if device.type == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
