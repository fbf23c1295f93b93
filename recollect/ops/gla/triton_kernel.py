"""Scores of queries and keys under a decay of each key channel, in tiles of 16 positions: exact for
decays of any strength.

    scores[i, j] = sum_c q_ic k_jc exp(g_{j+1,c} + ... + g_{i,c}) for j <= i, 0 above the diagonal

Shapes: M sequences, L length, D channels (up to 128 in one go), K tiles of a sequence; rows i of
tile I, columns j of tile J.

Between two tiles the decay is split at a border between them: from j to the border and from the
border to i. Both are sums of g and thus <= 0, and the scores are one product. Inside a tile there
is no border; column by column, the sums from j + 1 to i are extended by one position. So no sum is
ever a difference of larger ones, as in the plain halvings, with K = L / 16 tiles to visit per row
instead of log2(L) passes over everything.

Backward, with e[i, j, c] the terms of sum dscores * scores:

    dq_i = sum_{j<=i} dscores_ij k_j decay_ij        dk_j = sum_{i>=j} dscores_ij q_i decay_ij
    dg_t = sum_{j<t<=i} e_ij

The rows' kernel gives dq and all that happens inside a tile, the columns' kernel the rest of dk. Of
dg_t the pairs with i in the tile of t are sums of q dq from t on, those with j in it sums of k dk
before t, and those around it totals of pairs of tiles (M, K, K, D): each pair is added only where
it belongs, and nothing cancels.
"""

# mypy: disable-error-code="no-untyped-def, arg-type, call-arg, var-annotated, misc"

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from recollect.ops.triton_tiles import padded

# The smallest product of tl.dot; the exponentials inside tiles are 16 / L of those of all pairs.
TILE = 16
WIDEST = 128  # channels: a tile is then 2,048 floats, 16 registers of each thread


def decayed_scores(q: Tensor, k: Tensor, log_decay: Tensor) -> Tensor:
    """Return (..., L, L) from three (..., L, D)."""
    *lead, length, width = q.shape
    flat = [x.reshape(-1, length, width) for x in (q, k, log_decay)]
    groups = zip(*(x_MLD.split(WIDEST, dim=-1) for x_MLD in flat), strict=True)
    parts_MLL = [_DecayedScores.apply(*group) for group in groups]
    scores_MLL: Tensor = sum(parts_MLL[1:], start=parts_MLL[0])
    return scores_MLL.view(*lead, length, length)


class _DecayedScores(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q_MLD: Tensor, k_MLD: Tensor, g_MLD: Tensor) -> Tensor:
        q_MLD, k_MLD, g_MLD = q_MLD.contiguous(), k_MLD.contiguous(), g_MLD.contiguous()
        ctx.save_for_backward(q_MLD, k_MLD, g_MLD)
        sequences, length, _ = q_MLD.shape
        scores_MLL = q_MLD.new_empty(sequences, length, length)
        if scores_MLL.numel():
            grid, shape = _launch(q_MLD)
            _forward_kernel[grid](q_MLD, k_MLD, g_MLD, scores_MLL, length, **shape)
        return scores_MLL

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, ...]:
        q_MLD, k_MLD, g_MLD = ctx.saved_tensors
        dscores_MLL = grads[0].contiguous()
        sequences, length, width = q_MLD.shape
        dq_MLD = torch.empty_like(q_MLD)
        # Two kernels write to them: float32 in between, whatever the dtype of the inputs.
        dk_MLD, dg_MLD = (torch.empty_like(x, dtype=torch.float32) for x in (k_MLD, g_MLD))
        if dq_MLD.numel():
            grid, shape = _launch(q_MLD)
            tiles = triton.cdiv(length, TILE)
            totals_MKKD = q_MLD.new_zeros(sequences, tiles, tiles, width, dtype=torch.float32)
            _rows_kernel[grid](
                q_MLD,
                k_MLD,
                g_MLD,
                dscores_MLL,
                dq_MLD,
                dk_MLD,
                dg_MLD,
                totals_MKKD,
                length,
                **shape,
            )
            if tiles > 1:
                totals_MKKD = totals_MKKD.cumsum(2)
                _columns_kernel[grid](
                    q_MLD, k_MLD, g_MLD, dscores_MLL, dk_MLD, dg_MLD, totals_MKKD, length, **shape
                )
        return dq_MLD, dk_MLD.to(k_MLD.dtype), dg_MLD.to(g_MLD.dtype)


