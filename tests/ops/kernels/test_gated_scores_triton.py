"""The kernels of gated scores against the plain form in float64: outputs and all gradients."""

import pytest
import torch
from compared import assert_close, outcome
from torch import Tensor

from recollect.ops.gated_scores import plain

kernels = pytest.importorskip(
    "recollect.ops.gated_scores.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, G, H, L, D, E, queries asked for (0: all). Lengths around a block of 64, shared keys, odd
# widths.
CASES = [
    (1, 1, 1, 1, 1, 1, 1, 0),
    (2, 1, 2, 2, 17, 8, 5, 0),
    (1, 2, 1, 3, 33, 4, 16, 0),
    (1, 1, 1, 1, 70, 16, 7, 0),
]
CASES += [(2, 2, 1, 2, 20, 3, 4, 3), (1, 1, 2, 2, 70, 5, 17, 20), (1, 1, 1, 2, 65, 4, 4, 65)]
CASES += [(1, 1, 1, 1, 3, 256, 256, 0), (1, 1, 1, 1, 5, 130, 256, 2)]
if DEVICE == "cuda":
    CASES += [
        (4, 32, 1, 2, 64, 128, 64, 0),
        (2, 16, 1, 4, 256, 128, 64, 16),
        (2, 8, 1, 1, 200, 100, 128, 0),
    ]

WIDE = [
    (2, 8, 1, 1, 256, 256, 256, 0),
    (2, 8, 1, 1, 256, 256, 256, 16),
    (1, 4, 2, 2, 64, 128, 256, 0),
]  # not in exact float32


def made(case: tuple[int, ...]) -> tuple[list[Tensor], Tensor | None]:
    """q, k, v, row, column and skip; and where. q, k and v are parts of larger tensors, gates
    running sums of decays.
    """
    P, B, G, H, L, D, E, asked = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    where = torch.randint(L, (B, asked), generator=generator).to(DEVICE) if asked else None
    q = draw(P, B, asked or L, G, D + 3)[..., :D].transpose(2, 3)
    k, v = draw(P, B, L, G, 2 * D)[..., D:].transpose(2, 3), draw(P, B, L, H, E).transpose(2, 3)
    running = -(draw(P, B, H, L).double().abs() * 0.3).cumsum(-1)
    row = (
        running if where is None else running.gather(3, where[None, :, None].expand(P, B, H, asked))
    )
    return [q, k, v, row, draw(P, B, H, L).double() - running, draw(P, H)], where


def asked(function, where: Tensor | None):
    return lambda *tensors: function(*tensors, where)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_plain_form(case):
    tensors, where = made(case)
    wanted = outcome(asked(plain.gated_scores, where), tensors, torch.float64)
    assert_close(outcome(asked(kernels.gated_scores, where), tensors), wanted, 5e-6)


@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
@pytest.mark.parametrize("case", CASES[1:] + WIDE, ids=str)
def test_in_bfloat16(case):
    """q, k and v as they are after rounding; what is computed with them is rounded in between."""
    tensors, where = made(case)
    tensors[:3] = [x.bfloat16() for x in tensors[:3]]
    wanted = outcome(asked(plain.gated_scores, where), tensors, torch.float64)
    assert_close(outcome(asked(kernels.gated_scores, where), tensors), wanted, 2e-2)


@pytest.mark.parametrize("case", CASES[1:3], ids=str)
def test_without_a_direct_path(case):
    tensors, where = made(case)

    def without(function):
        return lambda q, k, v, row, column, where: function(q, k, v, row, column, None, where)

    wanted = outcome(asked(without(plain.gated_scores), where), tensors[:-1], torch.float64)
    assert_close(outcome(asked(without(kernels.gated_scores), where), tensors[:-1]), wanted, 5e-6)


def test_some_queries_are_those_of_all():
    """The plain form itself: asked for every position in turn it is the whole."""
    tensors, _ = made(CASES[1])
    every = torch.arange(17, device=DEVICE)[None]
    assert_close(
        outcome(asked(plain.gated_scores, every), tensors),
        outcome(asked(plain.gated_scores, None), tensors),
        1e-6,
    )


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_a_nan_stays_in_its_member():
    tensors, where = made((3, 1, 1, 2, 18, 4, 4, 0))
    clean = outcome(asked(kernels.gated_scores, where), tensors)
    tensors[0][1] = torch.nan
    for one, other in zip(outcome(asked(kernels.gated_scores, where), tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])


def test_strong_decays_underflow_to_zero():
    tensors, where = made(CASES[1])
    tensors[3], tensors[4] = tensors[3] * 1e4, -tensors[3] * 1e4
    found = outcome(asked(kernels.gated_scores, where), tensors)
    assert all(x.isfinite().all() for x in found)
    assert_close(
        found[:3], outcome(asked(plain.gated_scores, where), tensors, torch.float64)[:3], 5e-6
    )
