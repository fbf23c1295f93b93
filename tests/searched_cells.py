"""Cells whose whole grid is known, searched as far as a search goes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rows_made import make_row, only_cell

from recollect.analysis import Cell
from recollect.rows import RunRow

GRID = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
SEEDS = (1, 2, 3)

Score = Callable[[float, int], float]


def whole(
    score: Score, rates: Sequence[float] = GRID, seeds: Sequence[int] = SEEDS
) -> list[RunRow]:
    return [make_row("mamba", lr, seed, score(lr, seed)) for lr in rates for seed in seeds]


class Played:
    """Rounds from the known results, until there is none or so many are played."""

    def __init__(
        self,
        truth: Sequence[RunRow],
        next_round: Callable[[Cell], list[RunRow]],
        most: int | None = None,
    ):
        self.truth = {row.run_id: row for row in truth}
        self.rows = {
            row.run_id: replace(row, status="todo", accuracy=None) for row in self.truth.values()
        }
        self.rounds: list[list[tuple[float, int]]] = []
        while len(self.rounds) != most and (chosen := next_round(self.cell)):
            self.rounds.append([(row.spec["train"]["lr"], row.spec["seed"]) for row in chosen])
            assert len({row.run_id for row in chosen}) == len(chosen)
            assert all(row.status == "todo" for row in chosen)
            assert len(self.rounds) <= len(self.truth), "it does not end"
            for row in chosen:
                self.rows[row.run_id] = self.truth[row.run_id]

    @property
    def cell(self) -> Cell:
        return only_cell(list(self.rows.values()))

    @property
    def true_cell(self) -> Cell:
        return only_cell(list(self.truth.values()))

    @property
    def trained(self) -> dict[float, int]:
        """How many seeds of each rate that was tried."""
        return {rate.lr: len(rate.scores) for rate in self.cell.rates if rate.scores}
