"""Linear attention: a feature map of queries and keys in place
of the softmax (Katharopoulos et al. 2020).

    q, k, v = W_q x, W_k x, W_v x        a_ij = phi(q_i) . phi(k_j) for j <= i, else 0
    y = W_o o        normaliser "sum": o_i = sum_j a_ij v_j / max(|sum_j a_ij|, floor)
                     normaliser "rms": o_i = RMSNorm(sum_j a_ij v_j / sqrt(D)), head by head
    step by step:    S_t = S_{t-1} + phi(k_t) v_t^T        sum_j a_tj v_j = phi(q_t) S_t
                     z_t = z_{t-1} + phi(k_t)              sum_j a_tj = phi(q_t) . z_t

Glossary: P population, B batch, L length, H heads, D channels of a head, E = D channels of its
values. phi is the feature map: elu(x) + 1, relu(x) or x itself; S is the memory, z the sum of the
mapped keys, W_... are matrices without a bias.
The scale 1/sqrt(D) is applied only where it matters: it cancels in a quotient, but not together
with the eps = 1e-5 of a norm. elu + 1 and relu make weights >= 0; floor = 1e-6 handles a query that
matches hardly any key. With phi(x) = x the weights have both signs and their sum crosses zero:
floor = 1 then bounds the output, as in RetNet's and the xLSTM's denominators, and the absolute
value keeps it continuous in the sum.
Initialisation: all matrices N(0, 0.02), as Zoology draws linear layers; norm weights 1.
Differs from the paper's code and from fla in the floor: they add 1e-6 and 1e-10 to the sum,
whatever the feature map. Apart from that, "sum" with "elu+1" is the paper's layer, and "rms" is
fla's, whose default feature map (a product of two projections) is not among these three.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.linear_attention.options import LinearAttentionSpec
from recollect.model.layers import Linear, RMSNorm, normal
from recollect.ops.layout import at_positions, merge_heads, split_heads


class LinearAttention(Mixer):
    def __init__(self, spec: LinearAttentionSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.floor = 1.0 if spec.feature_map == "identity" else 1e-6
        self.query = Linear(population, width, width, init=normal(0.02), bias=False)
        self.key = Linear(population, width, width, init=normal(0.02), bias=False)
        self.value = Linear(population, width, width, init=normal(0.02), bias=False)
        self.norm = RMSNorm(population, width // spec.heads) if spec.normaliser == "rms" else None
        self.out = Linear(population, width, width, init=normal(0.02), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _project(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return mapped queries, mapped keys, and values."""
        q_PBHLD, k_PBHLD, v_PBHLD = (
            split_heads(part(x_PBLD), self.spec.heads)
            for part in (self.query, self.key, self.value)
        )
        return self._mapped_queries(q_PBHLD), self._feature_map(k_PBHLD), v_PBHLD

    def _mapped_queries(self, q_PBHLD: Tensor) -> Tensor:
        q_PBHLD = self._feature_map(q_PBHLD)
        return q_PBHLD if self.norm is None else q_PBHLD * q_PBHLD.shape[-1] ** -0.5

    def _feature_map(self, x: Tensor) -> Tensor:
        if self.spec.feature_map == "identity":
            return x
        above = F.relu(x)
        # elu(x) + 1 without the subtraction inside elu, which loses all digits of e^x where x is
        # far below zero. x - above is min(x, 0); at 0 versions of PyTorch differ in the gradient of
        # a minimum, not in that of relu.
        return above if self.spec.feature_map == "relu" else above + (x - above).exp()

    def _denominator(self, sums: Tensor) -> Tensor:
        return sums.abs().clamp(min=self.floor)

    def _finish(self, o_PBHLD: Tensor) -> Tensor:
        return self.out(merge_heads(o_PBHLD if self.norm is None else self.norm(o_PBHLD)))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        q_PBHLD, k_PBHLD, v_PBHLD = self._project(x_PBLD)
        scores_PBHLL = (q_PBHLD @ k_PBHLD.transpose(-1, -2)).tril()
        o_PBHLD = scores_PBHLL @ v_PBHLD
        if self.norm is None:
            o_PBHLD = o_PBHLD / self._denominator(scores_PBHLL.sum(-1, keepdim=True))
        return self._finish(o_PBHLD)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the K requested queries."""
        heads = self.spec.heads
        k_PBHLD, v_PBHLD = (split_heads(part(x_PBLD), heads) for part in (self.key, self.value))
        q_PBHKD = self._mapped_queries(
            split_heads(self.query(at_positions(x_PBLD, where_BK)), heads)
        )
        future_BKL = where_BK[:, :, None] < torch.arange(x_PBLD.shape[2], device=where_BK.device)
        scores_PBHKL = (q_PBHKD @ self._feature_map(k_PBHLD).transpose(-1, -2)).masked_fill(
            future_BKL[:, None], 0
        )
        o_PBHKD = scores_PBHKL @ v_PBHLD
        if self.norm is None:
            o_PBHKD = o_PBHKD / self._denominator(scores_PBHKL.sum(-1, keepdim=True))
        return self._finish(o_PBHKD)

    def start(self, batch: int) -> State:
        lead = (self.site.population, batch, self.spec.heads)
        width = self.site.width // self.spec.heads
        memory = {"memory_PBHDE": self.out.weight.new_zeros(*lead, width, width)}
        return (
            memory
            if self.norm is not None
            else memory | {"keys_PBHD1": self.out.weight.new_zeros(*lead, width, 1)}
        )

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        q_PBH1D, k_PBH1D, v_PBH1E = self._project(x_PBD[:, :, None])
        k_PBHD1 = k_PBH1D.transpose(-1, -2)
        after = {"memory_PBHDE": state["memory_PBHDE"] + k_PBHD1 @ v_PBH1E}
        o_PBH1E = q_PBH1D @ after["memory_PBHDE"]
        if self.norm is None:
            after["keys_PBHD1"] = state["keys_PBHD1"] + k_PBHD1
            o_PBH1E = o_PBH1E / self._denominator(q_PBH1D @ after["keys_PBHD1"])
        return self._finish(o_PBH1E).squeeze(2), after

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        q_PBHLD, k_PBHLD, v_PBHLD = self._project(x_PBLD)
        weights_PBHLL = (q_PBHLD @ k_PBHLD.transpose(-1, -2)).tril()
        if self.norm is None:
            weights_PBHLL = weights_PBHLL / self._denominator(weights_PBHLL.sum(-1, keepdim=True))
        return EffectiveAttention(weights_PBHLL, v_PBHLD, self._finish)

    def state_size(self) -> int:
        width = self.site.width
        return width**2 // self.spec.heads + (width if self.norm is None else 0)

    def operations_per_token(self) -> int:
        width, length = self.site.width, self.site.length
        # scores and values, each over half the positions on average
        return 4 * width**2 + length * width
