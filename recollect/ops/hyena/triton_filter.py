"""Hyena's filter network, computed and differentiated by one kernel each instead of a hundred tiny
operations.

    a_1 = z W_1 + b_1      a_2 = sin(omega a_1) W_2 + b_2      a_3 = sin(omega a_2) W_3 + b_3
    filter = envelope sin(omega a_3) W_4, plus skip at lag 0

With h = sin(omega a): da = dh omega cos(omega a), domega = sum over lags and layers of dh a
cos(omega a); all other gradients are gradients of products. The backward computes a_1, a_2 and a_3
again. Everything is float32.

Shapes: P population, L length, Z numbers of an encoded lag, F hidden units, D channels; in a kernel
T lags and as many channels of a tile, H hidden units with padding.
"""

# Kernels are typed by Triton when they are launched.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc, assignment, var-annotated"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.dispatch import product_precision
from recollect.ops.hyena.plain import FilterNetwork

MOST_HIDDEN = 64  # a layer's weights are one tile
# The smallest product: even a few members should keep many multiprocessors busy.
LAGS, WARPS = 16, 8


def implicit_filter(network: FilterNetwork, skip_PD: Tensor) -> Tensor:
    """Return filter_PDL; differentiable in everything except the envelope.

    The network has three layers before its last, and at most MOST_HIDDEN units.
    """
    lags_PLZ, layers, out_PFD, omega_PF, envelope_LD = network
    tensors = [tensor for layer in layers for tensor in layer]
    return _Filter.apply(lags_PLZ, *tensors, out_PFD, omega_PF, skip_PD, envelope_LD)


class _Filter(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, lags: Tensor, *inputs: Tensor) -> Tensor:
        if lags.stride()[1:] != (lags.shape[2], 1):  # members may share their lags
            lags = lags.contiguous()
        *tensors, skip, envelope = (x.contiguous() for x in inputs)
        ctx.save_for_backward(lags, *tensors, envelope)
        population, length, _ = lags.shape
        width = skip.shape[1]
        filter_PDL = torch.empty(population, width, length, device=lags.device, dtype=torch.float32)
        grid = (population * triton.cdiv(length, LAGS),)
        _forward[grid](
            lags,
            *tensors,
            envelope,
            skip,
            filter_PDL,
            lags.stride(0),
            *_sizes(lags, tensors),
            **_constants(),
        )
        return filter_PDL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        g_PDL = grads[0].contiguous()
        lags, *tensors, envelope = ctx.saved_tensors
        population, length, _ = lags.shape
        blocks = triton.cdiv(length, LAGS)
        dlags = torch.empty(lags.shape, device=lags.device, dtype=torch.float32)
        # One sum adds up the blocks of all tensors; the part for each tensor is dense.
        counts = [x.numel() for x in tensors]
        shares = torch.empty(blocks, sum(counts), device=lags.device, dtype=torch.float32)
        _backward[(population * blocks,)](
            lags, *tensors, envelope, g_PDL, dlags, *shares[0].split(counts), sum(counts),
            lags.stride(0), *_sizes(lags, tensors), **_constants(),
        )  # fmt: skip
        sums = zip(shares.sum(0).split(counts), tensors, strict=True)
        return dlags, *(total.view_as(x) for total, x in sums), g_PDL[:, :, 0].contiguous(), None


def _sizes(lags_PLZ: Tensor, tensors: list[Tensor]) -> tuple[int, ...]:
    _, hidden, width = tensors[-2].shape
    return lags_PLZ.shape[1], lags_PLZ.shape[2], hidden, width


def _constants() -> dict[str, Any]:
    products = {"PRECISION": product_precision("tf32x3")}
    return {"T": LAGS, "H": MOST_HIDDEN, **products, "num_warps": WARPS, "num_stages": 1}


@triton.jit
def _vector(pointer, p, unit, hidden):
    return tl.load(pointer + p * hidden + unit, mask=unit < hidden, other=0.0)


@triton.jit
def _weight(pointer, p, row, column, rows, columns):
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    return tl.load(
        pointer + (p * rows + row[:, None]) * columns + column[None, :], mask=inside, other=0.0
    )


@triton.jit
def _turned_weight(pointer, p, column, row, rows, columns):
    inside = (column < columns)[:, None] & (row < rows)[None, :]
    return tl.load(
        pointer + (p * rows + row[None, :]) * columns + column[:, None], mask=inside, other=0.0
    )


