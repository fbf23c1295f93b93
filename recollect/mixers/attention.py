"""Causal softmax attention (Vaswani et al. 2017), as the study's baseline uses it.

    q, k, v = W_qkv x + b        y_i = W_o sum_{j<=i} softmax_j(q_i . k_j / sqrt(D) + r_{i-j}) v_j + b_o

Glossary: P population, B batch, L length, H heads, D channels of a head, M = P * B rows of all members.
Positions: learned or sinusoidal ones are added to the embedding by the model; `rope` turns q and k here; `relative` adds
one learnt number r per head and distance to the scores (starts at 0).
Differs from Zoology's layer: no dropout on the scores. Initialisation as there: N(0, 0.02), the output layer divided by
sqrt(2 depth).
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import Mixer, Site
from recollect.nn import Linear, normal
from recollect.ops.rotary import rotate
from recollect.spec.mixer import AttentionSpec


class Attention(Mixer):
    def __init__(self, spec: AttentionSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        width = site.width
        self.qkv = Linear(site.population, width, 3 * width, init=normal(0.02))
        self.out = Linear(site.population, width, width, init=normal(0.02 / math.sqrt(2 * site.depth)))
        if site.positions == "relative":
            self.relative_PHL = nn.Parameter(torch.empty(site.population, spec.heads, site.length))

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {"relative_PHL": torch.zeros(self.spec.heads, self.site.length)} if self.site.positions == "relative" else {}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        population, batch, length, width = x_PBLD.shape
        heads = self.spec.heads
        qkv = self.qkv(x_PBLD).view(population * batch, length, 3, heads, width // heads)
        q_MHLD, k_MHLD, v_MHLD = qkv.permute(2, 0, 3, 1, 4)
        if self.site.positions == "rope":
            q_MHLD, k_MHLD = rotate(q_MHLD), rotate(k_MHLD)
        if self.site.positions == "relative":
            y_MHLD = self._with_relative_scores(q_MHLD, k_MHLD, v_MHLD)
        else:
            y_MHLD = F.scaled_dot_product_attention(q_MHLD, k_MHLD, v_MHLD, is_causal=True)
        return self.out(y_MHLD.transpose(1, 2).reshape(population, batch, length, width))

    def _with_relative_scores(self, q_MHLD: Tensor, k_MHLD: Tensor, v_MHLD: Tensor) -> Tensor:
        population, (rows, heads, length, width) = self.site.population, q_MHLD.shape
        positions = torch.arange(length, device=q_MHLD.device)
        distance_LL = positions[:, None] - positions
        bias_PHLL = self.relative_PHL[:, :, distance_LL.clamp(min=0)].masked_fill(distance_LL < 0, -math.inf)
        scores_MHLL = q_MHLD @ k_MHLD.transpose(-1, -2) / math.sqrt(width)
        scores_PBHLL = scores_MHLL.view(population, rows // population, heads, length, length) + bias_PHLL[:, None]
        return scores_PBHLL.softmax(-1).view_as(scores_MHLL) @ v_MHLD

    def state_size(self) -> int:
        return 2 * self.site.width * self.site.length

    def operations_per_token(self) -> int:
        width, length = self.site.width, self.site.length
        return 4 * width**2 + length * width  # scores and values over on average half the positions each
