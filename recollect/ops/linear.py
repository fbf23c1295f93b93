"""Matrix products with a population axis: x (P, ..., I) times weight[p] (I, O), plus bias[p]."""

import torch
from torch import Tensor


def linear(x: Tensor, weight_PIO: Tensor, bias_PO: Tensor | None = None) -> Tensor:
    """(P, ..., O)."""
    population, inputs, outputs = weight_PIO.shape
    x_PMI = x.reshape(population, -1, inputs)
    y_PMO = (
        torch.bmm(x_PMI, weight_PIO)
        if bias_PO is None
        else torch.baddbmm(bias_PO[:, None], x_PMI, weight_PIO)
    )
    return y_PMO.view(*x.shape[:-1], outputs)
