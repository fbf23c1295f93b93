"""Sums over segments: against a double loop, late in a long sequence, and under gradients."""

import math

import torch

from recollect.ops.segment_sums import segment_sums


def test_every_segment_is_summed_and_the_future_masked():
    x = torch.randn(2, 3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    sums = segment_sums(x)
    for i in range(7):
        for j in range(7):
            expected = (
                x[..., j + 1 : i + 1].sum(-1)
                if j <= i
                else torch.full((2, 3), -math.inf, dtype=torch.float64)
            )
            torch.testing.assert_close(sums[..., i, j], expected, rtol=1e-12, atol=1e-12)


def test_short_segments_keep_their_digits_late_in_a_long_sequence():
    x = -torch.rand(4, 512, generator=torch.Generator().manual_seed(0)) * 100
    sums = segment_sums(x)
    assert sums.dtype == torch.float32
    torch.testing.assert_close(sums.diagonal(-1, -2, -1), x[:, 1:], rtol=2e-7, atol=0)
    naive = x.cumsum(-1)
    assert (naive.diff(dim=-1) - x[:, 1:]).abs().max() > 1e-4, "the test would not notice"


def test_gradients_are_finite_and_those_of_the_sums():
    x = (
        torch.randn(2, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) - 1
    ).requires_grad_()
    assert torch.autograd.gradcheck(lambda value: segment_sums(value).exp(), x)
    strong = torch.full((1, 512), -1e4).requires_grad_()
    segment_sums(strong).exp().sum().backward()
    assert strong.grad.isfinite().all()
