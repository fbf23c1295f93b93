"""Hyena of order 2: two gates around a long convolution whose filter is a learnt function of the
lag (Poli et al. 2023).

    [x1, x2, v] = short(W_in x + b_in)    u = v * x1    out = W_out ((k * u + D u) * x2) + b_out
    k_t = exp(-t |delta|) * W_4 s(W_3 s(W_2 s(W_1 z_t + b_1) + b_2) + b_3)    s(a) = sin(omega a)

Glossary: P population, B batch, L length, D width, K taps of the short depthwise convolution (with
bias), F hidden units of the filter network, Z numbers that encode a lag. x1 and x2 are the gates, v
the values, k the filter, D (here `skip`) the direct path, z the encoding of the lag t, omega one
frequency per hidden unit, shared by the three sines, delta a fixed decay rate per channel, from
ln(0.01)/1.5 to ln(0.01)/0.3, over lags scaled to [0, 1].
`filter = "zoology"`: z has 3 numbers [t, cos, -sin] and is trained, omega starts at 1. `filter =
"safari"`, the authors' setting for recall: 5 numbers (two frequencies), fixed, omega starts at 10.
Initialisation with `init = "zoology"`: linear layers N(0, 0.02) with zero biases, the output layer
divided by sqrt(2 depth); the filter then starts at about 2e-5, and only the direct path carries
signal. `init = "pytorch"`: linear layers and their biases U(-1/sqrt(inputs), 1/sqrt(inputs)), the
filter starts at about 2e-2. Either way skip N(0, 1), the short convolution as PyTorch's default.
Does not differ from the official (safari) and Zoology's layers in what it computes. safari can
train the filter network with a learning rate and weight decay of its own; here it has those of the
run.
"""

import math
from collections.abc import Mapping
from typing import cast

import torch
from torch import Generator, Tensor, nn

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.hyena.options import HyenaSpec
from recollect.model.layers import (
    Init,
    Kind,
    Linear,
    ShortConv,
    fan_in_uniform,
    normal,
    weight_and_bias,
)
from recollect.ops.hyena import FilterNetwork, hyena, implicit_filter
from recollect.ops.long_conv import encoded_lags, last_output, operations, toeplitz

INNER = 2  # hidden layers of the filter network between its first and its last
# The filter's envelope falls to 1 % after 1.5 or 0.3 lengths.
SLOWEST, FASTEST = math.log(0.01) / 1.5, math.log(0.01) / 0.3


