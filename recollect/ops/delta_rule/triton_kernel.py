"""The delta rule on queries and keys of length one,
as four kernels that walk through chunks of 64 positions.

    S_t = exp(g_t) (I - beta_t k_t k_t^T) S_{t-1} + beta_t k_t v_t^T
    o_t = S_t^T q_t / sqrt(D)

where q and k are the inputs divided by sqrt(|.|^2 + eps).

Shapes: P population, B batch, L length, H heads, D channels of a key, E of a value, C chunks of T
positions; M = P B H sequences; F = H (2 D + E) channels: those of q, of k and of v, one head after
the other in each.

Inside a chunk, S is the memory before it; since_i, until_j and decay_ij are the fractions that
remain at i of S, at the chunk's end of a write at j, and at i of a write at j:

    N = strictly_lower(k k^T decay)      A = lower(q k^T decay) / sqrt(D)
    X = v - since k S        Y = (I + N beta)^-1 X        U = beta Y
    o = A U + since q S / sqrt(D)        S' = since_T S + k^T until U

`squares_kernel` makes A and H = N (I + beta N)^-1, with which Y = X - H beta X, all chunks side by
side: by forward substitution in blocks of 16, which are then joined by two products at a time. (No
power of N is formed: powers explode where keys repeat.) `walk_kernel` goes from chunk to chunk with
some columns of S, which it writes at every border and reads back from the cache. Backward,
`walk_back_kernel` goes the other way with dS, and `finish_kernel` does the rest, all chunks side by
side:

    dU = A^T do + until k dS'        dR = dU - H^T beta dU        dv = beta dR
    dbeta = sum_e dR Y
    dS = since_T dS' + q^T since do / sqrt(D) - k^T beta since dR
    dA = lower(do U^T)                           a = dA decay / sqrt(D)
    dN = -strictly_lower(beta dR U^T)            n = dN decay
    dq = since do S^T / sqrt(D) + a k
    dk = a^T q + (n + n^T) k + until U dS'^T - beta since dR S^T
    dg_t = sum_{i>=t>j} (dA A + dN N)_ij + (what since, until and since_T contribute)

and finally through the norms, with x the input q or k and r = 1 / sqrt(|x|^2 + eps): dx = r (dq - q
sum_d q dq). These sums need no pass over d: o is linear in q, so sum_d q dq = sum_e o do, and in
the same way sum_d k dk = 2 sum_e dR U - beta sum_e dR v.

Products take their operands in the dtype of the input, bfloat16 or float32, and add up in float32;
everything between them is float32. Full float32 is three products of tf32 parts: on the plain units
the squares would not fit into the registers. r is a factor of rows, so that products take q and k
unchanged.
"""

# A kernel's parameters have Triton's types, which Python's checker cannot know.
# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc, index"

from typing import Any

import torch
import triton
from torch import Tensor

from recollect.ops.delta_rule.triton_backward import finish_kernel, walk_back_kernel
from recollect.ops.delta_rule.triton_forward import squares_kernel, walk_kernel
from recollect.ops.dispatch import product_precision
from recollect.ops.triton_tiles import padded

# A product of one warpgroup has 64 rows; a square of 64 x 64 is then 32 registers in each of 128
# threads.
CHUNK = 64
BLOCK = 16  # rows of the substitution; must divide a chunk


def unit_delta_rule(
    qkv_PBLF: Tensor, beta_PBLH: Tensor, g_PBLH: Tensor | None, keys: int, heads: int, eps: float
) -> Tensor:
    """Return o_PBLHE, in the dtype of qkv; differentiable in all tensors.

    `keys` is D; eps must be positive.
    """
    return _Rule.apply(qkv_PBLF, beta_PBLH, g_PBLH, keys, heads, eps)


