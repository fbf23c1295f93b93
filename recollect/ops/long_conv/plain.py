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
    # A transform is circular: what wraps around at the end must fall into the padding.
    size = 2 * length
    u_PBDL, filter_PDL = (_transformable(x) for x in (u_PBLD.transpose(2, 3), filter_PDL))
    spectrum_PBDF = torch.fft.rfft(u_PBDL, size) * torch.fft.rfft(filter_PDL, size)[:, None]
    return torch.fft.irfft(spectrum_PBDF, size)[..., :length].transpose(2, 3).to(u_PBLD.dtype)


def _transformable(x: Tensor) -> Tensor:
    """Return float32 for bfloat16, for which there are no transforms."""
    return x.float() if x.dtype == torch.bfloat16 else x


def toeplitz(filter_PDL: Tensor) -> Tensor:
    """Return the matrix of the convolution, (P, D, L, L): filter[i - j] at row i and column j <= i,
    zero above the diagonal.
    """
    length = filter_PDL.shape[-1]
    # Row i of the matrix is the window of the reversed, padded filter that starts at L - 1 - i.
    return F.pad(filter_PDL.flip(-1), (0, length - 1)).unfold(-1, length, 1).flip(-2)


def last_output(history_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    """Return the convolution at the last position only, (P, B, D), for a step-by-step decoder."""
    return torch.einsum("pbld,pdl->pbd", history_PBLD, filter_PDL.flip(-1))


def encoded_lags(length: int, bands: int) -> Tensor:
    """Return the encoding of each lag for a filter network, (L, 1 + 2 bands): the lag relative to
    the length, then cosines and negative sines.
    """
    turns_L1 = torch.arange(length)[:, None] / length
    angles_LF = 2 * math.pi * turns_L1 * torch.linspace(1e-4, bands - 1, bands)
    return torch.cat(
        (torch.linspace(0, 1, length)[:, None], angles_LF.cos(), -angles_LF.sin()), dim=1
    )
