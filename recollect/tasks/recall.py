"""Single-query associative recall: pairs first, then one of the keys is asked.

    position   0   1   2   3   4   5   6   7   8   9  10  11      3 pairs, length 12
    tokens    97   1  62  14  61  26   0   0   0   0   0  97      97 -> 1, 62 -> 14, 61 -> 26
    labels     .   .   .   .   .   .   .   .   .   .   .   1      97 is asked

The label is the value bound to the key, at the position of the question, so every row has its
label. `query = "last"` asks at the last position, "anywhere" at any position after the pairs, with
equal probability. The position gives no information about the answer, so chance is 1 / pairs.

Shapes: B rows, L length, K pairs.
"""

import torch

from recollect.ops.randomness import below, key
from recollect.tasks.base import Batch
from recollect.tasks.options import RecallSpec
from recollect.tasks.pairs import draw_context, draw_filler


def rows(
    spec: RecallSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Batch:
    """Rows first .. first + count - 1 of a split."""
    tokens_BL = draw_filler(spec, data_seed, split, first, count, device)
    context_BN = draw_context(spec, data_seed, split, first, count, device)
    tokens_BL[:, : 2 * spec.pairs] = context_BN
    counters_B1 = torch.arange(first, first + count, device=device)[:, None]
    asked_B1 = below(key("asked", data_seed, split), counters_B1, spec.pairs)
    where_B1 = torch.full_like(asked_B1, spec.length - 1)
    if spec.query == "anywhere":
        behind = spec.length - 2 * spec.pairs
        where_B1 = 2 * spec.pairs + below(key("where", data_seed, split), counters_B1, behind)
    tokens_BL.scatter_(1, where_B1, context_BN.gather(1, 2 * asked_B1))
    labels_B1 = context_BN.gather(1, 2 * asked_B1 + 1)
    return Batch(tokens_BL, where_B1, labels_B1, torch.ones_like(where_B1, dtype=torch.bool))
