"""Train and test splits that share no example by construction.

No rejection is needed, nor a table of examples that were seen.

The content of an example (the pairs, the string) is drawn token by token. A fixed hash of all
tokens but the last decides which of the remaining tokens may be the last one in the test world. All
others may be the last one in the training world:

    prefix a c f, free b d e g h ... (numbers 0 1 2 3 4 ...), hash(a c f) = 3: from number 3 on,
    cyclically, the first sixteenth of the free tokens (g h ..., at least one) ends test rows and
    all others end training rows

The number of possible last tokens in each world is the same for every prefix, so both worlds are
sampled exactly uniformly. The worlds do not depend on the data seed: test rows of one seed are
never training rows of another. Drawing takes one pass and has no control flow that depends on data.

Shapes: B rows, N tokens of the prefix.
"""

from typing import Literal

import torch
from torch import Tensor

from recollect.ops.randomness import below, bits, key, scramble

World = Literal["train", "test"]
_SHARE = 16  # one in this many possible last tokens belongs to the test world, but at least one


def world_of(split: str) -> World:
    """The world of a split: every split except "train" is a test split."""
    return "train" if split == "train" else "test"


def prefix_hash(tokens_BN: Tensor, valid_BN: Tensor | None = None) -> Tensor:
    """A 63-bit hash of each row's tokens and their order, without positions that are not valid."""
    place_N = torch.arange(tokens_BN.shape[1], device=tokens_BN.device)
    term_BN = scramble((tokens_BN + 1) * (bits(key("place"), place_N) | 1))
    if valid_BN is not None:
        term_BN = term_BN * valid_BN
    return scramble(term_BN.sum(1) + key("prefix")) & 0x7FFFFFFFFFFFFFFF


def last_rank(world: World, hash_B: Tensor, free: int, stream: int, counters_B: Tensor) -> Tensor:
    """Index among the `free` tokens (from 0) of each row's last token.

    It is drawn uniformly among the tokens that belong to the world.
    """
    test = max(1, free // _SHARE)
    turned_B = (
        below(stream, counters_B, test)
        if world == "test"
        else test + below(stream, counters_B, free - test)
    )
    return (turned_B + hash_B) % free


def nth_free(used_BN: Tensor, rank_B: Tensor) -> Tensor:
    """The rank-th smallest integer >= 0 not among a row's used ones, which are all distinct."""
    sorted_BN = used_BN.sort(1).values
    free_before_BN = sorted_BN - torch.arange(used_BN.shape[1], device=used_BN.device)
    return rank_B + (free_before_BN <= rank_B[:, None]).sum(1)
