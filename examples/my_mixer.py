"""A mixer of one's own: a bank of leaky averages behind a gate.

Causal and cheap; it forgets, so it should not recall.
"""

import torch
from torch import Tensor, nn

import recollect


@recollect.mixer("leaky")
class Leaky(nn.Module):
    """A bank of leaky averages behind a gate."""

    def __init__(self, width: int, slowest: float = 0.99):
        super().__init__()
        self.decay = nn.Parameter(torch.linspace(0.1, slowest, width).logit())
        self.gate, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:  # (batch, length, width) -> the same
        decay, state, states = self.decay.sigmoid(), torch.zeros_like(x[:, 0]), []
        for now in x.unbind(1):
            state = decay * state + (1 - decay) * now
            states.append(state)
        return self.out(torch.stack(states, 1) * self.gate(x).sigmoid())

    def state_size(self, length: int) -> int:  # optional: floats kept between two positions
        return self.decay.numel()
