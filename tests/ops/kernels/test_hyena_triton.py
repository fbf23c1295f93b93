"""Hyena's kernels against the plain forms in float64: outputs and all gradients."""

import pytest
import torch
import torch.nn.functional as F
from compared import assert_close, outcome
from torch import Tensor
from zoo import Case, spread

from recollect.ops.long_conv import toeplitz

kernels = pytest.importorskip("recollect.ops.hyena.triton_kernel", reason="Triton is not installed")
filters = pytest.importorskip("recollect.ops.hyena.triton_filter", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, L, D, K. Rows and lengths around a tile of 64; beyond 64 positions other kernels; more taps
# than positions.
CASES = [
    (1, 1, 1, 1, 1),
    (3, 5, 17, 2, 3),
    (1, 33, 2, 7, 4),
    (1, 65, 64, 1, 3),
    (1, 3, 65, 2, 3),
    (2, 2, 130, 1, 70),
]
CASES += [(1, 600, 5, 1, 2), (1, 130, 66, 1, 1)]  # two chunks of rows
CASES += (
    [(4, 700, 64, 32, 3), (2, 100, 250, 16, 4), (2, 32, 512, 4, 3), (2, 100, 40, 5, 64)]
    if DEVICE == "cuda"
    else []
)


def plain(
    parts_PCBL: Tensor, bias_PC: Tensor, taps_PKC: Tensor, shift_PC: Tensor, filter_PDL: Tensor
) -> Tensor:
    length = parts_PCBL.shape[3]
    # toeplitz wants as many taps as positions, the last tap being lag 0.
    short_PCK = taps_PKC.flip(1).transpose(1, 2)
    short_PCL = F.pad(short_PCK, (0, max(0, length - short_PCK.shape[2])))[..., :length]
    z_PCBL = (parts_PCBL + bias_PC[..., None, None]) @ toeplitz(short_PCL).transpose(
        -1, -2
    ) + shift_PC[..., None, None]
    first, second, v = z_PCBL.chunk(3, dim=1)
    return (v * first) @ toeplitz(filter_PDL).transpose(-1, -2) * second


def made(case: tuple[int, ...]) -> list[Tensor]:
    """What the gates and values come from, its bias, taps and biases of the short convolution,
    and the long filter.
    """
    P, B, L, D, K = case
    generator = torch.Generator().manual_seed(sum(case))
    shapes = [(P, 3 * D, B, L), (P, 3 * D), (P, K, 3 * D), (P, 3 * D), (P, D, L)]
    return [torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes]


WAYS = ["tiles of whole sequences", "of any length"]


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    """Both ways to the same numbers, whatever would be taken."""
    fits = request.param == WAYS[0]
    monkeypatch.setattr(
        kernels, "_fits", lambda parts_PCBL: fits and parts_PCBL.shape[3] <= kernels.POSITIONS
    )


# Sequences that no tile holds have the second way alone.
@pytest.mark.parametrize(
    ("case", "way"),
    [
        (case, way)
        for case in CASES
        for way in WAYS
        if way == WAYS[1] or case[2] <= kernels.POSITIONS
    ],
    indirect=["way"],
    ids=str,
)
def test_it_is_the_plain_form(case, way):
    tensors = made(case)
    assert_close(outcome(kernels.mix, tensors), outcome(plain, tensors, torch.float64), 5e-6)


@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
@pytest.mark.parametrize(
    "case", [(3, 5, 17, 2, 3), (2, 600, 64, 3, 3), (1, 70, 64, 1, 64), (3, 5, 70, 2, 3)], ids=str
)
def test_in_bfloat16(case):
    """Only the large tensor is; filters, biases and their gradients stay float32."""
    tensors = made(case)
    tensors[0] = tensors[0].bfloat16()
    found = outcome(kernels.mix, tensors, [torch.bfloat16, *[torch.float32] * 4])
    assert [x.dtype for x in found] == [torch.bfloat16, torch.bfloat16, *[torch.float32] * 4]
    assert_close(found, outcome(plain, tensors, torch.float64), 3e-2)


def test_a_member_sees_no_other(way):
    tensors = made((3, 5, 17, 2, 3))
    together = outcome(kernels.mix, tensors)
    tensors[0][0, 0, 0, 0] = torch.nan
    beside = outcome(kernels.mix, tensors)
    alone = outcome(kernels.mix, [x[1:2] for x in tensors])
    assert torch.equal(alone[0][0], together[0][1])
    assert all(torch.equal(one[1:], other[1:]) for one, other in zip(beside, together, strict=True))


def test_tensors_may_be_views():
    tensors = made((2, 3, 5, 2, 3))
    views = [x.transpose(-1, -2).contiguous().transpose(-1, -2) for x in tensors]
    assert all(
        torch.equal(*pair)
        for pair in zip(outcome(kernels.mix, views), outcome(kernels.mix, tensors), strict=True)
    )


@pytest.mark.parametrize("options", [{}, {"filter": "safari", "filter_width": 5}], ids=str)
@pytest.mark.parametrize(("width", "length", "built"), [(5, 7, 7), (66, 65, 70)])
def test_the_filter_is_that_of_the_plain_mixer(options, width, length, built):
    """Also of a sequence shorter than those the mixer was built for; around tiles of 64."""
    mixer = spread(
        Case("hyena", options).build(population=2, width=width, length=built, dtype=torch.float64)
    ).to(DEVICE)

    def with_gradients(filter_PDL: Tensor) -> list[Tensor]:
        parts = (mixer.filter_into, mixer.filter_inner, mixer.filter_out)
        parameters = [
            *(x for part in parts for x in part.parameters()),
            mixer.omega_PF,
            mixer.skip_PD,
        ]
        parameters += [] if mixer.lags_PLZ is None else [mixer.lags_PLZ]
        factors = (
            torch.cos(torch.arange(filter_PDL.numel(), device=DEVICE) % 1009)
            .view_as(filter_PDL)
            .to(filter_PDL.dtype)
        )
        return [filter_PDL.detach(), *torch.autograd.grad(filter_PDL, parameters, factors)]

    wanted = with_gradients(
        mixer._filter(length) + F.pad(mixer.skip_PD[..., None], (0, length - 1))
    )
    mixer.float()
    assert_close(
        with_gradients(filters.implicit_filter(mixer._network(length), mixer.skip_PD)), wanted, 1e-5
    )
