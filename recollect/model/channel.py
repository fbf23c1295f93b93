"""The half of a block that mixes channels: an MLP, or RWKV's channel mix.

Shapes: P population, B batch, L length, D width, R hidden units per channel; `...` is any number of
axes in between.
"""

import torch
from torch import Generator, Tensor, nn

from recollect.model.layers import (
    Branch,
    Layer,
    Linear,
    fan_in_uniform,
    normal,
    token_shift,
    weight_and_bias,
)
from recollect.ops.mlp import mlp

MLP_STD = 0.02


class MLP(nn.Module):
    """Two linear layers around an exact GELU."""

    def __init__(self, population: int, width: int, hidden: int, down_std: float):
        super().__init__()
        self.up = Linear(population, width, hidden, init=normal(MLP_STD))
        self.down = Linear(population, hidden, width, init=normal(down_std))

    def branch(self, x: Tensor) -> Branch:
        """The output as a branch; the last addition is deferred where that saves a memory pass."""
        return Branch(*mlp(x, *weight_and_bias(self.up), *weight_and_bias(self.down)))


class ChannelMix(Layer):
    """RWKV-4's channel mix (Peng et al. 2023).

    It is an MLP with squared ReLU and a gate; both mix each token with the previous one.

        k = max(0, W_k (mu_k x + (1 - mu_k) x_before))^2
        y = sigmoid(W_r (mu_r x + (1 - mu_r) x_before)) * W_v k

    It reads one position back, so unlike an MLP it needs the whole sequence. Initially
    mu_c = (c / D)^(1 - layer / layers), where `layers` is the model's depth (as in RWKV-LM; Zoology
    uses 12). Linear layers have no biases and PyTorch's default initial weights (as in Zoology;
    RWKV-LM starts with W_v and W_r zero and W_k orthogonal).
    """

    def __init__(self, population: int, width: int, hidden: int, layer: int, layers: int):
        super().__init__()
        self.exponent = 1 - layer / layers
        self.mix_key_PD = nn.Parameter(torch.empty(population, width))
        self.mix_gate_PD = nn.Parameter(torch.empty(population, width))
        self.key = Linear(population, width, hidden, init=fan_in_uniform(width), bias=False)
        self.gate = Linear(population, width, width, init=fan_in_uniform(width), bias=False)
        self.value = Linear(population, hidden, width, init=fan_in_uniform(hidden), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        width = self.mix_key_PD.shape[1]
        mix_D = (torch.arange(width) / width) ** self.exponent
        return {"mix_key_PD": mix_D, "mix_gate_PD": mix_D}

    def branch(self, x_PBLD: Tensor) -> Branch:
        return Branch(self(x_PBLD))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        before_PBLD = token_shift(x_PBLD)
        mix_key, mix_gate = (
            mix_PD[:, None, None].to(x_PBLD.dtype) for mix_PD in (self.mix_key_PD, self.mix_gate_PD)
        )
        key_PBLR = self.key(torch.lerp(before_PBLD, x_PBLD, mix_key)).relu().square()
        gate_PBLD = self.gate(torch.lerp(before_PBLD, x_PBLD, mix_gate)).sigmoid()
        return gate_PBLD * self.value(key_PBLR)
