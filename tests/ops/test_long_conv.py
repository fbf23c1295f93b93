"""The long convolution: two ways to the same sum, causality, isolation; and the kernels of powers
that H3 convolves with.
"""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks
from zoo import inputs

import recollect.training.population  # noqa: F401  (sets how MKL sums before the first product)
from recollect.ops.h3.power_sums import power_sums, powers
from recollect.ops.long_conv import (
    TOEPLITZ_LENGTH,
    by_fft,
    by_toeplitz,
    encoded_lags,
    last_output,
    long_conv,
    operations,
    toeplitz,
)

SINGLE, DOUBLE = torch.float32, torch.float64
both_ways = pytest.mark.parametrize("conv", [by_toeplitz, by_fft])
LENGTHS = [1, 2, 3, 37, TOEPLITZ_LENGTH, TOEPLITZ_LENGTH + 1, 300]


def arguments(
    population: int, batch: int, length: int, width: int, dtype: torch.dtype = DOUBLE
) -> tuple[Tensor, Tensor]:
    return inputs(population, batch, length, width, dtype=dtype), inputs(
        population, width, length, dtype=dtype, seed=2
    )


def by_definition(u_PBLD: Tensor, filter_PDL: Tensor) -> Tensor:
    y_PBLD = torch.zeros_like(u_PBLD)
    for t in range(u_PBLD.shape[2]):
        for s in range(t + 1):
            y_PBLD[:, :, t] += filter_PDL[:, None, :, t - s] * u_PBLD[:, :, s]
    return y_PBLD


def results(conv, u_PBLD: Tensor, filter_PDL: Tensor) -> list[Tensor]:
    """The output and both gradients."""
    u_PBLD, filter_PDL = u_PBLD.clone().requires_grad_(), filter_PDL.clone().requires_grad_()
    y_PBLD = conv(u_PBLD, filter_PDL)
    weights = inputs(1, *y_PBLD.shape[1:], dtype=y_PBLD.dtype, seed=3)
    return [y_PBLD.detach(), *torch.autograd.grad((y_PBLD * weights).sum(), (u_PBLD, filter_PDL))]


# ---- the sum ----


@both_ways
@pytest.mark.parametrize("length", [1, 2, 19, 40])
def test_each_way_is_the_definition(conv, length):
    u_PBLD, filter_PDL = arguments(2, 2, length, 3)
    torch.testing.assert_close(
        conv(u_PBLD, filter_PDL), by_definition(u_PBLD, filter_PDL), rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(DOUBLE, 1e-12), (SINGLE, 1e-5)], ids=["float64", "float32"]
)
def test_both_ways_give_the_same_outputs_and_gradients(length, dtype, tolerance):
    u_PBLD, filter_PDL = arguments(2, 3, length, 5, dtype)
    for one, other in zip(
        results(by_toeplitz, u_PBLD, filter_PDL), results(by_fft, u_PBLD, filter_PDL), strict=True
    ):
        assert one.dtype == dtype
        assert (one - other).abs().max() < tolerance * one.abs().max()


@both_ways
def test_gradients_are_those_of_finite_differences(conv):
    u_PBLD, filter_PDL = arguments(2, 2, 5, 2)
    assert torch.autograd.gradcheck(conv, (u_PBLD.requires_grad_(), filter_PDL.requires_grad_()))


@pytest.mark.parametrize("length", LENGTHS)
def test_the_length_decides_the_way(length):
    u_PBLD, filter_PDL = arguments(1, 2, length, 3, SINGLE)
    way = by_toeplitz if length <= 128 else by_fft
    assert torch.equal(long_conv(u_PBLD, filter_PDL), way(u_PBLD, filter_PDL))


def test_the_matrix_has_the_filter_below_its_diagonal():
    matrix = toeplitz(torch.tensor([[[1.0, 2.0, 3.0]]]))
    assert matrix.tolist() == [[[[1.0, 0.0, 0.0], [2.0, 1.0, 0.0], [3.0, 2.0, 1.0]]]]


@pytest.mark.parametrize("length", [1, 2, 37, 200])
def test_a_decoder_needs_the_last_output_only(length):
    u_PBLD, filter_PDL = arguments(2, 3, length, 4)
    torch.testing.assert_close(
        last_output(u_PBLD, filter_PDL), long_conv(u_PBLD, filter_PDL)[:, :, -1], rtol=0, atol=1e-12
    )


