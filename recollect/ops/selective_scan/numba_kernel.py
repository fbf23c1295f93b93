"""Mamba's scan on a CPU in float32, with the softplus before it and the direct path after it, as
loops that numba compiles when this module is imported, once per machine.

Shapes: P population, B batch, L length, E channels, N state, K chunks, T steps of one chunk, R
blocks of rows.

Plain PyTorch passes over memory once per operation and allocates new memory each time; here a row
of one member stays in the cache from its inputs to its outputs. As in plain.py, the backward pass
keeps the states at chunk borders and computes those inside a chunk again. (The short convolution
and the gate are not written in this way: it would save only 5 % of a step of Mamba.)

No bit depends on P, a member's place or the number of threads: a thread takes whole rows, and sums
over rows are made in blocks of ROWS rows, whose sums are added in order. Channels are the last axis
of every loop, so that the compiler vectorises over them.
"""

import math
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numba
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# Steps of a chunk: its states and decays, 2 x 128 KB at 128 channels, stay in a second-level cache.
CHUNK = 16
ROWS = 16  # in one unit of work
Array = NDArray[np.float32]


def scan(
    u_PBLE: Tensor, raw_PBLE: Tensor, a_PEN: Tensor, b_PBLN: Tensor, c_PBLN: Tensor, skip_PE: Tensor
) -> Tensor:
    """Return selective_scan(u, softplus(raw), a, b, c) + skip u, for a <= 0."""
    y_PBLE: Tensor = _Scan.apply(u_PBLE, raw_PBLE, a_PEN, b_PBLN, c_PBLN, skip_PE)
    return y_PBLE


