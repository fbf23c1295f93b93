"""Based's linear attention: the second-order Taylor series of the exponential
as the kernel (Arora et al. 2024).

    q, k, v = W_q x, W_k x, W_v x        s_ij = q_i . k_j / sqrt(F)
    a_ij = 1 + s_ij + s_ij^2 / 2 for j <= i, else 0
    o_i = sum_j a_ij v_j / sum_j a_ij        y = W_o o
    step by step:   S_t = S_{t-1} + phi(k_t) [v_t, 1]^T
                    [n_t, d_t] = phi(q_t) S_t        o_t = n_t / d_t
    phi(x) = [1,  x_a / F^(1/4),  x_a^2 / sqrt(2 F),  x_a x_b / sqrt(F) for a < b]
    so that phi(q) . phi(k) = 1 + s + s^2 / 2

Glossary: P population, B batch, L length, H heads, F channels of a head's queries and keys (option
`features`), D channels of a head's values, N = 1 + F + F (F + 1) / 2 entries of phi. S is the
memory, its last column the sum of the mapped keys; n and d are numerator and denominator of the
mean, W_... matrices without a bias. a = ((1 + s)^2 + 1) / 2 >= 1/2, so the sum is never small and
needs no eps.
Initialisation: all matrices N(0, 0.02), W_o too, as Zoology's; s starts near 0, so the output
starts as a running mean of v.
Differs from Zoology's code: the scores come from the kernel, phi is only used step by step, and
contains each product x_a x_b once (their phi holds x_a x_b and x_b x_a, 73 entries in place of 45
at F = 8); their eps of 1e-12 is left out.
"""

import torch
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.based.options import BasedSpec
from recollect.model.layers import Linear, normal
from recollect.ops.layout import at_positions, merge_heads, split_heads


class Based(Mixer):
    def __init__(self, spec: BasedSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.query = Linear(
            population, width, spec.heads * spec.features, init=normal(0.02), bias=False
        )
        self.key = Linear(
            population, width, spec.heads * spec.features, init=normal(0.02), bias=False
        )
        self.value = Linear(population, width, width, init=normal(0.02), bias=False)
        self.out = Linear(population, width, width, init=normal(0.02), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _project(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        q_PBHLF, k_PBHLF, v_PBHLD = (
            split_heads(part(x_PBLD), self.spec.heads)
            for part in (self.query, self.key, self.value)
        )
        return q_PBHLF, k_PBHLF, v_PBHLD

    def _weights(self, q_PBHLF: Tensor, k_PBHLF: Tensor) -> tuple[Tensor, Tensor]:
        """Return the causal kernel and its row sums."""
        weights_PBHLL = self._kernel(q_PBHLF, k_PBHLF).tril()
        return weights_PBHLL, weights_PBHLL.sum(-1, keepdim=True)

    def _kernel(self, q_PBHLF: Tensor, k_PBHLF: Tensor) -> Tensor:
        s_PBHLL = q_PBHLF @ k_PBHLF.transpose(-1, -2) * self.spec.features**-0.5
        return 1 + s_PBHLL + s_PBHLL.square() / 2

    def _finish(self, o_PBHLD: Tensor) -> Tensor:
        return self.out(merge_heads(o_PBHLD))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        q_PBHLF, k_PBHLF, v_PBHLD = self._project(x_PBLD)
        weights_PBHLL, sums_PBHL1 = self._weights(q_PBHLF, k_PBHLF)
        return self._finish(weights_PBHLL @ v_PBHLD / sums_PBHL1)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the K requested queries."""
        heads = self.spec.heads
        q_PBHKF = split_heads(self.query(at_positions(x_PBLD, where_BK)), heads)
        k_PBHLF, v_PBHLD = (split_heads(part(x_PBLD), heads) for part in (self.key, self.value))
        future_BKL = where_BK[:, :, None] < torch.arange(x_PBLD.shape[2], device=where_BK.device)
        weights_PBHKL = self._kernel(q_PBHKF, k_PBHLF).masked_fill(future_BKL[:, None], 0)
        return self._finish(weights_PBHKL @ v_PBHLD / weights_PBHKL.sum(-1, keepdim=True))

    def start(self, batch: int) -> State:
        heads, features = self.spec.heads, self._entries()
        shape = (self.site.population, batch, heads, features, self.site.width // heads + 1)
        return {"memory_PBHND": self.out.weight.new_zeros(shape)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        q_PBH1F, k_PBH1F, v_PBH1D = self._project(x_PBD[:, :, None])
        with_one = torch.cat((v_PBH1D, torch.ones_like(v_PBH1D[..., :1])), dim=-1)
        memory_PBHND = state["memory_PBHND"] + taylor_features(k_PBH1F).transpose(-1, -2) @ with_one
        mixed = taylor_features(q_PBH1F) @ memory_PBHND
        return self._finish(mixed[..., :-1] / mixed[..., -1:]).squeeze(2), {
            "memory_PBHND": memory_PBHND
        }

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        q_PBHLF, k_PBHLF, v_PBHLD = self._project(x_PBLD)
        weights_PBHLL, sums_PBHL1 = self._weights(q_PBHLF, k_PBHLF)
        return EffectiveAttention(weights_PBHLL / sums_PBHL1, v_PBHLD, self._finish)

    def _entries(self) -> int:
        features = self.spec.features
        return 1 + features + features * (features + 1) // 2

    def state_size(self) -> int:
        return self._entries() * (self.site.width + self.spec.heads)

    def operations_per_token(self) -> int:
        width, keys = self.site.width, self.spec.heads * self.spec.features
        # over half the positions on average
        return 2 * width * (width + keys) + self.site.length * (width + keys) // 2


def taylor_features(x: Tensor) -> Tensor:
    """Return phi of the last axis: phi(q) . phi(k) = 1 + s + s^2 / 2 with s = q . k / sqrt(F)."""
    width = x.shape[-1]
    first, second = torch.triu_indices(width, width, offset=1, device=x.device)
    parts = (
        torch.ones_like(x[..., :1]),
        x / width**0.25,
        x.square() / (2 * width) ** 0.5,
        x[..., first] * x[..., second] / width**0.5,
    )
    return torch.cat(parts, dim=-1)
