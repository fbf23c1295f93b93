"""The filters of H3's two state spaces,
each computed and differentiated by one kernel instead of a hundred tiny operations.

    diagonal:   u = dt (-exp(a) + i omega) / 2    Ad = (1 + u) / (1 - u)    w = 2 C B dt / (1 - u)
                K[t] = sum_n Re(w_n Ad_n^t), plus skip at t = 0
    shift:      s[t] = sum_j B[j] C[j + t] for t < N, plus skip at t = 0

With the gradient of a complex number z as dL/dRe z + i dL/dIm z, a holomorphic f passes on
conj(f'(z)) times its gradient; and with g the gradient of K: gradient of w: sum_t g_t conj(Ad^t),
of Ad: conj(w sum_t t g_t Ad^(t-1)). A power is computed from the bits of its exponent, so no
logarithm is taken and nothing is divided by Ad. Everything is float32.

Shapes: P population, H heads, M complex numbers, D channels, N size of the shift's state, L length;
in a kernel T lags, G complex numbers and S entries of a state in a tile.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

LAGS, NUMBERS = 64, 16  # a tile of powers is 8 complex numbers for each thread of four warps


def diagonal_filter(
    a_PHM: Tensor,
    omega_PHM: Tensor,
    b_PHM2: Tensor,
    c_PHM2: Tensor,
    log_dt_PH: Tensor,
    skip_PH: Tensor,
    length: int,
) -> Tensor:
    """Return K as (P, H, L); differentiable in all tensors."""
    return _Diagonal.apply(a_PHM, omega_PHM, b_PHM2, c_PHM2, log_dt_PH, skip_PH, length)


def shift_filter(b_PDN: Tensor, c_PDN: Tensor, skip_PD: Tensor, length: int) -> Tensor:
    """Return s as (P, D, L); differentiable in all tensors."""
    return _Shift.apply(b_PDN, c_PDN, skip_PD, length)


class _Diagonal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Any) -> Tensor:
        *tensors, length = inputs
        tensors = [tensor.contiguous() for tensor in tensors]
        ctx.save_for_backward(*tensors)
        population, heads, numbers = tensors[0].shape
        filter_PHL = torch.empty(
            population, heads, length, device=tensors[0].device, dtype=torch.float32
        )
        grid = (population * heads * triton.cdiv(length, LAGS),)
        _diagonal[grid](*tensors, filter_PHL, numbers, length, **_constants(length))
        return filter_PHL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g_PHL = grads[0].contiguous()
        *tensors, _ = ctx.saved_tensors
        population, heads, numbers = tensors[0].shape
        da, domega, db, dc = (torch.empty_like(tensor) for tensor in tensors[:4])
        dlog_dt_PHM = torch.empty_like(da)
        length = g_PHL.shape[2]
        grid = (population * heads * triton.cdiv(numbers, NUMBERS),)
        _diagonal_backward[grid](
            *tensors, g_PHL, da, domega, db, dc, dlog_dt_PHM, numbers, length, **_constants(length)
        )
        return da, domega, db, dc, dlog_dt_PHM.sum(2), g_PHL[:, :, 0].contiguous(), None


def _constants(length: int) -> dict[str, int]:
    return {"BITS": max(1, (length - 1).bit_length()), "T": LAGS, "G": NUMBERS, "num_warps": 4}


class _Shift(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, b: Tensor, c: Tensor, skip: Tensor, length: int) -> Tensor:
        b, c, skip = b.contiguous(), c.contiguous(), skip.contiguous()
        ctx.save_for_backward(b, c)
        return _correlate(b, c, length, skip)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g_PDL = grads[0].contiguous()
        b, c = ctx.saved_tensors
        size = b.shape[2]
        return (
            _correlate(g_PDL, c, size),
            _correlate(g_PDL, b, size, back=True),
            g_PDL[:, :, 0].contiguous(),
            None,
        )


def _correlate(
    x_PDX: Tensor, y_PDN: Tensor, outputs: int, skip_PD: Tensor | None = None, back: bool = False
) -> Tensor:
    """Return out[t] = sum_j x[j] y[j + t], or y[t - j] if `back`; x and y are 0 outside."""
    population, channels, terms = x_PDX.shape
    size = y_PDN.shape[2]
    out_PDO = torch.empty(population, channels, outputs, device=x_PDX.device, dtype=torch.float32)
    grid = (population * channels * triton.cdiv(outputs, LAGS),)
    _correlation[grid](
        x_PDX,
        y_PDN,
        skip_PD,
        out_PDO,
        terms,
        size,
        outputs,
        BACK=back,
        T=LAGS,
        S=NUMBERS,
        num_warps=4,
    )
    return out_PDO


@triton.jit
def _correlation(
    x_ptr, y_ptr, skip_ptr, out_ptr, terms, size, outputs,
    BACK: tl.constexpr, T: tl.constexpr, S: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(outputs, T)
    index = (tl.program_id(0) // blocks).to(tl.int64)
    t = (tl.program_id(0) % blocks) * T + tl.arange(0, T)
    total = tl.zeros([T, S], dtype=tl.float32)
    for start in range(0, tl.minimum(terms, size), S):
        j = start + tl.arange(0, S)
        place = t[:, None] - j[None, :] if BACK else t[:, None] + j[None, :]
        x = tl.load(x_ptr + index * terms + j, mask=j < terms, other=0.0)
        y = tl.load(y_ptr + index * size + place, mask=(place >= 0) & (place < size), other=0.0)
        total += x[None, :] * y
    out = tl.sum(total, axis=1)
    if skip_ptr is not None:
        out += tl.where(t == 0, tl.load(skip_ptr + index), 0.0)
    tl.store(out_ptr + index * outputs + t, out, mask=t < outputs)


@triton.jit
def _times(real, imag, other_real, other_imag):
    return real * other_real - imag * other_imag, real * other_imag + imag * other_real


@triton.jit
def _times_conjugate(real, imag, other_real, other_imag):
    """Return the first number times the conjugate of the second."""
    return real * other_real + imag * other_imag, imag * other_real - real * other_imag


@triton.jit
def _discrete(a_ptr, omega_ptr, log_dt_ptr, index, number, numbers):
    """Return dt, A, 1 / (1 - u) and Ad of some complex numbers of a head."""
    inside = number < numbers
    dt = tl.exp(tl.load(log_dt_ptr + index))
    real = -tl.exp(tl.load(a_ptr + index * numbers + number, mask=inside, other=0.0))
    imag = tl.load(omega_ptr + index * numbers + number, mask=inside, other=0.0)
    u_real, u_imag = real * dt / 2, imag * dt / 2
    size = (1 - u_real) * (1 - u_real) + u_imag * u_imag
    inverse_real, inverse_imag = (1 - u_real) / size, u_imag / size
    ad_real, ad_imag = _times(1 + u_real, u_imag, inverse_real, inverse_imag)
    return dt, real, imag, inverse_real, inverse_imag, ad_real, ad_imag


@triton.jit
def _pair(pointer, index, number, numbers):
    place, inside = pointer + (index * numbers + number) * 2, number < numbers
    return tl.load(place, mask=inside, other=0.0), tl.load(place + 1, mask=inside, other=0.0)


@triton.jit
def _powers(real, imag, exponent, BITS: tl.constexpr, T: tl.constexpr, G: tl.constexpr):
    """Raise each of G numbers to each of T exponents."""
    power_real, power_imag = (
        tl.full([T, G], 1.0, dtype=tl.float32),
        tl.zeros([T, G], dtype=tl.float32),
    )
    for bit in tl.static_range(BITS):
        taken = ((exponent >> bit) & 1)[:, None] == 1
        more_real, more_imag = _times(power_real, power_imag, real[None, :], imag[None, :])
        power_real, power_imag = (
            tl.where(taken, more_real, power_real),
            tl.where(taken, more_imag, power_imag),
        )
        real, imag = _times(real, imag, real, imag)
    return power_real, power_imag


@triton.jit
def _diagonal(
    a_ptr, omega_ptr, b_ptr, c_ptr, log_dt_ptr, skip_ptr, filter_ptr, numbers, length,
    BITS: tl.constexpr, T: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(length, T)
    index = (tl.program_id(0) // blocks).to(tl.int64)
    t = (tl.program_id(0) % blocks) * T + tl.arange(0, T)
    total = tl.zeros([T, G], dtype=tl.float32)
    for start in range(0, numbers, G):
        number = start + tl.arange(0, G)
        dt, _, _, inverse_real, inverse_imag, ad_real, ad_imag = _discrete(
            a_ptr, omega_ptr, log_dt_ptr, index, number, numbers
        )
        b_real, b_imag = _pair(b_ptr, index, number, numbers)
        # Zeros beyond the last number add nothing.
        c_real, c_imag = _pair(c_ptr, index, number, numbers)
        bd_real, bd_imag = _times(b_real * dt, b_imag * dt, inverse_real, inverse_imag)
        w_real, w_imag = _times(2 * c_real, 2 * c_imag, bd_real, bd_imag)
        power_real, power_imag = _powers(ad_real, ad_imag, t, BITS, T, G)
        total += w_real[None, :] * power_real - w_imag[None, :] * power_imag
    values = tl.sum(total, axis=1) + tl.where(t == 0, tl.load(skip_ptr + index), 0.0)
    tl.store(filter_ptr + index * length + t, values, mask=t < length)


@triton.jit
def _diagonal_backward(
    a_ptr, omega_ptr, b_ptr, c_ptr, log_dt_ptr, g_ptr, da_ptr, domega_ptr, db_ptr, dc_ptr,
    dlog_dt_ptr, numbers, length,
    BITS: tl.constexpr, T: tl.constexpr, G: tl.constexpr,
):  # fmt: skip
    blocks = tl.cdiv(numbers, G)
    index = (tl.program_id(0) // blocks).to(tl.int64)
    number = (tl.program_id(0) % blocks) * G + tl.arange(0, G)
    inside = number < numbers
    dt, real, imag, inverse_real, inverse_imag, ad_real, ad_imag = _discrete(
        a_ptr, omega_ptr, log_dt_ptr, index, number, numbers
    )
    b_real, b_imag = _pair(b_ptr, index, number, numbers)
    c_real, c_imag = _pair(c_ptr, index, number, numbers)
    bd_real, bd_imag = _times(b_real * dt, b_imag * dt, inverse_real, inverse_imag)
    w_real, w_imag = _times(2 * c_real, 2 * c_imag, bd_real, bd_imag)
    # sum_t g_t Ad^t from t = 1 on is Ad sum_t g_t Ad^(t-1).
    once_real, once_imag = tl.zeros([T, G], dtype=tl.float32), tl.zeros([T, G], dtype=tl.float32)
    often_real, often_imag = tl.zeros([T, G], dtype=tl.float32), tl.zeros([T, G], dtype=tl.float32)
    for start in range(1, length, T):
        t = start + tl.arange(0, T)
        g = tl.load(g_ptr + index * length + t, mask=t < length, other=0.0)[:, None]
        power_real, power_imag = _powers(ad_real, ad_imag, t - 1, BITS, T, G)
        once_real += g * power_real
        once_imag += g * power_imag
        often_real += g * t[:, None] * power_real
        often_imag += g * t[:, None] * power_imag
    sum_real, sum_imag = _times(
        ad_real, ad_imag, tl.sum(once_real, axis=0), tl.sum(once_imag, axis=0)
    )
    dw_real, dw_imag = sum_real + tl.load(g_ptr + index * length), -sum_imag
    dad_real, dad_imag = _times(
        w_real, w_imag, tl.sum(often_real, axis=0), tl.sum(often_imag, axis=0)
    )
    dad_imag = -dad_imag
    # w = 2 C Bd and Bd = B dt inverse
    dc_real, dc_imag = _times_conjugate(2 * dw_real, 2 * dw_imag, bd_real, bd_imag)
    dbd_real, dbd_imag = _times_conjugate(2 * dw_real, 2 * dw_imag, c_real, c_imag)
    scaled_real, scaled_imag = _times_conjugate(dbd_real, dbd_imag, inverse_real, inverse_imag)
    db_real, db_imag = dt * scaled_real, dt * scaled_imag
    ddt = scaled_real * b_real + scaled_imag * b_imag
    dinverse_real, dinverse_imag = _times_conjugate(dbd_real * dt, dbd_imag * dt, b_real, b_imag)
    # Ad = (1 + u) inverse and inverse = 1 / (1 - u), whose derivative is its square
    more_real, more_imag = _times_conjugate(dad_real, dad_imag, 1 + real * dt / 2, imag * dt / 2)
    square_real, square_imag = _times(inverse_real, inverse_imag, inverse_real, inverse_imag)
    du_real, du_imag = _times_conjugate(
        dinverse_real + more_real, dinverse_imag + more_imag, square_real, square_imag
    )
    more_real, more_imag = _times_conjugate(dad_real, dad_imag, inverse_real, inverse_imag)
    du_real, du_imag = du_real + more_real, du_imag + more_imag
    # u = dt A / 2 and A = -exp(a) + i omega
    ddt += (du_real * real + du_imag * imag) / 2
    place = index * numbers + number
    tl.store(da_ptr + place, du_real * dt / 2 * real, mask=inside)
    tl.store(domega_ptr + place, du_imag * dt / 2, mask=inside)
    tl.store(db_ptr + 2 * place, db_real, mask=inside)
    tl.store(db_ptr + 2 * place + 1, db_imag, mask=inside)
    tl.store(dc_ptr + 2 * place, dc_real, mask=inside)
    tl.store(dc_ptr + 2 * place + 1, dc_imag, mask=inside)
    tl.store(dlog_dt_ptr + place, ddt * dt, mask=inside)