# ---- the past does not see the future ----


@pytest.mark.parametrize("length", [2, 37, TOEPLITZ_LENGTH])
@pytest.mark.parametrize("dtype", [SINGLE, DOUBLE], ids=["float32", "float64"])
def test_short_sequences_are_causal_bit_for_bit(length, dtype):
    u_PBLD, filter_PDL = arguments(2, 3, length, 5, dtype)
    for changed_from in {1, length // 2, length - 1}:
        other_PBLD = u_PBLD.clone()
        other_PBLD[:, :, changed_from:] = 1e3
        found, wanted = long_conv(other_PBLD, filter_PDL), long_conv(u_PBLD, filter_PDL)
        assert torch.equal(found[:, :, :changed_from], wanted[:, :, :changed_from])
        assert not torch.equal(found[:, :, changed_from], wanted[:, :, changed_from])


@pytest.mark.parametrize(
    ("dtype", "rounding"), [(DOUBLE, 1e-14), (SINGLE, 3e-6)], ids=["float64", "float32"]
)
def test_long_sequences_are_causal_to_rounding(dtype, rounding):
    length, changed_from = 256, 100
    u_PBLD, filter_PDL = arguments(2, 3, length, 5, dtype)
    other_PBLD = u_PBLD.clone()
    other_PBLD[:, :, changed_from:] *= -1
    found, wanted = long_conv(other_PBLD, filter_PDL), long_conv(u_PBLD, filter_PDL)
    assert (found - wanted)[:, :, :changed_from].abs().max() < rounding * wanted.abs().max()
    assert (found - wanted)[:, :, changed_from].abs().max() > 0.1


@both_ways
def test_the_end_of_the_sequence_does_not_come_back_at_its_start(conv):
    """A transform without padding is circular."""
    u_PBLD = torch.zeros(1, 1, 150, 1, dtype=DOUBLE)
    u_PBLD[:, :, -1] = 1.0
    y_PBLD = conv(u_PBLD, torch.ones(1, 1, 150, dtype=DOUBLE))
    assert y_PBLD[:, :, :-1].abs().max() < 1e-14
    assert y_PBLD[0, 0, -1, 0].item() == pytest.approx(1.0)


# ---- isolation ----


@both_ways
@pytest.mark.parametrize("poison", [math.nan, math.inf])
@pytest.mark.parametrize("length", [37, 200])
def test_what_is_not_finite_stays_in_its_row_and_channel(conv, poison, length):
    u_PBLD, filter_PDL = arguments(3, 4, length, 5, SINGLE)
    wanted = conv(u_PBLD, filter_PDL)
    poisoned = u_PBLD.clone()
    poisoned[1, 2, length // 2, 3] = poison
    found = conv(poisoned, filter_PDL)
    untouched = torch.ones(3, 4, 5, dtype=torch.bool)
    untouched[1, 2, 3] = False
    assert torch.equal(found.transpose(2, 3)[untouched], wanted.transpose(2, 3)[untouched])
    assert not found[1, 2, :, 3].isfinite().all()


@both_ways
@pytest.mark.parametrize("length", [37, 200])
def test_a_broken_member_is_not_noticed_by_outputs_or_gradients(conv, length):
    u_PBLD, filter_PDL = arguments(3, 4, length, 5, SINGLE)
    wanted = results(conv, u_PBLD, filter_PDL)
    u_PBLD[1], filter_PDL[1] = math.nan, math.nan
    for one, other in zip(results(conv, u_PBLD, filter_PDL), wanted, strict=True):
        assert torch.equal(one[[0, 2]], other[[0, 2]])
        assert one[1].isnan().all()


@both_ways
@pytest.mark.parametrize("shape", [(32, 37, 7), (32, 19, 17), (32, 131, 9), (32, 200, 12)], ids=str)
def test_a_member_has_the_same_bits_in_any_company(conv, shape):
    """With rows in whole blocks, as a population pads them on a CPU."""
    u_PBLD, filter_PDL = arguments(5, *shape, SINGLE)
    together = results(conv, u_PBLD, filter_PDL)
    for company in ([0, 1], [1, 0], [4, 3, 2, 1, 0], [3, 4, 1], [2, 2]):
        for one, other in zip(
            results(conv, u_PBLD[company], filter_PDL[company]), together, strict=True
        ):
            assert torch.equal(one, other[company])


@pytest.mark.parametrize("length", [37, 200])
def test_it_can_be_planned_without_memory(length):
    with torch.device("meta"):
        u_PBLD, filter_PDL = torch.empty(2, 3, length, 5), torch.empty(2, 5, length)
    assert long_conv(u_PBLD, filter_PDL).shape == u_PBLD.shape


# ---- what a filter network reads, and what a convolution costs ----


def test_lags_are_encoded_as_a_share_cosines_and_minus_sines():
    table = encoded_lags(64, bands=2).double()
    t = torch.arange(64, dtype=DOUBLE)
    assert table.shape == (64, 5)
    slow, fast = 1e-4 * 2 * math.pi * t / 64, 2 * math.pi * t / 64
    wanted = torch.stack((t / 63, slow.cos(), fast.cos(), -slow.sin(), -fast.sin()), dim=1)
    torch.testing.assert_close(table, wanted, rtol=0, atol=1e-6)
    # One band leaves the share of the length and next to nothing else.
    small = encoded_lags(64, bands=1)
    assert small.shape == (64, 3)
    assert (small[:, 1] - 1).abs().max() < 1e-6
    assert 0 < small[-1, 2].abs() < 1e-3
    assert encoded_lags(1, bands=1).isfinite().all()


def test_a_transform_costs_less_than_a_matrix_and_more_for_longer_sequences():
    assert operations(64) == 64
    assert operations(129) < operations(128)
    assert all(operations(a) < operations(b) for a, b in pairwise([256, 512, 1024, 4096]))


# ---- sums of powers ----


def complex_pair(population: int, heads: int, count: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    """Numbers within the unit circle, as a pair and as complex ones."""
    real, imag = inputs(2, population, heads, count, dtype=DOUBLE).tanh() * 0.7
    return (real, imag), torch.complex(real, imag)


@pytest.mark.parametrize("length", [1, 2, 3, 4, 5, 16, 17, 37, 64, 200])
def test_sums_of_powers_are_those_of_the_definition(length):
    base, complex_base = complex_pair(2, 3, 4)
    weight = tuple(inputs(2, 2, 3, 4, dtype=DOUBLE, seed=4))
    found = power_sums(weight, base, length)
    wanted = torch.stack(
        [(torch.complex(*weight) * complex_base**t).real.sum(-1) for t in range(length)], dim=-1
    )
    assert found.shape == (2, 3, length)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-13)


def test_powers_of_zero_are_a_one_and_zeros_with_finite_gradients():
    base = (
        torch.zeros(1, 1, 1, dtype=DOUBLE, requires_grad=True),
        torch.zeros(1, 1, 1, dtype=DOUBLE, requires_grad=True),
    )
    real, imag = powers(base, 5)
    assert real.flatten().tolist() == [1, 0, 0, 0, 0]
    assert imag.flatten().tolist() == [0, 0, 0, 0, 0]
    gradient = torch.autograd.grad(real.sum(), base[0])[0]
    assert gradient.item() == 1  # of base^1


def test_no_table_of_all_powers_is_kept():
    heads, count, length = 4, 64, 256
    base, _ = complex_pair(2, heads, count)
    weight = tuple(inputs(2, 2, heads, count, dtype=DOUBLE, seed=4))
    kept: list[int] = []

    def count_floats(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    with saved_tensors_hooks(count_floats, lambda tensor: tensor):
        power_sums(weight, tuple(part.requires_grad_() for part in base), length)
    # Real and imaginary parts of sqrt(256) powers at most; all of them would be 256.
    assert max(kept) <= 2 * 2 * heads * count * 16


def test_a_transform_takes_bfloat16():
    """In a bf16 run the input of a long convolution is a product's output."""
    u_PBLD, filter_PDL = torch.randn(1, 2, 200, 3), torch.randn(1, 3, 200) / 200
    y_PBLD = long_conv(u_PBLD.bfloat16(), filter_PDL)
    assert y_PBLD.dtype == torch.bfloat16
    torch.testing.assert_close(y_PBLD.float(), long_conv(u_PBLD, filter_PDL), rtol=0.02, atol=0.02)
