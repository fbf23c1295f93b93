"""Causal convolution with a filter as long as the sequence, per member and channel: y_t =
sum_{s<=t} filter_{t-s} u_s.

Shapes: P population, B batch, L length, D channels.

Two ways to the same numbers. Up to TOEPLITZ_LENGTH (more on a GPU) the filter becomes a triangular
matrix, D L^2 floats per member, and the sum a batched matrix product: the form tensor cores like,
and causal bit for bit, because the future is multiplied by exact zeros. Beyond it a product of
spectra of length 2L costs less memory and time. It is causal up to rounding only: every output of a
transform carries the rounding errors of the whole sequence. In both, a number that is not finite
spoils its own row and channel at all positions, and never another row, channel or member.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

TOEPLITZ_LENGTH = 128
# on an H200 at length 256: Hyena 342 against 247 run-steps/s with transforms, H3 177 against 101
TOEPLITZ_LENGTH_GPU = 512


def long_conv(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    """y_PBLD; differentiable in both arguments."""
    return by_toeplitz(u_PBLD, filter_PDL) if takes_matrix(u_PBLD) else by_fft(u_PBLD, filter_PDL)


def takes_matrix(u_PBLD: Tensor) -> bool:
    """Whether a matrix is the cheaper way for such a sequence."""
    return u_PBLD.shape[2] <= (TOEPLITZ_LENGTH_GPU if u_PBLD.is_cuda else TOEPLITZ_LENGTH)


def by_toeplitz(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    y_PDLB = toeplitz(filter_PDL) @ u_PBLD.permute(0, 3, 2, 1)
    return y_PDLB.permute(0, 3, 2, 1)


def by_fft(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    length = u_PBLD.shape[2]
    size = (
        2 * length
    )  # a transform is circular: what leaves at the end must come back in the padding
    u_PBDL, filter_PDL = (_transformable(x) for x in (u_PBLD.transpose(2, 3), filter_PDL))
    spectrum_PBDF = torch.fft.rfft(u_PBDL, size) * torch.fft.rfft(filter_PDL, size)[:, None]
    return torch.fft.irfft(spectrum_PBDF, size)[..., :length].transpose(2, 3).to(u_PBLD.dtype)


def _transformable(x: Tensor) -> Tensor:
    """There are no transforms in bfloat16."""
    return x.float() if x.dtype == torch.bfloat16 else x


def toeplitz(filter_PDL: Tensor) -> Tensor:
    """The matrix of the convolution, (P, D, L, L): filter[i - j] at row i and column j <= i, zero
    above the diagonal.
    """
    length = filter_PDL.shape[-1]
    # Row i of the matrix is the window of the reversed, padded filter that starts at L - 1 - i.
    return F.pad(filter_PDL.flip(-1), (0, length - 1)).unfold(-1, length, 1).flip(-2)


def last_output(history_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    """The convolution at the last position alone, (P, B, D): what a step-by-step decoder needs."""
    return torch.einsum("pbld,pdl->pbd", history_PBLD, filter_PDL.flip(-1))


def encoded_lags(length: int, bands: int) -> Tensor:
    """What a filter network reads for each lag, (L, 1 + 2 bands): its share of the length, then
    cosines and minus sines.
    """
    turns_L1 = torch.arange(length)[:, None] / length
    angles_LF = 2 * math.pi * turns_L1 * torch.linspace(1e-4, bands - 1, bands)
    return torch.cat(
        (torch.linspace(0, 1, length)[:, None], angles_LF.cos(), -angles_LF.sin()), dim=1
    )


def operations(length: int) -> int:
    """Multiply-adds per position and channel; the filter's own cost is shared by all rows and not
    counted.
    """
    return length if length <= TOEPLITZ_LENGTH else 4 + math.ceil(5 * math.log2(2 * length))
