"""GRU: gated recurrent unit (Cho et al. 2014).

    r_t = sigmoid(W_r x_t + b_r + U_r h_{t-1} + b'_r)
    z_t = sigmoid(W_z x_t + b_z + U_z h_{t-1} + b'_z)
    n_t = tanh(W_n x_t + b_n + r_t * (U_n h_{t-1} + b'_n))
    h_t = (1 - z_t) n_t + z_t h_{t-1}

Glossary: P population, B batch, L length, D width (of the input and of h), G = 3 D gate channels in
the order r, z, n. r is the reset gate, z the update gate (1: keep), n the candidate, h state and
output; W is `into`, U is `recur`.
Gates and parameters, including the two biases, do not differ from torch.nn.GRU with one layer. The
reset gate therefore acts after the product U_n h; in the paper it acts before. Initialisation as in
PyTorch: U(-1/sqrt(D), 1/sqrt(D)) for everything.
"""

from torch import Generator, Tensor

from recollect.mixers.base import Mixer, Site, State
from recollect.mixers.gru.options import GRUSpec
from recollect.model.layers import Linear, fan_in_uniform
from recollect.ops.gru import gru, gru_step


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
        return gru(x_PBLD, *self._weights())

    def start(self, batch: int) -> State:
        return {"output": self.recur.weight.new_zeros(self.site.population, batch, self.site.width)}

    def step(self, x_PBD: Tensor, state: State) -> tuple[Tensor, State]:
        h_PBD = gru_step(x_PBD, state["output"], *self._weights())
        return h_PBD, {"output": h_PBD}

    def _weights(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return W, b, U and b'."""
        assert self.into.bias is not None
        assert self.recur.bias is not None
        return self.into.weight, self.into.bias, self.recur.weight, self.recur.bias

    def state_size(self) -> int:
        return self.site.width

    def operations_per_token(self) -> int:
        return 6 * self.site.width**2 + 3 * self.site.width
