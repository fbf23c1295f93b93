"""Queries, keys, values and gates of an mLSTM; equations in plain.py."""

from torch import Tensor

from recollect.ops.block_heads import composed
from recollect.ops.block_heads.plain import heads_and_gates
from recollect.ops.dispatch import use_triton
from recollect.ops.layout import at_positions

__all__ = ["block_heads", "heads_and_gates"]


def block_heads(
    c_PBLE: Tensor,
    u_PBLE: Tensor,
    query_PROO: Tensor,
    key_PROO: Tensor,
    value_PROO: Tensor,
    gate_PFG: Tensor,
    bias_PG: Tensor,
    where_BK: Tensor | None = None,
) -> tuple[Tensor, ...]:
    """Return q_PBKHD at the positions `where_BK`, or at all, k_PBLHD / sqrt(D), v_PBLHD, i_PBLH,
    f_PBLH, and c_PBKE at the positions of q. Gates are float32 if a kernel adds them up.

    Use the returned c afterwards: a kernel adds up its gradients together with the others.
    """
    blocks = query_PROO, key_PROO, value_PROO
    if not use_triton(c_PBLE, u_PBLE):
        q_PBLHD, *others = heads_and_gates(c_PBLE, u_PBLE, *blocks, gate_PFG, bias_PG)
        if where_BK is None:
            return q_PBLHD, *others, c_PBLE
        q_PBKE, c_PBKE = (at_positions(x, where_BK) for x in (q_PBLHD.flatten(3), c_PBLE))
        return q_PBKE.unflatten(-1, q_PBLHD.shape[3:]), *others, c_PBKE

    from recollect.ops.block_heads import triton_kernel

    heads = gate_PFG.shape[2] // 2
    scale = (c_PBLE.shape[3] // heads) ** -0.5
    fits = triton_kernel.fits(query_PROO.shape[-1], gate_PFG.shape[2])
    form = triton_kernel.block_heads if fits else composed.block_heads
    *qkv, gates_PBLG, c_PBKE = form(
        c_PBLE, u_PBLE, *blocks, *composed.compose_gates(*blocks, gate_PFG), scale, where_BK
    )
    q_PBKHD, k_PBLHD, v_PBLHD = (x.unflatten(-1, (heads, -1)) for x in qkv)
    i_PBLH, f_PBLH = (gates_PBLG + bias_PG[:, None, None]).chunk(2, dim=-1)
    return q_PBKHD, k_PBLHD, v_PBLHD, i_PBLH, f_PBLH, c_PBKE
