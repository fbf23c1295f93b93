"""Processes made to be killed: a worker acknowledges each durable step after it, the test kills it
and looks at what is left.

Workers are plain functions `work(acknowledge, *arguments)` in an importable module. They start from
a fork server that has imported that module (and torch) before, so that a child is up in some 20 ms
and hundreds of kills fit a test.
"""

import gc
import multiprocessing
import os
import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from recollect.store import failpoint

Acknowledge = Callable[[str], None]
_context = multiprocessing.get_context("forkserver")
_preloaded = ["harness"]


def preload(*modules: str) -> None:
    """Name the modules the fork server imports once;
    call it at the top of a test module, before the first child.
    """
    # The server looks for modules in PYTHONPATH alone; it inherits this process's environment when
    # it starts.
    os.environ["PYTHONPATH"] = os.pathsep.join(
        [str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")]
    )
    _preloaded.extend(modules)  # there is one server for all test modules of a session
    _context.set_forkserver_preload(_preloaded)


class Child:
    """A running worker; everything it acknowledged survives its death."""

    def __init__(
        self,
        journal: Path,
        work: Callable[..., None],
        *arguments: Any,
        environment: dict[str, str] | None = None,
    ):
        self.journal = journal
        self.process = _context.Process(
            target=_main, args=(journal, environment or {}, work, arguments)
        )
        self.process.start()

    def acknowledged(self) -> list[str]:
        """The acknowledged lines; a kill in the middle of the last one does not count."""
        text = self.journal.read_text() if self.journal.exists() else ""
        return text.split("\n")[:-1]

    def wait_for(self, line: str, timeout: float = 120.0) -> None:
        """Until the worker has acknowledged `line`."""
        deadline = time.monotonic() + timeout
        while line not in self.acknowledged():
            assert time.monotonic() < deadline, (
                f"worker never said {line!r}, only {self.acknowledged()[-3:]}"
            )
            assert self.process.is_alive() or line in self.acknowledged(), (
                f"worker ended before {line!r}"
            )
            time.sleep(0.005)

    def kill(self) -> None:
        self.process.kill()
        self.end()

    def end(self, timeout: float = 60.0) -> int:
        """Wait for the end; minus the signal, or the exit code."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, "worker does not end"
        return self.process.exitcode


@contextmanager
def child(
    journal: Path,
    work: Callable[..., None],
    *arguments: Any,
    environment: dict[str, str] | None = None,
) -> Iterator[Child]:
    """A worker that does not outlive the test."""
    running = Child(journal, work, *arguments, environment=environment)
    try:
        yield running
    finally:
        running.kill()


def kill_at_random(
    journal: Path,
    work: Callable[..., None],
    *arguments: Any,
    seed: int,
    kills: int,
    longest_s: float,
) -> Iterator[list[str]]:
    """Start the worker and kill it after a random delay, `kills` times;
    yields all that was acknowledged until then.
    """
    delays = random.Random(seed)
    for _ in range(kills):
        with child(journal, work, *arguments) as running:
            time.sleep(delays.uniform(0, longest_s))
        yield running.acknowledged()


def _main(
    journal: Path,
    environment: dict[str, str],
    work: Callable[..., None],
    arguments: tuple[Any, ...],
) -> None:
    # What the server had imported is nobody's garbage: to look through it would copy it all into
    # this process, at 0.2 s a time.
    gc.freeze()
    os.environ.update(environment)
    failpoint._passed.clear()
    handle = os.open(journal, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    # One write call per line: the kernel has it, or has not, when the process is killed.
    work(lambda line: os.write(handle, f"{line}\n".encode()), *arguments)
