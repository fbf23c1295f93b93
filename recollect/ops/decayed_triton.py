"""Scores under one decay per position without the matrix of decays in memory: it is computed where it is used.

    out[i, j] = scores[i, j] exp(G_i - G_j) for j <= i, G the running sum of g

Shapes: N sequences, H heads that share their scores, L length; R rows of a tile, K tiles of a matrix.

One program takes R whole rows, for all heads in turn: it reads the scores once and sums their gradient over heads itself. G is
summed in float64, L numbers a program, and split into two float32, so that differences keep the digits of short segments late
in a long sequence while the R x L differences are float32.

Backward, with e = dout * out below the diagonal:

    dscores[i, j] = sum over heads of dout[i, j] exp(G_i - G_j)        dg_t = sum of e[i, j] over the pairs j < t <= i

A row's running sum of e up to t - 1, summed over the rows from t on, is exactly these pairs; the usual difference of row sums
and column sums would cancel what lies on one side of t. Tiles leave their share of dg (N, H, K, L), added up afterwards.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

TILE = 4096  # elements: 64 rows at length 64, 8 at 512; 32 registers of a thread with 4 warps, 16 with 8
WARPS = 4
WARPS_BACKWARD = 8  # six tiles are alive there


def decayed(scores: Tensor, log_decay: Tensor) -> Tensor:
    """(..., L, L) from scores that broadcast to it and g (..., L)."""
    *lead, length = log_decay.shape
    shared = tuple(scores.shape[:-2]) == (*lead[:-1], 1)  # by all heads
    if not shared:
        scores = scores.expand(*lead, length, length)
    heads = lead[-1] if shared else 1
    out: Tensor = _Decayed.apply(scores.reshape(-1, length, length), log_decay.reshape(-1, heads, length))
    return out.view(*lead, length, length)


class _Decayed(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, scores_NLL: Tensor, g_NHL: Tensor) -> Tensor:
        scores_NLL, g_NHL = scores_NLL.contiguous(), g_NHL.contiguous()
        ctx.save_for_backward(scores_NLL, g_NHL)
        sequences, heads, length = g_NHL.shape
        out_NHLL = scores_NLL.new_empty(sequences, heads, length, length)
        if out_NHLL.numel():
            rows, columns, tiles = _tiles(length)
            _forward_kernel[(sequences * tiles,)](
                scores_NLL, g_NHL, out_NHLL, heads, length, tiles, ROWS=rows, COLUMNS=columns, num_warps=WARPS
            )
        return out_NHLL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor]:
        scores_NLL, g_NHL = ctx.saved_tensors
        sequences, heads, length = g_NHL.shape
        rows, columns, tiles = _tiles(length)
        dscores_NLL = torch.empty_like(scores_NLL)
        dg_NHKL = g_NHL.new_empty(sequences, heads, tiles, length, dtype=torch.float32)
        if dg_NHKL.numel():
            _backward_kernel[(sequences * tiles,)](
                scores_NLL, g_NHL, grads[0].contiguous(), dscores_NLL, dg_NHKL, heads, length, tiles,
                ROWS=rows, COLUMNS=columns, num_warps=WARPS_BACKWARD,
            )  # fmt: skip
        dg_NHL = dg_NHKL.squeeze(2) if tiles == 1 else dg_NHKL.sum(2)
        return dscores_NLL, dg_NHL.to(g_NHL.dtype)


def _tiles(length: int) -> tuple[int, int, int]:
    """Rows and columns of a tile, tiles of a matrix."""
    columns = max(16, triton.next_power_of_2(length))
    rows = min(columns, max(1, TILE // columns))
    return rows, columns, triton.cdiv(length, rows)


@triton.jit
def _forward_kernel(scores_ptr, g_ptr, out_ptr, heads, length, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    program = tl.program_id(0).to(tl.int64)
    sequence, tile = program // tiles, (program % tiles).to(tl.int32)  # inside a matrix 32 bits are enough
    i = tile * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < length)[:, None] & (j < length)[None, :]
    past = inside & (j[None, :] <= i[:, None])
    place = i[:, None] * length + j[None, :]
    scores = tl.load(scores_ptr + sequence * length * length + place, mask=past, other=0.0).to(tl.float32)
    for head in range(heads):
        number = sequence * heads + head
        out = scores * _decays(g_ptr + number * length, tile * ROWS, i, j, length, past)
        tl.store(out_ptr + number * length * length + place, out.to(out_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _backward_kernel(
    scores_ptr, g_ptr, dout_ptr, dscores_ptr, dg_ptr, heads, length, tiles, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    program = tl.program_id(0).to(tl.int64)
    sequence, tile = program // tiles, (program % tiles).to(tl.int32)  # inside a matrix 32 bits are enough
    i = tile * ROWS + tl.arange(0, ROWS)
    j = tl.arange(0, COLUMNS)
    inside = (i < length)[:, None] & (j < length)[None, :]
    past = inside & (j[None, :] <= i[:, None])
    before = inside & (j[None, :] < i[:, None])
    place = i[:, None] * length + j[None, :]
    scores = tl.load(scores_ptr + sequence * length * length + place, mask=past, other=0.0).to(tl.float32)
    dscores = tl.zeros((ROWS, COLUMNS), dtype=tl.float32)
    for head in range(heads):
        number = sequence * heads + head
        dout = tl.load(dout_ptr + number * length * length + place, mask=past, other=0.0).to(tl.float32)
        dout *= _decays(g_ptr + number * length, tile * ROWS, i, j, length, past)
        dscores += dout
        up_to_j = tl.cumsum(tl.where(before, dout * scores, 0.0), axis=1)
        dg = tl.sum(tl.where(before, up_to_j, 0.0), axis=0)  # of t = j + 1: rows i > j
        dg_ptr_here = dg_ptr + (number * tiles + tile) * length
        tl.store(dg_ptr_here + 1 + j, dg, mask=j + 1 < length)
        tl.store(dg_ptr_here, 0.0)  # the first position has nothing before it
    tl.store(dscores_ptr + sequence * length * length + place, dscores.to(dscores_ptr.dtype.element_ty), mask=inside)


@triton.jit
def _decays(g_ptr, first, i, j, length, past):
    """exp(G_i - G_j) in the past, 0 elsewhere; `first` is the first of the rows i."""
    g_j = tl.load(g_ptr + j, mask=j < length, other=0.0).to(tl.float64)
    g_i = tl.load(g_ptr + i, mask=i < length, other=0.0).to(tl.float64)
    sum_j = tl.cumsum(g_j, axis=0)
    sum_i = tl.cumsum(g_i, axis=0) + tl.sum(tl.where(j < first, g_j, 0.0), axis=0)
    high_i, high_j = sum_i.to(tl.float32), sum_j.to(tl.float32)
    low_i, low_j = (sum_i - high_i.to(tl.float64)).to(tl.float32), (sum_j - high_j.to(tl.float64)).to(tl.float32)
    exponent = (high_i[:, None] - high_j[None, :]) + (low_i[:, None] - low_j[None, :])
    return tl.exp(tl.where(past, exponent, float("-inf")))  # masked first: exp of the rest could overflow
