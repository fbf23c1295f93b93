"""A shape's kernels compiled in several threads at once,
instead of one after the other when each is first launched.

A dry run makes a step and an evaluation in which every launch of a Triton kernel is an order to
compile it. What a kernel would have written is whatever the memory held, so the population of a dry
run is thrown away, and nothing may be computed on the host, or looked up on the device, from what a
kernel has made. Threads suffice: Triton's passes, the assembler and the C compiler for a kernel's
launcher run outside of Python's lock.
"""

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch

from recollect.ops import dispatch
from recollect.running.planning.cost import has_foreign_code
from recollect.spec.run import RunSpec
from recollect.tasks.base import Task
from recollect.training.population import Population

MEMBERS = (1, 2)  # kernels know no more about how many there are
MOST_THREADS = 12


def compiles(device: torch.device) -> bool:
    """Whether anything is compiled for this device at all."""
    return device.type == "cuda" and dispatch.has_triton()


def precompile(run: RunSpec, task: Task, device: torch.device) -> None:
    """Have all kernels ready that runs of this shape need.

    Code from outside compiles what it likes when it likes. Whatever fails here fails, or does not,
    when the shape is trained.
    """
    if not compiles(device) or has_foreign_code(run):
        return
    with contextlib.suppress(Exception), _compiled_in_threads(device):
        for members in MEMBERS:
            population = Population(
                [run.model_copy(update={"seed": seed}) for seed in range(members)], task, device
            )
            population.train_step(population.next_rows())
            population.evaluate()


@contextlib.contextmanager
def _compiled_in_threads(device: torch.device) -> Iterator[None]:
    """Kernels that are launched inside are compiled and loaded by some threads, and not run; at the
    end all of them are.
    """
    import triton

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    index = torch.cuda.current_device() if device.index is None else device.index
    with (
        _LoadingPool(threads, initializer=torch.cuda.set_device, initargs=(index,)) as pool,
        triton.AsyncCompileMode(pool, ignore_errors=True),
        _no_launches(),
        # The backward pass in this thread: Triton looks up in the current one how it compiles.
        torch.autograd.set_multithreading_enabled(False),
    ):
        yield


class _LoadingPool(ThreadPoolExecutor):
    """Loads onto the device what it has compiled:
    that compiles once more, the C function which launches the kernel.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def compiled_and_loaded() -> Any:
            kernel = fn(*args, **kwargs)
            kernel.run  # noqa: B018 (a property that loads)
            return kernel

        return super().submit(compiled_and_loaded)


@contextlib.contextmanager
def _no_launches() -> Iterator[None]:
    """Triton has a mode of its own for that, per call: all calls get it."""
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        return launch(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = compile_only  # type: ignore[method-assign]
    try:
        yield
    finally:
        JITFunction.run = launch  # type: ignore[method-assign]
