"""DeltaNet: linear attention in which a write replaces the value stored under its key (Schlag et
al. 2021; Yang et al. 2024).

    q, k, v = SiLU(conv(W_qkv x))        q, k divided by sqrt(|.|^2 + 1e-6) per head
    beta = sigmoid(w_beta x) per head
    S_t = (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T
    o_t = S_t^T q_t / sqrt(D)        out = W_o RMSNorm(o)

Glossary: P population, B batch, L length, H heads, D channels of a head's key, E of its value (here
E = D), C channels of q, k and v together. S is the memory of a head, a D x E matrix; beta is how
much of the old value a write replaces.
Nothing has a bias. One depthwise convolution over all channels equals separate ones for q, k and v.
The norm is over E, one scale for all heads; its eps = 1e-5 is not negligible, since o^2 starts near
3e-6.
Options: `gate` multiplies the normalised o with SiLU(W_g x); `negative` doubles beta; `kernel = 0`
leaves out the convolution and keeps the SiLU; `precision = "bf16"` rounds q, k and v, and on the
way back their gradients, to bfloat16.
Initialisation as Zoology's: linear layers N(0, 0.02), the convolution PyTorch's default
U(-1/sqrt(kernel), 1/sqrt(kernel)).
Differs from fla's and Zoology's layers only in precision: q, k and v are rounded where Zoology
casts them, before q and k are normalised; fla's chunked kernels also round the normalised q and k,
and o.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.delta_net.options import DeltaNetSpec
from recollect.mixers.gated_delta_net.options import GatedDeltaNetSpec
from recollect.model.layers import Linear, RMSNorm, ShortConv, normal
from recollect.ops.delta_rule import CHUNK, delta_rule, delta_rule_step, unit_delta_rule, unit_heads
from recollect.ops.few_columns import project_per_head
from recollect.ops.layout import at_positions

STD = 0.02
KEY_EPS = 1e-6


class DeltaNet(Mixer):
    def __init__(self, spec: DeltaNetSpec | GatedDeltaNetSpec, site: Site, expand_v: int = 1):
        super().__init__()
        self.spec, self.site = spec, site
        population, width, self.values = site.population, site.width, expand_v * site.width
        channels = 2 * width + self.values
        self.qkv = Linear(population, width, channels, init=normal(STD), bias=False)
        self.conv = (
            ShortConv(population, channels, spec.kernel, bias=False) if spec.kernel else None
        )
        self.write = Linear(population, width, spec.heads, init=normal(STD), bias=False)
        self.gate = (
            Linear(population, width, self.values, init=normal(STD), bias=False)
            if spec.gate
            else None
        )
        self.norm = RMSNorm(population, self.values // spec.heads)
        self.out = Linear(population, self.values, width, init=normal(STD), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def strengths(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return beta and g per head, (..., D) -> (..., H); without g nothing decays."""
        (write,) = project_per_head(x, [(self.write.weight, self.write.bias)])
        return self._beta(write), None

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._out(self._recalled(x_PBLD), x_PBLD)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute norm, gate and output projection at the requested positions; the rule at all."""
        o_PBKE = at_positions(self._recalled(x_PBLD).flatten(3), where_BK)
        return self._out(
            o_PBKE.unflatten(-1, (self.spec.heads, -1)), at_positions(x_PBLD, where_BK)
        )

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        q, k, v_PBHLE, beta_PBHL, g = self._over_time(x_PBLD)
        # The rule is linear in its values: applied to the unit vectors of all positions, it gives
        # its matrix.
        positions_PBHLL = torch.eye(
            x_PBLD.shape[2], dtype=x_PBLD.dtype, device=x_PBLD.device
        ).expand(*beta_PBHL.shape, -1)
        weights_PBHLL = delta_rule(q, k, positions_PBHLL, beta_PBHL, g)
        return EffectiveAttention(
            weights_PBHLL,
            v_PBHLE,
            lambda mixed_PBHLE: self._out(mixed_PBHLE.transpose(2, 3), x_PBLD),
        )

    def start(self, batch: int) -> State:
        width, heads = self.site.width, self.spec.heads
        memory = self.norm.weight.new_zeros(
            self.site.population, batch, heads, width // heads, self.values // heads
        )
        return (
            {"memory": memory}
            if self.conv is None
            else {"memory": memory, "conv": self.conv.start(batch)}
        )

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        qkv_PBC, after = self.qkv(x_PBD), {}
        if self.conv is not None:
            qkv_PBC, after["conv"] = self.conv.step(qkv_PBC, state["conv"])
        q, k, v, beta, g = self._rule_inputs(x_PBD, self._rounded(F.silu(qkv_PBC)))
        o_PBHE, after["memory"] = delta_rule_step(q, k, v, beta, state["memory"], g)
        return self._out(o_PBHE, x_PBD), after

    def state_size(self) -> int:
        width, heads = self.site.width, self.spec.heads
        return width * self.values // heads + max(0, self.spec.kernel - 1) * (
            2 * width + self.values
        )

    def operations_per_token(self) -> int:
        width, length = self.site.width, self.site.length
        values, heads = self.values, self.spec.heads
        channels, chunk = 2 * width + values, min(CHUNK, length)
        projections = width * (channels + heads + values * (2 if self.spec.gate else 1))
        inside_chunks = chunk * (2 * width + values + values // 2)
        # The memory is written once per position, and read twice except in the first chunk.
        memory = width * values // heads
        memory += 2 * memory * (length - chunk) // length
        return projections + channels * self.spec.kernel + inside_chunks + memory

    def _recalled(self, x_PBLD: Tensor) -> Tensor:
        """Return o_PBLHE, the memory's answer at every position."""
        keys, heads = self.site.width // self.spec.heads, self.spec.heads
        return unit_delta_rule(
            self._channels(x_PBLD), *self.strengths(x_PBLD), keys, heads, KEY_EPS
        )

    def _channels(self, x_PBLD: Tensor) -> Tensor:
        """Return the channels of q, k and v for the rule, before q and k are normalised."""
        qkv_PBLC = self.qkv(x_PBLD)
        return self._rounded(
            F.silu(qkv_PBLC) if self.conv is None else self.conv(qkv_PBLC, silu=True)
        )

    def _over_time(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return q, k, v, beta and g with the time axis after the heads."""
        q, k, v, beta, g = self._rule_inputs(x_PBLD, self._channels(x_PBLD))
        q, k, v, beta = (values.transpose(2, 3) for values in (q, k, v, beta))
        return q, k, v, beta, None if g is None else g.transpose(2, 3)

    def _rule_inputs(
        self, x: Tensor, channels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return q, k, v (..., H, D or E), beta and g (..., H), at one position or many."""
        return *unit_heads(
            channels, self.site.width // self.spec.heads, self.spec.heads, KEY_EPS
        ), *self.strengths(x)

    def _beta(self, write: Tensor) -> Tensor:
        return write.sigmoid() * (2 if self.spec.negative else 1)

    def _rounded(self, values: Tensor) -> Tensor:
        return values.bfloat16().to(values.dtype) if self.spec.precision == "bf16" else values

    def _out(self, o: Tensor, x: Tensor) -> Tensor:
        """Compute the output (..., D) from o (..., H, E) and x (..., D)."""
        y = self.norm(o).flatten(-2)
        return self.out(y if self.gate is None else y * F.silu(self.gate(x)))
