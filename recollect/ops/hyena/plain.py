"""Hyena's equations, and the network that makes its filter, from other operations.

    filter_t = envelope_t W_4 s(W_3 s(W_2 s(W_1 lag_t + b_1) + b_2) + b_3)      s(a) = sin(omega a)

Shapes: P population, L length, Z numbers of an encoded lag, F hidden units, D channels.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from recollect.ops.layout import at_positions
from recollect.ops.linear import linear
from recollect.ops.long_conv import long_conv
from recollect.ops.short_conv import short_conv

Affine = tuple[Tensor, Tensor]  # weight and bias of a layer


class FilterNetwork(NamedTuple):
    """The network of a filter: encoded lags, three layers with sines, and the output layer."""

    lags_PLZ: Tensor
    layers: Sequence[Affine]
    out_PFD: Tensor
    omega_PF: Tensor
    envelope_LD: Tensor


def implicit_filter(network: FilterNetwork) -> Tensor:
    """Return the filter without its direct path, (P, D, L)."""
    lags_PLZ, layers, out_PFD, omega_PF, envelope_LD = network
    first, *others = layers
    hidden_PLF = linear(lags_PLZ, *first)
    for layer in others:
        hidden_PLF = linear(torch.sin(omega_PF[:, None] * hidden_PLF), *layer)
    filter_PLD = linear(torch.sin(omega_PF[:, None] * hidden_PLF), out_PFD)
    return (filter_PLD * envelope_LD).transpose(1, 2)


def hyena(
    x_PBLD: Tensor,
    into: Affine,
    short: Affine,
    network: FilterNetwork,
    skip_PD: Tensor,
    out: Affine,
    where_BK: Tensor | None = None,
) -> Tensor:
    z1_PBLD, z2_PBLD, v_PBLD = short_conv(linear(x_PBLD, *into), *short).chunk(3, dim=-1)
    u_PBLD = v_PBLD * z1_PBLD
    mixed_PBLD = torch.addcmul(
        long_conv(u_PBLD, implicit_filter(network)), u_PBLD, skip_PD[:, None, None]
    )
    if where_BK is not None:
        mixed_PBLD, z2_PBLD = (at_positions(y_PBLD, where_BK) for y_PBLD in (mixed_PBLD, z2_PBLD))
    return linear(mixed_PBLD * z2_PBLD, *out)
