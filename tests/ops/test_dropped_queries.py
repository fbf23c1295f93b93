"""Dropout of a few queries of a square of weights."""

import torch

from recollect.ops.dropout import Mask, drop, drop_queries


def test_queries_lose_what_they_lose_in_the_whole_square():
    """Positions in any order, and one twice."""
    mask = Mask(torch.tensor([3, -9]), 0.4)
    weights_PBHLL = torch.rand(2, 3, 2, 7, 7, generator=torch.Generator().manual_seed(0))
    where_BK = torch.tensor([[6, 0, 2], [1, 1, 5], [3, 4, 0]])
    index = where_BK[None, :, None, :, None].expand(2, -1, 2, -1, 7)
    found = drop_queries(weights_PBHLL.gather(3, index), mask, where_BK)
    whole = drop(weights_PBHLL, mask)
    assert torch.equal(found, whole.gather(3, index))
    assert 0.3 < float((whole == 0).double().mean()) < 0.5
