"""Hyena's two gates and two convolutions, on tensors whose positions are dense: channel by channel
(P, C, B, L).

    z = short * (x + bias) + shift      [z1, z2, v] = z
    u = v z1       m = filter * u       y = m z2
    dz2 = g m      dm = g z2      du = C'(dm)      dz1 = du v      dv = du z1      dx = S'(dz)

x is what the product before it returns, without its bias; g is the gradient of y, C' and S' are the
long and the short convolution against time. `filter` has the direct path in it, as part of lag 0.

A convolution of many rows with one filter, long or short, is a product of the rows with a Toeplitz
matrix, made on chip. In bfloat16 a tile holds whole sequences of up to 64 positions: one kernel
forward, and two backward, the first for all that comes after u, the second for what u is made of. x
and u are kept for them. A filter's gradient sums the square u' dm along its diagonals, a tap's (x +
bias)' dz. Longer sequences, where a position of u takes part in many tiles, and float32, whose
tiles are too large for that, take z from memory. Only x is kept then, and z computed again.

Inputs are float32 or bfloat16 and rounded to that, as are taps and filter, before each product;
sums are float32, as are filters, taps, biases and their gradients.

Shapes: P population, B batch, L length, D channels, C = 3 D, K taps, N chunks of rows, S = K + 2
sums of a channel: its taps, its shift, its bias; in a kernel R rows and T positions of a tile.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.long_conv.triton_kernel import (
    POSITIONS,
    ROWS,
    Part,
    convolve,
    filter_gradient,
    sum_diagonals,
)
from recollect.ops.triton_rows import sum_blocks

# Rows of one program. It makes the matrices of its channel once, and while it works on a tile of
# rows the next is on its way.
FORWARD_CHUNK = 256
CHUNK = 512  # a program's square of sums, 16 KB, is then 6 % of what it reads and writes
# a tile's product is one of four warps; two programs fill a multiprocessor's registers
WARPS, STAGES = 4, 2
# the short convolution alone: 8 elements for each thread of four warps; elements of one sum
FLAT, FLAT_CHUNK = 1024, 8192


def mix(
    parts_PCBL: Tensor, bias_PC: Tensor, taps_PKC: Tensor, shift_PC: Tensor, filter_PDL: Tensor
) -> Tensor:
    """y_PDBL from x1, x2 and v beside each other; differentiable in everything."""
    return _Mix.apply(parts_PCBL, bias_PC, taps_PKC, shift_PC, filter_PDL)


class _Mix(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *inputs: Tensor) -> Tensor:
        parts, bias, taps, shift, filter = tensors = [x.contiguous() for x in inputs]
        population, channels, length = filter.shape
        batch = parts.shape[2]
        y_PDBL = parts.new_empty(population, channels, batch, length)
        if not _fits(parts):
            first, second, v = _short(parts, bias, taps, shift).chunk(3, dim=1)
            convolve(Part(second), Part(first), Part(v), filter, y_PDBL)
            ctx.save_for_backward(*tensors)
        else:
            u_PDBL = torch.empty_like(y_PDBL)
            grid = (population * channels * triton.cdiv(batch, FORWARD_CHUNK),)
            sizes = (channels, batch, length)
            _forward[grid](
                *tensors, u_PDBL, y_PDBL, *sizes, CHUNK=FORWARD_CHUNK, **_constants(taps)
            )
            ctx.save_for_backward(*tensors, u_PDBL)
        return y_PDBL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        back = _backward_short if _fits(ctx.saved_tensors[0]) else _backward_long
        dparts, dfilter, shares_PNSC = back(*ctx.saved_tensors, grads[0].contiguous())
        population, _, sums, channels = shares_PNSC.shape
        sums_PSC = sum_blocks(shares_PNSC.flatten(2)).view(population, sums, channels)
        dtaps_PKC, *others = (part.contiguous() for part in sums_PSC.split((sums - 2, 1, 1), dim=1))
        dshift_PC, dbias_PC = (x_P1C.squeeze(1) for x_P1C in others)
        return dparts, dbias_PC, dtaps_PKC, dshift_PC, dfilter


def _fits(parts_PCBL: Tensor) -> bool:
    """Whether tiles of whole sequences and the matrices beside them leave room
    for two programs on a multiprocessor.
    """
    return parts_PCBL.shape[3] <= POSITIONS and parts_PCBL.dtype == torch.bfloat16


def _backward_short(
    parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor, u: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of parts and filter, and shares of the others' gradients."""
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


