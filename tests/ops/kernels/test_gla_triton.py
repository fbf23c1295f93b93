"""The kernels of scores under a decay of each channel against the plain halvings in float64."""

import pytest
import torch
from torch import Tensor

from recollect.ops import gla as plain
from recollect.ops.gla import triton_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}  # of the largest value
NAMES = ("scores", "q", "k", "g")


def cases() -> list[tuple[int, ...]]:
    """(leading axes, L, D): one tile, whole tiles, a rest; on a GPU also those of real models."""
    odd = [(1, 1, 1), (3, 2, 7), (1, 1, 16, 3), (2, 17, 5), (1, 33, 17), (1, 49, 64)]
    real = [
        (16, 512, 64, 32),
        (4, 64, 256, 64),
        (2, 16, 512, 128),
        (1, 8, 256, 256),
        (70_000, 16, 8),
    ]
    return odd + real if DEVICE == "cuda" else odd


def drawn(
    shape: tuple[int, ...], dtype: torch.dtype = torch.float32, strength: float = 0.2
) -> list[Tensor]:
    """q, k, g and the gradient of the scores."""
    generator = torch.Generator().manual_seed(shape[-2])
    q, k, g = (torch.randn(shape, generator=generator) for _ in range(3))
    dscores = torch.randn(*shape[:-1], shape[-2], generator=generator)
    return [x.to(DEVICE, dtype) for x in (q, k, -g.exp() * strength, dscores)]


def outcome(operation, q: Tensor, k: Tensor, g: Tensor, dscores: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in (q, k, g)]
    scores = operation(*leaves)
    return [scores.detach(), *torch.autograd.grad(scores, leaves, dscores)]


def assert_as_in_double(arguments: list[Tensor]) -> None:
    expected = outcome(plain.decayed_scores, *(x.double() for x in arguments))
    for name, mine, theirs in zip(
        NAMES, outcome(triton_kernel.decayed_scores, *arguments), expected, strict=True
    ):
        assert mine.dtype == arguments[0].dtype
        assert mine.shape == theirs.shape
        assert (mine.double() - theirs).abs().max().item() <= TOLERANCE[
            mine.dtype
        ] * theirs.abs().max().item(), name


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_scores_and_gradients_are_the_plain_ones(shape, dtype):
    assert_as_in_double(drawn(shape, dtype))


def test_many_channels_are_taken_in_groups(monkeypatch):
    monkeypatch.setattr(triton_kernel, "WIDEST", 4)
    assert_as_in_double(drawn((1, 18, 9)))


def test_weak_decay_after_strong_decay_keeps_its_digits():
    """Sums from the start would reach 10 000, where float32 has steps of 1e-3."""
    arguments = drawn((1, 40, 3), strength=1e-3)
    arguments[2][:, :20] = -500.0
    assert_as_in_double(arguments)


@pytest.mark.parametrize("g", [0.0, -1e4])
def test_extreme_decays_have_finite_gradients(g):
    q, k, decay, dscores = drawn((1, 35, 4))
    arguments = [q, k, torch.full_like(decay, g), dscores]
    assert all(x.isfinite().all() for x in outcome(triton_kernel.decayed_scores, *arguments))
    assert_as_in_double(arguments)


@pytest.mark.parametrize("t", [8, 32, 37])
def test_a_gradient_keeps_its_digits_beside_larger_ones(t):
    """dg where little passes between two parts that are busy inside:
    sums of q dq - k dk would lose it.
    """
    arguments = [x.abs() for x in drawn((1, 49, 2), strength=1e-2)]
    arguments[2] = -arguments[2]
    arguments[2][:, t] = -14.0
    expected = outcome(plain.decayed_scores, *(x.double() for x in arguments))[3][0, t]
    found = outcome(triton_kernel.decayed_scores, *arguments)[3][0, t]
    assert (found.double() / expected - 1).abs().max().item() < 2e-6


def test_strides_do_not_matter():
    arguments = drawn((1, 2, 17, 4))
    turned = [x.transpose(1, 2).contiguous().transpose(1, 2) for x in arguments]
    found = outcome(triton_kernel.decayed_scores, *turned)
    for one, other in zip(found, outcome(triton_kernel.decayed_scores, *arguments), strict=True):
        assert torch.equal(one, other)


def test_a_member_is_the_same_alone_and_next_to_nan():
    arguments = drawn((3, 1, 19, 3))
    everyone = outcome(triton_kernel.decayed_scores, *arguments)
    poisoned = [x.clone() for x in arguments]
    for x in poisoned:
        x[1] = torch.nan
    beside = outcome(triton_kernel.decayed_scores, *poisoned)
    for p in (0, 2):
        alone = outcome(triton_kernel.decayed_scores, *(x[p : p + 1] for x in arguments))
        for one, with_nan, own in zip(everyone, beside, alone, strict=True):
            assert torch.equal(one[p], own[0])
            assert torch.equal(one[p], with_nan[p])
    assert beside[0][1].isnan().any()