class _Rule(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, qkv: Tensor, beta: Tensor, g: Tensor | None, keys: int, heads: int, eps: float
    ) -> Tensor:
        qkv = qkv if qkv.stride(-1) == 1 else qkv.contiguous()
        beta, g = beta.contiguous(), None if g is None else g.contiguous()
        population, batch, length, channels = qkv.shape
        values = channels // heads - 2 * keys
        steps = min(CHUNK, max(BLOCK, triton.next_power_of_2(length)))
        chunks, sequences = triton.cdiv(length, steps), population * batch * heads
        precision = product_precision("tf32x3")
        ctx.sizes = {"KEYS": keys, "VALUES": values, "STEPS": steps, "PRECISION": precision}
        ctx.sizes |= {"GATED": g is not None, "SINGLE": chunks == 1}
        tiles = sequences * chunks
        ctx.scalars = (*qkv.stride()[:3], batch, heads, length, chunks, tiles, keys**-0.5)
        o = qkv.new_empty(population, batch, length, heads, values)
        kinds = 2 if g is None else 3  # squares: A, H and, for dg, N
        squares = qkv.new_empty(kinds, sequences, chunks, steps, steps)
        roots = qkv.new_empty(2, sequences, chunks, steps, dtype=torch.float32)  # for q and k
        solved = qkv.new_empty(sequences, chunks * steps, values)  # Y
        memories = qkv.new_empty(sequences, chunks - 1, keys, values)
        if o.numel():
            squares_kernel[(tiles,)](
                *(qkv, beta, _or(g, beta), squares, roots),
                *ctx.scalars,
                eps,
                **ctx.sizes,
                BLOCK=BLOCK,
                BLOCK_KEYS=_padded(keys, 64),
                num_warps=4,
                num_stages=1,
            )
            grid, columns = _by_columns(sequences, keys, values)
            walk_kernel[grid](
                *(qkv, beta, _or(g, beta), squares, roots, solved, memories, o),
                *ctx.scalars,
                **ctx.sizes,
                **columns,
            )
        ctx.save_for_backward(qkv, beta, g, squares, roots, solved, memories, o)
        return o

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        qkv, beta, g, squares, roots, solved, memories, o = ctx.saved_tensors
        do = grads[0].contiguous()
        sequences = solved.shape[0]
        dqkv = torch.empty(qkv.shape, dtype=qkv.dtype, device=qkv.device)
        dbeta, dg = torch.empty_like(beta), None if g is None else torch.empty_like(g)
        reading, dmemories = torch.empty_like(solved), torch.empty_like(memories)  # dR, dS'
        if o.numel():
            keys, values = ctx.sizes["KEYS"], ctx.sizes["VALUES"]
            grid, columns = _by_columns(sequences, keys, values)
            walk_back_kernel[grid](
                *(qkv, beta, _or(g, beta), squares, roots, reading, dmemories, do, dqkv),
                *ctx.scalars,
                **ctx.sizes,
                **columns,
            )
            inputs = (qkv, beta, _or(g, beta), squares, roots, solved, reading, memories, dmemories)
            finish_kernel[(sequences * squares.shape[2],)](
                *(*inputs, o, do, dqkv, dbeta, _or(dg, dbeta)),
                *ctx.scalars,
                **ctx.sizes,
                **_by_chunks(**ctx.sizes),
            )
        return dqkv, dbeta, dg, None, None, None


def _or(g: Tensor | None, unread: Tensor) -> Tensor:
    return unread if g is None else g


def _padded(width: int, most: int) -> int:
    return min(most, padded(width))


def _by_columns(sequences: int, keys: int, values: int) -> tuple[tuple[int], dict[str, int]]:
    """Return the grid and options of the walks: one program for each sequence and block of value
    columns.

    With 4 warps a tile of 64 x 64 is 32 registers of a thread. Two or three tiles and the operands
    in flight just fit, with 16 to 64 KB of shared memory, so that at least two programs run side by
    side: while one waits at a chunk's border the other computes. Nothing is pipelined (num_stages):
    the memory of a chunk does not exist before the previous chunk is done.
    """
    columns = _padded(values, 64)
    shape = {"BLOCK_KEYS": _padded(keys, 64), "COLUMNS": columns, "num_warps": 4, "num_stages": 1}
    return (sequences * triton.cdiv(values, columns),), shape


def _by_chunks(KEYS: int, VALUES: int, SINGLE: bool, **_: Any) -> dict[str, int]:
    """Return the options of `finish_kernel`, one program for each chunk: its squares and sums of 64
    x 64 fill the registers of 8 warps.

    Without memories 4 warps are faster: two programs run side by side. Blocks of 32 keys out of
    more must be avoided: for a product with a transposed square and 32 columns in a loop, Triton
    3.6 uses addresses beyond the shared memory (docs/decisions/triton-faults-on-hopper.md).
    """
    blocks = {"BLOCK_KEYS": _padded(KEYS, 64), "BLOCK_VALUES": _padded(VALUES, 64)}
    return {**blocks, "num_warps": 4 if SINGLE else 8, "num_stages": 1}
