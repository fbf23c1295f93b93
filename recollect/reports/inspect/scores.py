"""Scores between 0 and 1 of what a map does, named as in TransformerLens's head detector.

All are shares of what a position takes in, averaged over positions and rows:

previous_token_head             taken by every position from the second on, from the one before it
previous_token_head_at_values   the same, but only for the values' positions 2i + 1, where the
                                previous token is the key (tasks of pairs)
duplicate_token_head            taken by every question, from the same token's earlier position
                                (the key, 2i)
induction_head                  taken by every question, from the position after that one (the
                                value, 2i + 1)

`around_key` gives the last two for other distances from the key as well: a mixer with a short
convolution finds a value a little behind it. TransformerLens averages over all positions; here only
the questions count, since only they have an answer. A map of probabilities is used unchanged. In
other maps a position's own share is not informative (it includes Mamba's direct path, which
outweighs everything else). It is left out and the rest is scaled to sum to 1, as with
TransformerLens's `exclude_current_token`.

Shapes: B rows, H maps, L length; [q, j] is what position q takes from position j.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from recollect.tasks.base import Batch

OFFSETS = (-1, 0, 1, 2, 3, 4)  # relative to the key's position
PREVIOUS, PREVIOUS_AT_VALUES = "previous_token_head", "previous_token_head_at_values"
DUPLICATE, INDUCTION = "duplicate_token_head", "induction_head"
NAMES = (PREVIOUS, PREVIOUS_AT_VALUES, DUPLICATE, INDUCTION)


@dataclass(frozen=True)
class Targets:
    """The positions of the questions, and the earlier positions of their tokens."""

    asked_BL: Tensor  # bool: a scored question whose token also occurs earlier in the row
    match_BLL: Tensor  # bool: [q, j], the same token is at q and at the earlier position j
    values_L: Tensor | None  # bool: the values' positions, in tasks of pairs

    def first(self, rows: int) -> "Targets":
        """The targets of the first rows, on the CPU, like the maps."""
        values_L = None if self.values_L is None else self.values_L.cpu()
        return Targets(self.asked_BL[:rows].cpu(), self.match_BLL[:rows].cpu(), values_L)


def find_targets(batch: Batch, pairs: int | None = None) -> Targets:
    """Find the targets of a batch.

    With `pairs` only positions in the pairs count as earlier occurrences, since random filler may
    repeat a key by chance.
    """
    rows, length = batch.tokens_BL.shape
    match_BLL = (batch.tokens_BL[:, :, None] == batch.tokens_BL[:, None, :]).tril(-1)
    values_L = None
    if pairs is not None:
        match_BLL[:, :, 2 * pairs :] = False
        values_L = torch.zeros(length, dtype=torch.bool, device=match_BLL.device)
        values_L[1 : 2 * pairs : 2] = True
    asked_BL = torch.zeros(rows, length, dtype=torch.bool, device=match_BLL.device)
    asked_BL.scatter_(1, batch.where_BK, batch.scored_BK)
    return Targets(asked_BL & match_BLL.any(2), match_BLL, values_L)


def shares(size_BHLL: Tensor, exclude_current_token: bool) -> Tensor:
    """Divide every row of a map by its sum. Rows of zeros remain zeros."""
    if exclude_current_token:
        diagonal_LL = torch.eye(size_BHLL.shape[-1], dtype=torch.bool, device=size_BHLL.device)
        size_BHLL = size_BHLL.masked_fill(diagonal_LL, 0.0)
    sums_BHL1 = size_BHLL.sum(-1, keepdim=True)
    return torch.where(
        sums_BHL1 > 0, size_BHLL / sums_BHL1.clamp(min=torch.finfo(size_BHLL.dtype).tiny), 0.0
    )


def around_key(shares_BHLL: Tensor, targets: Targets) -> Tensor:
    """(H, OFFSETS): the share that questions take at each offset from their key.

    NaN if there are no questions.
    """
    asked_B1L = targets.asked_BL[:, None]
    found = []
    for offset in OFFSETS:
        # torch.roll wraps around: clear the entries that left the row at the other end.
        at_BLL = targets.match_BLL.roll(offset, 2)
        if offset > 0:
            at_BLL[:, :, :offset] = False
        elif offset < 0:
            at_BLL[:, :, offset:] = False
        taken_BHL = (shares_BHLL * at_BLL[:, None]).sum(-1)
        found.append((taken_BHL * asked_B1L).sum((0, 2)) / asked_B1L.sum((0, 2)))
    return torch.stack(found, dim=1)


def scores(shares_BHLL: Tensor, targets: Targets) -> dict[str, Tensor]:
    """Each score by name as (H,). Scores for which the task has no positions are left out."""
    previous_BHL = shares_BHLL.diagonal(offset=-1, dim1=2, dim2=3)  # for positions 1 and later
    found = {PREVIOUS: previous_BHL.mean((0, 2))}
    if targets.values_L is not None:
        found[PREVIOUS_AT_VALUES] = previous_BHL[:, :, targets.values_L[1:]].mean((0, 2))
    if targets.asked_BL.any():
        around_HO = around_key(shares_BHLL, targets)
        found |= {
            DUPLICATE: around_HO[:, OFFSETS.index(0)],
            INDUCTION: around_HO[:, OFFSETS.index(1)],
        }
    return found


def uniform_scores(targets: Targets, exclude_current_token: bool) -> dict[str, float]:
    """The scores of a map that takes equally from all allowed positions, for comparison."""
    rows, length = targets.asked_BL.shape
    equal_BHLL = torch.ones(rows, 1, length, length, device=targets.asked_BL.device).tril()
    return floats(scores(shares(equal_BHLL, exclude_current_token), targets))


def floats(of_one_map: Mapping[str, Tensor]) -> dict[str, float]:
    return {name: float(value[0]) for name, value in of_one_map.items()}
