"""Long convolutions between products, on tensors whose positions are dense:
channel by channel (P, C, B, L).

    convolve:           out_e = sum_i factor_i (filter_h * (left_i right_e))     (i, e in head h)
    filter_gradient:    of the filter, given the gradient of that out

A causal convolution of many rows with one filter is a matrix product, rows x Toeplitz matrix, and
that matrix is made on chip from the filter, block by block. A filter's gradient at lag t sums
products of an input at j with an output's gradient at j + t: a product of matrices over the rows,
summed along its diagonals.

Biases are added where a tensor is read. Inputs are float32 or bfloat16 and rounded to that before
each product, sums are float32, as are filters, biases and their gradients.

Shapes: P population, B batch, L length, D channels, H heads, N chunks of rows; in a kernel R rows
and T positions of a tile.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.triton_tiles import padded

ROWS, POSITIONS = 64, 64  # the smallest product on Hopper
# A tile is 16 floats for each thread; with four warps a multiprocessor has registers for half as
# many.
WARPS = 8
# Rows over which one program sums a filter's gradient: its share of 16 KB is a few per cent of what
# it reads.
CHUNK = 128


class Part(NamedTuple):
    """Channels of a tensor, and the bias to add to them."""

    values_PDBL: Tensor
    bias_PD: Tensor | None = None


def convolve(
    factor: Part | None,
    left: Part,
    right: Part | None,
    filter_PHL: Tensor,
    out_PDBL: Tensor,
    back: bool = False,
) -> None:
    """Compute out_e = sum_i factor_i (filter_h * (left_i right_e)); without `right`, each channel's
    convolution separately.

    Without `factor` all factors are 1. With `back` the convolution is transposed, against time.
    """
    population, channels, batch, _ = out_PDBL.shape
    sizes = _sizes(left.values_PDBL, filter_PHL)
    grid = (
        population
        * channels
        * triton.cdiv(batch, sizes["R"])
        * triton.cdiv(filter_PHL.shape[2], sizes["T"])
    )
    arguments = (
        *_arguments(factor),
        *_arguments(left),
        *_arguments(right),
        filter_PHL,
        out_PDBL,
        out_PDBL.stride(0),
    )
    _convolution[(grid,)](
        *arguments,
        channels,
        batch,
        filter_PHL.shape[2],
        BACK=back,
        **sizes,
        num_warps=WARPS,
        num_stages=1,
    )


def filter_gradient(
    left: Part, right: Part | None, factor: Part, g: Part | None, filter_PHL: Tensor
) -> Tensor:
    """Return the gradient of `convolve`'s filter; without `right` and `g`, `factor` is the gradient
    of a plain convolution.
    """
    _, channels, batch, _ = left.values_PDBL.shape
    length, sizes = filter_PHL.shape[2], _sizes(left.values_PDBL, filter_PHL)
    chunks, blocks, side = triton.cdiv(batch, CHUNK), triton.cdiv(length, sizes["T"]), sizes["T"]
    filters = filter_PHL.shape[0] * filter_PHL.shape[1]
    shares = torch.empty(
        filters, blocks, chunks, side, side, device=filter_PHL.device, dtype=torch.float32
    )
    arguments = (*_arguments(left), *_arguments(right), *_arguments(factor), *_arguments(g), shares)
    _correlation[(filters * blocks * chunks,)](
        *arguments, channels, batch, length, CHUNK=CHUNK, **sizes, num_warps=WARPS, num_stages=1
    )
    return sum_diagonals(shares, filter_PHL)


def sum_diagonals(shares: Tensor, filter_PHL: Tensor) -> Tensor:
    """Return a filter's gradient from squares of sums: (filters, blocks apart, chunks, T, T)."""
    filters, blocks, chunks, side, _ = shares.shape
    dfilter_PHL = torch.empty_like(filter_PHL)
    _diagonals[(filters * blocks,)](
        shares, dfilter_PHL, filter_PHL.shape[2], chunks, T=side, num_warps=4
    )
    return dfilter_PHL


