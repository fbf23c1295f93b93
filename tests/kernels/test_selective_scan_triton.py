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
    small = [(1, 1, 1, 1, 1), (3, 5, 2, 7, 16), (1, 33, 1, 17, 3), (2, 1, 17, 33, 16), (1, 2, 8, 64, 8), (1, 2, 9, 65, 5)]
    small += [(1, 2, 2, 9, 64), (1, 1, 5, 5, 256)]
    real = [(16, 512, 64, 128, 16), (4, 33, 256, 256, 16), (1, 16, 512, 1024, 16), (3, 65, 63, 100, 16)]
    return small + (real if DEVICE == "cuda" else [])


def inputs(case: tuple[int, int, int, int, int], dtype: torch.dtype = torch.float32, gate: bool = True) -> list[Tensor]:
    """u, raw, a_log, b, c, skip and the gate; b, c and the gate are parts of larger tensors, as in the mixer."""
    P, B, L, E, N = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(dtype).to(DEVICE)

    u, raw, bc, z = draw(P, B, L, E), draw(P, B, L, E) - 1, draw(P, B, L, 2 * N + 1), draw(P, B, L, 2 * E)
    a_log, skip = draw(P, E, N).float() * 0.5, draw(P, E).float()
    tensors = [u, raw, a_log, bc[..., 1 : N + 1], bc[..., N + 1 :], skip] + [z[..., E:]] * gate
    return [x.detach().requires_grad_() for x in tensors]


def gradients(scan: Scan, arguments: list[Tensor]) -> list[Tensor]:
    """The output and the gradients of a weighted sum of it."""
    y = scan(*arguments)
    weight = torch.cos(torch.arange(y.numel(), device=y.device) % 1009).view_as(y).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, arguments, weight)]


def in_double(scan: Scan, arguments: list[Tensor]) -> list[Tensor]:
    return gradients(scan, [x.detach().double().requires_grad_() for x in arguments])


def plain_arguments(arguments: list[Tensor]) -> list[Tensor]:
    """What the scan alone takes: delta and A themselves."""
    u, raw, a_log, b, c, *_ = (x.detach() for x in arguments)
    return [x.requires_grad_() for x in (u, torch.nn.functional.softplus(raw), -a_log.exp(), b, c)]


def assert_close(ours: list[Tensor], theirs: list[Tensor], tolerance: float) -> None:
    for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
        error = (one.double() - other).abs().max() / other.abs().max().clamp(min=1e-30)
        assert one.shape == other.shape
        assert error < tolerance, f"tensor {index}: {error:.2e}"


@pytest.fixture(autouse=True)
def kernels_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RECOLLECT_KERNELS", "off")  # for the plain functions; the tests call the kernels themselves


@pytest.mark.parametrize("case", cases(), ids=str)
def test_scan(case):
    arguments = plain_arguments(inputs(case))
    assert_close(gradients(triton_kernels.selective_scan, arguments), in_double(plain.selective_scan, arguments), 2e-6)


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("case", cases()[1::4], ids=str)
def test_gated_scan(case, gate):
    arguments = inputs(case, gate=gate)
    closing = () if gate else (None,)
    ours = gradients(lambda *x: triton_kernels.gated_selective_scan(*x, *closing), arguments)
    assert_close(ours, in_double(lambda *x: plain.gated_selective_scan(*x, *closing), arguments), 2e-6)


def test_small_steps_keep_their_gradient():
    """1 - exp(-delta) loses its digits at small delta."""
    u, raw, *others = inputs((1, 2, 3, 4, 2))
    raw = (raw.detach() - torch.arange(4, device=DEVICE) * 3).requires_grad_()  # delta from about 0.3 down to 3e-5
    ours = gradients(triton_kernels.gated_selective_scan, [u, raw, *others])[2]
    theirs = in_double(plain.gated_selective_scan, [u, raw, *others])[2]
    assert_close(list(ours.unbind(-1)), list(theirs.unbind(-1)), 5e-6)


@pytest.mark.parametrize("case", cases()[3::4], ids=str)
def test_bfloat16(case):
    arguments = inputs(case, torch.bfloat16)
    ours = gradients(triton_kernels.gated_selective_scan, arguments)
    assert [x.dtype for x in ours] == [torch.bfloat16] * 3 + [torch.float32] + [torch.bfloat16] * 2 + [
        torch.float32,
        torch.bfloat16,
    ]
    assert_close(ours, in_double(plain.gated_selective_scan, arguments), 2e-2)


def test_strided_inputs_and_gradient():
    arguments = inputs((2, 3, 4, 6, 4))
    strided = [x.detach().transpose(1, -1).contiguous().transpose(1, -1).requires_grad_() for x in arguments]

    def scan(*x: Tensor) -> Tensor:
        return triton_kernels.gated_selective_scan(*x).transpose(1, 2).contiguous().transpose(1, 2)

    assert_close(gradients(scan, strided), in_double(plain.gated_selective_scan, arguments), 2e-6)


def test_without_gradients_the_same():
    arguments = inputs((2, 2, 9, 5, 3))
    with torch.no_grad():
        y = triton_kernels.gated_selective_scan(*arguments)
    assert torch.equal(y, triton_kernels.gated_selective_scan(*arguments))


def test_members_alone_as_in_company():
    """The scan without torch's own softplus, whose last bits on a CPU depend on where an element lies."""
    arguments = plain_arguments(inputs((3, 3, 9, 5, 4)))
    weight = arguments[0].detach().cos()
    y = triton_kernels.selective_scan(*arguments)
    together = [y, *torch.autograd.grad(y, arguments, weight)]
    member = [x.detach()[1:2].requires_grad_() for x in arguments]
    y = triton_kernels.selective_scan(*member)
    alone = [y, *torch.autograd.grad(y, member, weight[1:2])]
    assert all(torch.equal(one, other[1:2]) for one, other in zip(alone, together, strict=True))


def test_a_nan_stays_in_its_member():
    arguments = inputs((3, 3, 3, 7, 4))
    clean = gradients(triton_kernels.gated_selective_scan, arguments)
    poisoned = [x.detach().clone() for x in arguments]
    for x in poisoned:
        x[1] = torch.nan
    ours = gradients(triton_kernels.gated_selective_scan, [x.requires_grad_() for x in poisoned])
    for one, other in zip(ours, clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().all()
