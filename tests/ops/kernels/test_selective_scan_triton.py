"""The selective scan's kernels against the plain form in float64:
outputs and all gradients; and Mamba's gate.
"""

import pytest
import torch
import torch.nn.functional as F
from compared import assert_close, outcome
from torch import Tensor

import recollect.training.population  # noqa: F401  (tells MKL not to let sums depend on alignment)
from recollect.ops.selective_scan import plain

kernels = pytest.importorskip("recollect.ops.selective_scan.triton_kernel")
walks = pytest.importorskip("recollect.ops.selective_scan.triton_scan")
gates = pytest.importorskip("recollect.ops.silu_gate.triton_kernel")

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, L, E, N, R: ranks that are a multiple of eight take another path than others.
CASES = [
    (1, 1, 1, 1, 1, 1),
    (2, 3, 9, 7, 3, 2),
    (2, 2, 10, 24, 16, 4),
    (3, 2, 5, 17, 2, 8),
    (1, 2, 17, 16, 4, 16),
    # Lengths around a chunk, channels around a block, one to many states.
    (3, 5, 2, 7, 16, 1),
    (1, 33, 1, 17, 3, 2),
    (2, 1, 17, 33, 16, 3),
    (1, 2, 8, 64, 8, 4),
    (1, 2, 9, 65, 5, 5),
    (1, 2, 2, 9, 64, 1),
    (1, 1, 5, 5, 256, 1),
]
CASES += (
    [
        (4, 64, 64, 128, 16, 4),
        (2, 16, 256, 256, 16, 8),
        (16, 512, 64, 128, 16, 4),
        (4, 33, 256, 256, 16, 8),
        (1, 16, 512, 1024, 16, 32),
        (3, 65, 63, 100, 16, 4),
    ]
    if DEVICE == "cuda"
    else []
)


def made(case: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """u, W, V, the bias of the step sizes, a_log, skip."""
    P, B, L, E, N, R = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int, scale: float = 1.0) -> Tensor:
        return (torch.randn(shape, generator=generator) * scale).to(DEVICE)

    u = draw(P, B, L, E).to(dtype)
    weights = [draw(P, E, R + 2 * N, scale=E**-0.5), draw(P, R, E, scale=R**-0.5), draw(P, E) - 1]
    return [u, *weights, draw(P, E, N, scale=0.5), draw(P, E)]


def one_by_one(
    u: Tensor, select: Tensor, up: Tensor, bias: Tensor, a_log: Tensor, skip: Tensor
) -> Tensor:
    rank, states = up.shape[1], a_log.shape[2]
    low, b, c = torch.einsum("pble,peo->pblo", u, select).split((rank, states, states), -1)
    delta = F.softplus(torch.einsum("pblr,pre->pble", low, up) + bias[:, None, None])
    return plain.recurrence(u, delta, -a_log.exp(), b, c) + u * skip[:, None, None]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_steps_one_by_one(case):
    tensors = made(case)
    assert_close(
        outcome(kernels.selective_scan, tensors),
        outcome(one_by_one, [x.double() for x in tensors]),
        5e-6,
    )


@pytest.mark.parametrize("case", [*CASES[2:4], CASES[7]], ids=str)
def test_a_bfloat16_sequence_with_float32_weights(case):
    tensors = made(case, torch.bfloat16)
    found = outcome(kernels.selective_scan, tensors)
    assert [x.dtype for x in found] == [torch.bfloat16] * 2 + [torch.float32] * 5
    assert_close(found, outcome(one_by_one, [x.double() for x in tensors]), 5e-2)


@pytest.mark.parametrize("case", [(2, 3, 9, 7, 3, 2), (2, 3, 8, 16, 4, 8)], ids=str)
def test_what_nobody_reads_is_left_out(case):
    """Rows that are read up to some step:
    the same y there, and the gradients of a y that is read nowhere else.
    """
    tensors, length = made(case), case[2]
    steps = torch.tensor([1, 5, length], dtype=torch.int32, device=DEVICE)
    read = (torch.arange(length, device=DEVICE) < steps[:, None])[None, :, :, None]

    def short(*inputs: Tensor) -> Tensor:
        return kernels.selective_scan(*inputs, steps).masked_fill(~read, 0.0)

    def whole(*inputs: Tensor) -> Tensor:
        return kernels.selective_scan(*inputs).masked_fill(~read, 0.0)

    for one, other in zip(outcome(short, tensors), outcome(whole, tensors), strict=True):
        assert torch.equal(one, other)


