"""A step of work on a GPU, recorded once and replayed: thousands of small launches become one.

The work must read and write the same tensors every time, read no value on the host, and have no
effect in Python. What changes from step to step (rows, rates, the number of the step) is copied
into fixed tensors before a replay.
"""

import contextlib
import gc
from collections.abc import Callable, Iterator

import torch

# Calls that run as they are: they compile kernels, and let libraries allocate what must not be
# allocated while recording.
WARM_CALLS = 2


class RecordedStep:
    """Call it with the work, always the same; from the third call on a recording of it is replayed.

    All calls are made on one stream, and not on the default one, which cannot be recorded. The work
    is not stored: it belongs to the owner of this object, and a cycle would keep the memory of
    both.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None

    def __call__(self, work: Callable[[], None]) -> None:
        if self._graph is None and self._calls < WARM_CALLS:
            self._calls += 1
            work()
            return
        if self._graph is None:
            self._graph = _record(work)
        self._graph.replay()


def _record(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    # Garbage may be another recording, and freeing one invalidates the one being made.
    with (
        _no_garbage_collection(),
        torch.cuda.graph(graph, stream=torch.cuda.current_stream()),
    ):
        work()
    return graph


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Collected once before, and not inside; restored afterwards."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
