"""Hyena for tiles that hold whole sequences, in bfloat16: one kernel forward, two backward.
Equations and names are in triton_kernel.py.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.long_conv.triton_kernel import POSITIONS, ROWS, sum_diagonals

# Rows of one program. It computes the matrices of its channel once, and loads the next tile of rows
# while it works on the current one.
FORWARD_CHUNK = 256
CHUNK = 512  # a program's square of sums, 16 KB, is then 6 % of what it reads and writes
# A tile's product takes four warps; two programs fill a multiprocessor's registers.
WARPS, STAGES = 4, 2


def mix_whole(
    parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor
) -> tuple[Tensor, Tensor]:
    """Return y_PDBL, and u_PDBL for the backward."""
    population, channels, length = filter.shape
    batch = parts.shape[2]
    y_PDBL = parts.new_empty(population, channels, batch, length)
    u_PDBL = torch.empty_like(y_PDBL)
    grid = (population * channels * triton.cdiv(batch, FORWARD_CHUNK),)
    _forward[grid](
        parts, bias, taps, shift, filter, u_PDBL, y_PDBL, channels, batch, length,
        CHUNK=FORWARD_CHUNK, **_constants(taps),
    )  # fmt: skip
    return y_PDBL, u_PDBL


def mix_whole_back(
    parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor, u: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of parts and filter, and shares of the other gradients."""
    population, channels, batch, length = g.shape
    chunks = triton.cdiv(batch, CHUNK)
    sizes, constants = (channels, batch, length), {"CHUNK": CHUNK, **_constants(taps)}
    tensors, programs = (parts, bias, taps, shift), population * channels * chunks
    dparts, du = torch.empty_like(parts), torch.empty_like(u)
    squares = torch.empty(
        population * channels, 1, chunks, POSITIONS, POSITIONS, device=g.device, dtype=torch.float32
    )
    shares_PNSC = torch.empty(
        population, chunks, taps.shape[1] + 2, 3 * channels, device=g.device, dtype=torch.float32
    )
    _after_back[(programs,)](
        *tensors, filter, u, g, du, dparts, squares, shares_PNSC, *sizes, **constants
    )
    _before_back[(2 * programs,)](*tensors, du, dparts, shares_PNSC, *sizes, **constants)
    return dparts, sum_diagonals(squares, filter), shares_PNSC


def _constants(taps_PKC: Tensor) -> dict[str, Any]:
    return {
        "TAPS": taps_PKC.shape[1],
        "R": ROWS,
        "T": POSITIONS,
        "PRECISION": product_precision("ieee"),
        "num_warps": WARPS,
        "num_stages": STAGES,
    }


@triton.jit
def _band(taps_ptr, bias_ptr, shift_ptr, p, channel, channels, TAPS: tl.constexpr, T: tl.constexpr):
    """Return for one channel the matrix of its short convolution, from position to position, and
    what bias and shift add to its output.
    """
    lag = tl.arange(0, T)[None, :] - tl.arange(0, T)[:, None]
    band = tl.zeros([T, T], dtype=tl.float32)
    for k in range(TAPS):
        band += tl.where(
            lag == TAPS - 1 - k, tl.load(taps_ptr + (p * TAPS + k) * channels + channel), 0.0
        )
    reach = _reach(taps_ptr, p, channel, channels, TAPS, T)
    added = (
        tl.load(shift_ptr + p * channels + channel)
        + tl.load(bias_ptr + p * channels + channel) * reach
    )
    return band, added


@triton.jit
def _reach(taps_ptr, p, channel, channels, TAPS: tl.constexpr, T: tl.constexpr):
    """Return how much of the bias each position sees: the bias is added before the convolution, so
    the first positions see less of it.
    """
    reach = tl.zeros([T], dtype=tl.float32)
    for k in range(TAPS):
        tap = tl.load(taps_ptr + (p * TAPS + k) * channels + channel)
        reach += tl.where(tl.arange(0, T) >= TAPS - 1 - k, tap, 0.0)
    return reach


@triton.jit
def _toeplitz(filter_ptr, length, T: tl.constexpr):
    lag = tl.arange(0, T)[None, :] - tl.arange(0, T)[:, None]
    return tl.load(filter_ptr + lag, mask=(lag >= 0) & (lag < length), other=0.0)


@triton.jit
def _of(pointer, p, part, channel, channels, batch, length):
    """Return where a channel of part 0, 1 or 2 starts; p has 64 bits, within a channel 32
    suffice.
    """
    return pointer + ((p * 3 + part) * channels + channel) * batch * length