class Hyena(Mixer):
    kinds: Mapping[str, Kind] = {"skip_PD": "dynamics", "omega_PF": "dynamics"}

    def __init__(self, spec: HyenaSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        width, hidden, bands = site.width, spec.filter_width, 1 if spec.filter == "zoology" else 2
        self.into = self._linear(width, 3 * width)
        self.short = ShortConv(site.population, 3 * width, spec.kernel)
        self.skip_PD = nn.Parameter(torch.empty(site.population, width))
        self.out = self._linear(
            width, width, gain=site.rescaled(1 / math.sqrt(2 * site.depth), 1.0)
        )
        self.filter_into = self._linear(1 + 2 * bands, hidden)
        self.filter_inner = nn.ModuleList(self._linear(hidden, hidden) for _ in range(INNER))
        self.filter_out = self._linear(hidden, width, bias=False)
        self.omega_PF = nn.Parameter(torch.empty(site.population, hidden))
        self.lags_PLZ: nn.Parameter | None = None
        if spec.filter == "zoology":
            self.lags_PLZ = nn.Parameter(torch.empty(site.population, site.length, 1 + 2 * bands))
        else:
            self.register_buffer("lags_LZ", encoded_lags(site.length, bands), persistent=False)
        rates_D = torch.linspace(SLOWEST, FASTEST, width)
        self.register_buffer(
            "envelope_LD",
            (torch.linspace(0, 1, site.length)[:, None] * rates_D).exp(),
            persistent=False,
        )

    def _linear(self, inputs: int, outputs: int, bias: bool = True, gain: float = 1.0) -> Linear:
        """Make a linear layer; `gain` applies only to Zoology's initialisation."""
        default = fan_in_uniform(inputs) if self.spec.init == "pytorch" else None
        init: Init = default or normal(0.02 * gain)
        return Linear(
            self.site.population, inputs, outputs, init=init, bias=bias, bias_init=default
        )

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        omega = 1.0 if self.spec.filter == "zoology" else 10.0
        skip_D = normal(1.0)((self.site.width,), generator)
        values = {"skip_PD": skip_D, "omega_PF": torch.full((self.spec.filter_width,), omega)}
        return (
            values
            if self.lags_PLZ is None
            else values | {"lags_PLZ": encoded_lags(self.site.length, bands=1)}
        )

    def _lags(self, length: int) -> Tensor:
        """Return z as (P, L, Z)."""
        if self.lags_PLZ is None:
            return self.get_buffer("lags_LZ")[:length].expand(self.site.population, -1, -1)
        return self.lags_PLZ[:, :length]

    def _network(self, length: int) -> FilterNetwork:
        linear = [cast(Linear, layer) for layer in (self.filter_into, *self.filter_inner)]
        return FilterNetwork(
            self._lags(length),
            [weight_and_bias(layer) for layer in linear],
            self.filter_out.weight,
            self.omega_PF,
            self.get_buffer("envelope_LD")[:length],
        )

    def _filter(self, length: int) -> Tensor:
        """Return k as (P, D, L)."""
        return implicit_filter(self._network(length))

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return self._mix(x_PBLD, None)

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute the second gate and the output projection only at the requested positions."""
        return self._mix(x_PBLD, where_BK)

    def _mix(self, x_PBLD: Tensor, where_BK: Tensor | None) -> Tensor:
        into, short, out = (weight_and_bias(part) for part in (self.into, self.short, self.out))
        network = self._network(x_PBLD.shape[2])
        return hyena(x_PBLD, into, short, network, self.skip_PD, out, where_BK)

    def start(self, batch: int) -> State:
        """Return an empty state: the short convolution's last inputs, all inputs of the long
        one.
        """
        return {
            "short": self.short.start(batch),
            "inputs": self.skip_PD.new_zeros(self.site.population, batch, 0, self.site.width),
        }

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        short_PBE, past_PBKE = self.short.step(self.into(x_PBD), state["short"])
        first_PBD, second_PBD, v_PBD = short_PBE.chunk(3, dim=-1)
        u_PBD = v_PBD * first_PBD
        inputs_PBLD = torch.cat((state["inputs"], u_PBD[:, :, None]), dim=2)
        mixed_PBD = torch.addcmul(
            last_output(inputs_PBLD, self._filter(inputs_PBLD.shape[2])),
            u_PBD,
            self.skip_PD[:, None],
        )
        return self.out(mixed_PBD * second_PBD), {"short": past_PBKE, "inputs": inputs_PBLD}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return one matrix per channel, x2_i (k[i-j] + D at i = j) x1_j, acting on v."""
        first_PBDL, second_PBDL, v_PBDL = (
            self.short(self.into(x_PBLD)).transpose(2, 3).chunk(3, dim=2)
        )
        matrix_PDLL = toeplitz(self._filter(x_PBLD.shape[2]))
        matrix_PDLL = matrix_PDLL + torch.diag_embed(
            self.skip_PD[..., None].expand_as(matrix_PDLL[..., 0])
        )
        weights_PBDLL = second_PBDL[..., None] * matrix_PDLL[:, None] * first_PBDL[..., None, :]
        return EffectiveAttention(
            weights_PBDLL,
            v_PBDL[..., None],
            lambda mixed: self.out(mixed.squeeze(-1).transpose(2, 3)),
        )

    def state_size(self) -> int:
        return self.site.width * (self.site.length + 3 * (self.spec.kernel - 1))

    def operations_per_token(self) -> int:
        width = self.site.width
        return (
            4 * width**2 + 3 * width * self.spec.kernel + width * (operations(self.site.length) + 3)
        )
