"""H3 between its input and its output: a shift state space on the keys, a diagonal one on the
products of keys and values.

    q, k, v = x W + b        k~ = (shift + shift_skip) * k        Y = (diagonal + skip) * (k~ (x) v)
    y = (q^T Y) W_out + b_out

Shapes: P population, B batch, L length, K requested positions, D width, C = 3 D channels of q, k
and v.
"""

import torch
from torch import Tensor

from recollect.ops.channels_first import from_channels, to_channels
from recollect.ops.dispatch import use_triton
from recollect.ops.h3 import plain
from recollect.ops.h3.plain import (
    Affine,
    Diagonal,
    Shift,
    diagonal_filter,
    discretise,
    shift_filter,
    shift_keys,
)
from recollect.ops.long_conv import takes_matrix

__all__ = [
    "Diagonal",
    "Shift",
    "diagonal_filter",
    "discretise",
    "h3",
    "shift_filter",
    "shift_keys",
]


def h3(
    x_PBLD: Tensor,
    qkv: tuple[Affine, Affine, Affine],
    shift: Shift,
    diagonal: Diagonal,
    out: Affine,
    where_BK: Tensor | None = None,
) -> Tensor:
    """Return y_PBLD, or with `where` y_PBKD at only K positions of each row.

    `qkv` and `out` are weights and biases of linear layers. Kernels use tensors (P, C, B, L), in
    which the positions of a channel are adjacent, as a convolution reads them.
    """
    if not (use_triton(x_PBLD) and takes_matrix(x_PBLD)):
        return plain.h3(x_PBLD, qkv, shift, diagonal, out, where_BK)
    from recollect.ops.h3 import triton_filters, triton_kernel

    length, (weights, biases) = x_PBLD.shape[2], zip(*qkv, strict=True)
    y_PDBL = triton_kernel.mix(
        to_channels(x_PBLD, torch.cat(weights, dim=2)),
        torch.cat(biases, dim=1),
        triton_filters.shift_filter(*shift, length),
        triton_filters.diagonal_filter(*diagonal, length),
    )
    if where_BK is not None:
        y_PDBL = y_PDBL.gather(3, where_BK.expand(*y_PDBL.shape[:2], -1, -1))
    return from_channels(y_PDBL, *out)
