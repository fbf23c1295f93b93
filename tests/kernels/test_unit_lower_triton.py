"""The kernel of unit lower triangular systems against the library's solve in float64."""

import pytest
import torch
from torch import Tensor

from recollect.ops import unit_lower_triton
from recollect.ops.unit_lower import LARGEST, unit_lower_solve

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
TOLERANCE = {torch.float32: 2e-6, torch.bfloat16: 2e-2}  # of the largest value


def cases() -> list[tuple[int, ...]]:
    """(leading axes, T, E): every number of blocks, with and without a rest; on a GPU also those of real models."""
    odd = [(1, 1, 1), (3, 2, 1, 7), (1, 1, 15, 17), (3, 16, 65), (2, 17, 33), (1, 33, 1), (3, 49, 5), (1, 64, 40)]
    real = [(16, 512, 64, 64), (4, 256, 4, 64, 256), (2, 256, 8, 64, 384), (70_000, 64, 32)]
    return odd + real if DEVICE == "cuda" else odd


def made(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(DEVICE, dtype)


def drawn(shape: tuple[int, ...], dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """A matrix, right-hand sides and the gradient of the solution."""
    *lead, steps, columns = shape
    matrix = made(*lead, steps, steps) * steps**-0.5
    return [x.to(dtype) for x in (matrix, made(*lead, steps, columns, seed=1), made(*lead, steps, columns, seed=2))]


def outcome(solve, a: Tensor, r: Tensor, dx: Tensor) -> list[Tensor]:
    a, r = a.detach().requires_grad_(), r.detach().requires_grad_()
    x = solve(a, r)
    return [x.detach(), *torch.autograd.grad(x, (a, r), dx)]


def assert_as_in_double(arguments: list[Tensor], scale: float = 1) -> None:
    expected = outcome(unit_lower_solve, *(x.double() for x in arguments))
    for mine, theirs in zip(outcome(unit_lower_triton.unit_lower_solve, *arguments), expected, strict=True):
        assert mine.dtype == arguments[0].dtype
        assert mine.shape == theirs.shape
        bound = scale * TOLERANCE[mine.dtype] * theirs.abs().max().item()
        assert (mine.double() - theirs).abs().max().item() <= bound


@pytest.mark.parametrize("dtype", TOLERANCE, ids=str)
@pytest.mark.parametrize("shape", cases(), ids=str)
def test_solutions_and_gradients_are_those_of_the_library(shape, dtype):
    assert_as_in_double(drawn(shape, dtype))


@pytest.mark.parametrize("strength", [0.5, 1.0, 2.0])
def test_equal_keys_are_solved_as_well(strength):
    """All entries below the diagonal equal, as one key at every position gives: for 2 the solution alternates and grows."""
    a, r, dx = drawn((1, 64, 3))
    assert_as_in_double([torch.full_like(a, strength), r, dx], scale=2)


def test_only_what_is_below_the_diagonal_is_read():
    a, r, dx = drawn((2, 35, 3))
    unread = torch.ones_like(a, dtype=torch.bool).triu()
    clean = outcome(unit_lower_triton.unit_lower_solve, a, r, dx)
    for one, other in zip(
        clean, outcome(unit_lower_triton.unit_lower_solve, a.masked_fill(unread, torch.nan), r, dx), strict=True
    ):
        assert torch.equal(one, other)
    assert not clean[1][unread].any()


def test_strides_do_not_matter():
    a, r, dx = drawn((3, 18, 5))
    expected = outcome(unit_lower_triton.unit_lower_solve, a, r, dx)
    turned = [x.transpose(0, 1).contiguous().transpose(0, 1) for x in (a, r, dx)]
    turned[1] = r.mT.contiguous().mT
    for one, other in zip(expected, outcome(unit_lower_triton.unit_lower_solve, *turned), strict=True):
        assert torch.equal(one, other)


def test_a_member_is_the_same_alone_and_next_to_nan():
    arguments = drawn((3, 2, 20, 9))
    everyone = outcome(unit_lower_triton.unit_lower_solve, *arguments)
    poisoned = [x.clone() for x in arguments]
    for x in poisoned:
        x[1] = torch.nan
    beside = outcome(unit_lower_triton.unit_lower_solve, *poisoned)
    for p in (0, 2):
        alone = outcome(unit_lower_triton.unit_lower_solve, *(x[p : p + 1] for x in arguments))
        for one, with_nan, own in zip(everyone, beside, alone, strict=True):
            # da is a batched product of the library, which on a GPU may choose another algorithm for another batch.
            torch.testing.assert_close(one[p : p + 1], own, rtol=0, atol=0 if DEVICE == "cpu" else 1e-5)
            assert torch.equal(one[p], with_nan[p])
    assert beside[0][1].isnan().any()


def test_nothing_to_solve():
    a, r = torch.zeros(0, 5, 5, device=DEVICE), torch.zeros(0, 5, 3, device=DEVICE)
    assert unit_lower_triton.unit_lower_solve(a, r).shape == r.shape


def test_a_right_hand_side_alone_needs_no_gradient_of_the_matrix():
    a, r, dx = drawn((1, 9, 4))
    r.requires_grad_()
    (dr,) = torch.autograd.grad(unit_lower_triton.unit_lower_solve(a, r), r, dx)
    assert torch.equal(dr, outcome(unit_lower_triton.unit_lower_solve, a, r, dx)[2])


@pytest.mark.skipif(DEVICE == "cpu", reason="the dispatch is for a GPU")
def test_large_systems_are_left_to_the_library():
    a, r, _ = drawn((2, LARGEST + 1, 3))
    expected = torch.linalg.solve_triangular(a.double(), r.double(), upper=False, unitriangular=True)
    torch.testing.assert_close(unit_lower_solve(a, r).double(), expected, rtol=1e-4, atol=1e-4)
