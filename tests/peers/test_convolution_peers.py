"""Long convolutions, and the state spaces of H3 that make some, against SciPy, in float64."""

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import torch
from zoo import Case, inputs, spread

from recollect.ops.long_conv import by_fft, by_toeplitz, toeplitz

DOUBLE, ROWS, MEMBERS = torch.float64, 3, 2
EXACT = 1e-12
both_ways = pytest.mark.parametrize("conv", [by_toeplitz, by_fft])
every_length = pytest.mark.parametrize("length", [1, 37, 150])


# ---- the long convolution ----


@both_ways
@every_length
def test_long_convolutions_are_scipys(agree, conv, length):
    u_PBLD = inputs(MEMBERS, ROWS, length, 5, dtype=DOUBLE).requires_grad_()
    filter_PDL = inputs(MEMBERS, 5, length, dtype=DOUBLE, seed=2).requires_grad_()
    y_PBLD, outer_PBLD = (
        conv(u_PBLD, filter_PDL),
        inputs(MEMBERS, ROWS, length, 5, dtype=DOUBLE, seed=3),
    )
    gradients = torch.autograd.grad((y_PBLD * outer_PBLD).sum(), (u_PBLD, filter_PDL))
    u, f, dy = (
        value.detach().numpy()
        for value in (u_PBLD.transpose(2, 3), filter_PDL[:, None], outer_PBLD.transpose(2, 3))
    )

    def convolve(one, other):
        return scipy.signal.fftconvolve(one, np.broadcast_to(other, one.shape), axes=-1)[
            ..., :length
        ]

    # Both gradients are correlations: convolutions backwards in time.
    du, df = convolve(dy[..., ::-1], f)[..., ::-1], convolve(dy[..., ::-1], u)[..., ::-1].sum(1)
    against = "SciPy fftconvolve, float64"
    agree(
        "long_conv",
        against,
        [y_PBLD.detach()],
        [torch.from_numpy(convolve(u, f)).transpose(2, 3)],
        EXACT,
    )
    wanted = [torch.from_numpy(du.copy()).transpose(2, 3), torch.from_numpy(df.copy())]
    agree("long_conv", against, gradients, wanted, EXACT, kind="gradients")


@every_length
def test_the_matrix_is_scipys(agree, length):
    filter_PDL = inputs(1, 3, length, dtype=DOUBLE)
    matrices = [scipy.linalg.toeplitz(taps, np.zeros(length)) for taps in filter_PDL[0].numpy()]
    agree(
        "long_conv",
        "SciPy toeplitz, float64",
        [toeplitz(filter_PDL)[0]],
        [torch.from_numpy(np.stack(matrices))],
        EXACT,
    )


# ---- the state spaces of H3 ----


def impulse_response(a: np.ndarray, b: np.ndarray, c: np.ndarray, length: int) -> np.ndarray:
    """Of x_t = A x_{t-1} + B u_t, y_t = C x_t.

    SciPy's systems read a state before its input, so theirs is one step late.
    """
    _, (response,) = scipy.signal.dimpulse(
        (a, b[:, None], c[None], np.zeros((1, 1)), 1), n=length + 1
    )
    return response[1:, 0]


@pytest.mark.parametrize(("state", "length"), [(8, 37), (64, 37), (64, 150), (2, 1)])
def test_the_diagonal_kernel_of_h3_is_scipys_impulse_response(agree, state, length):
    mixer = spread(
        Case("h3", {"state": state}).build(population=1, width=8, length=length, dtype=DOUBLE)
    ).requires_grad_(False)
    wanted = []
    for h in range(mixer.heads):
        rates, turns = -mixer.a_PHM[0, h].exp().numpy(), mixer.omega_PHM[0, h].numpy()
        (real_b, imag_b), (real_c, imag_c) = (
            mixer.b_PHM2[0, h].T.numpy(),
            mixer.c_PHM2[0, h].T.numpy(),
        )
        # A complex number as a rotation of its real and imaginary part.
        a = scipy.linalg.block_diag(
            *([[rate, -turn], [turn, rate]] for rate, turn in zip(rates, turns, strict=True))
        )
        b = np.stack((real_b, imag_b), axis=1).ravel()
        c = 2 * np.stack((real_c, -imag_c), axis=1).ravel()
        continuous = (a, b[:, None], c[None], np.zeros((1, 1)))
        discrete_a, discrete_b, *_ = scipy.signal.cont2discrete(
            continuous, mixer.log_dt_PH[0, h].exp().item(), method="bilinear"
        )
        wanted.append(impulse_response(discrete_a, discrete_b[:, 0], c, length))
    found = mixer._diagonal_kernel(length)[0]
    agree(
        "h3",
        "SciPy cont2discrete + dimpulse (diagonal), float64",
        [found],
        [torch.from_numpy(np.stack(wanted))],
        EXACT,
    )


@pytest.mark.parametrize(("state", "length"), [(8, 37), (64, 37), (150, 150)])
def test_the_shift_kernel_of_h3_is_scipys_impulse_response(agree, state, length):
    mixer = spread(
        Case("h3", {"state": state}).build(population=1, width=6, length=length, dtype=DOUBLE)
    ).requires_grad_(False)
    register = np.eye(state, k=-1)
    wanted = [
        impulse_response(register, b, c, length)
        for b, c in zip(mixer.shift_b_PDN[0].numpy(), mixer.shift_c_PDN[0].numpy(), strict=True)
    ]
    found = mixer._shift_kernel(length)[0]
    agree(
        "h3",
        "SciPy dimpulse (shift), float64",
        [found],
        [torch.from_numpy(np.stack(wanted))],
        EXACT,
    )
