"""Dropout as one pass over memory: the mask is computed where it is needed, and again in the
backward.

    y = x [t(n) >= t_least] / (1 - share)        dx = dy [t(n) >= t_least] / (1 - share)

t(n) are the upper 52 bits of the scrambled counter n (ops/randomness.py), and t_least the smallest
of them whose number (t + 1/2) / 2^52 is not below `share`: the comparison of the plain form in
whole numbers.

Shapes: P population, N elements of one member.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated"

import math
from fractions import Fraction
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops import randomness

ELEMENTS = 1024  # per program: 4 warps, 8 elements per thread
STEP = tl.constexpr(randomness.STEP)
FIRST, SECOND = tl.constexpr(randomness.FIRST), tl.constexpr(randomness.SECOND)


def drop(x: Tensor, stream_P: Tensor, share: float) -> Tensor:
    return _Drop.apply(x, stream_P, share)


def least_kept(share: float) -> int:
    """Return the smallest of the 2^52 numbers that is kept."""
    return math.ceil(Fraction(share) * 2**52 - Fraction(1, 2))


class _Drop(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, stream: Tensor, share: float) -> Tensor:
        ctx.save_for_backward(stream)
        ctx.share = share
        return _launch(x, stream, share)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (stream,) = ctx.saved_tensors
        return _launch(grads[0], stream, ctx.share), None, None


def _launch(x: Tensor, stream_P: Tensor, share: float) -> Tensor:
    x = x.contiguous()
    y = torch.empty_like(x)
    if x.numel():
        elements = x[0].numel()
        _drop[(triton.cdiv(elements, ELEMENTS), x.shape[0])](
            x, y, stream_P, elements, least_kept(share), 1 - share, ELEMENTS=ELEMENTS, num_warps=4
        )
    return y


@triton.jit
def is_kept(stream, counter, least):
    """Whether these elements are kept; `counter` is int64."""
    z = counter.to(tl.uint64) * STEP + stream.to(tl.uint64)
    z = (z ^ (z >> 30)) * FIRST
    z = (z ^ (z >> 27)) * SECOND
    z = z ^ (z >> 31)
    return (z >> 12).to(tl.int64) >= least


@triton.jit
def _drop(x_ptr, y_ptr, stream_ptr, elements, least, kept_share, ELEMENTS: tl.constexpr):
    member = tl.program_id(1)
    counter = tl.program_id(0).to(tl.int64) * ELEMENTS + tl.arange(0, ELEMENTS)
    inside = counter < elements
    at = member.to(tl.int64) * elements + counter
    x = tl.load(x_ptr + at, mask=inside, other=0.0).to(tl.float32)
    kept = is_kept(tl.load(stream_ptr + member), counter, least)
    y = tl.where(kept, x / kept_share, x * 0.0)
    tl.store(y_ptr + at, y.to(y_ptr.dtype.element_ty), mask=inside)
