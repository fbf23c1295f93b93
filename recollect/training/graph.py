"""A step of work on a GPU, recorded once and replayed: thousands of small launches become one.

The work must read and write the same tensors every time, look at no value on the host, and have no
effect in Python. What changes from step to step (rows, rates, the number of the step) is copied
into fixed tensors before a replay.
"""

import gc
from collections.abc import Callable

import torch

# run as they are: they compile kernels, and let libraries allocate what must not be allocated while
# recording
WARM_CALLS = 2


class Replayed:
    """Call it with the work, always the same; from the third call on it is a recording that runs.

    All calls are made on one stream, and not on the default one, which cannot be recorded. It does
    not keep the work, which belongs to what keeps this object: a cycle would hold the memory of
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
            self._graph = _recorded(work)
        self._graph.replay()


def _recorded(work: Callable[[], None]) -> torch.cuda.CUDAGraph:
    graph = torch.cuda.CUDAGraph()
    # Garbage may be another recording, and taking one down invalidates the one being made: none is
    # collected meanwhile.
    gc.collect()
    gc.disable()
    try:
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            work()
    finally:
        gc.enable()
    return graph
