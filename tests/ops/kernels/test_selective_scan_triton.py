"""The kernels of the selective scan against the plain form in float64: outputs and all gradients."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from recollect.ops import selective_scan as plain

triton_kernels = pytest.importorskip("recollect.ops.selective_scan_triton")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
Scan = Callable[..., Tensor]


def cases() -> list[tuple[int, int, int, int, int]]:
    """P, B, L, E, N; lengths around a chunk, channels around a block, one to many states."""
    small = [
        (1, 1, 1, 1, 1),
        (3, 5, 2, 7, 16),
        (1, 33, 1, 17, 3),
        (2, 1, 17, 33, 16),
        (1, 2, 8, 64, 8),
        (1, 2, 9, 65, 5),
    ]
    small += [(1, 2, 2, 9, 64), (1, 1, 5, 5, 256)]
    real = [
        (16, 512, 64, 128, 16),
        (4, 33, 256, 256, 16),
        (1, 16, 512, 1024, 16),
        (3, 65, 63, 100, 16),
    ]
    return small + (real if DEVICE == "cuda" else [])


def inputs(
    case: tuple[int, int, int, int, int], dtype: torch.dtype = torch.float32
) -> list[Tensor]:
    """u, delta, a, b and c; b and c are parts of a larger tensor, as in the mixer."""
    P, B, L, E, N = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(DEVICE)

    u, raw, bc = draw(P, B, L, E), draw(P, B, L, E) - 1, draw(P, B, L, 2 * N + 1)
    a = -(draw(P, E, N).float() * 0.5).exp()
    delta = torch.nn.functional.softplus(raw.float()).to(dtype)
    return [
        x.detach().requires_grad_() for x in (u, delta, a, bc[..., 1 : N + 1], bc[..., N + 1 :])
    ]


def gradients(scan: Scan, arguments: list[Tensor]) -> list[Tensor]:
    """The output and the gradients of a weighted sum of it."""
    y = scan(*arguments)
    weight = torch.cos(torch.arange(y.numel(), device=y.device) % 1009).view_as(y).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, arguments, weight)]


def in_double(scan: Scan, arguments: list[Tensor]) -> list[Tensor]:
    return gradients(scan, [x.detach().double().requires_grad_() for x in arguments])


def assert_close(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        error = (one.double() - other).abs().max() / other.abs().max().clamp(min=1e-30)
        assert one.shape == other.shape
        assert error < tolerance, f"tensor {index}: {error:.2e}"


@pytest.fixture(autouse=True)
def kernels_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(
        "RECOLLECT_KERNELS", "off"
    )  # for the plain functions; the tests call the kernels themselves


@pytest.mark.parametrize("case", cases(), ids=str)
def test_scan(case):
    arguments = inputs(case)
    assert_close(
        gradients(triton_kernels.selective_scan, arguments),
        in_double(plain.selective_scan, arguments),
        2e-6,
    )


@pytest.mark.parametrize("case", cases()[3::4], ids=str)
def test_bfloat16(case):
    arguments = inputs(case, torch.bfloat16)
    ours = gradients(triton_kernels.selective_scan, arguments)
    kinds = (
        [torch.bfloat16] * 3 + [torch.float32] + [torch.bfloat16] * 2
    )  # A and its gradient stay float32
    assert [x.dtype for x in ours] == kinds
    assert_close(ours, in_double(plain.selective_scan, arguments), 2e-2)


def test_strided_inputs_and_gradient():
    arguments = inputs((2, 3, 4, 6, 4))
    strided = [
        x.detach().transpose(1, -1).contiguous().transpose(1, -1).requires_grad_()
        for x in arguments
    ]

    def scan(*x: Tensor) -> Tensor:
        return triton_kernels.selective_scan(*x).transpose(1, 2).contiguous().transpose(1, 2)

    assert_close(gradients(scan, strided), in_double(plain.selective_scan, arguments), 2e-6)


def test_without_gradients_the_same():
    arguments = inputs((2, 2, 9, 5, 3))
    with torch.no_grad():
        y = triton_kernels.selective_scan(*arguments)
    assert torch.equal(y, triton_kernels.selective_scan(*arguments))


def test_members_alone_as_in_company():
    arguments = inputs((3, 3, 9, 5, 4))
    weight = arguments[0].detach().cos()
    y = triton_kernels.selective_scan(*arguments)
    together = [y, *torch.autograd.grad(y, arguments, weight)]
    member = [x.detach()[1:2].requires_grad_() for x in arguments]
    y = triton_kernels.selective_scan(*member)
    alone = [y, *torch.autograd.grad(y, member, weight[1:2])]
    assert all(torch.equal(one, other[1:2]) for one, other in zip(alone, together, strict=True))


def test_a_nan_stays_in_its_member():
    arguments = inputs((3, 3, 3, 7, 4))
    clean = gradients(triton_kernels.selective_scan, arguments)
    poisoned = [x.detach().clone() for x in arguments]
    for x in poisoned:
        x[1] = torch.nan
    ours = gradients(triton_kernels.selective_scan, [x.requires_grad_() for x in poisoned])
    for one, other in zip(ours, clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().all()
