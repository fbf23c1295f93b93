"""LSTM in plain PyTorch: one product with the input for all times, one with the state at each.

    [i, f, g, o] = x_t W + b + h_{t-1} U + b'
    c_t = sigmoid(f) c_{t-1} + sigmoid(i) tanh(g)        h_t = sigmoid(o) tanh(c_t)

Shapes: P population, B batch, L length, D width (of x, h and c), G = 4 D gate channels in the order
i, f, g, o; W is `into`, U is `recur`.
"""

import torch
from torch import Tensor

from recollect.ops.linear import linear


def lstm(
    x_PBLD: Tensor, into_PDG: Tensor, bias_PG: Tensor, recur_PDG: Tensor, recur_bias_PG: Tensor
) -> Tensor:
    """h_PBLD from h = c = 0."""
    gates_PBLG = linear(x_PBLD, into_PDG, bias_PG) + recur_bias_PG[:, None, None]
    population, batch = x_PBLD.shape[:2]
    h_PBD = c_PBD = recur_PDG.new_zeros(population, batch, recur_PDG.shape[1])
    outputs = []
    for gates_PBG in gates_PBLG.unbind(2):
        h_PBD, c_PBD = _advance(gates_PBG, h_PBD, c_PBD, recur_PDG)
        outputs.append(h_PBD)
    return torch.stack(outputs, dim=2)


def lstm_step(
    x_PBD: Tensor,
    h_PBD: Tensor,
    c_PBD: Tensor,
    into_PDG: Tensor,
    bias_PG: Tensor,
    recur_PDG: Tensor,
    recur_bias_PG: Tensor,
) -> tuple[Tensor, Tensor]:
    """Return h and c after one more position."""
    gates_PBG = linear(x_PBD, into_PDG, bias_PG) + recur_bias_PG[:, None]
    return _advance(gates_PBG, h_PBD, c_PBD, recur_PDG)


def _advance(
    gates_PBG: Tensor, h_PBD: Tensor, c_PBD: Tensor, recur_PDG: Tensor
) -> tuple[Tensor, Tensor]:
    i, f, g, o = torch.baddbmm(gates_PBG, h_PBD, recur_PDG).chunk(4, dim=-1)
    c_PBD = torch.addcmul(f.sigmoid() * c_PBD, i.sigmoid(), g.tanh())
    return o.sigmoid() * c_PBD.tanh(), c_PBD
