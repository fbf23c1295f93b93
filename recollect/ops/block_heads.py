"""Queries, keys, values and gates of an mLSTM: block-diagonal projections, and what few columns
make of the same inputs.

    q = c W_q        k = c W_k scale        v = u W_v        gates = c G_c + u G_u

Shapes: P population, B batch, L length, E channels, R blocks of O = E / R channels on the diagonals
of the W, G gates.
"""

import torch
from torch import Tensor

from recollect.ops.dispatch import use_triton
from recollect.ops.few_columns import few_columns
from recollect.ops.positions import at_positions


def block_heads(
    c_PBLE: Tensor, u_PBLE: Tensor, query_PROO: Tensor, key_PROO: Tensor, value_PROO: Tensor,
    gate_c_PEG: Tensor, gate_u_PEG: Tensor, scale: float, where_BK: Tensor | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """q at K positions, or everywhere, k, v, gates in float32 if it is a kernel that adds them up,
    and c where q is.

    Whoever goes on with c from here spares a pass over its gradients: they are added up with the
    others.
    """
    if use_triton(c_PBLE, u_PBLE):
        from recollect.ops import block_heads_triton

        if block_heads_triton.fits(query_PROO.shape[-1], gate_c_PEG.shape[-1]):
            query = query_PROO if where_BK is None else None
            q_PBLE, k_PBLE, v_PBLE, gates_PBLG, c_PBKE = block_heads_triton.block_heads(
                c_PBLE, u_PBLE, query, key_PROO, value_PROO, gate_c_PEG, gate_u_PEG, scale, where_BK
            )
            return (
                by_blocks(c_PBKE, query_PROO) if q_PBLE is None else q_PBLE,
                k_PBLE,
                v_PBLE,
                gates_PBLG,
                c_PBKE,
            )
    c_PBKE = c_PBLE if where_BK is None else at_positions(c_PBLE, where_BK)
    gates_PBLG = few_columns(c_PBLE, gate_c_PEG) + few_columns(u_PBLE, gate_u_PEG)
    return (
        by_blocks(c_PBKE, query_PROO),
        by_blocks(c_PBLE, key_PROO * scale),
        by_blocks(u_PBLE, value_PROO),
        gates_PBLG,
        c_PBKE,
    )


def by_blocks(x: Tensor, weight_PROO: Tensor) -> Tensor:
    """x (P, B, ..., E) times a block-diagonal matrix per member."""
    population, blocks, size, _ = weight_PROO.shape
    if use_triton(x) and blocks > 1:
        # Tensor cores make nothing of blocks of four: the zeros around them cost less.
        dense_PROSO = torch.diag_embed(weight_PROO.permute(0, 2, 3, 1), dim1=1, dim2=3)
        return torch.bmm(x.flatten(1, -2), dense_PROSO.reshape(population, blocks * size, -1)).view(
            x.shape
        )
    y_PMRO = torch.einsum("pmri,prio->pmro", x.reshape(population, -1, blocks, size), weight_PROO)
    return y_PMRO.reshape(x.shape)
