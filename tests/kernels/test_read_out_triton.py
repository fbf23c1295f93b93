"""The kernels between an mLSTM's scores and its last projection against the plain form in float64: outputs, all gradients."""

import pytest
import torch
from torch import Tensor

from recollect.ops import read_out as plain

kernels = pytest.importorskip("recollect.ops.read_out_triton", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# P, B, L, heads, channels of a head.
CASES = [(1, 1, 1, 1, 7), (3, 1, 5, 2, 17), (1, 3, 33, 1, 64), (2, 1, 2, 3, 65), (1, 1, 40, 2, 1)]
if DEVICE == "cuda":
    CASES += [(4, 64, 64, 1, 128), (2, 16, 256, 1, 256), (1, 8, 64, 4, 256), (1, 4, 16, 1, 1024)]
EPS = 1e-5


def made(case: tuple[int, ...]) -> list[Tensor]:
    """h, its divisor, c, z, scale and skip; h and the divisor have the heads before the positions, z is half of a tensor."""
    P, B, L, H, D = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    h, divisor = draw(P, B, H, L, D).transpose(2, 3), (draw(P, B, H, L).abs() + 0.3).transpose(2, 3)
    return [h, divisor, draw(P, B, L, H * D), draw(P, B, L, 2 * H * D)[..., : H * D], draw(P, H * D), draw(P, H * D)]


def outcome(function, tensors: list[Tensor | None], dtype: torch.dtype | None = None) -> list[Tensor]:
    tensors = [None if x is None else (x if dtype is None else x.to(dtype)).detach().requires_grad_() for x in tensors]
    out = function(*tensors, EPS)
    factor = torch.cos(torch.arange(out.numel(), device=out.device) % 1009).view_as(out).to(out.dtype)
    return [out.detach(), *torch.autograd.grad(out, [x for x in tensors if x is not None], factor)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float, width: int = 0) -> None:
    # A head of one channel is normalised to nothing: its gradients are zero, and what rounding leaves of them is amplified.
    least = EPS**-0.5 if width == 1 else 1e-3
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape, index
        error = float((one.double() - other).abs().max() / other.abs().max().clamp(min=least))
        assert error < tolerance, f"tensor {index}: {error:.2e}"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_plain_form(case):
    tensors = made(case)
    assert_close(outcome(kernels.read_out, tensors), outcome(plain.read_out, tensors, torch.float64), 5e-6, case[-1])


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_bfloat16(case):
    tensors = made(case)
    for index in (0, 2, 3):
        tensors[index] = tensors[index].bfloat16()
    assert_close(outcome(kernels.read_out, tensors), outcome(plain.read_out, tensors, torch.float64), 1e-2, case[-1])


def test_without_a_divisor():
    tensors: list[Tensor | None] = [*made(CASES[1])]
    tensors[1] = None
    assert_close(outcome(kernels.read_out, tensors), outcome(plain.read_out, tensors, torch.float64), 5e-6)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_members_do_not_meet():
    tensors = made(CASES[1])
    clean = outcome(kernels.read_out, tensors)
    alone = outcome(kernels.read_out, [x[1:2] for x in tensors])
    assert torch.equal(alone[0], clean[0][1:2])
    tensors[0][1] = torch.nan
    for one, other in zip(outcome(kernels.read_out, tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
