"""H3's kernels against the plain forms in float64: outputs and all gradients."""

import pytest
import torch
from compared import assert_close, outcome
from torch import Tensor
from zoo import Case, spread

from recollect.ops.channels_first import from_channels, to_channels
from recollect.ops.long_conv import toeplitz

kernels = pytest.importorskip("recollect.ops.h3.triton_kernel", reason="Triton is not installed")
filters = pytest.importorskip("recollect.ops.h3.triton_filters", reason="Triton is not installed")
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
pytestmark = pytest.mark.usefixtures("exact_products")
# P, B, L, H, channels of a head. Rows and lengths around a tile of 64 and a chunk of 128.
CASES = [
    (1, 1, 1, 1, 1),
    (3, 5, 17, 2, 2),
    (1, 33, 2, 1, 3),
    (1, 3, 65, 1, 2),
    (1, 2, 130, 1, 1),
    (1, 130, 16, 1, 1),
]
CASES += (
    [(4, 200, 64, 32, 2), (2, 100, 250, 16, 4), (2, 32, 512, 4, 2), (1, 40, 64, 1, 64)]
    if DEVICE == "cuda"
    else []
)


def plain(parts_PCBL: Tensor, bias_PC: Tensor, shift_PDL: Tensor, filter_PHL: Tensor) -> Tensor:
    q, k, v = (parts_PCBL + bias_PC[..., None, None]).chunk(3, dim=1)
    k = k @ toeplitz(shift_PDL).transpose(-1, -2)
    heads = filter_PHL.shape[1]
    # P, H, B, L, channels
    q, k, v = (x.unflatten(1, (heads, -1)).permute(0, 1, 3, 4, 2) for x in (q, k, v))
    weights_PHBLL = (q @ k.transpose(-1, -2)) * toeplitz(filter_PHL)[:, :, None]
    return (weights_PHBLL @ v).permute(0, 1, 4, 2, 3).flatten(1, 2)


def made(case: tuple[int, ...]) -> list[Tensor]:
    """q, k and v, their biases and two filters."""
    P, B, L, H, head = case
    generator, D = torch.Generator().manual_seed(sum(case)), H * head
    shapes = [(P, 3 * D, B, L), (P, 3 * D), (P, D, L), (P, H, L)]
    return [torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_it_is_the_plain_form(case):
    tensors = made(case)
    # A GPU adds up the terms of a filter's gradient, up to 160,000 of them, one after the other.
    assert_close(
        outcome(kernels.mix, tensors),
        outcome(plain, tensors, torch.float64),
        5e-6 if DEVICE == "cpu" else 3e-5,
    )


@pytest.mark.skipif(
    DEVICE == "cpu",
    reason="the interpreter multiplies the bits of bf16 as if they were whole numbers",
)
def test_in_bfloat16():
    """Only the large tensor is; filters, biases and their gradients stay float32."""
    tensors = made(CASES[1])
    tensors[0] = tensors[0].bfloat16()
    found = outcome(kernels.mix, tensors, [torch.bfloat16, *[torch.float32] * 3])
    assert [x.dtype for x in found] == [torch.bfloat16, torch.bfloat16, *[torch.float32] * 3]
    assert_close(found, outcome(plain, tensors, torch.float64), 3e-2)


def test_a_member_sees_no_other():
    tensors = made(CASES[1])
    together = outcome(kernels.mix, tensors)
    tensors[0][0, 0, 0, 0] = torch.nan
    beside = outcome(kernels.mix, tensors)
    alone = outcome(kernels.mix, [x[1:2] for x in tensors])
    assert torch.equal(alone[0][0], together[0][1])
    assert all(torch.equal(one[1:], other[1:]) for one, other in zip(beside, together, strict=True))


@pytest.mark.parametrize(("state", "length"), [(4, 9), (34, 20), (66, 130)])
def test_filters_are_those_of_the_plain_mixer(state, length):
    """A state longer than the sequence or shorter,
    around a tile of 64 lags and of 16 complex numbers.
    """
    mixer = spread(
        Case("h3", {"state": state, "head": 2}).build(
            population=2, width=4, length=length, dtype=torch.float64
        )
    )
    mixer = mixer.to(DEVICE)
    shift = [mixer.shift_b_PDN, mixer.shift_c_PDN, mixer.shift_skip_PD]
    diagonal = [
        mixer.a_PHM,
        mixer.omega_PHM,
        mixer.b_PHM2,
        mixer.c_PHM2,
        mixer.log_dt_PH,
        mixer.skip_PH,
    ]
    for made_by_kernel, made_by_mixer, tensors in [
        (filters.shift_filter, mixer._shift_kernel, shift),
        (filters.diagonal_filter, mixer._diagonal_kernel, diagonal),
    ]:
        found = outcome(lambda *x, made=made_by_kernel: made(*x, length), tensors, torch.float32)
        y = made_by_mixer(length)
        y = torch.cat((y[..., :1] + tensors[-1][..., None], y[..., 1:]), dim=-1)
        factors = torch.cos(torch.arange(y.numel(), device=DEVICE) % 1009).view_as(y).to(y.dtype)
        wanted = [y.detach(), *torch.autograd.grad(y, tensors, factors)]
        # A rounding error of a base grows with its exponent.
        assert_close(found, wanted, 3e-6 + 5e-7 * length)


@pytest.mark.parametrize("case", [(1, 1, 1, 1, 1), (3, 2, 5, 7, 4)], ids=str)
def test_products_into_and_out_of_channels(case):
    P, B, L, D, C = case
    generator = torch.Generator().manual_seed(1)
    shapes = [(P, B, L, D), (P, D, C), (P, C, D), (P, D)]
    tensors = [torch.randn(shape, generator=generator).to(DEVICE) for shape in shapes]

    def there_and_back(
        x_PBLD: Tensor, into_PDC: Tensor, out_PCO: Tensor, bias_PO: Tensor
    ) -> Tensor:
        y_PCBL = to_channels(x_PBLD, into_PDC)
        assert y_PCBL.shape == (P, C, B, L)
        assert y_PCBL.is_contiguous()
        return from_channels(y_PCBL, out_PCO, bias_PO)

    def directly(x_PBLD: Tensor, into_PDC: Tensor, out_PCO: Tensor, bias_PO: Tensor) -> Tensor:
        return (
            torch.einsum("pbld,pdc,pco->pblo", x_PBLD, into_PDC, out_PCO) + bias_PO[:, None, None]
        )

    wanted = outcome(directly, tensors, torch.float64)
    assert_close(outcome(there_and_back, tensors), wanted, 5e-6)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = outcome(there_and_back, tensors)
    assert [x.dtype for x in found] == [torch.bfloat16, *[torch.float32] * 4]
    assert_close(found, wanted, 3e-2)
