"""Layers over a few neighbouring positions."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.model.layers.base import Kind, Layer
from recollect.model.layers.initial import fan_in_uniform
from recollect.ops.short_conv import short_conv


class ShortConv(Layer):
    """Depthwise convolution over time: y_t = bias + sum_k weight[k] * x_{t+ahead-K+1+k}; causal
    with ahead = 0.
    """

    kinds: Mapping[str, Kind] = {"bias": "bias"}

    def __init__(
        self, population: int, width: int, taps: int, *, bias: bool = True, ahead: int = 0
    ):
        super().__init__()
        self.ahead = ahead
        self.weight = nn.Parameter(torch.empty(population, taps, width))
        self.bias = nn.Parameter(torch.empty(population, width)) if bias else None

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        taps, width = self.weight.shape[1:]
        # PyTorch's default for Conv1d; the fan-in of a depthwise kernel is its number of taps.
        init = fan_in_uniform(taps)
        values = {"weight": init((taps, width), generator)}
        return values if self.bias is None else values | {"bias": init((width,), generator)}

    def forward(self, x_PBLD: Tensor, silu: bool = False) -> Tensor:
        """Convolve x; with `silu` the same operation also applies the activation."""
        return short_conv(x_PBLD, self.weight, self.bias, self.ahead, "silu" if silu else None)

    def start(self, batch: int) -> Tensor:
        """The K - 1 inputs before the first position: zeros, (P, B, K - 1, D)."""
        population, taps, width = self.weight.shape
        return self.weight.new_zeros(population, batch, taps - 1, width)

    def step(self, x_PBD: Tensor, past_PBKD: Tensor) -> tuple[Tensor, Tensor]:
        """Return the output at one more position, and the last K - 1 inputs for the next step."""
        window_PBKD = torch.cat((past_PBKD, x_PBD[:, :, None]), dim=2)
        y_PBD = (window_PBKD * self.weight[:, None]).sum(2)
        return y_PBD if self.bias is None else y_PBD + self.bias[:, None], window_PBKD[:, :, 1:]


def token_shift(x_PBLD: Tensor) -> Tensor:
    """Shift by one: every position gets the value of the previous one, the first one zeros."""
    return F.pad(x_PBLD, (0, 0, 1, 0))[:, :, :-1]
