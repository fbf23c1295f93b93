"""The state space with the whole matrix of all positions."""

import torch
from torch import Tensor

from recollect.ops.segment_sums import segment_sums


def state_space_dual(
    c_PBLN: Tensor,
    b_PBLN: Tensor,
    v_PBHLV: Tensor,
    delta_PBHL: Tensor,
    g_PBHL: Tensor,
    skip_PH: Tensor,
) -> Tensor:
    """y_PBHLV."""
    y_PBHLV = decayed_matches(c_PBLN, b_PBLN, g_PBHL) @ (v_PBHLV * delta_PBHL[..., None])
    return torch.addcmul(y_PBHLV, v_PBHLV, skip_PH[:, None, :, None, None])


def decayed_matches(c_PBLN: Tensor, b_PBLN: Tensor, g_PBHL: Tensor) -> Tensor:
    """Return the weight of delta_j v_j in the read at position i, (P, B, H, L, L): the match of C_i
    and B_j, times the decay from j to i.
    """
    return (c_PBLN @ b_PBLN.transpose(2, 3))[:, :, None] * segment_sums(g_PBHL).exp()
