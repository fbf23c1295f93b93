"""The kernels of LSTM and GRU against plain loops in float64: outputs and all gradients."""

import pytest
import torch
from compared import assert_close, outcome
from torch import Tensor

lstm_triton = pytest.importorskip(
    "recollect.ops.lstm.triton_kernel", reason="Triton is not installed"
)
gru_triton = pytest.importorskip(
    "recollect.ops.gru.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, L, D. Rows and widths around a tile.
CASES = [(1, 1, 1, 1), (3, 5, 7, 7), (1, 33, 2, 17), (1, 65, 3, 4)]
CASES += [(4, 200, 64, 64), (2, 100, 200, 50), (2, 64, 64, 128)] if DEVICE == "cuda" else []


def plain_lstm(x_PBLG: Tensor, bias_PG: Tensor, recur_PDG: Tensor) -> Tensor:
    population, batch, _, channels = x_PBLG.shape
    h = c = x_PBLG.new_zeros(population, batch, channels // 4)
    outputs = []
    for x_PBG in x_PBLG.unbind(2):
        i, f, g, o = (x_PBG + bias_PG[:, None] + h @ recur_PDG).chunk(4, dim=-1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        outputs.append(h)
    return torch.stack(outputs, dim=2)


def plain_gru(x_PBLG: Tensor, bias_PF: Tensor, recur_PDG: Tensor) -> Tensor:
    population, batch, _, channels = x_PBLG.shape
    h = x_PBLG.new_zeros(population, batch, channels // 3)
    b_r, b_z, b_n, b_s = bias_PF[:, None].chunk(4, dim=-1)
    outputs = []
    for x_PBG in x_PBLG.unbind(2):
        (x_r, x_z, x_n), (s_r, s_z, s_n) = x_PBG.chunk(3, dim=-1), (h @ recur_PDG).chunk(3, dim=-1)
        r, z = (x_r + b_r + s_r).sigmoid(), (x_z + b_z + s_z).sigmoid()
        n = (x_n + b_n + r * (s_n + b_s)).tanh()
        h = (1 - z) * n + z * h
        outputs.append(h)
    return torch.stack(outputs, dim=2)


# The kernel, the loop, and how many gates there are for each channel.
BOTH = {"lstm": (lstm_triton.lstm, plain_lstm, 4), "gru": (gru_triton.gru, plain_gru, 3)}
either = pytest.mark.parametrize(("kernel", "plain", "gates"), BOTH.values(), ids=BOTH)


def made(case: tuple[int, ...], gates: int) -> list[Tensor]:
    """What the gates get from the input, their biases and U."""
    P, B, L, D = case
    generator = torch.Generator().manual_seed(sum(case))
    shapes = [(P, B, L, gates * D), (P, 4 * D), (P, D, gates * D)]
    x, bias, recur = (torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes)
    return [x, bias, recur * D**-0.5]


@either
@pytest.mark.parametrize("case", [case for case in CASES if case[3] <= 64], ids=str)
def test_it_is_the_plain_loop(kernel, plain, gates, case):
    tensors = made(case, gates)
    wanted = outcome(plain, tensors, [torch.float64] * 3)
    assert_close(outcome(kernel, tensors, [torch.float32] * 3), wanted, 1e-5)


@either
@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
@pytest.mark.parametrize("case", CASES[1:], ids=str)
def test_in_bfloat16(kernel, plain, gates, case):
    """The large tensors are; U, the bias and their gradients stay float32."""
    tensors = made(case, gates)
    tensors[0] = tensors[0].bfloat16()
    found = outcome(kernel, tensors, [torch.bfloat16, torch.float32, torch.float32])
    assert [x.dtype for x in found] == [
        torch.bfloat16,
        torch.bfloat16,
        torch.float32,
        torch.float32,
    ]
    assert_close(found, outcome(plain, tensors, [torch.float64] * 3), 4e-2)


@either
def test_a_member_sees_no_other(kernel, plain, gates):
    tensors, dtypes = made(CASES[1], gates), [torch.float32] * 3
    together = outcome(kernel, tensors, dtypes)
    tensors[0][0, 0, 0, 0] = torch.nan
    beside = outcome(kernel, tensors, dtypes)
    alone = outcome(kernel, [x[1:2] for x in tensors], dtypes)
    assert torch.equal(alone[0][0], together[0][1])
    assert all(torch.equal(one[1:], other[1:]) for one, other in zip(beside, together, strict=True))


@either
def test_nothing_is_kept_without_gradients(kernel, plain, gates):
    tensors = made(CASES[1], gates)
    with torch.no_grad():
        found = kernel(*tensors)
    assert torch.equal(found, outcome(kernel, tensors, [torch.float32] * 3)[0])
