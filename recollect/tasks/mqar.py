"""Multi-query associative recall (Arora et al. 2023): pairs first, then every key is asked once.

    position   0   1   2   3   4   5   6   7   8   9  10  11  12  13  14  15
    tokens    97   1  62  14  61  26  61   0  97   0  62   0   0   0   0   0
    labels     .   .   .   .   .   .  26   .   1   .  14   .   .   .   .   .

This is a row with 3 pairs (97 -> 1, 62 -> 14, 61 -> 26), length 16, vocabulary 100. The keys are
asked in the order 61, 97, 62.

Slot g is position 2 * pairs + 2 * g. The keys, in the order of the pairs, draw their slots without
replacement with weight (g + 1) ** (power - 1). The label is the value bound to the key, at the
position of the question. Answers are not part of the input.

The defaults differ from Zoology's generator: keys and values share one vocabulary
(`vocabulary_split`), and random filler is drawn from the data seed, not from a global state.

Shapes: B rows, L length, K pairs, S slots.
"""

import torch

from recollect.ops.randomness import key
from recollect.tasks.base import Batch
from recollect.tasks.options import MqarSpec
from recollect.tasks.pairs import draw_context, draw_filler
from recollect.tasks.sampling import weighted


def rows(
    spec: MqarSpec, data_seed: int, split: str, first: int, count: int, device: torch.device
) -> Batch:
    """Rows first .. first + count - 1 of a split."""
    tokens_BL = draw_filler(spec, data_seed, split, first, count, device)
    context_BN = draw_context(spec, data_seed, split, first, count, device)
    tokens_BL[:, : 2 * spec.pairs] = context_BN
    keys_BK, values_BK = context_BN[:, 0::2], context_BN[:, 1::2]
    weights_S = torch.arange(1, spec.slots + 1, dtype=torch.float64, device=device) ** (
        spec.slot_power - 1
    )
    slots_BK = weighted(key("slots", data_seed, split), first, count, spec.pairs, weights_S)
    where_BK = 2 * spec.pairs + 2 * slots_BK
    tokens_BL.scatter_(1, where_BK, keys_BK)
    return Batch(tokens_BL, where_BK, values_BK, torch.ones_like(where_BK, dtype=torch.bool))
