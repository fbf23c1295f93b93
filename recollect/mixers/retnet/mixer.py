"""RetNet's multi-scale retention: rotated linear attention
with a fixed decay per head (Sun et al. 2023).

    q, k, v, g = W_q x, W_k x, W_v x, W_g x
    o_i = sum_{j<=i} gamma_h^(i-j) (R^i q_i) . (R^j k_j) v_j / sqrt(D)
    y = W_o (RMSNorm(o) * SiLU(g))

and step by step

    S_t = gamma_h R^-1 S_{t-1} + k_t v_t^T        o_t = q_t S_t / sqrt(D)

Glossary: P population, B batch, L length, H heads, D channels of a head's queries and keys, E =
expand_v * D channels of its values. R turns pairs of channels by the angles of rotary positions
(base 10 000); gamma_h = 1 - 2^(-5-h) is the decay of head h = 0, 1, ..., a half-life of 22, 44, 88,
... positions, so that a single head keeps 2 % over 128 positions. S is the memory, g the gate,
W_... are matrices without a bias.
Only the distance i - j counts, so a step turns the whole memory back by one position and needs no
counter of positions.
Initialisation: all matrices N(0, 0.02), W_o too, as Zoology draws linear layers; norm weights 1,
eps 1e-5.
Does not differ from fla's MultiScaleRetention, apart from its 8 heads; both differ from the paper,
which scales the rotation by distance (xPos), divides the scores by their sums and normalises heads
with GroupNorm.
"""

from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.retnet.options import RetNetSpec
from recollect.model.layers import Linear, RMSNorm, normal
from recollect.ops.layout import at_positions, merge_heads, rotate, split_heads
from recollect.ops.retention import log_gamma, retained_scores, retention
from recollect.ops.silu_gate import silu_gate


class RetNet(Mixer):
    def __init__(self, spec: RetNetSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.values = values = spec.expand_v * width
        self.query = Linear(population, width, width, init=normal(0.02), bias=False)
        self.key = Linear(population, width, width, init=normal(0.02), bias=False)
        self.value = Linear(population, width, values, init=normal(0.02), bias=False)
        self.gate = Linear(population, width, values, init=normal(0.02), bias=False)
        self.norm = RMSNorm(population, values // spec.heads)
        self.out = Linear(population, values, width, init=normal(0.02), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _turned(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys turned by their positions, and values."""
        q_PBHLD, k_PBHLD, v_PBHLE = self._project(x_PBLD)
        return rotate(q_PBHLD), rotate(k_PBHLD), v_PBHLE

    def _project(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return queries and keys before they are turned, and values."""
        q_PBHLD, k_PBHLD, v_PBHLE = (
            split_heads(part(x_PBLD), self.spec.heads)
            for part in (self.query, self.key, self.value)
        )
        return q_PBHLD * q_PBHLD.shape[-1] ** -0.5, k_PBHLD, v_PBHLE

    def _finish(self, o_PBHLE: Tensor, x_PBLD: Tensor) -> Tensor:
        return self.out(silu_gate(merge_heads(self.norm(o_PBHLE)), self.gate(x_PBLD)))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._finish(retention(*self._turned(x_PBLD)), x_PBLD)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the requested rows of the matrix, and gate, norm and projection there."""
        q_PBHLD, k_PBHLD, v_PBHLE = self._turned(x_PBLD)
        q_PBHKD = split_heads(at_positions(merge_heads(q_PBHLD), where_BK), self.spec.heads)
        o_PBHKE = retention(q_PBHKD, k_PBHLD, v_PBHLE, where_BK)
        return self._finish(o_PBHKE, at_positions(x_PBLD, where_BK))

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        q_PBHLD, k_PBHLD, v_PBHLE = self._turned(x_PBLD)
        weights_PBHLL = retained_scores(q_PBHLD, k_PBHLD)
        return EffectiveAttention(
            weights_PBHLL, v_PBHLE, lambda o_PBHLE: self._finish(o_PBHLE, x_PBLD)
        )

    def start(self, batch: int) -> State:
        width, heads = self.site.width, self.spec.heads
        shape = (self.site.population, batch, heads, self.values // heads, width // heads)
        return {"memory_PBHED": self.out.weight.new_zeros(shape)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        q_PBH1D, k_PBH1D, v_PBH1E = self._project(x_PBD[:, :, None])
        gamma_H11 = log_gamma(self.spec.heads, x_PBD.device).exp().to(x_PBD.dtype)[:, None, None]
        kept_PBHED = rotate(state["memory_PBHED"][..., None, :], start=-1).squeeze(-2) * gamma_H11
        memory_PBHED = kept_PBHED + v_PBH1E.transpose(-1, -2) @ k_PBH1D
        o_PBH1E = q_PBH1D @ memory_PBHED.transpose(-1, -2)
        return self._finish(o_PBH1E, x_PBD[:, :, None]).squeeze(2), {"memory_PBHED": memory_PBHED}

    def state_size(self) -> int:
        return self.site.width * self.values // self.spec.heads

    def operations_per_token(self) -> int:
        width, values = self.site.width, self.values
        pairs = self.site.length * (width + values) // 2  # over half the positions on average
        return 2 * width**2 + 3 * width * values + pairs
