"""RWKV-4's weighted mean against its two sums written out in float64: outputs and all four
gradients, at any key and decay.
"""

import math

import pytest
import torch
from torch import Tensor

from recollect.ops.wkv import wkv, wkv_step

NAMES = ("k", "v", "w", "u")


def inputs(
    length: int,
    P: int = 2,
    B: int = 3,
    D: int = 5,
    dtype: torch.dtype = torch.float64,
    keys: float = 1.0,
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

    k, v, w, u = draw(P, B, length, D) * keys, draw(P, B, length, D), -draw(P, D).exp(), draw(P, D)
    return [x.requires_grad_() for x in (k, v, w, u)]


def sums(k: Tensor, v: Tensor, w: Tensor, u: Tensor) -> Tensor:
    """Numerator and denominator as they stand in the paper; every exponent is lowered by the
    largest of its sum.
    """
    outputs = []
    for t in range(k.shape[2]):
        exponents = [k[:, :, i] + (t - 1 - i) * w[:, None] for i in range(t)] + [
            k[:, :, t] + u[:, None]
        ]
        exponents = torch.stack(exponents)
        weights = (exponents - exponents.detach().amax(0)).exp()
        outputs.append((weights * v[:, :, : t + 1].movedim(2, 0)).sum(0) / weights.sum(0))
    return torch.stack(outputs, 2) + 0 * w[:, None, None]  # a single position has no decay


def gradients(function, arguments: list[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    y = function(*arguments)
    weight = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)
    return y.detach(), torch.autograd.grad((y * weight).sum(), arguments)


def assert_like_the_sums(arguments: list[Tensor], tolerance: float) -> None:
    y, ours = gradients(wkv, arguments)
    expected, theirs = gradients(sums, [x.detach().double().requires_grad_() for x in arguments])
    for name, one, other in zip(("y", *NAMES), (y, *ours), (expected, *theirs), strict=True):
        assert one.isfinite().all(), name
        assert (one - other).abs().max() <= tolerance * other.abs().max(), name


@pytest.mark.parametrize("length", [1, 2, 3, 16, 41])
def test_it_is_the_quotient_of_the_two_sums(length):
    assert_like_the_sums(inputs(length), 1e-13)


def test_small_numbers_without_any_shift():
    """Where nothing overflows the plain formula needs no care: a check of the check above."""
    k, v, w, u = inputs(7)
    plain = torch.empty_like(k)
    for t in range(7):
        past = [torch.exp((t - 1 - i) * w[:, None] + k[:, :, i]) for i in range(t)] + [
            torch.exp(u[:, None] + k[:, :, t])
        ]
        plain[:, :, t] = sum(a * v[:, :, i] for i, a in enumerate(past)) / sum(past)
    torch.testing.assert_close(wkv(k, v, w, u), plain, rtol=1e-13, atol=1e-13)


def test_gradcheck():
    assert torch.autograd.gradcheck(wkv, inputs(6, P=2, B=2, D=2))


def test_float32_is_close_to_float64():
    assert_like_the_sums(inputs(65, dtype=torch.float32), 3e-6)


@pytest.mark.parametrize(
    "rate", [1e-9, 0.0067, 20.0, 1e4], ids=["no decay", "slowest", "fastest", "absurd"]
)
@pytest.mark.parametrize("keys", [10.0, 100.0])
def test_large_keys_and_any_decay_stay_finite_and_right(keys, rate):
    """e^100 is no float32, nor is e^(-20 * 100); the shares they lead to are."""
    k, v, w, u = inputs(40, dtype=torch.float32, keys=keys)
    w = torch.full_like(w, -rate).requires_grad_()
    assert_like_the_sums([k, v, w, u], 1e-4)


def test_what_no_float_can_hold_stays_finite():
    """Keys that jump by more than the largest exponent, in both directions,
    and a long silence after them.
    """
    k, v, w, u = inputs(300, dtype=torch.float32)
    with torch.no_grad():
        k[:, :, 5], k[:, :, 6], k[:, :, 7] = 3e4, -3e4, 6e4
    y, found = gradients(wkv, [k, v, w, u])
    assert all(x.isfinite().all() for x in (y, *found))
    assert torch.equal(y[:, :, 7], v[:, :, 7])  # its weight is all there is
    torch.testing.assert_close(y[:, :, 6], v[:, :, 5])


def test_the_first_output_is_the_first_value():
    k, v, w, u = inputs(4)
    assert torch.equal(wkv(k, v, w, u)[:, :, 0], v[:, :, 0])


def test_no_decay_and_no_bonus_is_the_running_softmax_mean():
    k, v, w, u = inputs(9)
    weights = k.exp()
    expected = (weights * v).cumsum(2) / weights.cumsum(2)
    torch.testing.assert_close(wkv(k, v, torch.zeros_like(w), torch.zeros_like(u)), expected)


def test_a_constant_added_to_all_keys_changes_nothing():
    k, v, w, u = inputs(9)
    torch.testing.assert_close(wkv(k + 1000, v, w, u), wkv(k, v, w, u), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("keys", [1.0, 100.0])
def test_the_official_recurrence_is_the_same_function(keys):
    k, v, w, u = inputs(60, keys=keys)
    zeros = torch.zeros_like(k[:, :, 0])
    past, outputs = (zeros, zeros, zeros - math.inf), []
    for t in range(60):
        y, past = wkv_step(k[:, :, t], v[:, :, t], w, u, past)
        outputs.append(y)
        assert (past[1] >= 1).all()  # the largest weight counts as 1, so a quotient is never 0 / 0
    torch.testing.assert_close(torch.stack(outputs, 2), wkv(k, v, w, u), rtol=1e-12, atol=1e-12)


def test_members_do_not_see_each_other():
    arguments = inputs(20, P=3)
    y, ours = gradients(wkv, arguments)
    poisoned = [x.detach().clone() for x in arguments]
    for x in poisoned:
        x[1] = float("nan")
    y_poisoned, theirs = gradients(wkv, [x.requires_grad_() for x in poisoned])
    for one, other in zip((y, *ours), (y_poisoned, *theirs), strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert other[1].isnan().all()


def test_shapes_alone_are_enough():
    """The planner counts memory on a device without numbers."""
    k, v, w, u = (x.detach().to("meta").requires_grad_() for x in inputs(5))
    y = wkv(k, v, w, u)
    y.sum().backward()
    assert y.shape == k.shape == k.grad.shape
    assert w.grad.shape == u.grad.shape == w.shape
