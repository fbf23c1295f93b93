"""Train and test without a common example, by construction:
no rejection and no table of what was seen.

What an example is about (the pairs, the string) is drawn token by token. Everything but its last
token decides, through a fixed hash, which of the tokens still free may end it in the test world;
the others end it in the training world:

    prefix a c f, free b d e g h ... (numbers 0 1 2 3 4 ...), hash(a c f) = 3: from number 3 on,
    cyclically, the first sixteenth of the free tokens (g h ..., at least one) ends test rows and
    all others end training rows

Every prefix leaves equally many ends to each world, so both worlds are sampled exactly uniformly.
The worlds do not depend on the data seed: test rows of one seed are not training rows of another.
Drawing needs one pass and no look at the data.

Shapes: B rows, N tokens of the prefix.
"""

from typing import Literal

import torch
from torch import Tensor

from recollect.ops.randomness import below, bits, key, scramble

World = Literal["train", "test"]
_SHARE = 16  # one end in so many belongs to the test world; at least one does


def world_of(split: str) -> World:
    """Every split but "train" is a test split."""
    return "train" if split == "train" else "test"


def prefix_hash(tokens_BN: Tensor, valid_BN: Tensor | None = None) -> Tensor:
    """A 63-bit hash of each row's tokens and their order;
    positions that are not valid are left out.
    """
    place_N = torch.arange(tokens_BN.shape[1], device=tokens_BN.device)
    term_BN = scramble((tokens_BN + 1) * (bits(key("place"), place_N) | 1))
    if valid_BN is not None:
        term_BN = term_BN * valid_BN
    return scramble(term_BN.sum(1) + key("prefix")) & 0x7FFFFFFFFFFFFFFF


def last_rank(world: World, hash_B: Tensor, free: int, stream: int, counters_B: Tensor) -> Tensor:
    """Which of the `free` tokens (counted from 0) ends each row,
    uniformly among those of its world.
    """
    test = max(1, free // _SHARE)
    turned_B = (
        below(stream, counters_B, test)
        if world == "test"
        else test + below(stream, counters_B, free - test)
    )
    return (turned_B + hash_B) % free


def nth_free(used_BN: Tensor, rank_B: Tensor) -> Tensor:
    """The rank-th smallest number from 0 on that is not among a row's used ones (all distinct)."""
    sorted_BN = used_BN.sort(1).values
    free_before_BN = sorted_BN - torch.arange(used_BN.shape[1], device=used_BN.device)
    return rank_B + (free_before_BN <= rank_B[:, None]).sum(1)
