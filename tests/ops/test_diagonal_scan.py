"""The diagonal scan against the recurrence under autograd: outputs and both gradients, and the
decays that break quotients.
"""

import pytest
import torch
from torch import Tensor

from recollect.ops.diagonal_scan import diagonal_scan

DOUBLE = torch.float64


def arguments(length: int, *channels: int, dtype: torch.dtype = DOUBLE) -> list[Tensor]:
    """Decays in (0, 1), a few of them exactly 0 or 1, and inputs."""
    generator = torch.Generator().manual_seed(length)
    shape = (2, 3, length, *channels)
    a, x = (
        torch.rand(shape, generator=generator, dtype=dtype),
        torch.randn(shape, generator=generator, dtype=dtype),
    )
    edge = torch.rand(shape, generator=generator)
    a = a.masked_fill(edge < 0.1, 0.0).masked_fill(edge > 0.9, 1.0)
    return [a.requires_grad_(), x.requires_grad_()]


def recurrence(a: Tensor, x: Tensor) -> Tensor:
    h, states = torch.zeros_like(x[:, :, 0]), []
    for decay, value in zip(a.unbind(2), x.unbind(2), strict=True):
        h = decay * h + value
        states.append(h)
    return torch.stack(states, dim=2)


def with_gradients(scan, a: Tensor, x: Tensor) -> list[Tensor]:
    h = scan(a, x)
    weights = torch.cos(torch.arange(h.numel(), dtype=h.dtype)).view_as(h)
    return [h.detach(), *torch.autograd.grad((h * weights).sum(), [a, x])]


@pytest.mark.parametrize("length", [1, 2, 7, 64])
@pytest.mark.parametrize("channels", [(5,), (2, 3)], ids=str)
def test_it_is_the_recurrence(length, channels):
    a, x = arguments(length, *channels)
    found, wanted = with_gradients(diagonal_scan, a, x), with_gradients(recurrence, a, x)
    for name, one, other in zip(("states", "da", "dx"), found, wanted, strict=True):
        torch.testing.assert_close(
            one, other, rtol=1e-13, atol=1e-13, msg=lambda text, name=name: f"{name}: {text}"
        )


def test_gradcheck():
    assert torch.autograd.gradcheck(diagonal_scan, arguments(6, 2))


def test_float32_is_close_to_float64():
    double = arguments(256, 4)
    single = [x.detach().float().requires_grad_() for x in double]
    for one, other in zip(
        with_gradients(diagonal_scan, *single), with_gradients(recurrence, *double), strict=True
    ):
        torch.testing.assert_close(one.double(), other, rtol=1e-5, atol=1e-4)


def test_a_decay_of_one_adds_up_and_a_decay_of_zero_forgets_all():
    _, x = arguments(9, 4)
    assert torch.equal(diagonal_scan(torch.zeros_like(x), x), x)
    torch.testing.assert_close(
        diagonal_scan(torch.ones_like(x), x), x.cumsum(2), rtol=1e-14, atol=1e-14
    )


def test_decays_far_below_the_smallest_float_are_no_trouble():
    """512 decays of 1e-30: their product underflows at the second, its inverse overflows."""
    x = torch.ones(1, 1, 512, 3).requires_grad_()
    a = torch.full((1, 1, 512, 3), 1e-30).requires_grad_()
    h, da, dx = with_gradients(diagonal_scan, a, x)
    assert torch.equal(h, torch.ones_like(h))
    assert da.isfinite().all()
    assert dx.isfinite().all()


def test_the_first_decay_has_no_effect_and_no_gradient():
    a, x = arguments(5, 2)
    other = a.detach().clone()
    other[:, :, 0] = 7
    assert torch.equal(diagonal_scan(a, x), diagonal_scan(other, x))
    assert not with_gradients(diagonal_scan, a, x)[1][:, :, 0].any()


def test_arguments_that_are_views_are_read_right_and_left_alone():
    """An expanded decay and a transposed input, as effective attention passes them."""
    narrow, _ = arguments(6, 3, 1)
    _, wide = arguments(6, 4, 3)
    x, before = wide.transpose(3, 4), wide.detach().clone()
    found = with_gradients(
        lambda a, x: diagonal_scan(a.expand_as(x.transpose(3, 4)), x.transpose(3, 4)), narrow, wide
    )
    wanted = with_gradients(
        lambda a, x: recurrence(a.expand_as(x.transpose(3, 4)), x.transpose(3, 4)), narrow, wide
    )
    assert found[0].shape == x.shape
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-13, atol=1e-13)
    assert torch.equal(wide, before)
