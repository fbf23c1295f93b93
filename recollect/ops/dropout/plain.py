"""Dropout in PyTorch's operations."""

import torch
from torch import Tensor

from recollect.ops import randomness


def drop(x: Tensor, stream_P: Tensor, share: float) -> Tensor:
    counters = torch.arange(x[0].numel(), device=x.device).view(1, *x.shape[1:])
    return _dropped(x, stream_P, counters, share)


def drop_queries(weights_PBHKL: Tensor, stream_P: Tensor, share: float, where_BK: Tensor) -> Tensor:
    _, batch, heads, _, length = weights_PBHKL.shape
    rows_BH11 = torch.arange(batch * heads, device=where_BK.device).view(batch, heads, 1, 1)
    queries_BHK1 = rows_BH11 * length + where_BK[:, None, :, None]
    counters_BHKL = queries_BHK1 * length + torch.arange(length, device=where_BK.device)
    return _dropped(weights_PBHKL, stream_P, counters_BHKL[None], share)


def _dropped(x: Tensor, stream_P: Tensor, counters: Tensor, share: float) -> Tensor:
    stream = stream_P.view(-1, *[1] * (x.dim() - 1))
    return x * (randomness.uniform(stream, counters) >= share) / (1 - share)
