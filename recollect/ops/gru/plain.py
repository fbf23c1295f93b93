"""GRU in plain PyTorch: one product with the input for all times, one with the state at each.

    r_t = sigmoid(x_t W_r + b_r + h_{t-1} U_r + b'_r)
    z_t = sigmoid(x_t W_z + b_z + h_{t-1} U_z + b'_z)
    n_t = tanh(x_t W_n + b_n + r_t * (h_{t-1} U_n + b'_n))
    h_t = (1 - z_t) n_t + z_t h_{t-1}

Shapes: P population, B batch, L length, D width (of x and h), G = 3 D gate channels in the order r,
z, n; W is `into`, U is `recur`.
"""

import torch
from torch import Tensor

from recollect.ops.linear import linear


def gru(
    x_PBLD: Tensor, into_PDG: Tensor, bias_PG: Tensor, recur_PDG: Tensor, recur_bias_PG: Tensor
) -> Tensor:
    """h_PBLD from h = 0."""
    population, batch = x_PBLD.shape[:2]
    h_PBD = recur_PDG.new_zeros(population, batch, recur_PDG.shape[1])
    outputs = []
    for gates_PBG in linear(x_PBLD, into_PDG, bias_PG).unbind(2):
        h_PBD = _advance(gates_PBG, h_PBD, recur_PDG, recur_bias_PG)
        outputs.append(h_PBD)
    return torch.stack(outputs, dim=2)


def gru_step(
    x_PBD: Tensor,
    h_PBD: Tensor,
    into_PDG: Tensor,
    bias_PG: Tensor,
    recur_PDG: Tensor,
    recur_bias_PG: Tensor,
) -> Tensor:
    """Return h after one more position."""
    return _advance(linear(x_PBD, into_PDG, bias_PG), h_PBD, recur_PDG, recur_bias_PG)


def _advance(gates_PBG: Tensor, h_PBD: Tensor, recur_PDG: Tensor, recur_bias_PG: Tensor) -> Tensor:
    r_input, z_input, n_input = gates_PBG.chunk(3, dim=-1)
    r_past, z_past, n_past = linear(h_PBD, recur_PDG, recur_bias_PG).chunk(3, dim=-1)
    n_PBD = torch.tanh(n_input + torch.sigmoid(r_input + r_past) * n_past)
    return torch.lerp(n_PBD, h_PBD.to(n_PBD.dtype), torch.sigmoid(z_input + z_past))
