"""Products with a population axis: rows in groups give the same numbers as rows in one sum."""

import pytest
import torch
from torch import Tensor

from recollect.ops import linear as products
from recollect.ops.linear import GROUP_ROWS, group_count, linear, sum_over_rows


@pytest.fixture(params=[1, 2, 4])
def groups(request, monkeypatch) -> int:
    """On a CPU rows are never divided, so the number of groups is set here."""
    monkeypatch.setattr(products, "row_groups", lambda x_PMI: request.param)
    return request.param


def draw(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(len(shape) + sum(shape))
    return torch.randn(shape, dtype=torch.float64, generator=generator).requires_grad_()


@pytest.mark.parametrize("has_bias", [False, True])
def test_values_and_gradients_are_those_of_each_member_alone(groups, has_bias):
    x, weight, bias = draw(3, 2, 4, 5), draw(3, 5, 6), draw(3, 6)
    y = linear(x, weight, bias if has_bias else None)
    expected = torch.stack([x[p] @ weight[p] + has_bias * bias[p] for p in range(3)])
    torch.testing.assert_close(y, expected, rtol=1e-12, atol=1e-12)
    inputs = (x, weight, bias)[: 2 + has_bias]
    like = draw(*y.shape).detach()
    found = torch.autograd.grad(y, inputs, like)
    for gradient, other in zip(found, torch.autograd.grad(expected, inputs, like), strict=True):
        torch.testing.assert_close(gradient, other, rtol=1e-12, atol=1e-12)


def test_outer_products_are_summed_over_the_rows_of_each_member(groups):
    """Also for some columns of a larger tensor, which are not adjacent in memory."""
    x, y = draw(3, 8, 7).detach()[..., :4], draw(3, 8, 6).detach()[..., 1:]
    expected = torch.stack([x[p].T @ y[p] for p in range(3)])
    torch.testing.assert_close(sum_over_rows(x, y), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("rows", "number"),
    [
        (1, 1),
        (GROUP_ROWS, 1),
        (2 * GROUP_ROWS - 2, 1),
        (2 * GROUP_ROWS, 2),
        (256 * 256, 256 * 256 // GROUP_ROWS),
        (6 * GROUP_ROWS, 4),
        (2 * GROUP_ROWS + 1, 1),
        (8 * GROUP_ROWS + 2, 2),
    ],
)
def test_groups_are_equal_and_large(rows, number):
    assert group_count(rows) == number


def test_a_cpu_sums_in_one_go():
    """Its bits are those of every earlier result."""
    assert products.row_groups(torch.zeros(1, 4 * GROUP_ROWS, 1)) == 1
