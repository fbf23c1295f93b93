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
        self._wait_until(lambda: line in self.acknowledged(), repr(line), timeout)

    def wait_for_lines(self, count: int, timeout: float = 120.0) -> None:
        """Until it has acknowledged so many in all."""
        self._wait_until(lambda: len(self.acknowledged()) >= count, f"{count} lines", timeout)

    def _wait_until(self, is_said: Callable[[], bool], what: str, timeout: float) -> None:
        deadline = time.monotonic() + timeout
        while not is_said():
            assert time.monotonic() < deadline, (
                f"worker never said {what}, only {self.acknowledged()[-3:]}"
            )
            assert self.process.is_alive() or is_said(), f"worker ended before {what}"
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
    most_lines: int = 0,
) -> Iterator[list[str]]:
    """Start the worker and kill it, `kills` times, each after it has acknowledged a random number
    of lines, at most `most_lines`, and a random delay; yields all that was acknowledged until then.
    """
    chances, said = random.Random(seed), 0
    for _ in range(kills):
        with child(journal, work, *arguments) as running:
            running.wait_for_lines(said + chances.randrange(most_lines + 1))
            time.sleep(chances.uniform(0, longest_s))
        lines = running.acknowledged()
        said = len(lines)
        yield lines


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
