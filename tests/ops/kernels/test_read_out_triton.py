"""The kernels between an mLSTM's scores and its last projection against the plain form in float64:
outputs, all gradients.
"""

from functools import partial

import pytest
import torch
from compared import assert_close, outcome
from torch import Tensor

from recollect.ops import read_out as plain

kernels = pytest.importorskip(
    "recollect.ops.read_out.triton_kernel", reason="Triton is not installed"
)
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# P, B, L, heads, channels of a head.
CASES = [(1, 1, 1, 1, 7), (3, 1, 5, 2, 17), (1, 3, 33, 1, 64), (2, 1, 2, 3, 65), (1, 1, 40, 2, 1)]
if DEVICE == "cuda":
    CASES += [(4, 64, 64, 1, 128), (2, 16, 256, 1, 256), (1, 8, 64, 4, 256), (1, 4, 16, 1, 1024)]
EPS = 1e-5
KERNELS, PLAIN = partial(kernels.read_out, eps=EPS), partial(plain.read_out, eps=EPS)


def made(case: tuple[int, ...]) -> list[Tensor]:
    """h, its divisor, c, z, scale and skip; h and the divisor have the heads before the positions,
    z is half of a tensor.
    """
    P, B, L, H, D = case
    generator = torch.Generator().manual_seed(sum(case))

    def draw(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator).to(DEVICE)

    h, divisor = draw(P, B, H, L, D).transpose(2, 3), (draw(P, B, H, L).abs() + 0.3).transpose(2, 3)
    return [
        h,
        divisor,
        draw(P, B, L, H * D),
        draw(P, B, L, 2 * H * D)[..., : H * D],
        draw(P, H * D),
        draw(P, H * D),
    ]


def least(case: tuple[int, ...]) -> float:
    """A head of one channel is normalised to nothing: its gradients are zero, and what rounding
    leaves of them is amplified.
    """
    return EPS**-0.5 if case[-1] == 1 else 1e-3


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_plain_form(case):
    tensors = made(case)
    assert_close(
        outcome(KERNELS, tensors), outcome(PLAIN, tensors, torch.float64), 5e-6, least(case)
    )


@pytest.mark.parametrize("case", CASES, ids=str)
def test_in_bfloat16(case):
    tensors = made(case)
    for index in (0, 2, 3):
        tensors[index] = tensors[index].bfloat16()
    assert_close(
        outcome(KERNELS, tensors), outcome(PLAIN, tensors, torch.float64), 1e-2, least(case)
    )


def test_without_a_divisor():
    h, _, *tensors = made(CASES[1])
    found, wanted = (
        outcome(
            lambda h, *others, function=function: function(h, None, *others), [h, *tensors], dtype
        )
        for function, dtype in ((KERNELS, None), (PLAIN, torch.float64))
    )
    assert_close(found, wanted, 5e-6)


@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_members_do_not_meet():
    tensors = made(CASES[1])
    clean = outcome(KERNELS, tensors)
    alone = outcome(KERNELS, [x[1:2] for x in tensors])
    assert torch.equal(alone[0], clean[0][1:2])
    tensors[0][1] = torch.nan
    for one, other in zip(outcome(KERNELS, tensors), clean, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