@triton.jit
def _forward(
    parts_ptr, bias_ptr, taps_ptr, shift_ptr, filter_ptr, u_ptr, y_ptr, channels, batch, length,
    CHUNK: tl.constexpr, TAPS: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute some rows of one channel."""
    chunks = tl.cdiv(batch, CHUNK)
    chunk = tl.program_id(0) % chunks
    index = (tl.program_id(0) // chunks).to(tl.int64)
    p, channel = index // channels, index % channels
    first_ptr = _of(parts_ptr, p, 0, channel, channels, batch, length)
    second_ptr = _of(parts_ptr, p, 1, channel, channels, batch, length)
    v_ptr = _of(parts_ptr, p, 2, channel, channels, batch, length)
    u_ptr += index * batch * length
    y_ptr += index * batch * length
    kind = parts_ptr.dtype.element_ty
    first_band, first_added = _band(
        taps_ptr, bias_ptr, shift_ptr, p, channel, 3 * channels, TAPS, T
    )
    second_band, second_added = _band(
        taps_ptr, bias_ptr, shift_ptr, p, channels + channel, 3 * channels, TAPS, T
    )
    v_band, v_added = _band(
        taps_ptr, bias_ptr, shift_ptr, p, 2 * channels + channel, 3 * channels, TAPS, T
    )
    first_band, second_band, v_band = first_band.to(kind), second_band.to(kind), v_band.to(kind)
    matrix = _toeplitz(filter_ptr + index * length, length, T).to(kind)
    position = tl.arange(0, T)
    for start in range(chunk * CHUNK, tl.minimum((chunk + 1) * CHUNK, batch), R):
        row = start + tl.arange(0, R)
        inside = (row < batch)[:, None] & (position < length)[None, :]
        place = row[:, None] * length + position[None, :]
        first = tl.load(first_ptr + place, mask=inside, other=0.0)
        v = tl.load(v_ptr + place, mask=inside, other=0.0)
        second = tl.load(second_ptr + place, mask=inside, other=0.0)
        z1 = tl.dot(first, first_band, input_precision=PRECISION) + first_added[None, :]
        zv = tl.dot(v, v_band, input_precision=PRECISION) + v_added[None, :]
        u = (z1 * zv).to(kind)
        tl.store(u_ptr + place, u, mask=inside)
        mixed = tl.dot(u, matrix, input_precision=PRECISION)
        z2 = tl.dot(second, second_band, input_precision=PRECISION) + second_added[None, :]
        tl.store(y_ptr + place, (mixed * z2).to(kind), mask=inside)


@triton.jit
def _after_back(
    parts_ptr, bias_ptr, taps_ptr, shift_ptr, filter_ptr, u_ptr, g_ptr, du_ptr, dparts_ptr,
    squares_ptr, shares_ptr,
    channels, batch, length,
    CHUNK: tl.constexpr, TAPS: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute du, the gradient of x2, and sums, for some rows of one channel.

    x, u and g are zero outside of the rows and of the sequence, and so are all products that are
    summed.
    """
    chunks = tl.cdiv(batch, CHUNK)
    chunk = tl.program_id(0) % chunks
    index = (tl.program_id(0) // chunks).to(tl.int64)
    p, channel = index // channels, index % channels
    x_ptr = _of(parts_ptr, p, 1, channel, channels, batch, length)
    dx_ptr = _of(dparts_ptr, p, 1, channel, channels, batch, length)
    u_ptr += index * batch * length
    g_ptr += index * batch * length
    du_ptr += index * batch * length
    kind = parts_ptr.dtype.element_ty
    band, added = _band(taps_ptr, bias_ptr, shift_ptr, p, channels + channel, 3 * channels, TAPS, T)
    band = band.to(kind)
    matrix = _toeplitz(filter_ptr + index * length, length, T).to(kind)
    position = tl.arange(0, T)
    square = tl.zeros([T, T], dtype=tl.float32)
    short_square, total = tl.zeros([T, T], dtype=tl.float32), tl.zeros([T], dtype=tl.float32)
    for start in range(chunk * CHUNK, tl.minimum((chunk + 1) * CHUNK, batch), R):
        row = start + tl.arange(0, R)
        inside = (row < batch)[:, None] & (position < length)[None, :]
        place = row[:, None] * length + position[None, :]
        x = tl.load(x_ptr + place, mask=inside, other=0.0)
        g = tl.load(g_ptr + place, mask=inside, other=0.0)
        u = tl.load(u_ptr + place, mask=inside, other=0.0)
        z = tl.dot(x, band, input_precision=PRECISION) + added[None, :]
        dmixed = (g.to(tl.float32) * z).to(kind)
        square += tl.dot(tl.trans(u), dmixed, input_precision=PRECISION)
        du = tl.dot(dmixed, tl.trans(matrix), input_precision=PRECISION)
        tl.store(du_ptr + place, du.to(kind), mask=inside)
        dz = g.to(tl.float32) * tl.dot(u, matrix, input_precision=PRECISION)
        total += tl.sum(dz, axis=0)
        rounded = dz.to(kind)
        short_square += tl.dot(tl.trans(x), rounded, input_precision=PRECISION)
        dx = tl.dot(rounded, tl.trans(band), input_precision=PRECISION)
        tl.store(dx_ptr + place, dx.to(kind), mask=inside)
    skewed = (position[None, :] - position[:, None] + T) % T  # aligns equal lags in columns
    tl.store(
        squares_ptr + (index * chunks + chunk) * T * T + position[:, None] * T + skewed, square
    )
    shares_ptr += (p * chunks + chunk) * (TAPS + 2) * 3 * channels
    _store_sums(
        shares_ptr,
        short_square,
        total,
        bias_ptr,
        taps_ptr,
        p,
        channels + channel,
        3 * channels,
        TAPS,
        T,
    )


@triton.jit
def _before_back(
    parts_ptr, bias_ptr, taps_ptr, shift_ptr, du_ptr, dparts_ptr, shares_ptr, channels, batch,
    length,
    CHUNK: tl.constexpr, TAPS: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute some rows of one channel of x1 or v, whose dz is du times the other's z."""
    part = tl.program_id(0) % 2 * 2  # neighbours read the same inputs
    chunks = tl.cdiv(batch, CHUNK)
    chunk = tl.program_id(0) // 2 % chunks
    index = (tl.program_id(0) // 2 // chunks).to(tl.int64)
    p, channel = index // channels, index % channels
    x_ptr = _of(parts_ptr, p, part, channel, channels, batch, length)
    other_ptr = _of(parts_ptr, p, 2 - part, channel, channels, batch, length)
    dx_ptr = _of(dparts_ptr, p, part, channel, channels, batch, length)
    du_ptr += index * batch * length
    kind = parts_ptr.dtype.element_ty
    other, added = _band(
        taps_ptr, bias_ptr, shift_ptr, p, (2 - part) * channels + channel, 3 * channels, TAPS, T
    )
    band, _ = _band(
        taps_ptr, bias_ptr, shift_ptr, p, part * channels + channel, 3 * channels, TAPS, T
    )
    other, back = other.to(kind), tl.trans(band.to(kind))
    position = tl.arange(0, T)
    square, total = tl.zeros([T, T], dtype=tl.float32), tl.zeros([T], dtype=tl.float32)
    for start in range(chunk * CHUNK, tl.minimum((chunk + 1) * CHUNK, batch), R):
        row = start + tl.arange(0, R)
        inside = (row < batch)[:, None] & (position < length)[None, :]
        place = row[:, None] * length + position[None, :]
        others = tl.load(other_ptr + place, mask=inside, other=0.0)
        du = tl.load(du_ptr + place, mask=inside, other=0.0)
        x = tl.load(x_ptr + place, mask=inside, other=0.0)
        dz = du.to(tl.float32) * (tl.dot(others, other, input_precision=PRECISION) + added[None, :])
        total += tl.sum(dz, axis=0)
        rounded = dz.to(kind)
        square += tl.dot(tl.trans(x), rounded, input_precision=PRECISION)
        dx = tl.dot(rounded, back, input_precision=PRECISION)
        tl.store(dx_ptr + place, dx.to(kind), mask=inside)
    shares_ptr += (p * chunks + chunk) * (TAPS + 2) * 3 * channels
    _store_sums(
        shares_ptr,
        square,
        total,
        bias_ptr,
        taps_ptr,
        p,
        part * channels + channel,
        3 * channels,
        TAPS,
        T,
    )


@triton.jit
def _store_sums(
    shares_ptr, square, total, bias_ptr, taps_ptr, p, channel, channels,
    TAPS: tl.constexpr, T: tl.constexpr,
):  # fmt: skip
    """Compute one channel's gradients of taps, shift and bias from the sums of x' dz and of dz."""
    lag = tl.arange(0, T)[None, :] - tl.arange(0, T)[:, None]
    shares_ptr += channel
    square += tl.load(bias_ptr + p * channels + channel) * total[None, :]  # taps multiply x + bias
    for k in range(TAPS):
        tap = tl.sum(tl.sum(tl.where(lag == TAPS - 1 - k, square, 0.0), axis=0), axis=0)
        tl.store(shares_ptr + k * channels, tap)
    tl.store(shares_ptr + TAPS * channels, tl.sum(total, axis=0))
    reach = _reach(taps_ptr, p, channel, channels, TAPS, T)
    tl.store(shares_ptr + (TAPS + 1) * channels, tl.sum(total * reach, axis=0))
