"""Matrix products with a population axis: x (P, ..., I) times weight[p] (I, O), plus bias[p].

The gradient of a weight sums over all rows of x. In float32 on a GPU, the library gives such a sum
to the few multiprocessors that own an element of the small result, one row after the other, and
few members leave the device idle (docs/decisions/weight-gradients.md). So rows are divided into
groups with a sum each: a group is multiplied by a copy of the weight, and the gradients of the
copies are added.

Shapes: P population, M rows, G groups of one member, I inputs, O outputs.
"""

import torch
from torch import Tensor

GROUP_ROWS = 1024  # at least, in a group


def linear(x: Tensor, weight_PIO: Tensor, bias_PO: Tensor | None = None) -> Tensor:
    """(P, ..., O)."""
    population, inputs, outputs = weight_PIO.shape
    x_PMI = x.reshape(population, -1, inputs)
    groups = row_groups(x_PMI)
    if groups > 1:
        x_PMI = _in_groups(x_PMI, groups)
        weight_PIO = _copies(weight_PIO, groups)
        bias_PO = None if bias_PO is None else _copies(bias_PO, groups)
    y_PMO = (
        torch.bmm(x_PMI, weight_PIO)
        if bias_PO is None
        else torch.baddbmm(bias_PO[:, None], x_PMI, weight_PIO)
    )
    return y_PMO.view(*x.shape[:-1], outputs)


def sum_over_rows(x_PMI: Tensor, y_PMO: Tensor) -> Tensor:
    """Return the sum over rows of outer products, (P, I, O): the gradient of a weight."""
    population, groups = x_PMI.shape[0], row_groups(x_PMI)
    if groups == 1:
        return torch.bmm(x_PMI.mT, y_PMO)
    parts_PIO = torch.bmm(_in_groups(x_PMI, groups).mT, _in_groups(y_PMO, groups))
    return parts_PIO.unflatten(0, (population, groups)).sum(1)


def row_groups(x_PMI: Tensor) -> int:
    """The number of groups into which the rows of each member are divided.

    It does not depend on the number of members, so that a sum does not either.
    """
    if not x_PMI.is_cuda or x_PMI.dtype != torch.float32 or torch.is_autocast_enabled("cuda"):
        return 1
    return group_count(x_PMI.shape[1])


def group_count(rows: int) -> int:
    """The largest power of two that divides the rows into groups of GROUP_ROWS or more."""
    groups = 1
    while rows % (2 * groups) == 0 and rows // (2 * groups) >= GROUP_ROWS:
        groups *= 2
    return groups


def _in_groups(x_PMI: Tensor, groups: int) -> Tensor:
    """Return x with groups as members, (P G, M / G, I); group g of member p is at p G + g."""
    return x_PMI.unflatten(1, (groups, -1)).flatten(0, 1)


def _copies(parameter_P: Tensor, groups: int) -> Tensor:
    """Return one copy for each group, in the order of `_in_groups`."""
    return parameter_P[:, None].expand(-1, groups, *parameter_P.shape[1:]).flatten(0, 1)
