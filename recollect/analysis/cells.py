"""Runs sorted into cells: all runs of a cell differ only in learning rate and seed, so a cell is
one line of a figure.

Only runs that ended in a result (done or diverged) enter a mean; the others are counted and shown,
never silently dropped.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.analysis.settings import canonical, cell_settings, name_cells
from recollect.analysis.windows import TAU, Window, best_index, find_window
from recollect.rows import RunRow


@dataclass(frozen=True)
class Rate:
    """The runs of one cell at one learning rate, one per seed."""

    lr: float
    rows: tuple[RunRow, ...]
    scores: dict[
        int, float
    ]  # by seed; diverged runs stand here at chance, runs without a result not at all

    @property
    def mean(self) -> float:
        return math.fsum(self.scores.values()) / len(self.scores)

    @property
    def scored(self) -> tuple[RunRow, ...]:
        return tuple(row for row in self.rows if row.spec["seed"] in self.scores)


@dataclass(frozen=True)
class Cell:
    """One model on one task under one recipe, at every rate and seed tried."""

    mixer: str
    setting: str  # what sets it apart from other cells of the same mixer; may be empty
    rates: tuple[Rate, ...]  # ascending

    @property
    def name(self) -> str:
        return f"{self.mixer}, {self.setting}" if self.setting else self.mixer

    @property
    def rows(self) -> tuple[RunRow, ...]:
        return tuple(row for rate in self.rates for row in rate.rows)

    @property
    def chance(self) -> float:
        return self.rates[0].rows[0].chance

    @property
    def score_name(self) -> str:
        return self.rates[0].rows[0].score_name

    @property
    def scored_rates(self) -> tuple[Rate, ...]:
        return tuple(rate for rate in self.rates if rate.scores)

    @property
    def best(self) -> Rate | None:
        """The rate with the best mean score, or None before any run has one."""
        rates = self.scored_rates
        return rates[best_index([rate.mean for rate in rates])] if rates else None

    @property
    def scored_runs(self) -> int:
        return sum(len(rate.scores) for rate in self.rates)

    def window(self, tau: float = TAU) -> Window | None:
        """W(tau) of the mean over seeds."""
        rates = self.scored_rates
        return find_window([rate.lr for rate in rates], [rate.mean for rate in rates], tau)


def group_cells(rows: Sequence[RunRow]) -> tuple[Cell, ...]:
    """Cells in the order of their first run, named by what differs between them."""
    members: dict[str, list[RunRow]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for row in rows:
        flat = cell_settings(row.spec)
        key = canonical(flat)
        settings.setdefault(key, flat)
        members.setdefault(key, []).append(row)
    names = name_cells(list(settings.values()))
    return tuple(
        Cell(*name, _rates(own)) for name, own in zip(names, members.values(), strict=True)
    )


def _rates(rows: list[RunRow]) -> tuple[Rate, ...]:
    by_rate: dict[float, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.spec["seed"]):
        by_rate.setdefault(row.spec["train"]["lr"], []).append(row)
    return tuple(Rate(lr, tuple(by_rate[lr]), _scores(by_rate[lr])) for lr in sorted(by_rate))


def _scores(rows: list[RunRow]) -> dict[int, float]:
    ended = [row for row in rows if row.status in ("done", "diverged")]
    return {row.spec["seed"]: row.score for row in ended if row.score is not None}
