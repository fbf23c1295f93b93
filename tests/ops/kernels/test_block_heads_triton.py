"""The kernels of the mLSTM's projections and gates against the plain form in float64:
outputs and all gradients.
"""

import pytest
import torch
from compared import assert_close, outcome
from torch import Tensor

from recollect.ops.block_heads import composed

kernels = pytest.importorskip(
    "recollect.ops.block_heads.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, L, channels, channels of a block, gates, queries asked for (0: all). Widths around a tile of
# 64, rows around 512.
CASES = [
    (1, 1, 1, 1, 1, 2, 0),
    (3, 1, 5, 16, 4, 2, 0),
    (1, 2, 33, 72, 4, 6, 0),
    (2, 1, 7, 64, 64, 2, 0),
    (1, 1, 515, 4, 2, 2, 0),
]
CASES += [(2, 2, 9, 8, 4, 2, 3), (1, 1, 33, 130, 2, 18, 5)]
if DEVICE == "cuda":
    CASES += [
        (4, 64, 64, 128, 4, 2, 0),
        (2, 16, 256, 256, 4, 2, 16),
        (2, 16, 256, 256, 4, 2, 0),
        (1, 4, 64, 1024, 16, 8, 0),
    ]
SCALE = 0.3


def made(case: tuple[int, ...]) -> tuple[list[Tensor], Tensor | None]:
    """c, u, the three projections and the gates' weights for c and u;
    and where. u is part of a larger tensor.
    """
    P, B, L, E, O, G, asked = case  # noqa: E741
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    where = torch.randint(L, (B, asked), generator=generator).to(DEVICE) if asked else None
    weights = [draw(P, E // O, O, O) for _ in range(3)] + [draw(P, E, G) for _ in range(2)]
    return [draw(P, B, L, E), draw(P, B, L, 2 * E)[..., E:], *weights], where


def asked(function, where: Tensor | None):
    return lambda *tensors: function(*tensors, SCALE, where)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_plain_form(case):
    tensors, where = made(case)
    assert_close(
        outcome(asked(kernels.block_heads, where), tensors),
        outcome(asked(composed.block_heads, where), tensors, torch.float64),
        4e-6,
    )


@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
@pytest.mark.parametrize("case", [case for case in CASES if not case[-1]], ids=str)
def test_in_bfloat16(case):
    tensors, where = made(case)
    tensors[:2] = [x.bfloat16() for x in tensors[:2]]
    assert_close(
        outcome(asked(kernels.block_heads, where), tensors),
        outcome(asked(composed.block_heads, where), tensors, torch.float64),
        2e-2,
    )


def test_outputs_that_nobody_uses():
    tensors, _ = made(CASES[1])
    tensors = [x.requires_grad_() for x in tensors]
    gates = kernels.block_heads(*tensors, SCALE, None)[3]
    found = torch.autograd.grad(gates.sum(), tensors)
    wanted = torch.autograd.grad(
        composed.block_heads(*tensors, SCALE, None)[3].sum(), tensors, allow_unused=True
    )
    for one, other in zip(found, wanted, strict=True):
        assert torch.allclose(one, torch.zeros_like(one) if other is None else other, atol=1e-5)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_members_do_not_meet():
    tensors, where = made((3, 1, 6, 8, 4, 2, 0))
    clean = outcome(asked(kernels.block_heads, where), tensors)
    alone = outcome(asked(kernels.block_heads, where), [x[1:2] for x in tensors])
    assert torch.equal(alone[0], clean[0][1:2])
    tensors[0][1] = torch.nan
    for one, other in zip(outcome(asked(kernels.block_heads, where), tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
