"""Hyena of order 2 between its input and its output: two gates around a long convolution.

    [z1, z2, v] = short(x W_in + b_in)        u = v z1
    y = (((filter * u) + skip u) z2) W_out + b_out

Shapes: P population, B batch, L length, K requested positions, D width, C = 3 D channels.
"""

import torch.nn.functional as F
from torch import Tensor

from recollect.ops.channels_first import from_channels, to_channels
from recollect.ops.dispatch import use_triton
from recollect.ops.hyena import plain
from recollect.ops.hyena.plain import Affine, FilterNetwork, implicit_filter
from recollect.ops.long_conv import takes_matrix

__all__ = ["FilterNetwork", "hyena", "implicit_filter"]


def hyena(
    x_PBLD: Tensor,
    into: Affine,
    short: Affine,
    network: FilterNetwork,
    skip_PD: Tensor,
    out: Affine,
    where_BK: Tensor | None = None,
) -> Tensor:
    """Return y_PBLD, or with `where` y_PBKD at only K positions of each row.

    `into` (D to C) and `out` (D to D) are weight and bias of a linear layer, `short` those of the
    short convolution. Kernels use tensors (P, C, B, L), in which the positions of a channel are
    adjacent, as a convolution reads them.
    """
    if not (use_triton(x_PBLD) and takes_matrix(x_PBLD)):
        return plain.hyena(x_PBLD, into, short, network, skip_PD, out, where_BK)
    from recollect.ops.hyena import triton_kernel

    (into_PDC, into_bias_PC), (taps_PKC, shift_PC) = into, short
    filter_PDL = _filter_with_skip(network, skip_PD)
    y_PDBL = triton_kernel.mix(
        to_channels(x_PBLD, into_PDC), into_bias_PC, taps_PKC, shift_PC, filter_PDL
    )
    if where_BK is not None:
        y_PDBL = y_PDBL.gather(3, where_BK.expand(*y_PDBL.shape[:2], -1, -1))
    return from_channels(y_PDBL, *out)


def _filter_with_skip(network: FilterNetwork, skip_PD: Tensor) -> Tensor:
    """Return the filter with the direct path as part of lag 0, (P, D, L)."""
    from recollect.ops.hyena import triton_filter

    if network.omega_PF.shape[1] <= triton_filter.MOST_HIDDEN:
        return triton_filter.implicit_filter(network, skip_PD)
    filter_PDL = plain.implicit_filter(network)
    return filter_PDL + F.pad(skip_PD[..., None], (0, filter_PDL.shape[2] - 1))
