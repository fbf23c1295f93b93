"""Scores of queries and keys under a decay of each key channel (Yang et al. 2024),
exact for decays of any strength.

    scores[i, j] = sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}) for j <= i, 0 above the diagonal

Shapes: M sequences (any leading axes), L length, D channels; S steps of half a block, N blocks; g
<= 0 is the log of a decay.

The usual split exp(G_i) exp(-G_j) of the running sum G overflows as soon as a block forgets by more
than e^88, which a learnt gate may do. Here the sequence is halved repeatedly. When a halving first
separates two positions, the earlier one decays from itself to the border and the later one from the
border to itself. Both exponents are sums of g and thus <= 0, and no sum is a difference of larger
ones, so nothing overflows and no digits are lost. A halving is one batched product, and log2(L)
halvings fill the matrix.

The backward goes through the same halvings. It computes the decays again, so that only q, k and g
are kept, and it adds to each g_t only the pairs j < t <= i. In the usual difference of q dq and k
dk, the pairs on one side of t would have to cancel.
"""

from collections.abc import Iterator
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def decayed_scores(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Return (..., L, L) from three (..., L, D), differentiable in all of them; g of the first
    position has no effect.
    """
    *lead, length, width = q.shape
    padding = 2 ** (length - 1).bit_length() - length
    folded = (F.pad(x.reshape(-1, length, width), (0, 0, 0, padding)) for x in (q, k, log_decay))
    scores_MLL = _DecayedScores.apply(*folded)
    return scores_MLL[:, :length, :length].view(*lead, length, length)


class _DecayedScores(torch.autograd.Function):
    """For lengths that are a power of two."""

    @staticmethod
    def forward(ctx: Any, q_MLD: Tensor, k_MLD: Tensor, g_MLD: Tensor) -> Tensor:
        ctx.save_for_backward(q_MLD, k_MLD, g_MLD)
        scores_MLL = torch.diag_embed((q_MLD * k_MLD).sum(-1))
        for half in _halvings(q_MLD.shape[1]):
            to_border, from_border = _decays(g_MLD, half)
            earlier_MNSD = _halves(k_MLD, half)[0] * to_border
            later_MNSD = _halves(q_MLD, half)[1] * from_border
            _between_halves(scores_MLL, half).copy_(later_MNSD @ earlier_MNSD.transpose(-1, -2))
        return scores_MLL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        q_MLD, k_MLD, g_MLD = ctx.saved_tensors
        dscores_MLL = grads[0].contiguous()
        on_diagonal_ML1 = dscores_MLL.diagonal(dim1=1, dim2=2)[..., None]
        dq_MLD, dk_MLD, dg_MLD = (
            on_diagonal_ML1 * k_MLD,
            on_diagonal_ML1 * q_MLD,
            torch.zeros_like(g_MLD),
        )
        for half in _halvings(q_MLD.shape[1]):
            to_border, from_border = _decays(g_MLD, half)
            earlier_MNSD, later_MNSD = _halves(k_MLD, half)[0], _halves(q_MLD, half)[1]
            dscores_MNSS = _between_halves(dscores_MLL, half)
            dlater = dscores_MNSS @ (earlier_MNSD * to_border) * from_border
            dearlier = dscores_MNSS.transpose(-1, -2) @ (later_MNSD * from_border) * to_border
            _halves(dq_MLD, half)[1].add_(dlater)
            _halves(dk_MLD, half)[0].add_(dearlier)
            dg_earlier, dg_later = _halves(dg_MLD, half)
            dg_later.add_(_sums_from_here(later_MNSD * dlater))
            dg_earlier[:, :, 1:].add_((earlier_MNSD * dearlier)[:, :, :-1].cumsum(2))
        return dq_MLD, dk_MLD, dg_MLD


def _halvings(length: int) -> Iterator[int]:
    """Yield L/2, L/4, ..., 1."""
    while length > 1:
        length //= 2
        yield length


def _halves(x_MLD: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Return the earlier and the later half of every block, two views (M, N, S, D)."""
    earlier, later = x_MLD.unflatten(1, (-1, 2, half)).unbind(2)
    return earlier, later


def _decays(g_MLD: Tensor, half: int) -> tuple[Tensor, Tensor]:
    """Return the fraction of an earlier position that remains at the border, and of the border at a
    later position.
    """
    earlier_MNSD, later_MNSD = _halves(g_MLD, half)
    # A position's own decay does not apply to what it writes.
    to_border = _sums_from_here(F.pad(earlier_MNSD[:, :, 1:], (0, 0, 0, 1)))
    return to_border.exp_(), later_MNSD.cumsum(2).exp_()


def _sums_from_here(x_MNSD: Tensor) -> Tensor:
    """Sum each position with all that follow it."""
    return x_MNSD.flip(2).cumsum(2).flip(2)


def _between_halves(x_MLL: Tensor, half: int) -> Tensor:
    """Return the rows of the later half and columns of the earlier half of every diagonal block, a
    view (M, N, S, S).
    """
    count = x_MLL.shape[1] // (2 * half)
    blocks_MSSN = x_MLL.view(-1, count, 2 * half, count, 2 * half).diagonal(dim1=1, dim2=3)
    return blocks_MSSN[:, half:, :half].movedim(-1, 1)
