"""Exact draws without replacement, for many rows at once.

Shapes: B rows, N draws of a row, S items to draw from.
"""

import torch
from torch import Tensor

from recollect.ops.randomness import below, grid, uniform

_TABLE_ENTRIES = (
    1 << 22
)  # entries of the tables shuffled at one time: 16 MiB, small enough to benefit from a cache


def distinct(
    stream: int, first: int, rows: int, draws: int, count: int, device: torch.device
) -> Tensor:
    """Ordered draws without replacement from 0 .. count - 1, for rows first .. first + rows - 1.

    This takes the first `draws` steps of a Fisher-Yates shuffle of a table per row. Each chunk of
    rows restores the tables afterwards, which is cheaper than creating new ones.
    """
    if draws == 0:
        return torch.empty(rows, 0, dtype=torch.int64, device=device)
    step_N = torch.arange(draws, device=device)
    chosen_BN = step_N + below(stream, grid(first, rows, draws, device), count - step_N)
    chunk = max(1, _TABLE_ENTRIES // count)
    table_SB = torch.arange(count, dtype=torch.int32, device=device)[:, None].repeat(
        1, min(chunk, rows)
    )
    parts = []
    for chosen in chosen_BN.split(chunk):
        parts.append(_shuffled(table_SB[:, : len(chosen)], chosen.T.contiguous()).T)
    return torch.cat(parts).long()


def _shuffled(table_SB: Tensor, chosen_NB: Tensor) -> Tensor:
    drawn_NB = torch.empty_like(chosen_NB, dtype=torch.int32)
    for step, chosen_B in enumerate(chosen_NB):
        index_1B = chosen_B[None]
        drawn_NB[step] = table_SB.gather(0, index_1B)[0]
        table_SB.scatter_(0, index_1B, table_SB[step : step + 1].clone())
    table_SB.scatter_(0, chosen_NB, chosen_NB.int())  # only chosen cells have changed
    return drawn_NB


def weighted(stream: int, first: int, rows: int, draws: int, weights_S: Tensor) -> Tensor:
    """Ordered draws without replacement with the given weights, for rows first .. first + rows - 1.

    This is an exponential race: item s arrives after an exponential time of rate weights[s], and
    the order of arrival is distributed like sequential draws. Devices round logarithms differently,
    so two devices may order arrivals that agree in 15 digits differently: one row in 10**11.
    """
    counters_BS = grid(first, rows, len(weights_S), weights_S.device)
    arrival_BS = -uniform(stream, counters_BS).log() / weights_S
    return arrival_BS.topk(draws, largest=False, sorted=True).indices
