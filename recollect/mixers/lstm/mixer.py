"""LSTM: long short-term memory (Hochreiter and Schmidhuber 1997; the forget gate is of Gers et al.
2000).

    [i, f, g, o] = W x_t + b + U h_{t-1} + b'      c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)      h_t = sigmoid(o) tanh(c_t)

Glossary: P population, B batch, L length, D width (of the input, of h and of c), G = 4 D gate
channels in the order i, f, g, o. i is the input gate, f the forget gate, g the candidate, o the
output gate, c the cell, h the output; W is `into`, U is `recur`. Gates and parameters do not differ
from torch.nn.LSTM with one layer, two biases included. cuDNN's kernel knows no population, so W x
is one product for all times and only U h is left to the loop. Initialisation as there,
U(-1/sqrt(D), 1/sqrt(D)), but for the forget gate: its bias b is `forget_bias` and its b' is 0, so
that the sum is exactly the option.
"""

import torch
from torch import Generator, Tensor

from recollect.mixers.base import Mixer, Site, State
from recollect.mixers.lstm.options import LSTMSpec
from recollect.model.layers import Init, Linear, fan_in_uniform
from recollect.ops.channels_first import product_dtype
from recollect.ops.dispatch import use_triton


class LSTM(Mixer):
    def __init__(self, spec: LSTMSpec, site: Site):
        super().__init__()
        self.spec, self.site = spec, site
        width, init = site.width, fan_in_uniform(site.width)
        self.into = Linear(
            site.population, width, 4 * width, init=init, bias_init=_bias(width, spec.forget_bias)
        )
        self.recur = Linear(
            site.population, width, 4 * width, init=init, bias_init=_bias(width, 0.0)
        )

    def draw(self, generator: Generator) -> dict[str, Tensor]:
        return {}

    def forward(self, x_PBLD: Tensor) -> Tensor:
        if use_triton(x_PBLD):
            from recollect.ops import lstm_triton

            if lstm_triton.fits(self.site.width, product_dtype(x_PBLD)):
                assert self.into.bias is not None
                assert self.recur.bias is not None
                product_PBLG = self.into.product(x_PBLD).view(*x_PBLD.shape[:-1], -1)
                return lstm_triton.lstm(
                    product_PBLG, self.into.bias + self.recur.bias, self.recur.weight
                )
        state, outputs = self.start(x_PBLD.shape[1]), []
        for gates_PBG in self._from_input(x_PBLD).unbind(2):
            state = self._next(gates_PBG, state)
            outputs.append(state["output"])
        return torch.stack(outputs, dim=2)

    def start(self, batch: int) -> State:
        zeros_PBD = self.recur.weight.new_zeros(self.site.population, batch, self.site.width)
        return {"output": zeros_PBD, "cell": zeros_PBD}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        state = self._next(self._from_input(x_PBD[:, :, None]).squeeze(2), state)
        return state["output"], state

    def _from_input(self, x_PBLD: Tensor) -> Tensor:
        """All of the gates that does not depend on h, (P, B, L, G)."""
        assert self.recur.bias is not None
        return self.into(x_PBLD) + self.recur.bias[:, None, None]

    def _next(self, gates_PBG: Tensor, state: State) -> State:
        i, f, g, o = torch.baddbmm(gates_PBG, state["output"], self.recur.weight).chunk(4, dim=-1)
        cell_PBD = torch.addcmul(f.sigmoid() * state["cell"], i.sigmoid(), g.tanh())
        return {"output": o.sigmoid() * cell_PBD.tanh(), "cell": cell_PBD}

    def state_size(self) -> int:
        return 2 * self.site.width

    def operations_per_token(self) -> int:
        return 8 * self.site.width**2 + 3 * self.site.width


def _bias(width: int, forget: float) -> Init:
    """As PyTorch's, with the forget gate's share set."""

    def draw(shape: tuple[int, ...], generator: Generator) -> Tensor:
        bias_G = fan_in_uniform(width)(shape, generator)
        bias_G[width : 2 * width] = forget
        return bias_G

    return draw
