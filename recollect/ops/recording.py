"""Work on a GPU as a CUDA graph: recorded once, replayed as one launch.

The work must read and write the same tensors every time, read no value on the host, and have no
effect in Python.
"""

import contextlib
import gc
import warnings
from collections.abc import Callable, Iterator

import torch


def record(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """Its operations on the current stream, which is not the default one; they are not run."""
    graph = torch.cuda.CUDAGraph()
    # Garbage may be another recording, and freeing one invalidates the one being made.
    with (
        no_garbage_collection(),
        torch.cuda.graph(graph, stream=torch.cuda.current_stream()),
    ):
        work()
    return graph


@contextlib.contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collected once before, and not inside; restored afterwards."""
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
    """Whatever waits for the device raises RuntimeError: it could not be recorded."""
    before = torch.cuda.get_sync_debug_mode()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch calls the mode a prototype, once
            torch.cuda.set_sync_debug_mode("error")
        yield
    finally:
        torch.cuda.set_sync_debug_mode(before)


@contextlib.contextmanager
def beside_the_stream(device: torch.device) -> Iterator[None]:
    """On a stream of its own, after all that is queued and before all that follows."""
    if device.type != "cuda":
        yield
        return
    outside, own = torch.cuda.current_stream(device), torch.cuda.Stream(device)
    own.wait_stream(outside)
    with torch.cuda.stream(own):
        yield
    torch.cuda.synchronize(device)  # what was allocated there is freed on return
