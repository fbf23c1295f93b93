"""A training step on a GPU, recorded once and replayed: thousands of small launches become one.

What changes from step to step (rows, rates, the number of the step) is copied into fixed tensors
before a replay.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from recollect.ops.recording import record

# Calls that run as they are: they compile kernels, and let libraries allocate what must not be
# allocated while recording.
WARM_CALLS = 2


class Part(Protocol):
    """What the work consists of, as far as that matters to a recording (mixers/base.py)."""

    recordable: bool

    def constants(self) -> Iterable[Tensor]: ...


class RecordedStep:
    """Call it with the work, always the same; from the third call on a recording of it is replayed,
    if all its parts can be recorded.

    All calls are made on one stream, and not on the default one, which cannot be recorded. The work
    is not stored: it belongs to the owner of this object, and a cycle would keep the memory of
    both.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        # A recording has their addresses, so they live as long as it does.
        self._constants: list[Tensor] = []

    def __call__(
        self, work: Callable[[], None], parts: Sequence[Part], undo: Callable[[], None]
    ) -> None:
        """`undo` takes back what a recording that fails leaves half done."""
        if self._calls < WARM_CALLS or not all(part.recordable for part in parts):
            self._calls += 1
            work()
            return
        constants = [tensor for part in parts for tensor in part.constants()]
        if self._graph is None or not _are_same(constants, self._constants):
            try:
                self._graph, self._constants = record(work), constants
            except Exception as error:
                if isinstance(error, torch.OutOfMemoryError) or not _give_up(parts):
                    raise
                undo()
                work()
                return
        self._graph.replay()


def _give_up(parts: Sequence[Part]) -> bool:
    """Not to record those again whose class does not promise that it can be; whether there are
    any.
    """
    doubtful = [part for part in parts if not type(part).recordable]
    for part in doubtful:
        part.recordable = False
    return bool(doubtful)


def _are_same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(some) == len(others) and all(
        one is other for one, other in zip(some, others, strict=True)
    )