def test_small_steps_keep_their_digits():
    """log(1 + e) and 1 - exp(-delta) lose theirs at small delta:
    each channel alone is compared, down to 3e-7.
    """
    tensors = made((1, 2, 3, 4, 2, 1))
    tensors[3] = tensors[3] - torch.arange(4, device=DEVICE) * 4
    found, wanted = (
        outcome(f, x)
        for f, x in ((kernels.selective_scan, tensors), (one_by_one, [x.double() for x in tensors]))
    )
    assert_close(list(found[4].unbind(-1)), list(wanted[4].unbind(-1)), 5e-6, least=1e-30)


def test_large_steps_do_not_overflow():
    tensors = made((1, 1, 3, 4, 2, 1))
    tensors[3] = tensors[3] + 200
    found, wanted = (
        outcome(f, x)
        for f, x in ((kernels.selective_scan, tensors), (one_by_one, [x.double() for x in tensors]))
    )
    assert_close(found[:1], wanted[:1], 5e-6)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_nan_stays_in_its_member():
    tensors = made((3, 2, 5, 8, 4, 4))
    clean = outcome(kernels.selective_scan, tensors)
    tensors[0][1] = torch.nan
    for one, other in zip(outcome(kernels.selective_scan, tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
    for x in tensors:
        x[1] = torch.nan
    for one, other in zip(outcome(kernels.selective_scan, tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().all()


def test_strided_inputs_and_gradient():
    tensors = made((2, 3, 4, 6, 4, 2))

    def scan(*inputs: Tensor) -> Tensor:
        turned = [x.transpose(1, -1).contiguous().transpose(1, -1) for x in inputs]
        return kernels.selective_scan(*turned).transpose(1, 2).contiguous().transpose(1, 2)

    assert_close(outcome(scan, tensors), outcome(one_by_one, [x.double() for x in tensors]), 5e-6)


@pytest.mark.skipif(DEVICE == "cuda", reason="a GPU's library chooses products by their number")
def test_members_alone_as_in_company():
    tensors = made((3, 3, 9, 5, 4, 2))

    def members(tensors: list[Tensor]) -> list[Tensor]:
        """The output and the gradients under the same weights of a member's outputs."""
        leaves = [x.detach().requires_grad_() for x in tensors]
        y = kernels.selective_scan(*leaves)
        return [y.detach(), *torch.autograd.grad(y, leaves, leaves[0].detach().cos())]

    together, alone = members(tensors), members([x[1:2] for x in tensors])
    assert all(torch.equal(one, other[1:2]) for one, other in zip(alone, together, strict=True))


def test_walks_alone_as_in_company():
    """The part of the operation between its products, on a GPU too."""
    P, B, L, E, N = 3, 3, 9, 5, 4
    generator = torch.Generator().manual_seed(7)
    shapes = [(P, B, L, E)] * 3 + [(P, N, E)] + [(P, B, L, N)] * 2 + [(P, E)]
    dy, u, delta, a, b, c, skip = (
        torch.rand(shape, generator=generator).to(DEVICE) for shape in shapes
    )
    steps_B = torch.full((B,), L, dtype=torch.int32, device=DEVICE)

    def walk(*members: Tensor) -> list[Tensor]:
        # A slice may begin where a kernel cannot load several numbers at once, an allocation not.
        dy, u, delta, a, b, c, skip = (x.clone() for x in members)
        y, borders = walks.run_forward(u, delta, -a, b, c, skip, steps_B, True)
        draw, db, dc = torch.empty_like(u), torch.empty_like(b), torch.empty_like(c)
        gradients = walks.run_backward(dy, u, delta, -a, b, c, skip, steps_B, borders, draw, db, dc)
        return [y, draw, db, dc, *gradients]

    inputs = dy, u, delta, a, b, c, skip
    together, alone = walk(*inputs), walk(*(x[1:2] for x in inputs))
    assert all(torch.equal(one, other[1:2]) for one, other in zip(alone, together, strict=True))


def test_without_gradients_the_same():
    tensors = [x.requires_grad_() for x in made(CASES[1])]
    with torch.no_grad():
        y = kernels.selective_scan(*tensors)
    assert torch.equal(y, kernels.selective_scan(*tensors))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 3, 7), (3, 2, 5, 33), (1, 600, 65)], ids=str)
def test_the_gate(shape, dtype):
    """Its second argument is half of a larger tensor, as in the mixer."""
    generator = torch.Generator().manual_seed(1)
    y = torch.randn(shape, generator=generator).to(DEVICE, dtype)
    both = torch.randn(*shape[:-1], 2 * shape[-1], generator=generator).to(DEVICE, dtype)
    tensors = [y, both[..., shape[-1] :]]
    found = outcome(gates.silu_gate, tensors)
    assert [x.dtype for x in found] == [dtype] * 3
    wanted = outcome(lambda y, gate: y * F.silu(gate), [x.double() for x in tensors])
    assert_close(found, wanted, 2e-6 if dtype == torch.float32 else 2e-2)