def _launch(q_MLD: Tensor) -> tuple[tuple[int], dict[str, int]]:
    """Return grid and options: one program for each sequence and tile, one warp for every 32
    channels.

    Without pipelining (num_stages) more programs fit: a third of the shared memory, 119 instead of
    186 registers.
    """
    sequences, length, width = q_MLD.shape
    channels = padded(width)
    grid = (sequences * triton.cdiv(length, TILE),)
    return grid, {
        "WIDTH": width,
        "PADDED": channels,
        "TILE": TILE,
        "num_warps": max(1, channels // 32),
        "num_stages": 1,
    }


@triton.jit
def _forward_kernel(
    q_ptr, k_ptr, g_ptr, scores_ptr, length,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    sequence, mine, tiles = _place(length, TILE)
    offset = sequence * length * WIDTH
    q_ptr, k_ptr, g_ptr, scores_ptr = (
        q_ptr + offset,
        k_ptr + offset,
        g_ptr + offset,
        scores_ptr + sequence * length * length,
    )
    local = tl.arange(0, TILE)
    q = _tile(q_ptr, mine, 0, length, WIDTH, PADDED, TILE)
    inside = tl.zeros((TILE, TILE), dtype=tl.float32)
    sums = tl.zeros((TILE, PADDED), dtype=tl.float32)  # over j + 1 .. i
    for back in range(TILE):
        j = TILE - 1 - back
        sums += _next(g_ptr, mine, j, local, length, WIDTH, PADDED, TILE)
        column = tl.sum(
            q * _row(k_ptr, mine * TILE + j, length, WIDTH, PADDED)[None, :] * tl.exp(sums), axis=1
        )
        inside = tl.where((local[None, :] == j) & (local[:, None] >= j), column[:, None], inside)
    _store_scores(scores_ptr, mine, mine, inside, length, TILE)
    later = q * tl.exp(tl.cumsum(_tile(g_ptr, mine, 0, length, WIDTH, PADDED, TILE), axis=0))
    # The sum of g from the end of the other tile to the start of this one.
    between = tl.zeros((PADDED,), dtype=tl.float32)
    for back in range(mine):
        other = mine - 1 - back
        earlier = _tile(k_ptr, other, 0, length, WIDTH, PADDED, TILE)
        earlier *= tl.exp(_until_end(g_ptr, other, length, WIDTH, PADDED, TILE) + between[None, :])
        scores = tl.dot(later, tl.trans(earlier), input_precision="ieee")
        _store_scores(scores_ptr, mine, other, scores, length, TILE)
        between += tl.sum(_tile(g_ptr, other, 0, length, WIDTH, PADDED, TILE), axis=0)
    for other in range(mine + 1, tiles):
        _store_scores(
            scores_ptr, mine, other, tl.zeros((TILE, TILE), dtype=tl.float32), length, TILE
        )


@triton.jit
def _rows_kernel(
    q_ptr, k_ptr, g_ptr, dscores_ptr, dq_ptr, dk_ptr, dg_ptr, totals_ptr, length,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Compute dq of one tile, the pairs inside it of dk and dg, the pairs with earlier tiles of dg,
    and their totals.
    """
    sequence, mine, tiles = _place(length, TILE)
    offset = sequence * length * WIDTH
    q_ptr, k_ptr, g_ptr, dscores_ptr = (
        q_ptr + offset,
        k_ptr + offset,
        g_ptr + offset,
        dscores_ptr + sequence * length * length,
    )
    local = tl.arange(0, TILE)
    channel = tl.arange(0, PADDED)
    q = _tile(q_ptr, mine, 0, length, WIDTH, PADDED, TILE)
    from_start = tl.exp(tl.cumsum(_tile(g_ptr, mine, 0, length, WIDTH, PADDED, TILE), axis=0))
    between = tl.zeros((PADDED,), dtype=tl.float32)
    dq = tl.zeros((TILE, PADDED), dtype=tl.float32)
    totals_ptr += ((sequence * tiles + mine) * tiles) * WIDTH
    for back in range(mine):
        other = mine - 1 - back
        earlier = _tile(k_ptr, other, 0, length, WIDTH, PADDED, TILE)
        earlier *= tl.exp(_until_end(g_ptr, other, length, WIDTH, PADDED, TILE) + between[None, :])
        dscores = _load_scores(dscores_ptr, mine, other, length, TILE)
        part = tl.dot(dscores, earlier, input_precision="ieee") * from_start
        dq += part
        tl.store(
            totals_ptr + other * WIDTH + channel, tl.sum(q * part, axis=0), mask=channel < WIDTH
        )
        between += tl.sum(_tile(g_ptr, other, 0, length, WIDTH, PADDED, TILE), axis=0)
    dg = tl.cumsum(q * dq, axis=0, reverse=True)
    dk = tl.zeros((TILE, PADDED), dtype=tl.float32)
    sums = tl.zeros((TILE, PADDED), dtype=tl.float32)
    for back in range(TILE):
        j = TILE - 1 - back
        sums += _next(g_ptr, mine, j, local, length, WIDTH, PADDED, TILE)
        key = _row(k_ptr, mine * TILE + j, length, WIDTH, PADDED)[None, :]
        i = mine * TILE + local
        present = (local >= j) & (i < length)
        dcolumn = tl.load(dscores_ptr + i * length + mine * TILE + j, mask=present, other=0.0).to(
            tl.float32
        )
        weight = dcolumn[:, None] * tl.exp(sums)
        dq += weight * key
        weight *= q
        dk = tl.where((local == j)[:, None], tl.sum(weight, axis=0)[None, :], dk)
        dg += tl.where((local > j)[:, None], tl.cumsum(weight * key, axis=0, reverse=True), 0.0)
    _store_tile(dq_ptr + offset, mine, dq, length, WIDTH, PADDED, TILE)
    _store_tile(dk_ptr + offset, mine, dk, length, WIDTH, PADDED, TILE)
    _store_tile(dg_ptr + offset, mine, dg, length, WIDTH, PADDED, TILE)


@triton.jit
def _columns_kernel(
    q_ptr, k_ptr, g_ptr, dscores_ptr, dk_ptr, dg_ptr, totals_ptr, length,
    WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Add to dk and dg of one tile the pairs with later tiles, and to dg the pairs around the tile;
    totals are summed along J.
    """
    sequence, mine, tiles = _place(length, TILE)
    offset = sequence * length * WIDTH
    q_ptr, k_ptr, g_ptr, dscores_ptr = (
        q_ptr + offset,
        k_ptr + offset,
        g_ptr + offset,
        dscores_ptr + sequence * length * length,
    )
    local = tl.arange(0, TILE)
    channel = tl.arange(0, PADDED)
    totals_ptr += sequence * tiles * tiles * WIDTH
    between = tl.zeros((PADDED,), dtype=tl.float32)
    around = tl.zeros((PADDED,), dtype=tl.float32)
    dk = tl.zeros((TILE, PADDED), dtype=tl.float32)
    for other in range(mine + 1, tiles):
        g = _tile(g_ptr, other, 0, length, WIDTH, PADDED, TILE)
        later = _tile(q_ptr, other, 0, length, WIDTH, PADDED, TILE) * tl.exp(
            tl.cumsum(g, axis=0) + between[None, :]
        )
        dscores = _load_scores(dscores_ptr, other, mine, length, TILE)
        dk += tl.dot(tl.trans(dscores), later, input_precision="ieee")
        between += tl.sum(g, axis=0)
        before = channel < tl.where(mine > 0, WIDTH, 0)  # no pairs are around the first tile
        around += tl.load(
            totals_ptr + (other * tiles + mine - 1) * WIDTH + channel, mask=before, other=0.0
        )
    dk *= tl.exp(_until_end(g_ptr, mine, length, WIDTH, PADDED, TILE))
    # Sums over j < t are a product with ones, since a running sum without its last term would be a
    # difference.
    earlier = (local[None, :] < local[:, None]).to(tl.float32)
    k = _tile(k_ptr, mine, 0, length, WIDTH, PADDED, TILE)
    dg = tl.dot(earlier, k * dk, input_precision="ieee") + around[None, :]
    dk += _tile(dk_ptr + offset, mine, 0, length, WIDTH, PADDED, TILE)
    dg += _tile(dg_ptr + offset, mine, 0, length, WIDTH, PADDED, TILE)
    _store_tile(dk_ptr + offset, mine, dk, length, WIDTH, PADDED, TILE)
    _store_tile(dg_ptr + offset, mine, dg, length, WIDTH, PADDED, TILE)


@triton.jit
def _place(length, TILE: tl.constexpr):
    """Return the sequence of this program, its tile and the number of tiles; inside a sequence 32
    bits are enough.
    """
    tiles = tl.cdiv(length, TILE)
    program = tl.program_id(0)
    return (program // tiles).to(tl.int64), program % tiles, tiles


@triton.jit
def _tile(
    x_ptr, number, ahead, length, WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr
):
    """Load (TILE, PADDED) of x, `ahead` positions later within the tile; zeros outside."""
    local = tl.arange(0, TILE) + ahead
    channel = tl.arange(0, PADDED)
    row = number * TILE + local
    there = ((local < TILE) & (row < length))[:, None] & (channel < WIDTH)[None, :]
    return tl.load(x_ptr + row[:, None] * WIDTH + channel[None, :], mask=there, other=0.0).to(
        tl.float32
    )


@triton.jit
def _until_end(
    g_ptr, number, length, WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr
):
    """Return the log decay after each position of a tile up to the tile's end."""
    return tl.cumsum(_tile(g_ptr, number, 1, length, WIDTH, PADDED, TILE), axis=0, reverse=True)


@triton.jit
def _next(
    g_ptr, number, j, local, length, WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr
):
    """Return g of position j + 1 of a tile for the rows after j; there are none after the last."""
    return tl.where(
        (local > j)[:, None],
        _row(g_ptr, number * TILE + j + 1, length, WIDTH, PADDED)[None, :],
        0.0,
    )


@triton.jit
def _row(x_ptr, position, length, WIDTH: tl.constexpr, PADDED: tl.constexpr):
    channel = tl.arange(0, PADDED)
    there = channel < tl.where(position < length, WIDTH, 0)
    return tl.load(x_ptr + position * WIDTH + channel, mask=there, other=0.0).to(tl.float32)


@triton.jit
def _store_tile(
    x_ptr, number, x, length, WIDTH: tl.constexpr, PADDED: tl.constexpr, TILE: tl.constexpr
):
    row = number * TILE + tl.arange(0, TILE)
    channel = tl.arange(0, PADDED)
    there = (row < length)[:, None] & (channel < WIDTH)[None, :]
    tl.store(
        x_ptr + row[:, None] * WIDTH + channel[None, :], x.to(x_ptr.dtype.element_ty), mask=there
    )


@triton.jit
def _load_scores(x_ptr, row_tile, column_tile, length, TILE: tl.constexpr):
    i, j = row_tile * TILE + tl.arange(0, TILE), column_tile * TILE + tl.arange(0, TILE)
    there = (i < length)[:, None] & (j < length)[None, :]
    return tl.load(x_ptr + i[:, None] * length + j[None, :], mask=there, other=0.0).to(tl.float32)


@triton.jit
def _store_scores(x_ptr, row_tile, column_tile, x, length, TILE: tl.constexpr):
    i, j = row_tile * TILE + tl.arange(0, TILE), column_tile * TILE + tl.arange(0, TILE)
    there = (i < length)[:, None] & (j < length)[None, :]
    tl.store(x_ptr + i[:, None] * length + j[None, :], x.to(x_ptr.dtype.element_ty), mask=there)
