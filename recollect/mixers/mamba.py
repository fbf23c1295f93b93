"""Mamba: a gated block around the selective state space S6 (Gu and Dao 2023).

    [u0, z] = W_in x               u = SiLU(conv(u0))              [d, B, C] = W_x u         delta = softplus(W_dt d + b_dt)
    h_t = exp(delta_t A) h_{t-1} + delta_t u_t B_t                 y = h C + D u             out = W_out (y * SiLU(z))

Glossary: P population, B batch, L length, E inner channels (expand * width), N state, R rank of delta (width / 16, rounded up).
delta is the step size, A = -exp(a_log) the decay rates, D (here `skip`) the direct path, z the gate.
As the official code: the input term is delta * B (Euler), not the exact integral; the gate multiplies after the skip.
Initialisation as there: A_n = -n, skip 1, b_dt such that delta is log-uniform in [0.001, 0.1], linear layers as PyTorch's
default, the output divided by sqrt(depth). Zoology overwrote these until January 2025, which made the memory one token long.
"""

import math

import torch
import torch.nn.functional as F
from torch import Generator, Tensor, nn

from recollect.mixers.base import Mixer, Site
from recollect.nn import Linear, ShortConv, fan_in_uniform, uniform
from recollect.ops.selective_scan import selective_scan
from recollect.spec.mixer import MambaSpec

DELTA_MIN, DELTA_MAX, DELTA_FLOOR = 1e-3, 1e-1, 1e-4


class Mamba(Mixer):
    def __init__(self, spec: MambaSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.inner = inner = spec.expand * width
        self.rank = rank = math.ceil(width / 16)
        self.into = Linear(population, width, 2 * inner, init=fan_in_uniform(width), bias=False)
        self.conv = ShortConv(population, inner, spec.kernel)
        self.select = Linear(population, inner, rank + 2 * spec.state, init=fan_in_uniform(inner), bias=False)
        self.step = Linear(population, rank, inner, init=uniform(rank**-0.5), bias_init=_log_uniform_step)
        self.a_log_PEN = nn.Parameter(torch.empty(population, inner, spec.state))
        self.skip_PE = nn.Parameter(torch.empty(population, inner))
        self.out = Linear(population, inner, width, init=fan_in_uniform(inner, gain=site.depth**-0.5), bias=False)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        rates = torch.arange(1, self.spec.state + 1, dtype=torch.float32)
        return {"a_log_PEN": rates.log().repeat(self.inner, 1), "skip_PE": torch.ones(self.inner)}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        u_PBLE, gate_PBLE = self.into(x_PBLD).chunk(2, dim=-1)
        u_PBLE = F.silu(self.conv(u_PBLE))
        low_PBLR, b_PBLN, c_PBLN = self.select(u_PBLE).split((self.rank, self.spec.state, self.spec.state), dim=-1)
        delta_PBLE = F.softplus(self.step(low_PBLR))
        y_PBLE = selective_scan(u_PBLE, delta_PBLE, -self.a_log_PEN.exp(), b_PBLN, c_PBLN)
        y_PBLE = torch.addcmul(y_PBLE, u_PBLE, self.skip_PE[:, None, None])
        return self.out(y_PBLE * F.silu(gate_PBLE))

    def state_size(self) -> int:
        return self.inner * self.spec.state + self.inner * (self.spec.kernel - 1)

    def operations_per_token(self) -> int:
        width, inner, state = self.site.width, self.inner, self.spec.state
        projections = 3 * width * inner + inner * (self.rank + 2 * state) + self.rank * inner
        return projections + inner * self.spec.kernel + 4 * inner * state


def _log_uniform_step(shape: tuple[int, ...], generator: Generator) -> Tensor:
    """The bias whose softplus is log-uniform in [DELTA_MIN, DELTA_MAX]."""
    exponent = torch.rand(shape, generator=generator) * math.log(DELTA_MAX / DELTA_MIN) + math.log(DELTA_MIN)
    delta = exponent.exp().clamp(min=DELTA_FLOOR)
    return delta + torch.log(-torch.expm1(-delta))
