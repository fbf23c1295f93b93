"""The diagonal scan's kernels against the plain operation in float64: states and both gradients."""

import pytest
import torch
from torch import Tensor

from recollect.ops.diagonal_scan import diagonal_scan, triton_kernel

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}


def cases() -> list[tuple[int, ...]]:
    """Members, rows, length, channels."""
    small = [
        (1, 1, 1, 1),
        (3, 5, 2, 7),
        (1, 33, 17, 17),
        (3, 1, 17, 65),
        (1, 5, 9, 64),
        (1, 2, 5, 130),
    ]
    small += [(2, 3, 5), (2, 2, 5, 3, 7), (1, 2, 3, 2, 2, 5)]  # no axis of channels, two, three
    large = [(16, 512, 64, 64), (8, 256, 256, 128), (2, 256, 256, 512)]
    return small + (large if DEVICE == "cuda" else [])


def inputs(shape: tuple[int, ...], dtype=torch.float32) -> list[Tensor]:
    """Decays in (0, 1), a few of them exactly 0 or 1, inputs,
    and gradients in the middle of something longer.
    """
    torch.manual_seed(len(shape))
    a, x = torch.rand(shape, device=DEVICE), torch.randn(shape, device=DEVICE)
    edge = torch.rand(shape, device=DEVICE)
    a = a.masked_fill(edge < 0.1, 0.0).masked_fill(edge > 0.9, 1.0)
    dh = torch.randn(*shape[:2], shape[2] + 2, *shape[3:], device=DEVICE)[:, :, 1:-1]
    return [a.to(dtype), x.to(dtype), dh.to(dtype)]


def results(function, a: Tensor, x: Tensor, dh: Tensor) -> list[Tensor]:
    arguments = [a.detach().requires_grad_(), x.detach().requires_grad_()]
    h = function(*arguments)
    return [h.detach(), *torch.autograd.grad(h, arguments, dh)]


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_it_is_the_plain_scan(shape, dtype, monkeypatch):
    arguments = inputs(shape, dtype)
    found = results(triton_kernel.diagonal_scan, *arguments)
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")
    wanted = results(diagonal_scan, *(x.double() for x in arguments))
    for name, one, other in zip(("h", "da", "dx"), found, wanted, strict=True):
        assert one.dtype == dtype
        assert one.shape == other.shape
        assert (one - other).abs().max() <= TOLERANCE[dtype] * other.abs().max(), name


def test_a_shared_decay_and_a_transposed_input_are_read_where_they_lie(monkeypatch):
    a, _, _ = inputs((2, 3, 5, 7, 1))
    wide, _, dh = inputs((2, 3, 5, 4, 7))
    arguments = a.expand(2, 3, 5, 7, 4), wide.transpose(3, 4), dh.transpose(3, 4)
    copied = [x.contiguous() for x in arguments]
    monkeypatch.setattr(Tensor, "contiguous", None)
    for one, other in zip(
        results(triton_kernel.diagonal_scan, *arguments),
        results(triton_kernel.diagonal_scan, *copied),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_the_first_decay_has_no_effect_and_no_gradient():
    a, x, dh = inputs((2, 3, 5, 7))
    other = a.clone()
    other[:, :, 0] = float("nan")
    expected = results(triton_kernel.diagonal_scan, a, x, dh)
    for one, two in zip(results(triton_kernel.diagonal_scan, other, x, dh), expected, strict=True):
        assert torch.equal(one, two)
    assert not expected[1][:, :, 0].any()


def test_a_member_is_the_same_alone_and_beside_one_that_is_not_a_number():
    arguments = inputs((3, 5, 9, 7))
    broken = [x.clone() for x in arguments]
    for x in broken:
        x[1] = float("nan")
    together = results(triton_kernel.diagonal_scan, *broken)
    for p in (0, 2):
        alone = results(triton_kernel.diagonal_scan, *(x[p : p + 1] for x in arguments))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[p])
    assert all(x[1].isnan().any() for x in together)
