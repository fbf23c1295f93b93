"""Causal convolution with a filter as long as the sequence, per member and channel:
y_t = sum_{s<=t} filter_{t-s} u_s.

Shapes: P population, B batch, L length, D channels.

There are two ways to compute it. Up to TOEPLITZ_LENGTH (more on a GPU) the filter becomes a
triangular matrix, D L^2 floats per member, and the sum a batched matrix product: a form that suits
tensor cores, and causal bit for bit, because the future is multiplied by exact zeros. Beyond it a
product of spectra of length 2L costs less memory and time. It is causal up to rounding only: every
output of a transform carries the rounding errors of the whole sequence. In both, a number that is
not finite damages its own row and channel at all positions, and never another row, channel or
member.

The kernel here is shared by Hyena and H3: convolutions between products.
"""

import math

from torch import Tensor

from recollect.ops.long_conv.plain import (
    by_fft,
    by_toeplitz,
    encoded_lags,
    last_output,
    toeplitz,
)

__all__ = [
    "TOEPLITZ_LENGTH",
    "by_fft",
    "by_toeplitz",
    "encoded_lags",
    "last_output",
    "long_conv",
    "operations",
    "takes_matrix",
    "toeplitz",
]

TOEPLITZ_LENGTH = 128
# On an H200 at length 256: Hyena 342 against 247 run-steps/s with transforms, H3 177 against 101.
TOEPLITZ_LENGTH_GPU = 512


def long_conv(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    """y_PBLD; differentiable in both arguments."""
    return by_toeplitz(u_PBLD, filter_PDL) if takes_matrix(u_PBLD) else by_fft(u_PBLD, filter_PDL)


def takes_matrix(u_PBLD: Tensor) -> bool:
    """Whether the matrix is cheaper for such a sequence."""
    return u_PBLD.shape[2] <= (TOEPLITZ_LENGTH_GPU if u_PBLD.is_cuda else TOEPLITZ_LENGTH)


def operations(length: int) -> int:
    """Return the multiply-adds per position and channel; the filter's own cost is shared by all
    rows and not counted.
    """
    return length if length <= TOEPLITZ_LENGTH else 4 + math.ceil(5 * math.log2(2 * length))
