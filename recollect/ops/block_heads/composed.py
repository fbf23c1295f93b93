"""Gates computed directly from c and u, next to q, k and v: they need only the products of W_g with
W_q, W_k and W_v.

    q = c W_q        k = c W_k scale        v = u W_v        gates = c G_c + u G_u
    G_c = W_q W_gq + W_k W_gk        G_u = W_v W_gv        (W_g in its rows for q, k and v)

Shapes as in plain.py.
"""

from torch import Tensor

from recollect.ops.block_diagonal import block_diagonal
from recollect.ops.few_columns import few_columns
from recollect.ops.layout import at_positions


def compose_gates(
    query_PROO: Tensor, key_PROO: Tensor, value_PROO: Tensor, gate_PFG: Tensor
) -> tuple[Tensor, Tensor]:
    """Return G_c and G_u, (P, E, G)."""
    channels = gate_PFG.shape[1] // 3
    query_PEG, key_PEG, value_PEG = (
        _product(weight, part)
        for weight, part in zip(
            (query_PROO, key_PROO, value_PROO), gate_PFG.split(channels, dim=1), strict=True
        )
    )
    return query_PEG + key_PEG, value_PEG


def block_heads(
    c_PBLE: Tensor,
    u_PBLE: Tensor,
    query_PROO: Tensor,
    key_PROO: Tensor,
    value_PROO: Tensor,
    gate_c_PEG: Tensor,
    gate_u_PEG: Tensor,
    scale: float,
    where_BK: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """q_PBKE at the positions `where_BK`, or at all, k_PBLE, v_PBLE, gates_PBLG, and c_PBKE."""
    c_PBKE = c_PBLE if where_BK is None else at_positions(c_PBLE, where_BK)
    gates_PBLG = few_columns(c_PBLE, gate_c_PEG) + few_columns(u_PBLE, gate_u_PEG)
    return (
        block_diagonal(c_PBKE, query_PROO),
        block_diagonal(c_PBLE, key_PROO * scale),
        block_diagonal(u_PBLE, value_PROO),
        gates_PBLG,
        c_PBKE,
    )


def _product(weight_PROO: Tensor, gate_PEG: Tensor) -> Tensor:
    """Return the block-diagonal matrix times the columns of gates: a sum of few terms that is exact
    under autocast too.
    """
    gate_PR1OG = gate_PEG.unflatten(1, weight_PROO.shape[1:3])[:, :, None]
    return (weight_PROO[..., None] * gate_PR1OG).sum(3).flatten(1, 2)
