"""Mamba2: a state space with one decay per head,
so that its scan is a masked matrix product (Dao and Gu 2024).

    [z, x0 B0 C0, d] = W_in x        [v, B, C] = SiLU(conv([x0, B0, C0]))
    delta = softplus(d + b_dt)       a = exp(delta A)
    S_t = a_t S_{t-1} + delta_t B_t v_t^T        y_t = S_t^T C_t + D v_t
    out = W_out (RMSNorm(y * SiLU(z)) * w)

All positions at once: y_i = sum_{j<=i} (C_i . B_j) exp(sum of delta A over j+1..i) delta_j v_j + D
v_i.

Glossary: P population, B batch, L length, D width, E inner channels (expand * width), H heads, V
channels of a head (option `head`), N state, F channels of v, B and C together (E + 2 N), K taps of
the convolution over them. delta is the step size, A = -exp(a_log) the decay rate and D in the
equations (here `skip`) the direct path of a head, z the gate, w the norm's weight. B and C are
shared by all heads (one group).
Options: kernel = 0 leaves out the convolution and keeps the SiLU; gate = false leaves out z and
keeps the norm.
It does not differ from the official code in its function; that code splits a sequence into chunks
of 256.
Initialisation "official": A uniform in [1, 16], skip 1, b_dt such that delta is log-uniform in
[0.001, 0.1], linear layers as PyTorch's default, the output divided by sqrt(depth). "zoology" is
the initialisation that Zoology used until January 2025: linear layers N(0, 0.02), the output
divided by sqrt(2 depth). b_dt does not belong to a linear layer here, so Mamba2 keeps its long
memory, unlike Mamba.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.mamba2.options import Mamba2Spec
from recollect.model.layers import (
    Kind,
    Linear,
    RMSNorm,
    ShortConv,
    fan_in_uniform,
    log_uniform_step,
    normal,
)
from recollect.ops.layout import at_positions
from recollect.ops.linear_parts import linear_parts
from recollect.ops.silu_gate import silu_gate
from recollect.ops.state_space_dual import decayed_matches, state_space_dual

RATE_MIN, RATE_MAX = 1.0, 16.0
Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # v, B, C, delta, delta A


class Mamba2(Mixer):
    kinds: Mapping[str, Kind] = {
        "a_log_PH": "dynamics",
        "skip_PH": "dynamics",
        "delta_bias_PH": "dynamics",
    }

    def __init__(self, spec: Mamba2Spec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.inner = inner = spec.expand * width
        self.heads = heads = inner // spec.head
        self.mixed = mixed = inner + 2 * spec.state
        official = spec.init == "official"
        into_init = fan_in_uniform(width) if official else normal(0.02)
        out_init = (
            fan_in_uniform(inner, gain=site.rescaled(site.depth**-0.5, 1.0))
            if official
            else normal(site.rescaled(0.02 / math.sqrt(2 * site.depth), 0.02))
        )
        self.into = Linear(
            population, width, inner * spec.gate + mixed + heads, init=into_init, bias=False
        )
        self.conv = ShortConv(population, mixed, spec.kernel) if spec.kernel else None
        self.a_log_PH = nn.Parameter(torch.empty(population, heads))
        self.skip_PH = nn.Parameter(torch.empty(population, heads))
        self.delta_bias_PH = nn.Parameter(torch.empty(population, heads))
        self.norm = RMSNorm(population, inner)
        self.out = Linear(population, inner, width, init=out_init, bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        rates_H = RATE_MIN + (RATE_MAX - RATE_MIN) * torch.rand(self.heads, generator=generator)
        delta_bias_H = log_uniform_step((self.heads,), generator)
        return {
            "a_log_PH": rates_H.log(),
            "skip_PH": torch.ones(self.heads),
            "delta_bias_PH": delta_bias_H,
        }

    def forward(self, x_PBLD: Tensor) -> Tensor:
        gate_PBLE, v_PBHLV, b_PBLN, c_PBLN, delta_PBHL, g_PBHL = self._projected(x_PBLD)
        y_PBHLV = state_space_dual(c_PBLN, b_PBLN, v_PBHLV, delta_PBHL, g_PBHL, self.skip_PH)
        return self._leave(y_PBHLV.transpose(2, 3).flatten(3), gate_PBLE)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute only the requested rows of the matrix, and gate, norm and projection there."""
        first = self.inner * self.spec.gate
        mixed_PBLF = self.into.columns(x_PBLD, first, first + self.mixed)
        low_PBLH = self.into.columns(x_PBLD, first + self.mixed, first + self.mixed + self.heads)
        v_PBHLV, b_PBLN, c_PBLN, delta_PBHL, g_PBHL = self._inputs(mixed_PBLF, low_PBLH)
        y_PBHKV = state_space_dual(
            c_PBLN, b_PBLN, v_PBHLV, delta_PBHL, g_PBHL, self.skip_PH, where_BK
        )
        gate_PBKE = (
            self.into.columns(at_positions(x_PBLD, where_BK), 0, self.inner)
            if self.spec.gate
            else None
        )
        return self._leave(y_PBHKV.transpose(2, 3).flatten(3), gate_PBKE)

    def start(self, batch: int) -> State:
        shape = (self.site.population, batch, self.heads, self.spec.state, self.spec.head)
        state = {"s_PBHNV": self.a_log_PH.new_zeros(shape)}
        return state | {"past_PBKF": self.conv.start(batch)} if self.conv else state

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        gate_PBE, mixed_PBF, low_PBH = self._enter(x_PBD)
        after = {}
        if self.conv:
            mixed_PBF, after["past_PBKF"] = self.conv.step(mixed_PBF, state["past_PBKF"])
        v_PBHV, b_PBN, c_PBN = self._split(F.silu(mixed_PBF))
        delta_PBH = F.softplus(low_PBH + self.delta_bias_PH[:, None])
        decay_PBH = (delta_PBH * -self.a_log_PH.exp()[:, None]).exp()
        written_PBHNV = b_PBN[:, :, None, :, None] * (v_PBHV * delta_PBH[..., None])[..., None, :]
        s_PBHNV = decay_PBH[..., None, None] * state["s_PBHNV"] + written_PBHNV
        y_PBHV = (s_PBHNV * c_PBN[:, :, None, :, None]).sum(-2) + v_PBHV * self.skip_PH[
            :, None, :, None
        ]
        return self._leave(y_PBHV.flatten(2), gate_PBE), after | {"s_PBHNV": s_PBHNV}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return one matrix per head, acting on v after convolution and SiLU, with the direct path
        on its diagonal.
        """
        gate_PBLE, v_PBHLV, b_PBLN, c_PBLN, delta_PBHL, g_PBHL = self._projected(x_PBLD)
        weights_PBHLL = decayed_matches(c_PBLN, b_PBLN, g_PBHL) * delta_PBHL[..., None, :]
        weights_PBHLL = weights_PBHLL + torch.diag_embed(
            self.skip_PH[:, None, :, None].expand_as(delta_PBHL)
        )

        def finish(y_PBHLV: Tensor) -> Tensor:
            return self._leave(y_PBHLV.transpose(2, 3).flatten(3), gate_PBLE)

        return EffectiveAttention(weights_PBHLL, v_PBHLV, finish)

    def _projected(self, x_PBLD: Tensor) -> tuple[Tensor | None, *Inputs]:
        """Return the gate and the inputs."""
        gate_PBLE, mixed_PBLF, low_PBLH = self._enter(x_PBLD)
        return gate_PBLE, *self._inputs(mixed_PBLF, low_PBLH)

    def _inputs(self, mixed_PBLF: Tensor, low_PBLH: Tensor) -> Inputs:
        """Return the inputs at all positions."""
        mixed_PBLF = self.conv(mixed_PBLF, silu=True) if self.conv else F.silu(mixed_PBLF)
        v_PBLHV, b_PBLN, c_PBLN = self._split(mixed_PBLF)
        delta_PBLH = F.softplus(low_PBLH + self.delta_bias_PH[:, None, None])
        delta_PBHL = delta_PBLH.transpose(2, 3)
        g_PBHL = delta_PBHL * -self.a_log_PH.exp()[:, None, :, None]
        return v_PBLHV.transpose(2, 3), b_PBLN, c_PBLN, delta_PBHL, g_PBHL

    def _enter(self, x: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        """Return z, the channels of v, B and C before the convolution, and d, for a sequence or one
        position.
        """
        gates = (self.inner,) if self.spec.gate else ()
        *gate, mixed, low = linear_parts(x, self.into.weight, (*gates, self.mixed, self.heads))
        return gate[0] if gate else None, mixed, low

    def _split(self, mixed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        v, b, c = mixed.split((self.inner, self.spec.state, self.spec.state), dim=-1)
        return v.unflatten(-1, (self.heads, self.spec.head)), b, c

    def _leave(self, y: Tensor, gate: Tensor | None) -> Tensor:
        out: Tensor = self.out(self.norm(y if gate is None else silu_gate(y, gate)))
        return out

    def state_size(self) -> int:
        return self.inner * self.spec.state + self.mixed * max(0, self.spec.kernel - 1)

    def operations_per_token(self) -> int:
        width, inner, length = self.site.width, self.inner, self.site.length
        projections = width * (self.into.weight.shape[-1] + inner)
        # Each over half the positions on average.
        pairs = length * (self.spec.state + self.heads + inner) // 2
        return projections + self.mixed * self.spec.kernel + pairs
