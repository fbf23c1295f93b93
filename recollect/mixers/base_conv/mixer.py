"""BaseConv: a convolution over time, gated by a projection (Arora et al. 2023, "Zoology").

    y = c(u) * (W u + b) + u
    short:  c(u)_t = b_c + sum_{k<K} w_k u_{t-k}
    long:   c(u)_t = u_t + sum_{s<=t} f_{t-s} u_s          f_t = W_2 relu(W_1 z_t + b_1) + b_2
            z_t = [t / (L-1), cos(1e-4 * 2 pi t / L), -sin(1e-4 * 2 pi t / L)]

Glossary: P population, B batch, L length, D width, K taps of the short filter. u is the input, c
the convolution, f the long filter (16 hidden units), z the encoding of the lag: fixed, and the same
for all members. With `filter = "alternate"` layers 0, 2, ... are short and layers 1, 3, ... long.
Computes the same function as Zoology's layer, including the residual inside the mixer and the
identity tap of the long filter. Differs in the number of parameters: z is a table here and a frozen
parameter of 3L numbers there.
Initialisation as there: linear layers N(0, 0.02) with zero biases, so that the long filter starts
at about 1e-3 in addition to its identity tap; short filter and its bias U(-1/sqrt(K), 1/sqrt(K)),
PyTorch's default.
"""

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from recollect.mixers.base import EffectiveAttention, Mixer, Site, State
from recollect.mixers.base_conv.options import BaseConvSpec
from recollect.model.layers import Linear, ShortConv, normal
from recollect.ops.layout import at_positions
from recollect.ops.long_conv import encoded_lags, last_output, long_conv, operations, toeplitz

HIDDEN = 16  # units of the network that makes the long filter


class BaseConv(Mixer):
    def __init__(self, spec: BaseConvSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        population, width = site.population, site.width
        self.is_long = spec.filter == "long" or (spec.filter == "alternate" and site.layer % 2 == 1)
        self.gate = Linear(population, width, width, init=normal(0.02))
        if self.is_long:
            self.register_buffer("lags_L3", encoded_lags(site.length, bands=1), persistent=False)
            self.filter_into = Linear(population, 3, HIDDEN, init=normal(0.02))
            self.filter_out = Linear(population, HIDDEN, width, init=normal(0.02))
        else:
            self.conv = ShortConv(population, width, spec.kernel)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def _filter(self, length: int) -> Tensor:
        """Return f as (P, D, L)."""
        lags_PL3 = self.get_buffer("lags_L3")[:length].expand(self.site.population, -1, -1)
        return self.filter_out(F.relu(self.filter_into(lags_PL3))).transpose(1, 2)

    def _convolve(self, x_PBLD: Tensor) -> Tensor:
        if not self.is_long:
            return self.conv(x_PBLD)
        return long_conv(x_PBLD, self._filter(x_PBLD.shape[2])) + x_PBLD

    def forward(self, x_PBLD: Tensor) -> Tensor:
        return torch.addcmul(x_PBLD, self._convolve(x_PBLD), self.gate(x_PBLD))

    def at(self, x_PBLD: Tensor, where_BK: Tensor) -> Tensor:
        """Compute the gate only at the requested positions."""
        x_PBKD = at_positions(x_PBLD, where_BK)
        return torch.addcmul(
            x_PBKD, at_positions(self._convolve(x_PBLD), where_BK), self.gate(x_PBKD)
        )

    def start(self, batch: int) -> State:
        """Return an empty state: the short filter's last K - 1 inputs, or all inputs so far."""
        if not self.is_long:
            return {"inputs": self.conv.start(batch)}
        return {
            "inputs": self.gate.weight.new_zeros(self.site.population, batch, 0, self.site.width)
        }

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        if self.is_long:
            inputs_PBLD = torch.cat((state["inputs"], x_PBD[:, :, None]), dim=2)
            mixed_PBD = last_output(inputs_PBLD, self._filter(inputs_PBLD.shape[2])) + x_PBD
        else:
            mixed_PBD, inputs_PBLD = self.conv.step(x_PBD, state["inputs"])
        return torch.addcmul(x_PBD, mixed_PBD, self.gate(x_PBD)), {"inputs": inputs_PBLD}

    def effective_attention(self, x_PBLD: Tensor) -> EffectiveAttention:
        """Return one matrix per channel, gate_i c[i-j], acting on the input; the residual and the
        short filter's bias are added afterwards.
        """
        gate_PBLD, rest_PBLD = self.gate(x_PBLD), x_PBLD
        if self.is_long:
            taps_PDL = self._filter(x_PBLD.shape[2])
            taps_PDL = taps_PDL + F.pad(
                torch.ones_like(taps_PDL[..., :1]), (0, taps_PDL.shape[-1] - 1)
            )
        else:
            newest_first_PDK = self.conv.weight.flip(1).transpose(1, 2)
            taps_PDL = F.pad(newest_first_PDK, (0, x_PBLD.shape[2] - self.spec.kernel))
            assert self.conv.bias is not None
            rest_PBLD = torch.addcmul(x_PBLD, gate_PBLD, self.conv.bias[:, None, None])
        weights_PBDLL = gate_PBLD.transpose(2, 3)[..., None] * toeplitz(taps_PDL)[:, None]
        values_PBDL1 = x_PBLD.transpose(2, 3)[..., None]
        return EffectiveAttention(
            weights_PBDLL, values_PBDL1, lambda mixed: mixed.squeeze(-1).transpose(2, 3) + rest_PBLD
        )

    def state_size(self) -> int:
        return self.site.width * (self.site.length if self.is_long else self.spec.kernel - 1)

    def operations_per_token(self) -> int:
        width = self.site.width
        return (
            width**2
            + width * (operations(self.site.length) if self.is_long else self.spec.kernel)
            + width
        )
