"""Recording of GPU work as a CUDA graph, which is replayed as one launch.

The work must read and write the same tensors every time, read no value on the host, and have no
effect in Python.
"""

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator

import torch


def record(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Record the operations of `work` on the current stream, which must not be the default one,
    without running them.
    """
    graph = torch.cuda.CUDAGraph()
    # Garbage may contain another recording, and freeing one invalidates the one being made.
    with (
        no_garbage_collection(),
        torch.cuda.graph(graph, stream=torch.cuda.current_stream()),
    ):
        work()
    return graph


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collect garbage once, then disable the collector within the context."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def refusing_to_wait() -> Iterator[None]:
    """Raise RuntimeError for operations that wait for the device; they cannot be recorded."""
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns once that the mode is a prototype
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextlib.contextmanager
def beside_the_stream(device: torch.device) -> Iterator[None]:
    """Use a separate stream, after all that is queued and before all that follows."""
    if device.type != "cuda":
        yield
        return
    outside, own = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    own.wait_stream(outside)
    with torch.cuda.stream(own):
        yield
    torch.cuda.synchronize(device)  # memory allocated on it is freed on return
