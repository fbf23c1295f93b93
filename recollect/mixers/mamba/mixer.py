"""Mamba: a gated block around the selective state space S6 (Gu and Dao 2023),
for `mamba` and `s6`.

    [u0, z] = W_in x        u = SiLU(conv(u0))
    [d, B, C] = W_x u       delta = softplus(W_dt d + b_dt)
    h_t = exp(delta_t A) h_{t-1} + delta_t u_t B_t
    y = h C + D u           out = W_out (y * SiLU(z))

Glossary: P population, B batch, L length, D width, E inner channels (expand * width), N state, K
taps of the convolution, R rank of delta (width / 16, rounded up). delta is the step size, A =
-exp(a_log) the decay rates, D in the equations (here `skip`) the direct path, z the gate.
Options: kernel = 0 leaves out the convolution and keeps the SiLU; gate = false leaves out z, so
W_in maps to E channels only.
It does not differ from the official code: the input term is delta * B (Euler), not the exact
integral; the gate multiplies after the skip. `s6` differs from `mamba` only in its defaults: no
gate, and a transformer's block.
Initialisation "official": A_n = -n, skip 1, b_dt such that delta is log-uniform in [0.001, 0.1],
W_dt uniform within 1/sqrt(R), other linear layers as PyTorch's default, the output divided by
sqrt(depth). "zoology" is the initialisation that Zoology used until January 2025: linear layers
N(0, 0.02), the output divided by sqrt(2 depth), b_dt 0. With it delta is 0.69 in every channel, and
the memory is one token long. "mimetic" (after Trockman et al. 2024) starts near linear attention
that forgets nothing: A_n = -n^-8, b_dt such that delta is 1, W_dt a hundredth of its size, and W_C
the mean of W_B and its own draw, so that reads resemble writes. The rest is as in "official",
including the convolution, without which one layer binds nothing. The paper initialises only one
layer of a model in this way; here a list of mixers does that.
"""

import math
from collections.abc import Mapping

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.mamba.options import MambaSpec, S6Spec
from recollect.model.layers import (
    Init,
    Kind,
    Linear,
    ShortConv,
    fan_in_uniform,
    log_uniform_step,
    normal,
    uniform,
)
from recollect.ops.layout import at_positions
from recollect.ops.segment_sums import segment_sums
from recollect.ops.selective_scan import selection, selective_scan
from recollect.ops.silu_gate import silu_gate

MIMETIC_POWER = -8.0  # power of the decay rates 1, 2, ...: all except the first are then almost 0


