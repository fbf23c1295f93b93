"""A training step on a GPU, recorded once and replayed: thousands of small launches become one.

Values that change from step to step (rows, rates, the step number) are copied into fixed tensors
before a replay.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import torch
from torch import Tensor

from recollect.ops.recording import record

# Calls that run without a recording. They compile kernels and let libraries allocate memory that
# must not be allocated during a recording.
WARM_CALLS = 2


class Part(Protocol):
    """The interface that a recording needs of each part of the work (see mixers/base.py)."""

    recordable: bool

    def constants(self) -> Iterable[Tensor]: ...


class RecordedStep:
    """Runs the same work at each call; from the third call on it replays a recording of the work.

    The work is recorded only if all its parts can be recorded. All calls must be made on one
    stream other than the default one, which cannot be recorded. The work is not stored: it belongs
    to the owner of this object, and a reference cycle would keep the memory of both alive.
    """

    def __init__(self) -> None:
        self._calls = 0
        self._graph: torch.cuda.CUDAGraph | None = None
        # A recording contains their addresses, so they must live as long as it does.
        self._constants: list[Tensor] = []

    def __call__(
        self, work: Callable[[], None], parts: Sequence[Part], undo: Callable[[], None]
    ) -> None:
        """Run or replay the work; `undo` reverts what a failed recording leaves unfinished."""
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
    """Disable recording of the parts whose class does not guarantee that it can be recorded.

    Returns whether there are any.
    """
    doubtful = [part for part in parts if not type(part).recordable]
    for part in doubtful:
        part.recordable = False
    return bool(doubtful)


def _are_same(some: Sequence[Tensor], others: Sequence[Tensor]) -> bool:
    return len(some) == len(others) and all(
        one is other for one, other in zip(some, others, strict=True)
    )
