"""RWKV-4's kernels against the plain operation in float64:
output and all four gradients, at any key and decay.
"""

import pytest
import torch
from torch import Tensor

from recollect.ops.wkv import triton_kernel, wkv

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 1e-2}
NAMES = ("y", "dk", "dv", "dw", "du")


def cases() -> list[tuple[int, int, int, int]]:
    """Members, rows, length, channels."""
    small = [
        (1, 1, 1, 1),
        (3, 5, 2, 7),
        (1, 33, 17, 17),
        (3, 1, 17, 65),
        (1, 5, 9, 64),
        (1, 2, 5, 130),
    ]
    large = [(16, 512, 64, 64), (8, 256, 256, 128), (2, 256, 256, 512)]
    return small + (large if DEVICE == "cuda" else [])


def inputs(
    members: int, rows: int, length: int, channels: int, dtype=torch.float32
) -> list[Tensor]:
    """k, v, dy, w, u; the first three are parts of something wider or longer."""
    torch.manual_seed(length)
    wide = torch.randn(members, rows, length, 2 * channels, device=DEVICE).to(dtype)
    dy = torch.randn(members, rows, length + 2, channels, device=DEVICE).to(dtype)[:, :, 1:-1]
    w, u = torch.randn(2, members, channels, device=DEVICE)
    return [*wide.chunk(2, dim=-1), dy, -(w - 1).exp(), u]


def results(function, k: Tensor, v: Tensor, dy: Tensor, w: Tensor, u: Tensor) -> list[Tensor]:
    arguments = [x.detach().requires_grad_() for x in (k, v, w, u)]
    y = function(*arguments)
    return [y.detach(), *torch.autograd.grad(y, arguments, dy)]


def assert_like_the_plain_one(arguments: list[Tensor], tolerance: float, monkeypatch) -> None:
    found = results(triton_kernel.wkv, *arguments)
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")
    wanted = results(wkv, *(x.double() for x in arguments))
    rounded = results(
        wkv, *(x.float() for x in arguments)
    )  # what the plain form loses to long sums
    for name, one, other, third in zip(NAMES, found, wanted, rounded, strict=True):
        assert one.dtype == (torch.float32 if name in ("dw", "du") else arguments[0].dtype)
        allowed = torch.maximum(tolerance * other.abs().max(), 2 * (third - other).abs().max())
        assert (one - other).abs().max() <= allowed + 1e-30, name


@pytest.mark.parametrize("dtype", list(TOLERANCE), ids=str)
@pytest.mark.parametrize("case", cases(), ids=str)
def test_it_is_the_plain_mean(case, dtype, monkeypatch):
    assert_like_the_plain_one(inputs(*case, dtype), TOLERANCE[dtype], monkeypatch)


@pytest.mark.parametrize("rate", [1e-9, 20.0, 1e4], ids=["no decay", "fast", "absurd"])
def test_large_keys_and_any_decay_stay_finite_and_right(rate, monkeypatch):
    k, v, dy, w, u = inputs(1, 3, 17, 5)
    assert_like_the_plain_one([100 * k, v, dy, torch.full_like(w, -rate), u], 1e-4, monkeypatch)


def test_nothing_is_kept_where_no_gradient_is_wanted():
    k, v, _, w, u = inputs(2, 3, 5, 7)
    w.requires_grad_()
    with torch.no_grad():
        quick = triton_kernel.wkv(k, v, w, u)
    assert torch.equal(quick, triton_kernel.wkv(k, v, w, u))


def test_any_strides_are_read_right():
    k, v, dy, w, u = inputs(2, 3, 5, 7)
    views = [x.transpose(2, 3).contiguous().transpose(2, 3) for x in (k, v, dy)]
    for one, other in zip(
        results(triton_kernel.wkv, k, v, dy, w, u),
        results(triton_kernel.wkv, *views, w, u),
        strict=True,
    ):
        assert torch.equal(one, other)


def test_a_member_is_the_same_alone_and_beside_one_that_is_not_a_number():
    arguments = inputs(3, 5, 9, 7)
    broken = [x.clone() for x in arguments]
    for x in broken:
        x[1] = float("nan")
    together = results(triton_kernel.wkv, *broken)
    for p in (0, 2):
        alone = results(triton_kernel.wkv, *(x[p : p + 1] for x in arguments))
        for one, other in zip(alone, together, strict=True):
            assert torch.equal(one[0], other[p])
    assert all(x[1].isnan().all() for x in together)
