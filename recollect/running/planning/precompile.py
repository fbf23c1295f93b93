"""Compiles a shape's kernels in several threads at once, instead of one after the other when each
is first launched.

A dry run makes a step and an evaluation in which every launch of a Triton kernel only compiles it.
The outputs of the kernels then hold whatever was in memory. So the population of a dry run is
thrown away, and its code must not compute on the host, or index on the device, with a kernel's
output. Threads suffice: Triton's passes, the assembler and the C compiler for a kernel's launcher
run without holding Python's lock.
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

MEMBERS = (1, 2)  # kernels are specialised only for one member and for several
MOST_THREADS = 12


def compiles(device: torch.device) -> bool:
    """Whether kernels are compiled for this device at all."""
    return device.type == "cuda" and dispatch.has_triton()


def precompile(run: RunSpec, task: Task, device: torch.device) -> None:
    """Compile all kernels that runs of this shape need.

    Foreign code is skipped, since it decides itself what to compile and when. Errors are ignored
    here: training meets and reports them if they are real.
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
    """A context in which launched kernels are compiled and loaded by several threads, and not run.

    All of them are compiled when the context ends.
    """
    import triton

    threads = min(MOST_THREADS, os.cpu_count() or 1)
    index = torch.cuda.current_device() if device.index is None else device.index
    with (
        _LoadingPool(threads, initializer=torch.cuda.set_device, initargs=(index,)) as pool,
        triton.AsyncCompileMode(pool, ignore_errors=True),
        _no_launches(),
        # Run the backward pass in this thread, since Triton's compile mode is set per thread.
        torch.autograd.set_multithreading_enabled(False),
    ):
        yield


class _LoadingPool(ThreadPoolExecutor):
    """Compiles kernels and loads them onto the device.

    Loading compiles too: the C function that launches the kernel.
    """

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        def compiled_and_loaded() -> Any:
            kernel = fn(*args, **kwargs)
            kernel.run  # noqa: B018 (a property that loads)
            return kernel

        return super().submit(compiled_and_loaded)


@contextlib.contextmanager
def _no_launches() -> Iterator[None]:
    """A context in which all kernel calls use `warmup=True`, Triton's mode that only compiles."""
    from triton.runtime.jit import JITFunction

    launch = JITFunction.run

    def compile_only(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        return launch(self, *args, grid=grid, warmup=True, **kwargs)

    JITFunction.run = compile_only  # type: ignore[method-assign]
    try:
        yield
    finally:
        JITFunction.run = launch  # type: ignore[method-assign]
