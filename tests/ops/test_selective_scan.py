"""The plain selective scan against a float64 loop under autograd:
outputs and all five gradients, at awkward lengths.
"""

import pytest
import torch
from torch import Tensor

from recollect.ops.selective_scan import plain
from recollect.ops.selective_scan.plain import CHUNK
from recollect.ops.selective_scan.plain import recurrence as scan


def inputs(
    length: int, P: int = 2, B: int = 3, E: int = 4, N: int = 5, dtype: torch.dtype = torch.float64
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(length)

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=dtype)

    u, delta, a = draw(P, B, length, E), draw(P, B, length, E).exp() * 0.1, -draw(P, E, N).exp()
    return [x.requires_grad_() for x in (u, delta, a, draw(P, B, length, N), draw(P, B, length, N))]


def loop(u: Tensor, delta: Tensor, a: Tensor, b: Tensor, c: Tensor) -> Tensor:
    """h_t = exp(delta_t A) h_{t-1} + delta_t u_t B_t, y_t = h_t C_t, written as such."""
    h, outputs = torch.zeros(*u.shape[:2], u.shape[3], a.shape[2], dtype=u.dtype), []
    for t in range(u.shape[2]):
        decay = torch.exp(torch.einsum("pbe,pen->pben", delta[:, :, t], a))
        h = decay * h + torch.einsum("pbe,pbn->pben", delta[:, :, t] * u[:, :, t], b[:, :, t])
        outputs.append(torch.einsum("pben,pbn->pbe", h, c[:, :, t]))
    return torch.stack(outputs, dim=2)


def gradients(function, arguments: list[Tensor]) -> tuple[Tensor, tuple[Tensor, ...]]:
    y = function(*arguments)
    weight = torch.cos(torch.arange(y.numel(), dtype=y.dtype)).view_as(y)
    return y.detach(), torch.autograd.grad((y * weight).sum(), arguments)


@pytest.mark.parametrize("length", [1, 2, 7, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5])
def test_scan_equals_the_recurrence(length):
    arguments = inputs(length)
    y, ours = gradients(scan, arguments)
    expected, theirs = gradients(loop, arguments)
    torch.testing.assert_close(y, expected, rtol=1e-11, atol=1e-12)
    for name, one, other in zip(("u", "delta", "a", "b", "c"), ours, theirs, strict=True):
        torch.testing.assert_close(
            one,
            other,
            rtol=1e-11,
            atol=1e-12,
            msg=lambda text, name=name: f"gradient of {name}: {text}",
        )


def test_float32_is_close_to_float64():
    double = inputs(3 * CHUNK + 5)
    single = [x.detach().float().requires_grad_() for x in double]
    y, ours = gradients(scan, single)
    expected, theirs = gradients(loop, double)
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


def test_gradcheck():
    assert torch.autograd.gradcheck(scan, inputs(CHUNK + 3, P=1, B=1, E=2, N=2))


def test_strong_decay_stays_finite():
    """delta = 0.7 with sixteen rates forgets by exp(-11) a step: products of decays underflow, and
    must do so quietly.
    """
    u, _, _, b, c = inputs(512, P=1, B=1, E=8, N=16, dtype=torch.float32)
    delta = torch.full_like(u, 0.7).requires_grad_()
    a = -torch.arange(1.0, 17).expand(1, 8, 16).contiguous().requires_grad_()
    arguments = [u, delta, a, b, c]
    y, ours = gradients(scan, arguments)
    expected, theirs = gradients(loop, [x.detach().double().requires_grad_() for x in arguments])
    assert y.isfinite().all()
    torch.testing.assert_close(y.double(), expected, rtol=1e-5, atol=1e-5)
    for one, other in zip(ours, theirs, strict=True):
        assert one.isfinite().all()
        torch.testing.assert_close(one.double(), other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "floats", [1, 2 * 4 * 5 * CHUNK, 2**30], ids=["a row at a time", "two rows", "all rows"]
)
def test_row_blocks_do_not_matter(monkeypatch, floats):
    arguments = inputs(CHUNK + 5, B=5)
    _, theirs = gradients(loop, arguments)
    monkeypatch.setattr(plain, "CACHE_FLOATS", floats)
    y, ours = gradients(scan, arguments)
    torch.testing.assert_close(y, loop(*arguments), rtol=1e-11, atol=1e-12)
    for one, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_members_do_not_see_each_other():
    arguments = inputs(CHUNK + 5, P=3)
    y, ours = gradients(scan, arguments)
    poisoned = [x.detach().clone() for x in arguments]
    for x in poisoned:
        x[1] = float("nan")
    y_poisoned, theirs = gradients(scan, [x.requires_grad_() for x in poisoned])
    for one, other in zip((y, *ours), (y_poisoned, *theirs), strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert other[1].isnan().any()


def test_views_are_taken_as_they_are():
    """Mamba hands over slices of one projection, whose rows are not contiguous."""
    u, delta, a, b, c = inputs(9)
    joined = torch.cat((b, c), dim=-1).detach()
    views = joined.split(5, dim=-1)
    assert not views[0].is_contiguous()
    assert torch.equal(scan(u, delta, a, *views), scan(u, delta, a, b, c))
