"""The LSTM's kernels against a plain loop in float64: outputs and all gradients."""

import pytest
import torch
from torch import Tensor

kernels = pytest.importorskip("recollect.ops.lstm_triton", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# P, B, L, D. Rows and widths around a tile.
CASES = [(1, 1, 1, 1), (3, 5, 7, 7), (1, 33, 2, 17), (1, 65, 3, 4)]
CASES += [(4, 200, 64, 64), (2, 100, 200, 50), (2, 64, 64, 128)] if DEVICE == "cuda" else []


@pytest.fixture(autouse=True)
def _exact_products():
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("highest")
    yield
    torch.set_float32_matmul_precision(before)


def plain(x_PBLG: Tensor, bias_PG: Tensor, recur_PDG: Tensor) -> Tensor:
    population, batch, _, channels = x_PBLG.shape
    h = c = x_PBLG.new_zeros(population, batch, channels // 4)
    outputs = []
    for x_PBG in x_PBLG.unbind(2):
        i, f, g, o = (x_PBG + bias_PG[:, None] + h @ recur_PDG).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs, dim=2)


def made(case: tuple[int, ...]) -> list[Tensor]:
    """Gates that depend on the input, their bias and U."""
    P, B, L, D = case
    generator = torch.Generator().manual_seed(sum(case))
    shapes = [(P, B, L, 4 * D), (P, 4 * D), (P, D, 4 * D)]
    x, bias, recur = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    return [x, bias, recur * D**-0.5]


def outcome(function, tensors: list[Tensor], dtypes: list[torch.dtype]) -> list[Tensor]:
    tensors = [x.to(dtype).detach().requires_grad_() for x, dtype in zip(tensors, dtypes, strict=True)]
    y = function(*tensors)
    factors = torch.cos(torch.arange(y.numel(), device=y.device) % 1009).view_as(y).to(y.dtype)
    return [y.detach(), *torch.autograd.grad(y, tensors, factors)]


def assert_close(found: list[Tensor], wanted: list[Tensor], tolerance: float) -> None:
    for index, (one, other) in enumerate(zip(found, wanted, strict=True)):
        assert one.shape == other.shape, index
        error = float((one.double() - other).abs().max() / other.abs().max().clamp(min=1e-6))
        assert error < tolerance, f"tensor {index}: {error:.2e}"


@pytest.mark.parametrize("case", [case for case in CASES if case[3] <= 64], ids=str)
def test_it_is_the_plain_loop(case):
    tensors = made(case)
    wanted = outcome(plain, tensors, [torch.float64] * 3)
    assert_close(outcome(kernels.lstm, tensors, [torch.float32] * 3), wanted, 1e-5)


@pytest.mark.skipif(DEVICE == "cpu", reason="the interpreter multiplies the bits of bf16 as if they were whole numbers")
@pytest.mark.parametrize("case", CASES[1:], ids=str)
def test_in_bfloat16(case):
    """The large tensors are; U, the bias and their gradients stay float32."""
    tensors = made(case)
    tensors[0] = tensors[0].bfloat16()
    found = outcome(kernels.lstm, tensors, [torch.bfloat16, torch.float32, torch.float32])
    assert [x.dtype for x in found] == [torch.bfloat16, torch.bfloat16, torch.float32, torch.float32]
    assert_close(found, outcome(plain, tensors, [torch.float64] * 3), 4e-2)


def test_a_member_sees_no_other():
    tensors, dtypes = made(CASES[1]), [torch.float32] * 3
    together = outcome(kernels.lstm, tensors, dtypes)
    tensors[0][0, 0, 0, 0] = torch.nan
    beside = outcome(kernels.lstm, tensors, dtypes)
    alone = outcome(kernels.lstm, [x[1:2] for x in tensors], dtypes)
    assert torch.equal(alone[0][0], together[0][1])
    assert all(torch.equal(one[1:], other[1:]) for one, other in zip(beside, together, strict=True))


def test_nothing_is_kept_without_gradients():
    tensors = made(CASES[1])
    with torch.no_grad():
        found = kernels.lstm(*tensors)
    assert torch.equal(found, outcome(kernels.lstm, tensors, [torch.float32] * 3)[0])


def test_what_does_not_fit_on_chip_is_refused():
    assert kernels.fits(128, torch.bfloat16)
    assert kernels.fits(64, torch.float32)
    assert not kernels.fits(65, torch.float32)
    assert not kernels.fits(256, torch.bfloat16)
