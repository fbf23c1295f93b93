"""The kernel of a diagonal state space: k_t = Re sum_m weight_m base_m^t for t < L.

Shapes: P population, H heads, M complex numbers, L length, T powers of a short stride, S powers of
a long one.

With t = T s + r every power is base^(T s) times base^r, so the sum over m is a matrix product of
two tables of about sqrt(L) powers each. A table of all L powers would take M times the memory of
the kernel. Complex numbers are pairs of real tensors: on a CPU, PyTorch's complex product rounds
the last elements of a tensor differently from the rest, so that a member's bits would depend on the
other members.
"""

import math

import torch
from torch import Tensor

Pair = tuple[Tensor, Tensor]  # real and imaginary part


def power_sums(weight_PHM: Pair, base_PHM: Pair, length: int) -> Tensor:
    """Return k as real (P, H, L); differentiable in both arguments."""
    stride = math.isqrt(length - 1) + 1
    short_PHMT = powers(base_PHM, stride)
    base_of_long = times(base_PHM, (short_PHMT[0][..., -1], short_PHMT[1][..., -1]))
    long_PHMS = times(
        (weight_PHM[0][..., None], weight_PHM[1][..., None]),
        powers(base_of_long, -(-length // stride)),
    )
    # The real part of a complex product over M is a real product over real and imaginary parts.
    left = torch.cat(long_PHMS, dim=2).transpose(2, 3)
    right = torch.cat((short_PHMT[0], -short_PHMT[1]), dim=2)
    return (left @ right).flatten(2)[..., :length]


def powers(base: Pair, count: int) -> Pair:
    """Return base^0 ... base^(count - 1) along a new last axis, by doubling: no logarithm is taken,
    so a base may be 0.
    """
    factor = base[0][..., None], base[1][..., None]
    real, imag = torch.ones_like(factor[0]), torch.zeros_like(factor[0])
    while real.shape[-1] < count:
        more = times((real, imag), factor)
        real, imag = torch.cat((real, more[0]), dim=-1), torch.cat((imag, more[1]), dim=-1)
        factor = times(factor, factor)
    return real[..., :count], imag[..., :count]


def times(one: Pair, other: Pair) -> Pair:
    return one[0] * other[0] - one[1] * other[1], one[0] * other[1] + one[1] * other[0]