class Mamba(Mixer):
    kinds: Mapping[str, Kind] = {"a_log_PEN": "dynamics", "skip_PE": "dynamics"}

    def __init__(self, spec: MambaSpec | S6Spec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width, state = site.population, site.width, spec.state
        self.inner = inner = spec.expand * width
        self.rank = rank = math.ceil(width / 16)
        official, small = spec.init != "zoology", normal(0.02)
        into_init = fan_in_uniform(width) if official else small
        select_init = fan_in_uniform(inner) if official else small
        delta_init = uniform(rank**-0.5) if official else small
        delta_bias = log_uniform_step if official else None
        if spec.init == "mimetic":
            select_init = _alike(select_init, state)
            delta_init = uniform(0.01 * rank**-0.5)
            delta_bias = _step_of_one
        out_init = (
            fan_in_uniform(inner, gain=site.rescaled(site.depth**-0.5, 1.0))
            if official
            else normal(site.rescaled(0.02 / math.sqrt(2 * site.depth), 0.02))
        )
        self.into = Linear(population, width, inner * (1 + spec.gate), init=into_init, bias=False)
        self.conv = ShortConv(population, inner, spec.kernel) if spec.kernel else None
        self.select = Linear(population, inner, rank + 2 * state, init=select_init, bias=False)
        self.delta = Linear(
            population, rank, inner, init=delta_init, bias_init=delta_bias, bias_kind="dynamics"
        )
        self.a_log_PEN = nn.Parameter(torch.empty(population, inner, state))
        self.skip_PE = nn.Parameter(torch.empty(population, inner))
        self.out = Linear(population, inner, width, init=out_init, bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        logs_N = torch.arange(1, self.spec.state + 1, dtype=torch.float32).log()
        if self.spec.init == "mimetic":
            logs_N = MIMETIC_POWER * logs_N
        return {"a_log_PEN": logs_N.repeat(self.inner, 1), "skip_PE": torch.ones(self.inner)}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        u_PBLE, gate_PBLE = self._enter(x_PBLD)
        return self._leave(self._scanned(self._convolved(u_PBLE)), gate_PBLE)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute gate and output at the requested positions; the scan up to the last of them."""
        inner = self.inner
        y_PBLE = self._scanned(self._convolved(self.into.columns(x_PBLD, 0, inner)), where_BK)
        gate_PBKE = (
            self.into.columns(at_positions(x_PBLD, where_BK), inner, 2 * inner)
            if self.spec.gate
            else None
        )
        return self._leave(at_positions(y_PBLE, where_BK), gate_PBKE)

    def start(self, batch: int) -> State:
        state = {
            "h_PBEN": self.a_log_PEN.new_zeros(
                self.site.population, batch, self.inner, self.spec.state
            )
        }
        return state | {"past_PBKE": self.conv.start(batch)} if self.conv else state

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        u_PBE, gate_PBE = self._enter(x_PBD)
        after = {}
        if self.conv:
            u_PBE, after["past_PBKE"] = self.conv.step(u_PBE, state["past_PBKE"])
        u_PBE = F.silu(u_PBE)
        raw_PBE, b_PBN, c_PBN = self._selected(u_PBE)
        delta_PBE = F.softplus(raw_PBE)
        decay_PBEN = (delta_PBE[..., None] * -self.a_log_PEN.exp()[:, None]).exp()
        h_PBEN = decay_PBEN * state["h_PBEN"] + (delta_PBE * u_PBE)[..., None] * b_PBN[:, :, None]
        y_PBE = (h_PBEN * c_PBN[:, :, None]).sum(-1) + u_PBE * self.skip_PE[:, None]
        return self._leave(y_PBE, gate_PBE), after | {"h_PBEN": h_PBEN}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return one matrix per channel, acting on u: delta_j sum_n C_in B_jn exp(A_n * sum of
        delta over j+1..i), plus skip where i = j.
        """
        u_PBLE, delta_PBLE, b_PBLN, c_PBLN, gate_PBLE = self._projected(x_PBLD)
        delta_PBEL = delta_PBLE.transpose(2, 3)
        elapsed_PBELL = segment_sums(-delta_PBEL)
        weights_PBELL = torch.zeros_like(elapsed_PBELL)
        # A loop over states: all at once would take N times the memory.
        for rate_PE, b_PBL, c_PBL in zip(
            self.a_log_PEN.exp().unbind(-1), b_PBLN.unbind(-1), c_PBLN.unbind(-1), strict=True
        ):
            decay_PBELL = (elapsed_PBELL * rate_PE[:, None, :, None, None]).exp()
            weights_PBELL = (
                weights_PBELL + decay_PBELL * (c_PBL[..., None] * b_PBL[:, :, None])[:, :, None]
            )
        skip_PBEL = self.skip_PE[:, None, :, None].expand_as(delta_PBEL)
        weights_PBELL = weights_PBELL * delta_PBEL[..., None, :] + torch.diag_embed(skip_PBEL)

        def finish(y_PBEL1: Tensor) -> Tensor:
            return self._leave(y_PBEL1.squeeze(-1).transpose(2, 3), gate_PBLE)

        return EffectiveAttention(weights_PBELL, u_PBLE.transpose(2, 3)[..., None], finish)

    def _projected(self, x_PBLD: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor | None]:
        """Return u, the step size, B and C (to write and to read with), and the gate."""
        u_PBLE, gate_PBLE = self._enter(x_PBLD)
        u_PBLE = self._convolved(u_PBLE)
        raw_PBLE, b_PBLN, c_PBLN = self._selected(u_PBLE)
        return u_PBLE, F.softplus(raw_PBLE), b_PBLN, c_PBLN, gate_PBLE

    def _convolved(self, u_PBLE: Tensor) -> Tensor:
        return self.conv(u_PBLE, silu=True) if self.conv else F.silu(u_PBLE)

    def _scanned(self, u_PBLE: Tensor, where_BK: Tensor | None = None) -> Tensor:
        """Return y before the gate; it is defined only at `where_BK`, if given."""
        return selective_scan(
            u_PBLE, *self._selecting(), self.a_log_PEN, self.skip_PE, where_BK=where_BK
        )

    def _enter(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        u, *gate = self.into(x).split(self.inner, dim=-1)
        return u, gate[0] if gate else None

    def _selected(self, u: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return each channel's step size before softplus, B (to write with) and C (to read with),
        for a sequence or one position.
        """
        return selection(u, *self._selecting())

    def _selecting(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return W_x, W_dt and b_dt."""
        assert self.delta.bias is not None
        return self.select.weight, self.delta.weight, self.delta.bias

    def _leave(self, y: Tensor, gate: Tensor | None) -> Tensor:
        out: Tensor = self.out(y if gate is None else silu_gate(y, gate))
        return out

    def state_size(self) -> int:
        return self.inner * self.spec.state + self.inner * max(0, self.spec.kernel - 1)

    def operations_per_token(self) -> int:
        width, inner, state = self.site.width, self.inner, self.spec.state
        projections = (
            (2 + self.spec.gate) * width * inner
            + inner * (self.rank + 2 * state)
            + self.rank * inner
        )
        return projections + inner * self.spec.kernel + 4 * inner * state


def _alike(init: Init, state: int) -> Init:
    """Initialise W_x so that its last columns, W_C, are close to those before them, W_B."""

    def draw(shape: tuple[int, ...], generator: Generator) -> Tensor:
        weight = init(shape, generator)
        weight[:, -state:] = (weight[:, -state:] + weight[:, -2 * state : -state]) / 2
        return weight

    return draw


def _step_of_one(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """Return the bias whose softplus is 1."""
    return torch.full(shape, math.log(math.e - 1))
