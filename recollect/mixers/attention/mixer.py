"""Causal softmax attention (Vaswani et al. 2017), with the study's short convolutions on queries,
keys and values.

    [q, k, v] = W x + b        a_ij = softmax_j(q_i . k_j / sqrt(D) + r_ij)
    y_i = W_o sum_{j<=i} a_ij v_j + b_o

Glossary: P population, B batch, L length (of queries), T keys seen so far, H heads, D width or the
channels of one head, a_ij attention weights, r_ij bias of the scores, c the depthwise convolution
of one branch (q, k or v).
Convolutions: a convolved branch is W c(x) + b (`before`) or c(W x + b) (`after`). "same" padding
looks ahead as PyTorch's does: (K - 1) // 2 taps behind the present, the rest ahead of it; such a
layer is not causal and has no step-by-step form.
`qk_norm` divides q and k of every head by their root mean square (eps 1e-6) and multiplies them by
a weight of D numbers that the heads share, before `rope`; the scores keep their 1 / sqrt(D).
Positions: learned or sinusoidal ones are added to the embedding by the model. `rope` (Su et al.
2021) turns the first rope_share of a head's channels of q and k by angles that grow with the
position. `alibi` (Press et al. 2022) is r_ij = -m_h (i - j) with a fixed slope m_h per head;
`relative` is one learnt number per head and distance.
Initialisation: linear weights N(0, 0.02^2), the output's divided by sqrt(2 depth), their biases and
`relative` 0; convolutions as PyTorch's Conv1d, U(-1/sqrt(K), 1/sqrt(K)) for weight and bias.
Differs from Zoology's layer only in that hidden scores are -inf, not -1e4; dropout on a_ij and the
initialisation are as there. Zoology has no convolutions here. The study has them "before the QKV
matrix projections" (section 7), which is the default; padding and taps it does not give.
"""

import math
from collections.abc import Callable, Mapping
from typing import cast

import torch
from torch import Generator, Tensor, nn

from recollect.mixers.attention.options import AttentionSpec
from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.model.layers import (
    Dropout,
    Kind,
    Linear,
    RMSNorm,
    ShortConv,
    normal,
    weight_and_bias,
)
from recollect.ops.dropout import Mask, drop
from recollect.ops.layout import at_positions, merge_heads, rotate, split_heads
from recollect.ops.softmax_attention import (
    alibi,
    attention,
    attention_at,
    attention_weights,
    distances,
    projected_attention,
    projected_attention_at,
)

BRANCHES = "qkv"
QK_EPS = 1e-6


