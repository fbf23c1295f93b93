"""GRU: gated recurrent unit (Cho et al. 2014).

    r_t = sigmoid(W_r x_t + b_r + U_r h_{t-1} + b'_r)               z_t = sigmoid(W_z x_t + b_z + U_z h_{t-1} + b'_z)
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + b'_n))          h_t = (1 - z_t) n_t + z_t h_{t-1}

Glossary: P population, B batch, L length, D width (of the input and of h), G = 3 D gate channels in
the order r, z, n. r is the reset gate, z the update gate (1: keep), n the candidate, h state and
output; W is `into`, U is `recur`. Gates and parameters do not differ from torch.nn.GRU with one
layer, two biases included; so the reset gate acts after the product U_n h, where the paper has it
before. W x is one product for all times, only U h is left to the loop. Initialisation as in
PyTorch: U(-1/sqrt(D), 1/sqrt(D)) for everything.
"""

import torch
from torch import Generator, Tensor

from recollect.mixers.base import Mixer, Site, State
from recollect.mixers.gru.options import GRUSpec
from recollect.model.layers import Linear, fan_in_uniform
from recollect.ops.channels_first import product_dtype
from recollect.ops.dispatch import use_triton


class GRU(Mixer):
    def __init__(self, spec: GRUSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        width, init = site.width, fan_in_uniform(site.width)
        self.into = Linear(site.population, width, 3 * width, init=init, bias_init=init)
        self.recur = Linear(site.population, width, 3 * width, init=init, bias_init=init)

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        if use_triton(x_PBLD):
            from recollect.ops import gru_triton

            width = self.site.width
            if gru_triton.fits(width, product_dtype(x_PBLD)):
                assert self.into.bias is not None
                assert self.recur.bias is not None
                product_PBLG = self.into.product(x_PBLD).view(*x_PBLD.shape[:-1], -1)
                into_PG, past_PG = self.into.bias, self.recur.bias
                both = (
                    into_PG[:, : 2 * width] + past_PG[:, : 2 * width]
                )  # of r and z; the reset gate divides those of n
                bias_PF = torch.cat((both, into_PG[:, 2 * width :], past_PG[:, 2 * width :]), dim=1)
                return gru_triton.gru(product_PBLG, bias_PF, self.recur.weight)
        h_PBD, outputs = self.start(x_PBLD.shape[1])["output"], []
        for gates_PBG in self.into(x_PBLD).unbind(2):
            h_PBD = self._next(gates_PBG, h_PBD)
            outputs.append(h_PBD)
        return torch.stack(outputs, dim=2)

    def start(self, batch: int) -> State:
        return {"output": self.recur.weight.new_zeros(self.site.population, batch, self.site.width)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        h_PBD = self._next(self.into(x_PBD), state["output"])
        return h_PBD, {"output": h_PBD}

    def _next(self, gates_PBG: Tensor, h_PBD: Tensor) -> Tensor:
        r_input, z_input, n_input = gates_PBG.chunk(3, dim=-1)
        r_past, z_past, n_past = self.recur(h_PBD).chunk(3, dim=-1)
        n_PBD = torch.tanh(n_input + torch.sigmoid(r_input + r_past) * n_past)
        return torch.lerp(n_PBD, h_PBD.to(n_PBD.dtype), torch.sigmoid(z_input + z_past))

    def state_size(self) -> int:
        return self.site.width

    def operations_per_token(self) -> int:
        return 6 * self.site.width**2 + 3 * self.site.width
