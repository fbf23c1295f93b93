"""Hyena for sequences of many tiles, or in float32: one kernel for the short convolution, in
addition to those of the long one. Equations and names are in triton_kernel.py.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.long_conv.triton_kernel import Part, convolve, filter_gradient

# 8 elements for each thread of four warps; number of elements in one sum.
FLAT, FLAT_CHUNK = 1024, 8192


def mix_long(parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor) -> Tensor:
    """Return y_PDBL."""
    population, channels, length = filter.shape
    y_PDBL = parts.new_empty(population, channels, parts.shape[2], length)
    first, second, v = _short(parts, bias, taps, shift).chunk(3, dim=1)
    convolve(Part(second), Part(first), Part(v), filter, y_PDBL)
    return y_PDBL


def mix_long_back(
    parts: Tensor, bias: Tensor, taps: Tensor, shift: Tensor, filter: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of parts and filter, and shares of the other gradients; dz, a product of
    two tensors, is computed where it is read.
    """
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
    """Return z, (P, C, B, L)."""
    population, channels, batch, length = parts_PCBL.shape
    z_PCBL = torch.empty_like(parts_PCBL)
    grid = (population * channels * triton.cdiv(batch * length, FLAT),)
    _short_forward[grid](
        parts_PCBL, bias_PC, taps_PKC, shift_PC, z_PCBL, channels, batch * length, length,
        TAPS=taps_PKC.shape[1], BLOCK=FLAT, num_warps=4,
    )  # fmt: skip
    return z_PCBL


@triton.jit
def _short_forward(
    x_ptr, bias_ptr, taps_ptr, shift_ptr, z_ptr, channels, rows, length,
    TAPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Compute some of the B L elements of one channel."""
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
    """Compute some of the B L elements of one channel of x1, x2 or v: dz is du v, g m or du z1."""
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
