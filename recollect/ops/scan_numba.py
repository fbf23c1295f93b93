"""The loops of scan_cpu.py, compiled by numba when this module is imported, once per machine.

Shapes: P population, B batch, L length, E channels, N state, T steps of one chunk.

Channels are the last axis of every loop, so that the compiler makes vectors of them. A function
works on the blocks of ROWS rows from `first` up to `last`, counted over all members, and adds up
over the rows of one block alone.
"""

import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

CHUNK = (
    16  # states and decays of one chunk, 2 x 128 KB at 128 channels, stay in a second-level cache
)
ROWS = 16  # of one share of work
Array = NDArray[np.float32]


def _compiled(
    signature: str, sums: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compile a function, once per machine where there is a place to keep the result.

    `sums`: they may be made vectors.
    """

    def compiled(function: Callable[..., None]) -> Callable[..., None]:
        fastmath = {"contract", "reassoc"} if sums else {"contract"}
        options: dict[str, Any] = {
            "fastmath": fastmath,
            "nogil": True,
            "error_model": "numpy",
            "boundscheck": False,
        }
        try:
            return numba.njit(signature, cache=True, **options)(function)
        except (RuntimeError, OSError):  # no directory to write to
            return numba.njit(signature, **options)(function)

    return compiled


# ---- functions of one number; a NaN stays one ----

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))
LN_2_HIGH, LN_2_LOW = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
TO_INTEGER = np.float32(
    3 * 2**22
)  # added to a small number, it leaves the nearest integer in the lowest bits
LOWEST, LOWEST_LOG = np.float32(-127), np.float32(-88.02969)  # 2^-127 comes out as 0
EXPONENT, EXPONENT_OF_ONE = np.int32(23), np.int32(127 << 23)
# 2^r for |r| <= 1/2, relative error 9e-8; atanh(w) / w as powers of w^2 for w <= 1/3, relative
# error 5e-9.
E1, E2, E3, E4, E5 = (
    np.float32(x) for x in (0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
)
A1, A2, A3, A4 = (np.float32(x) for x in (0.33333208, 0.20010764, 0.14000902, 0.14005997))

# Sums as they are written: reordered, adding and subtracting TO_INTEGER would cancel.
_inlined = numba.njit(fastmath={"contract"})


@_inlined
def _two_to(shifted: Any, r: Any) -> Any:
    """2^(n + r) with n = shifted - TO_INTEGER."""
    power = ONE + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5))))
    return power * np.int32(
        (np.float32(shifted).view(np.int32) << EXPONENT) + EXPONENT_OF_ONE
    ).view(np.float32)


@_inlined
def _exp2(x: Any) -> Any:
    """2^x for x <= 0."""
    x = LOWEST if x < LOWEST else x
    shifted = x + TO_INTEGER
    return _two_to(shifted, x - (shifted - TO_INTEGER))


@_inlined
def _exp_below(x: Any) -> Any:
    """exp(-|x|), which never overflows."""
    x = -abs(x)
    x = LOWEST_LOG if x < LOWEST_LOG else x
    shifted = x * LOG2_E + TO_INTEGER
    n = shifted - TO_INTEGER
    return _two_to(shifted, ((x - n * LN_2_HIGH) - n * LN_2_LOW) * LOG2_E)


@_inlined
def _softplus(x: Any) -> Any:
    """max(x, 0) + log(1 + e) with e = exp(-|x|), and log(1 + e) = 2 atanh(e / (2 + e))."""
    e = _exp_below(x)
    w = e / (TWO + e)
    s = w * w
    rest = TWO * w * (ONE + s * (A1 + s * (A2 + s * (A3 + s * A4))))
    return rest if x < ZERO else x + rest


@_inlined
def _sigmoid(x: Any) -> Any:
    e = _exp_below(x)
    return (e if x < ZERO else ONE) / (ONE + e)


# ---- the scan; rates_NE are A in powers of two ----


@_compiled(
    "void(f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],f4[:,:,:,:],f4[:,:,:,:],f4[:,::1],f4[:,:,:,::1],f4[:,:,:,:,::1],i8,i8)"
)
def scan_rows(
    u: Array,
    raw: Array,
    rates: Array,
    b: Array,
    c: Array,
    skip: Array,
    y: Array,
    borders: Array,
    first: int,
    last: int,
) -> None:
    """y, and the states before each chunk."""
    _, batch, length, channels = u.shape
    state = rates.shape[1]
    blocks = (batch + ROWS - 1) // ROWS
    h_NE = np.empty((state, channels), np.float32)
    delta_E, input_E = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for block in range(first, last):
        member, start = block // blocks, block % blocks * ROWS
        rates_NE, skip_E = rates[member], skip[member]
        for row in range(start, min(batch, start + ROWS)):
            for n in range(state):
                for e in range(channels):
                    h_NE[n, e] = ZERO
            for t in range(length):
                if t % CHUNK == 0:
                    border_NE = borders[member, row, t // CHUNK]
                    for n in range(state):
                        for e in range(channels):
                            border_NE[n, e] = h_NE[n, e]
                u_E, raw_E, y_E = u[member, row, t], raw[member, row, t], y[member, row, t]
                for e in range(channels):
                    delta_E[e] = _softplus(raw_E[e])
                    input_E[e] = delta_E[e] * u_E[e]
                    y_E[e] = skip_E[e] * u_E[e]
                for n in range(state):
                    b_tn, c_tn, rate_E, h_E = (
                        b[member, row, t, n],
                        c[member, row, t, n],
                        rates_NE[n],
                        h_NE[n],
                    )
                    for e in range(channels):
                        h = _exp2(delta_E[e] * rate_E[e]) * h_E[e] + input_E[e] * b_tn
                        h_E[e] = h
                        y_E[e] += h * c_tn


@_compiled(
    "void(f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],f4[:,:,:,:],f4[:,:,:,:],f4[:,::1],f4[:,:,:,:,::1],"
    "f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],i8,i8)",
    sums=True,
)
def scan_rows_backward(
    dy: Array, u: Array, raw: Array, rates: Array, b: Array, c: Array, skip: Array, borders: Array,
    du: Array, draw: Array, db: Array, dc: Array, da: Array, dskip: Array, first: int, last: int,
) -> None:  # fmt: skip
    """From dy all gradients; of A and the direct path one share per block."""
    _, batch, length, channels = u.shape
    state = rates.shape[1]
    blocks = (batch + ROWS - 1) // ROWS
    g_NE = np.empty((state, channels), np.float32)  # a_{t+1} g_{t+1}, carried backwards in time
    states_TNE = np.empty(
        (CHUNK + 1, state, channels), np.float32
    )  # one more: that before the chunk
    decays_TNE = np.empty((CHUNK, state, channels), np.float32)
    delta_TE, input_TE = (
        np.empty((CHUNK, channels), np.float32),
        np.empty((CHUNK, channels), np.float32),
    )
    dinput_E, dlog_E = np.empty(channels, np.float32), np.empty(channels, np.float32)
    for block in range(first, last):
        member, start = block // blocks, block % blocks * ROWS
        rates_NE, skip_E, da_NE, dskip_E = (
            rates[member],
            skip[member],
            da[member, block % blocks],
            dskip[member, block % blocks],
        )
        for n in range(state):
            for e in range(channels):
                da_NE[n, e] = ZERO
        for e in range(channels):
            dskip_E[e] = ZERO
        for row in range(start, min(batch, start + ROWS)):
            for n in range(state):
                for e in range(channels):
                    g_NE[n, e] = ZERO
            for k in range(borders.shape[2] - 1, -1, -1):
                steps, border_NE = min(CHUNK, length - k * CHUNK), borders[member, row, k]
                for n in range(state):
                    for e in range(channels):
                        states_TNE[0, n, e] = border_NE[n, e]
                for i in range(steps):
                    t = k * CHUNK + i
                    u_E, raw_E, delta_E, input_E = (
                        u[member, row, t],
                        raw[member, row, t],
                        delta_TE[i],
                        input_TE[i],
                    )
                    for e in range(channels):
                        delta_E[e] = _softplus(raw_E[e])
                        input_E[e] = delta_E[e] * u_E[e]
                    for n in range(state):
                        b_tn, rate_E, decay_E = b[member, row, t, n], rates_NE[n], decays_TNE[i, n]
                        before_E, after_E = states_TNE[i, n], states_TNE[i + 1, n]
                        for e in range(channels):
                            decay = _exp2(delta_E[e] * rate_E[e])
                            decay_E[e] = decay
                            after_E[e] = decay * before_E[e] + input_E[e] * b_tn
                for i in range(steps - 1, -1, -1):
                    t = k * CHUNK + i
                    dy_E, u_E, raw_E, delta_E, input_E = (
                        dy[member, row, t],
                        u[member, row, t],
                        raw[member, row, t],
                        delta_TE[i],
                        input_TE[i],
                    )
                    for e in range(channels):
                        dinput_E[e] = ZERO
                        dlog_E[e] = ZERO
                    for n in range(state):
                        b_tn, c_tn, rate_E, decay_E = (
                            b[member, row, t, n],
                            c[member, row, t, n],
                            rates_NE[n],
                            decays_TNE[i, n],
                        )
                        before_E, after_E, g_E, da_E = (
                            states_TNE[i, n],
                            states_TNE[i + 1, n],
                            g_NE[n],
                            da_NE[n],
                        )
                        db_tn, dc_tn = ZERO, ZERO
                        for e in range(channels):
                            g = g_E[e] + dy_E[e] * c_tn
                            dc_tn += after_E[e] * dy_E[e]
                            db_tn += g * input_E[e]
                            dinput_E[e] += g * b_tn
                            g *= decay_E[e]
                            g_E[e] = g
                            dlog = g * before_E[e]  # the gradient of delta_t A
                            dlog_E[e] += dlog * rate_E[e]
                            da_E[e] += dlog * delta_E[e]
                        db[member, row, t, n] = db_tn
                        dc[member, row, t, n] = dc_tn
                    du_E, draw_E = du[member, row, t], draw[member, row, t]
                    for e in range(channels):
                        du_E[e] = dinput_E[e] * delta_E[e] + dy_E[e] * skip_E[e]
                        draw_E[e] = (dinput_E[e] * u_E[e] + dlog_E[e] * LN_2) * _sigmoid(raw_E[e])
                        dskip_E[e] += dy_E[e] * u_E[e]
