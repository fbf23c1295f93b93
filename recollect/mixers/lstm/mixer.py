"""LSTM: long short-term memory (Hochreiter and Schmidhuber 1997;
forget gate by Gers et al. 2000).

    [i, f, g, o] = W x_t + b + U h_{t-1} + b'
    c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)        h_t = sigmoid(o) tanh(c_t)

Glossary: P population, B batch, L length, D width (of the input, of h and of c), G = 4 D gate
channels in the order i, f, g, o. i is the input gate, f the forget gate, g the candidate, o the
output gate, c the cell, h the output; W is `into`, U is `recur`.
Gates and parameters, including the two biases, do not differ from torch.nn.LSTM with one layer.
Initialisation as there, U(-1/sqrt(D), 1/sqrt(D)), except for the forget gate: its bias b is
`forget_bias` and its b' is 0, so that their sum is exactly the option.
"""

from torch import Generator, Tensor

from recollect.mixers.base import Mixer, Site, State
from recollect.mixers.lstm.options import LSTMSpec
from recollect.model.layers import Init, Linear, fan_in_uniform
from recollect.ops.lstm import lstm, lstm_step


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
        return lstm(x_PBLD, *self._weights())

    def start(self, batch: int) -> State:
        zeros_PBD = self.recur.weight.new_zeros(self.site.population, batch, self.site.width)
        return {"output": zeros_PBD, "cell": zeros_PBD}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        h_PBD, c_PBD = lstm_step(x_PBD, state["output"], state["cell"], *self._weights())
        return h_PBD, {"output": h_PBD, "cell": c_PBD}

    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W, b, U and b'."""
        assert self.into.bias is not None
        assert self.recur.bias is not None
        return self.into.weight, self.into.bias, self.recur.weight, self.recur.bias

    def state_size(self) -> int:
        return 2 * self.site.width

    def operations_per_token(self) -> int:
        return 8 * self.site.width**2 + 3 * self.site.width


def _bias(width: int, forget: float) -> Init:
    """Return PyTorch's initialisation with the forget gate's entries set to `forget`."""

    def draw(shape: tuple[int, ...], generator: Generator) -> Tensor:
        bias_G = fan_in_uniform(width)(shape, generator)
        bias_G[width : 2 * width] = forget
        return bias_G

    return draw
