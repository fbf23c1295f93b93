"""The kernel of scores under decay against the plain operation in float64."""

import pytest
import torch
from torch import Tensor

from recollect.ops import decayed as plain
from recollect.ops import decayed_triton

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the largest value


def cases() -> list[tuple[int, ...]]:
    """(leading axes of the log decays, L), the last of them heads; on a GPU also those of real models."""
    odd = [(1, 1, 1), (3, 2, 2), (2, 5, 3, 17), (1, 1, 33), (1, 2, 64), (2, 1, 65), (1, 2, 130), (2, 7)]
    real = [(16, 512, 2, 64), (4, 64, 4, 256), (2, 16, 2, 512), (70_000, 1, 16), (2, 1, 1024)]
    return odd + real if DEVICE == "cuda" else odd


def made(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE)


def drawn(shape: tuple[int, ...], shared: bool, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """Scores, of all heads or one for all, log decays and the gradient of the outcome."""
    *lead, length = shape
    of_scores = (*lead[:-1], 1) if shared else lead
    g = -made(*lead, length, seed=1).exp() * 0.3
    return [x.to(dtype) for x in (made(*of_scores, length, length), g, made(*lead, length, length, seed=2))]


def outcome(operation, scores: Tensor, g: Tensor, dout: Tensor) -> list[Tensor]:
    scores, g = scores.detach().requires_grad_(), g.detach().requires_grad_()
    out = operation(scores, g)
    return [out.detach(), *torch.autograd.grad(out, (scores, g), dout)]


def assert_as_in_double(arguments: list[Tensor]) -> None:
    expected = outcome(plain.decayed, *(x.double() for x in arguments))
    for mine, theirs in zip(outcome(decayed_triton.decayed, *arguments), expected, strict=True):
        assert mine.dtype == arguments[0].dtype
        assert mine.shape == theirs.shape
        assert (mine.double() - theirs).abs().max().item() <= TOLERANCE[mine.dtype] * theirs.abs().max().item()


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shared", [True, False], ids=["shared", "own"])
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_outcome_and_gradients_are_the_plain_ones(shape, shared, dtype):
    assert_as_in_double(drawn(shape, shared, dtype))


def test_scores_may_be_one_matrix_for_everyone():
    _, g, dout = drawn((2, 3, 5), shared=False)
    assert_as_in_double([made(5, 5), g, dout])


def test_short_segments_keep_their_digits_late_in_a_long_sequence():
    """After 300 positions of strong decay the running sum is 15 000, whose float32 has a step of 1e-3."""
    length = 330
    scores, g, dout = torch.ones(1, length, length, device=DEVICE), made(1, length), made(1, length, length, seed=2)
    g = -g.abs() * 1e-2
    g[:, :300] = -50.0
    assert_as_in_double([scores, g, dout])


def test_a_gradient_keeps_its_digits_beside_larger_ones():
    """dg where little passes between two parts that are busy inside: a difference of row and column sums would lose it."""
    length = 64
    scores, g, dout = (x.abs() for x in drawn((1, length), shared=False))
    g = -g * 1e-2
    g[:, 32] = -14.0
    expected = outcome(plain.decayed, *(x.double() for x in (scores, g, dout)))[2][0, 32]
    found = outcome(decayed_triton.decayed, scores, g, dout)[2][0, 32]
    assert abs(found.double() / expected - 1).item() < 2e-6


@pytest.mark.parametrize("strength", [0.0, -1e4])
def test_extreme_decays_have_finite_gradients(strength):
    scores, g, dout = drawn((1, 2, 70), shared=True)
    arguments = [scores, torch.full_like(g, strength), dout]
    assert all(x.isfinite().all() for x in outcome(decayed_triton.decayed, *arguments))
    assert_as_in_double(arguments)


def test_the_future_is_not_read():
    scores, g, dout = drawn((2, 2, 19), shared=True)
    future = torch.ones(19, 19, dtype=torch.bool, device=DEVICE).triu(1)
    expected = outcome(decayed_triton.decayed, scores, g, dout)
    found = outcome(decayed_triton.decayed, scores.masked_fill(future, torch.nan), g, dout.masked_fill(future, torch.nan))
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)
    assert not expected[0][..., future].any()


def test_strides_do_not_matter():
    arguments = drawn((3, 4, 9), shared=False)
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in arguments]
    turned[0] = arguments[0].mT.contiguous().mT
    found = outcome(decayed_triton.decayed, *turned)
    for one, other in zip(found, outcome(decayed_triton.decayed, *arguments), strict=True):
        assert torch.equal(one, other)


def test_a_member_is_the_same_alone_and_next_to_nan():
    arguments = drawn((3, 2, 2, 66), shared=True)
    everyone = outcome(decayed_triton.decayed, *arguments)
    poisoned = [x.clone() for x in arguments]
    for x in poisoned:
        x[1] = torch.nan
    beside = outcome(decayed_triton.decayed, *poisoned)
    for p in (0, 2):
        alone = outcome(decayed_triton.decayed, *(x[p : p + 1] for x in arguments))
        for one, with_nan, own in zip(everyone, beside, alone, strict=True):
            assert torch.equal(one[p], own[0])
            assert torch.equal(one[p], with_nan[p])
    assert beside[0][1].isnan().any()
