"""H3's equations and the filters of its two state spaces, from other operations.

    shift:      s[t] = sum_j B[j] C[j+t] for t < N, else 0
    diagonal:   K[t] = 2 Re sum_n C_n Bd_n Ad_n^t, A = -exp(a) + i omega
                Ad = (1 + dt A / 2) / (1 - dt A / 2), Bd = B dt / (1 - dt A / 2)

Shapes: P population, B batch, L length, D width, H heads, I and E channels of a head (of keys, of
values), N size of the shift's state, M complex numbers of the diagonal one, R rows.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from recollect.ops.h3.power_sums import Pair, power_sums, times
from recollect.ops.layout import at_positions
from recollect.ops.linear import linear
from recollect.ops.long_conv import long_conv

Affine = tuple[Tensor, Tensor]  # weight and bias of a layer


class Shift(NamedTuple):
    """The parameters of the shift state space, with its direct path."""

    b_PDN: Tensor
    c_PDN: Tensor
    skip_PD: Tensor


class Diagonal(NamedTuple):
    """Parameters of the diagonal state space, with its direct path; complex numbers are pairs."""

    a_PHM: Tensor
    omega_PHM: Tensor
    b_PHM2: Tensor
    c_PHM2: Tensor
    log_dt_PH: Tensor
    skip_PH: Tensor


def shift_filter(shift: Shift, length: int) -> Tensor:
    """Return s as (P, D, L): the correlation of B and C, computed as the product of a conjugate
    spectrum with a spectrum.
    """
    state = shift.b_PDN.shape[2]
    b, c = (torch.fft.rfft(values_PDN, 2 * state) for values_PDN in (shift.b_PDN, shift.c_PDN))
    spectrum = torch.complex(*times((b.real, -b.imag), (c.real, c.imag)))
    filter_PDN = torch.fft.irfft(spectrum, 2 * state)[..., :state]
    return F.pad(filter_PDN, (0, length - state))


def discretise(diagonal: Diagonal) -> tuple[Pair, Pair]:
    """Return Ad and Bd by the bilinear rule, (P, H, M)."""
    dt_PH1 = diagonal.log_dt_PH.exp()[..., None]
    real, imag = -diagonal.a_PHM.exp() * dt_PH1 / 2, diagonal.omega_PHM * dt_PH1 / 2
    size = (1 - real).square() + imag.square()
    inverse = (1 - real) / size, imag / size  # 1 / (1 - dt A / 2)
    real_b, imag_b = diagonal.b_PHM2.unbind(-1)
    return times((1 + real, imag), inverse), times((real_b * dt_PH1, imag_b * dt_PH1), inverse)


def diagonal_filter(diagonal: Diagonal, length: int) -> Tensor:
    """Return K as (P, H, L)."""
    ad_PHM, bd_PHM = discretise(diagonal)
    real_c, imag_c = diagonal.c_PHM2.unbind(-1)
    return power_sums(times((2 * real_c, 2 * imag_c), bd_PHM), ad_PHM, length)


def shift_keys(k_PBLD: Tensor, shift: Shift) -> Tensor:
    """Return k~, (P, B, L, D)."""
    return torch.addcmul(
        long_conv(k_PBLD, shift_filter(shift, k_PBLD.shape[2])),
        k_PBLD,
        shift.skip_PD[:, None, None],
    )


def h3(
    x_PBLD: Tensor,
    qkv: tuple[Affine, Affine, Affine],
    shift: Shift,
    diagonal: Diagonal,
    out: Affine,
    where_BK: Tensor | None = None,
) -> Tensor:
    query, key, value = qkv
    parts = (
        linear(x_PBLD, *query),
        shift_keys(linear(x_PBLD, *key), shift),
        linear(x_PBLD, *value),
    )
    heads = diagonal.skip_PH.shape[1]
    q_PBILH, k_PBILH, v_PBELH = (
        y_PBLD.unflatten(-1, (heads, -1)).permute(0, 1, 4, 2, 3) for y_PBLD in parts
    )
    products_PBIELH = k_PBILH[:, :, :, None] * v_PBELH[:, :, None]
    # To the convolution, every entry of the outer product is a row.
    rows_PRLH = products_PBIELH.flatten(1, 3)
    mixed_PRLH = torch.addcmul(
        long_conv(rows_PRLH, diagonal_filter(diagonal, x_PBLD.shape[2])),
        rows_PRLH,
        diagonal.skip_PH[:, None, None],
    )
    y_PBELH = (q_PBILH[:, :, :, None] * mixed_PRLH.view_as(products_PBIELH)).sum(2)
    y_PBLD = y_PBELH.permute(0, 1, 3, 4, 2).flatten(3)
    return linear(y_PBLD if where_BK is None else at_positions(y_PBLD, where_BK), *out)
