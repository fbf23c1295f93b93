"""Mamba's scan on a CPU, in float32, with the softplus before it and the direct path after it.

Shapes: P population, B batch, L length, E channels, N state, K chunks, R blocks of rows.

Plain PyTorch passes over memory once per operation, and into memory that is new each time; here a
row of one member stays in the cache from its inputs to its outputs. It is the recurrence of
selective_scan.py; as there, the backward pass keeps the states at chunk borders and computes those
inside a chunk again. (The short convolution and the gate written in the same way took 5 % off a
step of Mamba, and were left out again.)

No bit depends on P, a member's place or the number of threads: a thread takes whole rows, and what
is summed over rows is summed by blocks of rows, whose sums are added in order.
"""

import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from recollect.ops import scan_numba
from recollect.ops.scan_numba import CHUNK, LOG2_E, ROWS


def scan(
    u_PBLE: Tensor, raw_PBLE: Tensor, a_PEN: Tensor, b_PBLN: Tensor, c_PBLN: Tensor, skip_PE: Tensor
) -> Tensor:
    """selective_scan(u, softplus(raw), a, b, c) + skip u, for a <= 0."""
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
        _share(
            scan_numba.scan_rows, (u, raw, rates_PNE, b, c, skip, y_PBLE, borders_PBKNE), _blocks(u)
        )
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
            scan_numba.scan_rows_backward,
            (grads[0].contiguous(), *ctx.saved_tensors, *outputs),
            _blocks(u),
        )
        return du, draw, _added(da_PRNE).transpose(1, 2), db, dc, _added(dskip_PRE)


def _blocks(x_PBLE: Tensor) -> int:
    return x_PBLE.shape[0] * -(-x_PBLE.shape[1] // ROWS)


def _added(parts_PR: Tensor) -> Tensor:
    """The sum over blocks of rows, one after the other."""
    first, *others = parts_PR.unbind(1)
    total = first.clone()
    for part in others:
        total += part
    return total


def _share(work: Callable[..., None], arguments: tuple[Tensor, ...], count: int) -> None:
    """Let as many threads as PyTorch has do `work` on a part of the blocks each, this one on the
    first part.
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
