"""Learning rates: warmup and decay of each run.

A rate is a function of its step. A run may have 10^8 steps, so rates are computed for one block of
steps at a time and never stored for all steps.
"""

import math
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from recollect.spec.run import RunSpec

BLOCK = 4096  # steps


def rates(run: RunSpec, first: int = 0, count: int | None = None) -> np.ndarray:
    """The learning rates of `count` steps from `first` on, or of all remaining steps.

    A linear warmup to the peak is followed by the decay, which reaches zero after the last step
    unless it is "constant".
    """
    train = run.train
    last = train.steps if count is None else min(first + count, train.steps)
    step = np.arange(first, last)
    rising = train.warmup_steps or round(train.warmup * train.steps)
    ramp = np.minimum(1.0, (step + 1) / max(1, rising))
    # 0 at the end of the warmup, 1 after the last step
    done = np.maximum(0.0, (step - rising) / max(1, train.steps - rising))
    if train.decay == "cosine-per-epoch":
        epochs = math.ceil(train.steps / run.steps_per_epoch)  # a partial last epoch counts
        done = (step // run.steps_per_epoch) / epochs
    shape = {
        "cosine": 0.5 * (1 + np.cos(np.pi * done)),
        "linear": 1 - done,
        "constant": np.ones(len(step)),
    }
    shape["cosine-per-epoch"] = shape["cosine"]
    return train.lr * ramp * shape[train.decay]


def sums_of_rates(run: RunSpec) -> Iterator[np.ndarray]:
    """The sum of all rates up to each step, block by block."""
    total = 0.0
    for first in range(0, run.train.steps, BLOCK):
        sums = np.cumsum(np.append(total, rates(run, first, BLOCK)))[1:]
        total = float(sums[-1])
        yield sums


class RateTable:
    """The rates of P members on a device, for the block of steps around the current one."""

    def __init__(self, members: Sequence[RunSpec], device: torch.device):
        self._members, self._device = list(members), device
        self._block: tuple[int, Tensor] | None = None  # its number and its rates, (steps, P)

    def at(self, step: int) -> Tensor:
        """The rate of every member at this step, (P,)."""
        number, within = divmod(step, BLOCK)
        if self._block is None or self._block[0] != number:
            self._block = number, self._computed(number)
        return self._block[1][within]

    def _computed(self, number: int) -> Tensor:
        columns = [rates(run, number * BLOCK, BLOCK) for run in self._members]
        table = torch.from_numpy(np.stack(columns, axis=1).astype(np.float32))
        return table.to(self._device)
