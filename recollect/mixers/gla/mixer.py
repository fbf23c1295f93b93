"""Gated linear attention: a learnt decay for each channel of the keys (Yang et al. 2024).

    q, k, v, g = W_q x, W_k x, W_v x, W_g x        alpha = sigmoid(W_2 W_1 x + b)^(1/16)
    S_t = diag(alpha_t) S_{t-1} + k_t v_t^T        o_t = q_t S_t / sqrt(D)
    y = W_o (RMSNorm(o) * SiLU(g))

and as a matrix

    o_i = sum_{j<=i} a_ij v_j        a_ij = sum_c q_ic k_jc alpha_{j+1,c} ... alpha_{i,c} / sqrt(D)

Glossary: P population, B batch, L length, H heads, D channels of a head's queries and keys (half
the width over all heads), E channels of its values, R rank of the decay's projection. S is the
memory, alpha the decay, g the gate; only b is a bias. The sixteenth root slows the forgetting down:
b = 0 keeps 0.958 of the memory per step, a half-life of 16. recollect/ops/gla computes a_ij for
decays of any strength.
Initialisation: all matrices N(0, 0.02), W_o too, and b = 0, as Zoology draws them; norm weights 1,
eps 1e-5.
Does not differ from fla's layer in its function. The paper's own code starts from Xavier-uniform
matrices with gain 2^-2.5.
"""

import torch.nn.functional as F
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.gla.options import GLASpec
from recollect.model.layers import Linear, RMSNorm, normal
from recollect.ops.gla import decayed_scores
from recollect.ops.layout import at_positions, merge_heads, split_heads
from recollect.ops.silu_gate import silu_gate

ROOT = 16


class GLA(Mixer):
    def __init__(self, spec: GLASpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.keys = keys = width // 2
        self.query = Linear(population, width, keys, init=normal(0.02), bias=False)
        self.key = Linear(population, width, keys, init=normal(0.02), bias=False)
        self.value = Linear(population, width, width, init=normal(0.02), bias=False)
        self.gate = Linear(population, width, width, init=normal(0.02), bias=False)
        self.low = Linear(population, width, spec.rank, init=normal(0.02), bias=False)
        self.decay = Linear(population, spec.rank, keys, init=normal(0.02), bias_kind="dynamics")
        self.norm = RMSNorm(population, width // spec.heads)
        self.out = Linear(population, width, width, init=normal(0.02), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _project(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return queries, keys, values, and the logarithms of the decays."""
        log_decay_PBLC = F.logsigmoid(self.decay(self.low(x_PBLD))) / ROOT
        flat = (self.query(x_PBLD), self.key(x_PBLD), self.value(x_PBLD), log_decay_PBLC)
        q_PBHLD, k_PBHLD, v_PBHLE, log_decay_PBHLD = (
            split_heads(part, self.spec.heads) for part in flat
        )
        return q_PBHLD * q_PBHLD.shape[-1] ** -0.5, k_PBHLD, v_PBHLE, log_decay_PBHLD

    def _finish(self, o_PBHLE: Tensor, x_PBLD: Tensor) -> Tensor:
        return self.out(silu_gate(merge_heads(self.norm(o_PBHLE)), self.gate(x_PBLD)))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self.effective_attention(x_PBLD).output()

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the requested rows of the matrix, and gate, norm and projection there."""
        q_PBHLD, k_PBHLD, v_PBHLE, log_decay_PBHLD = self._project(x_PBLD)
        weights_PBHLL = decayed_scores(q_PBHLD, k_PBHLD, log_decay_PBHLD)
        index_PBHKL = where_BK[None, :, None, :, None].expand(
            *weights_PBHLL.shape[:3], -1, weights_PBHLL.shape[-1]
        )
        return self._finish(
            weights_PBHLL.gather(3, index_PBHKL) @ v_PBHLE, at_positions(x_PBLD, where_BK)
        )

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        q_PBHLD, k_PBHLD, v_PBHLE, log_decay_PBHLD = self._project(x_PBLD)
        weights_PBHLL = decayed_scores(q_PBHLD, k_PBHLD, log_decay_PBHLD)
        return EffectiveAttention(
            weights_PBHLL, v_PBHLE, lambda o_PBHLE: self._finish(o_PBHLE, x_PBLD)
        )

    def start(self, batch: int) -> State:
        heads = self.spec.heads
        shape = (self.site.population, batch, heads, self.keys // heads, self.site.width // heads)
        return {"memory_PBHDE": self.out.weight.new_zeros(shape)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        q_PBH1D, k_PBH1D, v_PBH1E, log_decay_PBH1D = self._project(x_PBD[:, :, None])
        kept_PBHDE = state["memory_PBHDE"] * log_decay_PBH1D.transpose(-1, -2).exp()
        memory_PBHDE = kept_PBHDE + k_PBH1D.transpose(-1, -2) @ v_PBH1E
        return self._finish(q_PBH1D @ memory_PBHDE, x_PBD[:, :, None]).squeeze(2), {
            "memory_PBHDE": memory_PBHDE
        }

    def state_size(self) -> int:
        return self.keys * self.site.width // self.spec.heads

    def operations_per_token(self) -> int:
        width, keys, length = self.site.width, self.keys, self.site.length
        projections = 2 * width * keys + 3 * width**2 + (width + keys) * self.spec.rank
        halvings = (length - 1).bit_length()  # each decays keys of one half, queries of the other
        pairs = length * (keys + width) // 2  # scores and values over half the positions
        return projections + halvings * keys + pairs
