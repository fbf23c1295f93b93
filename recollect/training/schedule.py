"""Learning rates: warmup and decay of each run, as tables over the steps."""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from recollect.spec.run import RunSpec


def rates(run: RunSpec) -> np.ndarray:
    """The learning rate of every step: linear warmup to the peak, then the decay, which ends at
    zero after the last step.
    """
    train = run.train
    step = np.arange(train.steps)
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
        "constant": np.ones(train.steps),
    }
    shape["cosine-per-epoch"] = shape["cosine"]
    return train.lr * ramp * shape[train.decay]


def rates_of(members: Sequence[RunSpec]) -> Tensor:
    """The learning rate of every step and member, (S, P)."""
    return torch.from_numpy(np.stack([rates(run) for run in members], axis=1).astype(np.float32))