def _backward_long(
    parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The same; dz, a product of two tensors, is made where it is read."""
    z_PCBL = _short(parts, bias, taps, shift)
    first, second, v = (Part(z_PDBL) for z_PDBL in z_PCBL.chunk(3, dim=1))
    mixed, du = torch.empty_like(g), torch.empty_like(g)
    convolve(None, first, v, filter, mixed)
    convolve(None, Part(g), second, filter, du, back=True)
    dfilter = filter_gradient(first, v, second, Part(g), filter)
    population, channels, batch, length = g.shape
    chunks = triton.cdiv(batch * length, FLAT_CHUNK)
    dparts = torch.empty_like(parts)
    shares_PNSC = torch.empty(
        population, chunks, taps.shape[1] + 2, 3 * channels, device=g.device, dtype=torch.float32
    )
    _short_backward[(population * channels * 3 * chunks,)](
        parts, bias, taps, z_PCBL, mixed, g, du, dparts, shares_PNSC, channels, batch * length,
        length,
        TAPS=taps.shape[1], SUMS=triton.next_power_of_2(taps.shape[1] + 2), CHUNK=FLAT_CHUNK,
        BLOCK=FLAT, num_warps=4,
    )  # fmt: skip
    return dparts, dfilter, shares_PNSC


def _short(parts_PCBL: Tensor, bias_PC: Tensor, taps_PKC: Tensor, shift_PC: Tensor) -> Tensor:
    """z, (P, C, B, L)."""
    population, channels, batch, length = parts_PCBL.shape
    z_PCBL = torch.empty_like(parts_PCBL)
    grid = (population * channels * triton.cdiv(batch * length, FLAT),)
    _short_forward[grid](
        parts_PCBL, bias_PC, taps_PKC, shift_PC, z_PCBL, channels, batch * length, length,
        TAPS=taps_PKC.shape[1], BLOCK=FLAT, num_warps=4,
    )  # fmt: skip
    return z_PCBL


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
    """Of one channel: the matrix of its short convolution, from position to position, and what bias
    and shift add to it.
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
    """How much of the bias a position sees: it comes before the convolution, so the first positions
    see less of it.
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
    """Where a channel of part 0, 1 or 2 starts; p has 64 bits, and within a channel 32 do."""
    return pointer + ((p * 3 + part) * channels + channel) * batch * length


@triton.jit
def _forward(
    parts_ptr, bias_ptr, taps_ptr, shift_ptr, filter_ptr, u_ptr, y_ptr, channels, batch, length,
    CHUNK: tl.constexpr, TAPS: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """One program has some rows of one channel."""
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
    """One program has some rows of one channel:
    du and the gradient of x2, and sums over these rows.

    Outside of the rows and of the sequence x, u and g are zeros, and so are all products that are
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
    skewed = (position[None, :] - position[:, None] + T) % T  # equal lags below each other
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
    """One program has some rows of one channel of x1 or v, whose dz is du times the other's z."""
    part = tl.program_id(0) % 2 * 2  # neighbours read the same
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
    """One channel's gradients of taps, shift and bias from the sums of x' dz and of dz."""
    lag = tl.arange(0, T)[None, :] - tl.arange(0, T)[:, None]
    shares_ptr += channel
    square += tl.load(bias_ptr + p * channels + channel) * total[None, :]  # taps have seen x + bias
    for k in range(TAPS):
        tap = tl.sum(tl.sum(tl.where(lag == TAPS - 1 - k, square, 0.0), axis=0), axis=0)
        tl.store(shares_ptr + k * channels, tap)
    tl.store(shares_ptr + TAPS * channels, tl.sum(total, axis=0))
    reach = _reach(taps_ptr, p, channel, channels, TAPS, T)
    tl.store(shares_ptr + (TAPS + 1) * channels, tl.sum(total * reach, axis=0))


@triton.jit
def _short_forward(
    x_ptr, bias_ptr, taps_ptr, shift_ptr, z_ptr, channels, rows, length,
    TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some of the B L elements of one channel."""
    blocks = tl.cdiv(rows, BLOCK)
    index = (tl.program_id(0) // blocks).to(tl.int64)
    p, channel = index // channels, index % channels
    row = (tl.program_id(0) % blocks) * BLOCK + tl.arange(0, BLOCK)
    time, inside = row % length, row < rows
    x_ptr += index * rows
    bias = tl.load(bias_ptr + index)
    z = tl.zeros([BLOCK], dtype=tl.float32) + tl.load(shift_ptr + index)
    for k in range(TAPS):
        there = inside & (time >= TAPS - 1 - k)
        x = tl.load(x_ptr + row - (TAPS - 1 - k), mask=there, other=0.0).to(tl.float32) + bias
        z += tl.where(there, x, 0.0) * tl.load(taps_ptr + (p * TAPS + k) * channels + channel)
    tl.store(z_ptr + index * rows + row, z.to(z_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _short_backward(
    x_ptr, bias_ptr, taps_ptr, z_ptr, mixed_ptr, g_ptr, du_ptr, dx_ptr, shares_ptr, channels, rows,
    length,
    TAPS: tl.constexpr, SUMS: tl.constexpr, CHUNK: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Some of the B L elements of one channel of x1, x2 or v: dz is du v, g m or du z1."""
    chunks = tl.cdiv(rows, CHUNK)
    chunk = tl.program_id(0) % chunks
    index = (tl.program_id(0) // chunks).to(tl.int64)
    p, channel = index // (3 * channels), index % (3 * channels)
    part = channel // channels
    same = (p * channels + channel % channels) * rows
    if part == 1:
        one_ptr = g_ptr + same
        other_ptr = mixed_ptr + same
    else:
        one_ptr = du_ptr + same
        other_ptr = z_ptr + (index + (2 - 2 * part) * channels) * rows
    bias = tl.load(bias_ptr + index)
    number = tl.arange(0, SUMS)
    sums = tl.zeros([SUMS], dtype=tl.float32)
    dshift, dbias = tl.zeros([BLOCK], dtype=tl.float32), tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(chunk * CHUNK, tl.minimum((chunk + 1) * CHUNK, rows), BLOCK):
        row = start + tl.arange(0, BLOCK)
        time, inside = row % length, row < rows
        x = tl.load(x_ptr + index * rows + row, mask=inside, other=0.0).to(tl.float32) + bias
        dx, dz = tl.zeros([BLOCK], dtype=tl.float32), tl.zeros([BLOCK], dtype=tl.float32)
        for k in range(TAPS):
            delay = TAPS - 1 - k
            there = inside & (time + delay < length)
            dz = tl.load(one_ptr + row + delay, mask=there, other=0.0).to(tl.float32)
            dz *= tl.load(other_ptr + row + delay, mask=there, other=0.0).to(tl.float32)
            dx += dz * tl.load(taps_ptr + (p * TAPS + k) * 3 * channels + channel)
            sums += tl.where(number == k, tl.sum(x * dz, axis=0), 0.0)
        dshift += dz  # the last tap sees the present
        dbias += dx
        tl.store(dx_ptr + index * rows + row, dx.to(dx_ptr.dtype.element_ty), mask=inside)
    sums += tl.where(number == TAPS, tl.sum(dshift, axis=0), 0.0) + tl.where(
        number == TAPS + 1, tl.sum(dbias, axis=0), 0.0
    )
    shares_ptr += (p * chunks + chunk) * (TAPS + 2) * 3 * channels + channel
    tl.store(shares_ptr + number * 3 * channels, sums, mask=number < TAPS + 2)