def _arguments(part: Part | None) -> tuple[Any, ...]:
    if part is None:
        return None, 0, None, 0
    values, bias = part
    return values, values.stride(0), bias, 0 if bias is None else bias.stride(0)


def _sizes(values_PDBL: Tensor, filter_PHL: Tensor) -> dict[str, Any]:
    _, channels, batch, length = values_PDBL.shape
    return {
        "HEAD": channels // filter_PHL.shape[1],
        "R": min(ROWS, padded(batch)),
        "T": POSITIONS if length > 16 else 16,  # with 32, Triton 3.6 fails in shared memory
        "PRECISION": product_precision("ieee"),
    }


@triton.jit
def _tile(pointer, p_stride, bias_ptr, bias_stride, p, channel, row, position, batch, length):
    """Return rows and positions of a channel with its bias, in the values' dtype; zeros outside."""
    valid = (row < batch)[:, None] & (position < length)[None, :]
    # 64 bits for the channel's address; 32 bits are enough within a channel.
    pointer += p * p_stride + channel * batch * length
    values = tl.load(pointer + row[:, None] * length + position[None, :], mask=valid, other=0.0)
    if bias_ptr is not None:
        shifted = values.to(tl.float32) + tl.load(bias_ptr + p * bias_stride + channel)
        values = tl.where(valid, shifted, 0.0).to(values.dtype)
    return values


@triton.jit
def _product(one, other):
    return (one.to(tl.float32) * other.to(tl.float32)).to(one.dtype)


