"""Several projections of the same input to few columns each, such as a gate's number per head."""

from collections.abc import Sequence

import torch
from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.few_columns.padded import few_columns
from recollect.ops.linear import linear

__all__ = ["few_columns", "project_per_head"]


def project_per_head(
    x: Tensor, layers: Sequence[tuple[Tensor, Tensor | None]]
) -> tuple[Tensor, ...]:
    """Apply each layer, a weight (P, I, H) and perhaps a bias (P, H), to x (P, ..., I): (P, ...,
    H).

    A GPU computes them together: products with few columns are slow there.
    """
    if not use_triton(x):
        return tuple(linear(x, *layer) for layer in layers)
    weights = [weight_PIH for weight_PIH, _ in layers]
    products = few_columns(x, torch.cat(weights, dim=2)).split([w.shape[2] for w in weights], -1)
    return tuple(
        product if bias is None else product + bias.view(x.shape[0], *[1] * (x.dim() - 2), -1)
        for product, (_, bias) in zip(products, layers, strict=True)
    )
