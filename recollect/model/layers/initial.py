"""Initial distributions of one member's weights."""

import math
from collections.abc import Callable

import torch
from torch import Generator, Tensor

# Draws one member's weight: (shape, generator) -> values.
Init = Callable[[tuple[int, ...], Generator], Tensor]


def zeros(shape: tuple[int, ...], generator: Generator) -> Tensor:
    return torch.zeros(shape)


def normal(std: float) -> Init:
    return lambda shape, generator: torch.randn(shape, generator=generator) * std


def uniform(bound: float) -> Init:
    return lambda shape, generator: (torch.rand(shape, generator=generator) * 2 - 1) * bound


def fan_in_uniform(fan_in: int, gain: float = 1.0) -> Init:
    """PyTorch's default for Linear and Conv1d: U(-1/sqrt(fan_in), 1/sqrt(fan_in))."""
    return uniform(gain / math.sqrt(fan_in))


def log_uniform_step(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Bias for the step size of a state space model.

    Its softplus is log-uniform in [0.001, 0.1], which gives a memory of 10 to 1000 positions.
    """
    low, high = 1e-3, 1e-1
    step = (torch.rand(shape, generator=generator) * math.log(high / low) + math.log(low)).exp()
    return step + torch.log(-torch.expm1(-step))