@triton.jit
def _convolution(
    factor_ptr, factor_p, factor_bias, factor_bias_p, left_ptr, left_p, left_bias, left_bias_p,
    right_ptr, right_p, right_bias, right_bias_p, filter_ptr, out_ptr, out_p, channels, batch,
    length,
    BACK: tl.constexpr, HEAD: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute a tile of one channel's output from the blocks of positions that it depends on."""
    blocks, tiles = tl.cdiv(length, T), tl.cdiv(batch, R)
    block = tl.program_id(0) % blocks
    tile = tl.program_id(0) // blocks % tiles
    index = (tl.program_id(0) // blocks // tiles).to(tl.int64)
    p, channel = index // channels, index % channels
    first = channel // HEAD * HEAD
    filter_ptr += (p * (channels // HEAD) + channel // HEAD) * length
    row = tile * R + tl.arange(0, R)
    position = block * T + tl.arange(0, T)
    out = tl.zeros([R, T], dtype=tl.float32)
    for source in range(block if BACK else 0, blocks if BACK else block + 1):
        there = source * T + tl.arange(0, T)
        lag = there[:, None] - position[None, :] if BACK else position[None, :] - there[:, None]
        matrix = tl.load(filter_ptr + lag, mask=(lag >= 0) & (lag < length), other=0.0)
        if right_ptr is None:
            left = _tile(
                left_ptr, left_p, left_bias, left_bias_p, p, channel, row, there, batch, length
            )
            out += tl.dot(left, matrix.to(left.dtype), input_precision=PRECISION)
        else:
            right = _tile(
                right_ptr, right_p, right_bias, right_bias_p, p, channel, row, there, batch, length
            )
            for i in range(HEAD):
                left = _tile(
                    left_ptr,
                    left_p,
                    left_bias,
                    left_bias_p,
                    p,
                    first + i,
                    row,
                    there,
                    batch,
                    length,
                )
                mixed = tl.dot(
                    _product(left, right), matrix.to(left.dtype), input_precision=PRECISION
                )
                if factor_ptr is not None:
                    factor = _tile(
                        factor_ptr,
                        factor_p,
                        factor_bias,
                        factor_bias_p,
                        p,
                        first + i,
                        row,
                        position,
                        batch,
                        length,
                    )
                    mixed *= factor.to(tl.float32)
                out += mixed
    valid = (row < batch)[:, None] & (position < length)[None, :]
    out_ptr += p * out_p + channel * batch * length
    tl.store(
        out_ptr + row[:, None] * length + position[None, :],
        out.to(out_ptr.dtype.element_ty),
        mask=valid,
    )


@triton.jit
def _correlation(
    left_ptr, left_p, left_bias, left_bias_p, right_ptr, right_p, right_bias, right_bias_p,
    factor_ptr, factor_p, factor_bias, factor_bias_p, g_ptr, g_p, g_bias, g_bias_p, shares_ptr,
    channels, batch, length,
    CHUNK: tl.constexpr, HEAD: tl.constexpr, R: tl.constexpr, T: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sum over some rows of a head and all pairs of blocks of positions that are `apart` blocks
    apart.

    In the square of sums, with rows j and columns i, equal lags are written into one column: row j,
    column i - j modulo T.
    """
    chunks, blocks = tl.cdiv(batch, CHUNK), tl.cdiv(length, T)
    chunk = tl.program_id(0) % chunks
    apart = tl.program_id(0) // chunks % blocks
    index = (tl.program_id(0) // chunks // blocks).to(tl.int64)
    p, head = index // (channels // HEAD), index % (channels // HEAD)
    offset = tl.arange(0, T)
    sums = tl.zeros([T, T], dtype=tl.float32)
    for start in range(chunk * CHUNK, tl.minimum((chunk + 1) * CHUNK, batch), R):
        row = start + tl.arange(0, R)
        for source in range(blocks - apart):
            here, there = source * T + offset, (source + apart) * T + offset
            for i in range(HEAD):
                one = head * HEAD + i
                left = _tile(
                    left_ptr, left_p, left_bias, left_bias_p, p, one, row, here, batch, length
                )
                factor = _tile(
                    factor_ptr,
                    factor_p,
                    factor_bias,
                    factor_bias_p,
                    p,
                    one,
                    row,
                    there,
                    batch,
                    length,
                )
                if right_ptr is None:
                    sums += tl.dot(tl.trans(left), factor, input_precision=PRECISION)
                else:
                    for e in range(HEAD):
                        other = head * HEAD + e
                        right = _tile(
                            right_ptr,
                            right_p,
                            right_bias,
                            right_bias_p,
                            p,
                            other,
                            row,
                            here,
                            batch,
                            length,
                        )
                        g = _tile(g_ptr, g_p, g_bias, g_bias_p, p, other, row, there, batch, length)
                        sums += tl.dot(
                            tl.trans(_product(left, right)),
                            _product(factor, g),
                            input_precision=PRECISION,
                        )
    shares_ptr += ((index * blocks + apart) * chunks + chunk) * T * T
    skewed = (offset[None, :] - offset[:, None] + T) % T
    tl.store(shares_ptr + offset[:, None] * T + skewed, sums)


@triton.jit
def _diagonals(shares_ptr, dfilter_ptr, length, chunks, T: tl.constexpr):
    """Add up T lags of one filter: the upper triangle of the squares that are `apart` blocks apart,
    and the lower triangle of those one block further.
    """
    blocks = tl.cdiv(length, T)
    index, apart = (tl.program_id(0) // blocks).to(tl.int64), tl.program_id(0) % blocks
    row, lag = tl.arange(0, T)[:, None], tl.arange(0, T)[None, :]
    shares_ptr += (index * blocks + apart) * chunks * T * T + row * T + lag
    # A tensor, since the interpreter gives a scalar condition a wrong type.
    further = (row + lag >= T) & (row * 0 + apart + 1 < blocks)
    total = tl.zeros([T, T], dtype=tl.float32)
    for chunk in range(chunks):
        total += tl.load(shares_ptr + chunk * T * T, mask=row + lag < T, other=0.0)
        total += tl.load(shares_ptr + (chunks + chunk) * T * T, mask=further, other=0.0)
    lags = apart * T + tl.arange(0, T)
    tl.store(dfilter_ptr + index * length + lags, tl.sum(total, axis=0), mask=lags < length)
