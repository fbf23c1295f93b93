"""What many tests share: a tiny run to change by dotted keys, its task and population on a CPU, a
clean slate after each.
"""

import contextlib
import functools
import io
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import hypothesis
import pytest
import typer

from recollect.mixers.registry import MIXERS
from recollect.spec.run import RunSpec

if TYPE_CHECKING:
    from recollect.training.population import Population

# Read when torch is loaded: threads that wait for each other sleep. Spinning, as is the default,
# they take minutes on a busy machine; the numbers are the same.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# How long an example takes says more about the machine than about the code. The same examples every
# time: whether a change passes is no matter of luck; `make hunt` looks for new ones.
hypothesis.settings.register_profile("recollect", deadline=None, derandomize=True)
hypothesis.settings.register_profile("hunt", deadline=None, max_examples=2000, print_blob=True)
hypothesis.settings.load_profile("recollect")

DOCS = Path(__file__).parent.parent / "docs"
MakeRun = Callable[..., RunSpec]
MakePopulation = Callable[[Sequence[RunSpec]], "Population"]


def tiny_table(changes: Mapping[str, Any]) -> dict[str, Any]:
    """A run that trains in milliseconds; `changes` are dotted keys, a mixer's options included."""
    table: dict[str, Any] = {
        "task": {
            "name": "mqar",
            "vocabulary": 32,
            "length": 16,
            "pairs": 4,
            "train_rows": 128,
            "test_rows": 64,
        },
        "model": {"mixer": {"name": "attention"}, "width": 16, "depth": 2},
        "train": {"steps": 6, "batch": 32, "evaluations": 3},
    }
    for path, value in changes.items():
        *parents, last = path.split(".")
        inner = table
        for parent in parents:
            inner = inner[parent]
        inner[last] = value
    return table


@pytest.fixture
def make_run() -> MakeRun:
    def make(changes: Mapping[str, Any] | None = None, **top: Any) -> RunSpec:
        return RunSpec.parse(tiny_table({**(changes or {}), **top}))

    return make


@pytest.fixture
def make_population() -> MakePopulation:
    import torch

    from recollect.tasks.build import task_of
    from recollect.training.population import Population

    def make(runs: Sequence[RunSpec]) -> Population:
        cpu = torch.device("cpu")
        return Population(runs, task_of(runs[0], cpu), cpu)

    return make


@pytest.fixture(autouse=True)
def _threads_as_before() -> Iterator[None]:
    """Training sets the number of threads by a run's shape; the next test must not inherit it."""
    torch = sys.modules.get("torch")
    before = torch.get_num_threads() if torch else None
    yield
    if torch and before:
        torch.set_num_threads(before)


@pytest.fixture
def plugins() -> Iterator[None]:
    """A test that registers mixers takes them away again."""
    from recollect.mixers.plugins.register import REGISTERED

    known, foreign = dict(MIXERS), dict(REGISTERED)
    yield
    for registry, before in ((MIXERS, known), (REGISTERED, foreign)):
        registry.clear()
        registry.update(before)  # type: ignore[arg-type]


@pytest.fixture
def docs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The scripts beside the pages can be imported."""
    monkeypatch.syspath_prepend(str(DOCS))
    yield
    for name in {path.stem for path in DOCS.glob("*.py")} & sys.modules.keys():
        del sys.modules[name]


@pytest.fixture(scope="session", autouse=True)
def _commands_made_once() -> Iterator[None]:
    """Typer makes its tree of commands at every call, half the time of a short one; a process calls
    once, these tests do so thousands of times.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.main, "get_command", functools.cache(typer.main.get_command))
        yield


class Said(NamedTuple):
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str


def run_command(*arguments: object) -> Said:
    """`recollect ARGUMENTS` inside this process,
    whose signals it gives back (a sweep takes them over).
    """
    from recollect.cli import app as cli

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR2)
    handlers = [signal.getsignal(number) for number in numbers]
    out, err = io.StringIO(), io.StringIO()
    try:
        with (
            pytest.MonkeyPatch.context() as patch,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            patch.setattr(sys, "argv", ["recollect", *map(str, arguments)])
            code = cli._exit_code()
    finally:
        for number, handler in zip(numbers, handlers, strict=True):
            signal.signal(number, handler)
    return Said(code, out.getvalue(), err.getvalue())


@pytest.fixture(scope="session")
def command() -> Callable[..., Said]:
    return run_command
