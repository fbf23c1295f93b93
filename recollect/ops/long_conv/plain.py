"""The long convolution by a Toeplitz matrix and by transforms,
and the lags that filter networks read.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def by_toeplitz(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    y_PDLB = toeplitz(filter_PDL) @ u_PBLD.permute(0, 3, 2, 1)
    return y_PDLB.permute(0, 3, 2, 1)


def by_fft(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    length = u_PBLD.shape[2]
    # a transform is circular: what leaves at the end must come back in the padding
    size = 2 * length
    u_PBDL, filter_PDL = (_transformable(x) for x in (u_PBLD.transpose(2, 3), filter_PDL))
    spectrum_PBDF = torch.fft.rfft(u_PBDL, size) * torch.fft.rfft(filter_PDL, size)[:, None]
    return torch.fft.irfft(spectrum_PBDF, size)[..., :length].transpose(2, 3).to(u_PBLD.dtype)


def _transformable(x: Tensor) -> Tensor:
    """There are no transforms in bfloat16."""
    return x.float() if x.dtype == torch.bfloat16 else x


def toeplitz(filter_PDL: Tensor) -> Tensor:
    """The matrix of the convolution, (P, D, L, L):
    filter[i - j] at row i and column j <= i, zero above the diagonal.
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