class Attention(Mixer):
    kinds: Mapping[str, Kind] = {"relative_PHL": "bias"}

    def __init__(self, spec: AttentionSpec, site: Site, window: int | None = None):
        super().__init__()
        self.spec, self.site = spec, site
        # number of positions a query sees, including its own
        self.reach = min(window or site.length, site.length)
        population, width = site.population, site.width
        convolved = "" if spec.conv == "none" else spec.conv
        ahead = spec.conv_kernel // 2 if spec.conv_padding == "same" else 0
        self.causal = not (convolved and ahead)
        self.convs = nn.ModuleDict(
            {
                branch: ShortConv(population, width, spec.conv_kernel, ahead=ahead)
                for branch in convolved
            }
        )
        self.qkv: Linear | None = None
        if convolved and spec.conv_place == "before":  # each branch has its own input
            self.projections = nn.ModuleDict(
                {branch: Linear(population, width, width, init=normal(0.02)) for branch in BRANCHES}
            )
        else:
            self.qkv = Linear(population, width, 3 * width, init=normal(0.02))
        out_std = site.rescaled(0.02 / math.sqrt(2 * site.depth), 0.02)
        self.out = Linear(population, width, width, init=normal(out_std))
        head_width, normed = width // spec.heads, "qk" if spec.qk_norm else ""
        self.norms = nn.ModuleDict(
            {branch: RMSNorm(population, head_width, QK_EPS) for branch in normed}
        )
        self.relative_PHL: nn.Parameter | None = None
        if site.positions == "relative":
            self.relative_PHL = nn.Parameter(torch.empty(population, spec.heads, self.reach))
        self.dropout: Dropout | None = None
        if site.dropout > 0:
            assert site.noise is not None
            self.dropout = Dropout(site.dropout, site.noise, f"attention {site.layer}")

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return (
            {}
            if self.relative_PHL is None
            else {"relative_PHL": torch.zeros(self.relative_PHL.shape[1:])}
        )

    def forward(self, x_PBLD: Tensor) -> Tensor:
        length, mask = x_PBLD.shape[2], self._mask()
        if self._causal_alone(length):
            return self._merge(projected_attention(x_PBLD, *self._joint(), self.spec.heads, mask))
        q_PBHLD, k_PBHLD, v_PBHLD = self._heads_of(x_PBLD)
        if self.relative_PHL is not None:
            weights_PBHLL = self._weights(q_PBHLD, k_PBHLD)
            return self._merge(
                (weights_PBHLL if mask is None else drop(weights_PBHLL, mask)) @ v_PBHLD
            )
        bias = (
            None
            if self._sees_all(length)
            else self._bias(distances(length, length, x_PBLD.device), x_PBLD)
        )
        return self._merge(attention(self._turn(q_PBHLD), self._turn(k_PBHLD), v_PBHLD, bias, mask))

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the K requested queries."""
        length, width, heads = x_PBLD.shape[2], self.site.width, self.spec.heads
        mask = self._mask()
        if self._causal_alone(length):
            return self._merge(
                projected_attention_at(x_PBLD, *self._joint(), heads, where_BK, mask)
            )
        # With a convolution or a rotation, a query depends on more than the input at its position.
        if self.qkv is None or self.convs or self.site.positions == "rope":
            q_PBHLD, k_PBHLD, v_PBHLD = self._heads_of(x_PBLD)
            q_PBHKD = split_heads(at_positions(merge_heads(self._turn(q_PBHLD)), where_BK), heads)
            k_PBHLD = self._turn(k_PBHLD)
        else:
            q_PBKD = self.qkv.columns(at_positions(x_PBLD, where_BK), 0, width)
            k_PBLD, v_PBLD = self.qkv.columns(x_PBLD, width, 3 * width).chunk(2, dim=-1)
            q_PBHKD = split_heads(self._normed("q", q_PBKD), heads)
            k_PBHLD = split_heads(self._normed("k", k_PBLD), heads)
            v_PBHLD = split_heads(v_PBLD, heads)
        bias = None
        if not self._sees_all(length):
            bias = self._bias(
                where_BK[:, :, None] - torch.arange(length, device=where_BK.device), x_PBLD
            )
        return self._merge(attention_at(q_PBHKD, k_PBHLD, v_PBHLD, where_BK, bias, mask))

    def _sees_all(self, length: int) -> bool:
        """Whether a query sees its whole past and nothing is added to its scores."""
        return self.reach >= length and self.site.positions not in ("alibi", "relative")

    def _causal_alone(self, length: int) -> bool:
        """Whether there is only a causal softmax between the projection and the values."""
        touched = bool(self.convs) or bool(self.norms) or self.site.positions == "rope"
        return not touched and self._sees_all(length)

    def _mask(self) -> Mask | None:
        return None if self.dropout is None else self.dropout.mask()

    def _joint(self) -> tuple[Tensor, Tensor]:
        """Return weight and bias of the joint projection to q, k and v."""
        assert self.qkv is not None
        return weight_and_bias(self.qkv)

    def start(self, batch: int) -> State:
        if not self.causal:
            return super().start(batch)
        nothing_PBTD = self.out.weight.new_zeros(self.site.population, batch, 0, self.site.width)
        pasts = {f"conv {branch}": self._conv(branch).start(batch) for branch in self.convs}
        return {"k": nothing_PBTD, "v": nothing_PBTD, **pasts}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        state, heads = dict(state), self.spec.heads

        def convolve(branch: str, x_PBD: Tensor) -> Tensor:
            y_PBD, state[f"conv {branch}"] = self._conv(branch).step(x_PBD, state[f"conv {branch}"])
            return y_PBD

        branches = dict(zip(BRANCHES, self._project(x_PBD, convolve), strict=True))
        for branch in "kv":
            state[branch] = torch.cat((state[branch], branches[branch][:, :, None]), dim=2)[
                :, :, -self.reach :
            ]
        weights_PBHLT = self._weights(
            split_heads(branches["q"][:, :, None], heads), split_heads(state["k"], heads)
        )
        return self._merge(weights_PBHLT @ split_heads(state["v"], heads))[:, :, 0], state

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return the softmax weights, without dropout, on the values after their convolution."""
        q_PBHLD, k_PBHLD, v_PBHLD = self._heads_of(x_PBLD)
        return EffectiveAttention(self._weights(q_PBHLD, k_PBHLD), v_PBHLD, self._merge)

    def state_size(self) -> int | None:
        if not self.causal:
            return None
        return self.site.width * (2 * self.reach + len(self.convs) * (self.spec.conv_kernel - 1))

    def operations_per_token(self) -> int:
        width, length, reach = self.site.width, self.site.length, self.reach
        seen = reach * (2 * length - reach + 1) / (2 * length)  # the mean of min(position, reach)
        return (
            4 * width**2 + round(2 * width * seen) + len(self.convs) * self.spec.conv_kernel * width
        )

    def _conv(self, branch: str) -> ShortConv:
        """Cast for the type checker: a ModuleDict does not know the types of its entries."""
        return cast(ShortConv, self.convs[branch])

    def _project(self, x: Tensor, convolve: Callable[[str, Tensor], Tensor]) -> list[Tensor]:
        """Return q, k and v with all heads in the last axis; `convolve` is called only for the
        convolved branches.
        """

        def convolved(branch: str, x: Tensor) -> Tensor:
            return convolve(branch, x) if branch in self.convs else x

        if self.qkv is None:
            parts = [
                projection(convolved(branch, x)) for branch, projection in self.projections.items()
            ]
        else:
            parts = [
                convolved(branch, part)
                for branch, part in zip(BRANCHES, self.qkv(x).chunk(3, dim=-1), strict=True)
            ]
        return [self._normed(branch, part) for branch, part in zip(BRANCHES, parts, strict=True)]

    def _normed(self, branch: str, x: Tensor) -> Tensor:
        """Return q, k or v as used in the scores, with all heads in the last axis."""
        if branch not in self.norms:
            return x
        normed: Tensor = self.norms[branch](x.unflatten(-1, (self.spec.heads, -1)))
        return normed.flatten(-2)

    def _heads_of(self, x_PBLD: Tensor) -> list[Tensor]:
        return [
            split_heads(part, self.spec.heads)
            for part in self._project(x_PBLD, lambda branch, x: self._conv(branch)(x))
        ]

    def _merge(self, y_PBHLD: Tensor) -> Tensor:
        return self.out(merge_heads(y_PBHLD))

    def _turn(self, x_PBHLD: Tensor, start: int = 0) -> Tensor:
        if self.site.positions != "rope":
            return x_PBHLD
        turned = self.spec.turned(self.site.width)
        return torch.cat(
            (rotate(x_PBHLD[..., :turned], start=start), x_PBHLD[..., turned:]), dim=-1
        )

    def _weights(self, q_PBHLD: Tensor, k_PBHTD: Tensor) -> Tensor:
        """Return a_ij of the last L of T positions. T may start anywhere in the sequence: only
        distances matter.
        """
        queries, keys = q_PBHLD.shape[-2], k_PBHTD.shape[-2]
        bias_PHLT = self._bias(distances(queries, keys, q_PBHLD.device), q_PBHLD)
        return attention_weights(
            self._turn(q_PBHLD, keys - queries), self._turn(k_PBHTD), bias_PHLT[:, None]
        )

    def _bias(self, distance: Tensor, like: Tensor) -> Tensor:
        """Return r_ij for a table of distances i - j, -inf in the future and beyond the reach, as
        (P or 1, H or 1, *its shape).
        """
        if self.relative_PHL is not None:
            bias_PH = self.relative_PHL[:, :, distance.clamp(0, self.reach - 1)]
        elif self.site.positions == "alibi":
            bias_PH = alibi(distance, self.spec.heads, like.dtype)
        else:
            bias_PH = like.new_zeros(1, 1, *distance.shape)
        return bias_PH.masked_fill((distance < 0) | (distance >= self.reach), -math.inf)