@triton.jit
def _sums(
    lags_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, omega, p, t, unit, length, numbers,
    hidden,
    T: tl.constexpr, H: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Return a_1, a_2 and a_3. Padding units have weights and omega of 0."""
    a1 = tl.zeros([T, H], dtype=tl.float32) + _vector(b1_ptr, p, unit, hidden)[None, :]
    for i in range(numbers):
        z = tl.load(lags_ptr + t * numbers + i, mask=t < length, other=0.0)
        a1 += z[:, None] * _vector(w1_ptr + i * hidden, p * numbers, unit, hidden)[None, :]
    w2 = _weight(w2_ptr, p, unit, unit, hidden, hidden)
    a2 = (
        tl.dot(tl.sin(omega * a1), w2, input_precision=PRECISION)
        + _vector(b2_ptr, p, unit, hidden)[None, :]
    )
    w3 = _weight(w3_ptr, p, unit, unit, hidden, hidden)
    a3 = (
        tl.dot(tl.sin(omega * a2), w3, input_precision=PRECISION)
        + _vector(b3_ptr, p, unit, hidden)[None, :]
    )
    return a1, a2, a3


@triton.jit
def _forward(
    lags_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, w4_ptr, omega_ptr, envelope_ptr,
    skip_ptr, filter_ptr,
    lags_p, length, numbers, hidden, width, T: tl.constexpr, H: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute some lags of one member."""
    blocks = tl.cdiv(length, T)
    p = (tl.program_id(0) // blocks).to(tl.int64)
    t = (tl.program_id(0) % blocks) * T + tl.arange(0, T)
    unit = tl.arange(0, H)
    omega = _vector(omega_ptr, p, unit, hidden)[None, :]
    _, _, a3 = _sums(
        lags_ptr + p * lags_p, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, omega, p, t, unit,
        length, numbers, hidden,
        T, H, PRECISION,
    )  # fmt: skip
    h3 = tl.sin(omega * a3)
    for first in range(0, width, H):
        d = first + tl.arange(0, H)
        values = tl.dot(h3, _weight(w4_ptr, p, unit, d, hidden, width), input_precision=PRECISION)
        inside = (t < length)[:, None] & (d < width)[None, :]
        values *= tl.load(envelope_ptr + t[:, None] * width + d[None, :], mask=inside, other=0.0)
        skip = tl.load(skip_ptr + p * width + d, mask=d < width, other=0.0)
        values += tl.where(t[:, None] == 0, skip[None, :], 0.0)
        tl.store(filter_ptr + (p * width + d[None, :]) * length + t[:, None], values, mask=inside)


@triton.jit
def _backward(
    lags_ptr, w1_ptr, b1_ptr, w2_ptr, b2_ptr, w3_ptr, b3_ptr, w4_ptr, omega_ptr, envelope_ptr,
    g_ptr,
    dlags_ptr, dw1_ptr, db1_ptr, dw2_ptr, db2_ptr, dw3_ptr, db3_ptr, dw4_ptr, domega_ptr, share,
    lags_p, length, numbers, hidden, width, T: tl.constexpr, H: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Compute the gradients for some lags of one member, and their contributions to the gradients
    of the weights, which each block of lags writes at an offset of `share` floats.
    """
    blocks = tl.cdiv(length, T)
    p = (tl.program_id(0) // blocks).to(tl.int64)
    t = (tl.program_id(0) % blocks) * T + tl.arange(0, T)
    unit = tl.arange(0, H)
    real = unit < hidden
    before = (p * 0 + tl.program_id(0) % blocks) * share  # 64 bits
    vector = before + p * hidden + unit
    omega = _vector(omega_ptr, p, unit, hidden)[None, :]
    lags_ptr += p * lags_p
    a1, a2, a3 = _sums(
        lags_ptr,
        w1_ptr,
        b1_ptr,
        w2_ptr,
        b2_ptr,
        w3_ptr,
        b3_ptr,
        omega,
        p,
        t,
        unit,
        length,
        numbers,
        hidden,
        T,
        H,
        PRECISION,
    )
    turned = tl.trans(tl.sin(omega * a3))
    dh = tl.zeros([T, H], dtype=tl.float32)
    for first in range(0, width, H):
        d = first + tl.arange(0, H)
        inside = (t < length)[:, None] & (d < width)[None, :]
        g = tl.load(g_ptr + (p * width + d[None, :]) * length + t[:, None], mask=inside, other=0.0)
        g *= tl.load(envelope_ptr + t[:, None] * width + d[None, :], mask=inside, other=0.0)
        dh += tl.dot(
            g, _turned_weight(w4_ptr, p, d, unit, hidden, width), input_precision=PRECISION
        )
        _store_weight(
            dw4_ptr + before,
            p,
            unit,
            d,
            hidden,
            width,
            tl.dot(turned, g, input_precision=PRECISION),
        )
    da, domega = _through(dh, a3, omega)
    tl.store(db3_ptr + vector, tl.sum(da, axis=0), mask=real)
    dw = tl.dot(tl.trans(tl.sin(omega * a2)), da, input_precision=PRECISION)
    _store_weight(dw3_ptr + before, p, unit, unit, hidden, hidden, dw)
    dh = tl.dot(
        da, _turned_weight(w3_ptr, p, unit, unit, hidden, hidden), input_precision=PRECISION
    )
    da, more = _through(dh, a2, omega)
    domega += more
    tl.store(db2_ptr + vector, tl.sum(da, axis=0), mask=real)
    dw = tl.dot(tl.trans(tl.sin(omega * a1)), da, input_precision=PRECISION)
    _store_weight(dw2_ptr + before, p, unit, unit, hidden, hidden, dw)
    dh = tl.dot(
        da, _turned_weight(w2_ptr, p, unit, unit, hidden, hidden), input_precision=PRECISION
    )
    da, more = _through(dh, a1, omega)
    domega += more
    tl.store(db1_ptr + vector, tl.sum(da, axis=0), mask=real)
    tl.store(domega_ptr + vector, domega, mask=real)
    for i in range(numbers):
        z = tl.load(lags_ptr + t * numbers + i, mask=t < length, other=0.0)
        tl.store(
            dw1_ptr + before + (p * numbers + i) * hidden + unit,
            tl.sum(z[:, None] * da, axis=0),
            mask=real,
        )
        w1 = _vector(w1_ptr + i * hidden, p * numbers, unit, hidden)
        tl.store(
            dlags_ptr + (p * length + t) * numbers + i,
            tl.sum(da * w1[None, :], axis=1),
            mask=t < length,
        )


@triton.jit
def _through(dh, a, omega):
    """Return the gradients of a and of omega, given the gradient of sin(omega a)."""
    slope = dh * tl.cos(omega * a)
    return slope * omega, tl.sum(slope * a, axis=0)


@triton.jit
def _store_weight(pointer, p, row, column, rows, columns, values):
    inside = (row < rows)[:, None] & (column < columns)[None, :]
    tl.store(pointer + (p * rows + row[:, None]) * columns + column[None, :], values, mask=inside)
