"""The kernel of dropout against the plain form: the same elements, and the same numbers."""

from fractions import Fraction

import pytest
import torch
from torch import Tensor

from recollect.ops.dropout import plain

kernel = pytest.importorskip(
    "recollect.ops.dropout.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
STREAMS = torch.tensor([0, -7, 2**62 + 3, -(2**63)], device=DEVICE)


def made(*shape: int) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1)).to(DEVICE)


@pytest.mark.parametrize("share", [1e-9, 0.1, 0.37, 0.5, 1 - 1e-9])
@pytest.mark.parametrize("shape", [(4, 1), (4, 3, 5, 7), (1, 2, 1500)], ids=str)
def test_the_same_elements_go_and_the_others_grow(shape, share):
    x = made(*shape).requires_grad_()
    streams, factors = STREAMS[: shape[0]], made(*shape)
    results = []
    for drop in (kernel.drop, plain.drop):
        y = drop(x, streams, share)
        results.append((y.detach(), torch.autograd.grad((y * factors).sum(), x)[0]))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one == 0, other == 0)
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("share", [0.1, 0.25, 1 / 3, 0.5, 2.0**-53, 1 - 2.0**-53])
def test_the_comparison_in_whole_numbers_is_that_of_the_numbers(share):
    """Of the 2^52 numbers (t + 1/2) / 2^52."""
    least = kernel.least_kept(share)
    numbers = [(t + Fraction(1, 2)) / 2**52 for t in (least - 1, least)]
    assert numbers[0] < Fraction(share) <= numbers[1]


def test_strides_do_not_matter_and_a_type_is_kept():
    x = made(4, 6, 5)
    wanted = kernel.drop(x.mT.contiguous(), STREAMS, 0.3)
    assert torch.equal(kernel.drop(x.mT, STREAMS, 0.3), wanted)
    half = kernel.drop(x.bfloat16(), STREAMS, 0.3)
    assert half.dtype == torch.bfloat16
    assert torch.equal(half == 0, kernel.drop(x, STREAMS, 0.3) == 0)


def test_a_member_is_the_same_alone_and_next_to_one_that_is_not_a_number():
    x = made(4, 70)
    alone = kernel.drop(x[2:3], STREAMS[2:3], 0.3)
    x[1] = float("nan")
    together = kernel.drop(x, STREAMS, 0.3)
    assert torch.equal(together[2:3], alone)
    assert together[1].isnan().all()


def test_nothing_gives_nothing():
    assert kernel.drop(made(2, 0, 3), STREAMS[:2], 0.3).shape == (2, 0, 3)