class _Scan(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, u: Tensor, raw: Tensor, a: Tensor, b: Tensor, c: Tensor, skip: Tensor
    ) -> Tensor:
        population, batch, length, channels = u.shape
        u, raw, skip = u.contiguous(), raw.contiguous(), skip.contiguous()
        rates_PNE = (a.transpose(1, 2) * float(LOG2_E)).contiguous()
        y_PBLE = torch.empty_like(u)
        borders_PBKNE = u.new_empty(population, batch, -(-length // CHUNK), a.shape[2], channels)
        _share(_forward_rows, (u, raw, rates_PNE, b, c, skip, y_PBLE, borders_PBKNE), _blocks(u))
        ctx.save_for_backward(u, raw, rates_PNE, b, c, skip, borders_PBKNE)
        return y_PBLE

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        u, raw, rates_PNE, b, c, *_ = ctx.saved_tensors
        du, draw, db, dc = (x.new_empty(x.shape) for x in (u, raw, b, c))
        blocks = -(-u.shape[1] // ROWS)
        da_PRNE = u.new_empty(u.shape[0], blocks, *rates_PNE.shape[1:])
        dskip_PRE = u.new_empty(u.shape[0], blocks, u.shape[3])
        outputs = (du, draw, db, dc, da_PRNE, dskip_PRE)
        _share(
            _backward_rows,
            (grads[0].contiguous(), *ctx.saved_tensors, *outputs),
            _blocks(u),
        )
        return du, draw, _added(da_PRNE).transpose(1, 2), db, dc, _added(dskip_PRE)


def _blocks(x_PBLE: Tensor) -> int:
    return x_PBLE.shape[0] * -(-x_PBLE.shape[1] // ROWS)


def _added(parts_PR: Tensor) -> Tensor:
    """Return the sum over blocks of rows, added in order."""
    first, *others = parts_PR.unbind(1)
    total = first.clone()
    for part in others:
        total += part
    return total


def _share(work: Callable[..., None], arguments: tuple[Tensor, ...], count: int) -> None:
    """Run `work` in as many threads as PyTorch has, on a part of the blocks each; this thread takes
    the first part.
    """
    arrays = [argument.detach().numpy() for argument in arguments]
    threads = min(torch.get_num_threads(), count)
    borders = [count * i // threads for i in range(threads + 1)]
    own, *parts = pairwise(borders)
    others = [threading.Thread(target=work, args=(*arrays, *part)) for part in parts]
    for thread in others:
        thread.start()
    work(*arrays, *own)
    for thread in others:
        thread.join()


# ---- compilation ----


def _compiled(
    signature: str, sums: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Compile a function, once per machine if there is a place to store the result.

    `sums` allows its sums to be vectorised.
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


# ---- functions of one number; NaN stays NaN ----

ZERO, ONE, TWO = np.float32(0), np.float32(1), np.float32(2)
LOG2_E, LN_2 = np.float32(1 / math.log(2)), np.float32(math.log(2))
LN_2_HIGH, LN_2_LOW = np.float32(0.693359375), np.float32(math.log(2) - 0.693359375)
# Adding this to a small number leaves the nearest integer in the lowest bits.
TO_INTEGER = np.float32(3 * 2**22)
LOWEST, LOWEST_LOG = np.float32(-127), np.float32(-88.02969)  # 2^-127 becomes 0
EXPONENT, EXPONENT_OF_ONE = np.int32(23), np.int32(127 << 23)
# 2^r for |r| <= 1/2, relative error 9e-8; atanh(w) / w as powers of w^2 for w <= 1/3, relative
# error 5e-9.
E1, E2, E3, E4, E5 = (
    np.float32(x) for x in (0.69314698, 0.24022242, 0.05550734, 0.00967151, 0.00132647)
)
A1, A2, A3, A4 = (np.float32(x) for x in (0.33333208, 0.20010764, 0.14000902, 0.14005997))

# Sums must not be reordered: adding and subtracting TO_INTEGER would cancel.
_inlined = numba.njit(fastmath={"contract"})


@_inlined
def _two_to(shifted: Any, r: Any) -> Any:
    """Return 2^(n + r) with n = shifted - TO_INTEGER."""
    power = ONE + r * (E1 + r * (E2 + r * (E3 + r * (E4 + r * E5))))
    return power * np.int32(
        (np.float32(shifted).view(np.int32) << EXPONENT) + EXPONENT_OF_ONE
    ).view(np.float32)


@_inlined
def _exp2(x: Any) -> Any:
    """Return 2^x for x <= 0."""
    x = LOWEST if x < LOWEST else x
    shifted = x + TO_INTEGER
    return _two_to(shifted, x - (shifted - TO_INTEGER))


@_inlined
def _exp_below(x: Any) -> Any:
    """Return exp(-|x|), which never overflows."""
    x = -abs(x)
    x = LOWEST_LOG if x < LOWEST_LOG else x
    shifted = x * LOG2_E + TO_INTEGER
    n = shifted - TO_INTEGER
    return _two_to(shifted, ((x - n * LN_2_HIGH) - n * LN_2_LOW) * LOG2_E)


@_inlined
def _softplus(x: Any) -> Any:
    """Return max(x, 0) + log(1 + e) with e = exp(-|x|), and log(1 + e) = 2 atanh(e / (2 + e))."""
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
    "void(f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],f4[:,:,:,:],f4[:,:,:,:],f4[:,::1],"
    "f4[:,:,:,::1],f4[:,:,:,:,::1],i8,i8)"
)
def _forward_rows(
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
    """Compute y, and the states before each chunk."""
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
    "void(f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],f4[:,:,:,:],f4[:,:,:,:],"
    "f4[:,::1],f4[:,:,:,:,::1],"
    "f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,:,::1],f4[:,:,::1],i8,i8)",
    sums=True,
)
def _backward_rows(
    dy: Array,
    u: Array,
    raw: Array,
    rates: Array,
    b: Array,
    c: Array,
    skip: Array,
    borders: Array,
    du: Array,
    draw: Array,
    db: Array,
    dc: Array,
    da: Array,
    dskip: Array,
    first: int,
    last: int,
) -> None:
    """Compute all gradients from dy; for A and the direct path, a partial sum per block."""
    _, batch, length, channels = u.shape
    state = rates.shape[1]
    blocks = (batch + ROWS - 1) // ROWS
    g_NE = np.empty((state, channels), np.float32)  # a_{t+1} g_{t+1}, carried backwards in time
    # One state more than steps: the state before the chunk.
    states_TNE = np.empty((CHUNK + 1, state, channels), np.float32)
    decays_TNE = np.empty((CHUNK, state, channels), np.float32)
    delta_TE = np.empty((CHUNK, channels), np.float32)
    input_TE = np.empty((CHUNK, channels), np.float32)
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
