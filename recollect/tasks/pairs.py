"""Code that the key-value tasks share: filler and context.

The context is key value key value ..., with all tokens distinct. The split restricts the last one.

Shapes: B rows, K pairs, L length.
"""

import torch
from torch import Tensor

from recollect.ops.randomness import below, grid, key
from recollect.tasks.options import PairsSpec
from recollect.tasks.sampling import distinct
from recollect.tasks.splits import last_rank, nth_free, prefix_hash, world_of


def draw_context(
    spec: PairsSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Tensor:
    """Draw the first 2 * pairs tokens of rows first .. first + count - 1."""
    stream = key("context", data_seed, world_of(split))
    if spec.vocabulary_split == "shared":
        free, offset = spec.vocabulary - 2 * spec.pairs, 1
        prefix_BN = (
            distinct(stream, first, count, 2 * spec.pairs - 1, spec.vocabulary - 1, device) + offset
        )
        used_BN = prefix_BN
    else:
        half = spec.vocabulary // 2
        free, offset = half - spec.pairs + 1, half
        keys_BK = distinct(stream, first, count, spec.pairs, half - 1, device) + 1
        used_BN = (
            distinct(key("values", stream), first, count, spec.pairs - 1, half, device) + offset
        )
        prefix_BN = torch.empty(count, 2 * spec.pairs - 1, dtype=torch.int64, device=device)
        prefix_BN[:, 0::2], prefix_BN[:, 1::2] = keys_BK, used_BN
    counters_B = torch.arange(first, first + count, device=device)
    rank_B = last_rank(
        world_of(split), prefix_hash(prefix_BN), free, key("last", stream), counters_B
    )
    last_B = nth_free(used_BN - offset, rank_B) + offset
    return torch.cat([prefix_BN, last_B[:, None]], 1)


def draw_filler(
    spec: PairsSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Tensor:
    """Draw rows that contain only filler."""
    if spec.filler == "zero":
        return torch.zeros(count, spec.length, dtype=torch.int64, device=device)
    return below(
        key("filler", data_seed, split), grid(first, count, spec.length, device), spec.vocabulary
    )
