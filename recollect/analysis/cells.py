"""Runs grouped into cells: the runs of a cell differ only in learning rate and seed, so a cell is
one line of a figure.

Only runs with a result enter a mean; the others are counted and shown, never silently dropped.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.naming import join_name, name_specs, rows_by_cell
from recollect.analysis.windows import (
    TAU,
    ZOOLOGY_RATES,
    Window,
    best_index,
    find_window,
    is_sparse_rate,
    mean_score,
)
from recollect.rows import RunRow
from recollect.tasks.options.pairs import MqarSpec


@dataclass(frozen=True)
class Rate:
    """The runs of one cell at one learning rate, one per seed."""

    lr: float
    rows: tuple[RunRow, ...]
    scores: dict[int, float]  # by seed: 0 for a diverged run, no entry for a run without a result
    drawn: tuple[RunRow, ...] = ()  # the runs behind `scores` in a resampled cell

    @property
    def mean(self) -> float:
        return mean_score(self.scores.values())

    @property
    def scored(self) -> tuple[RunRow, ...]:
        """The runs behind `scores`, in their order."""
        return self.drawn or tuple(row for row in self.rows if row.spec["seed"] in self.scores)

    @property
    def diverged(self) -> tuple[RunRow, ...]:
        return tuple(row for row in self.scored if row.status == "diverged")

    @property
    def all_diverged(self) -> bool:
        """Whether every run at this rate diverged: no run shows that one can train with it."""
        return len(self.diverged) == len(self.scored)


@dataclass(frozen=True)
class Cell:
    """One model on one task under one recipe, at every rate and seed tried."""

    mixer: str
    setting: str  # what distinguishes it from other cells of the same mixer; may be empty
    rates: tuple[Rate, ...]  # ascending

    @property
    def name(self) -> str:
        return join_name(self.mixer, self.setting)

    @property
    def rows(self) -> tuple[RunRow, ...]:
        return tuple(row for rate in self.rates for row in rate.rows)

    @property
    def chance(self) -> float:
        return self.rates[0].rows[0].chance

    @property
    def position_only(self) -> float:
        """The score of a model that knows only the position of a query and binds nothing; chance
        where nothing more is known.
        """
        from recollect.tasks.options.placement import position_only_accuracy  # imports numpy

        task = self.rows[0].spec.get("task", {})
        if task.get("name") != "mqar" or self.score_name != "accuracy":
            return self.chance
        try:
            return position_only_accuracy(MqarSpec.model_validate(task))
        except (ValueError, TypeError):  # a specification of another version
            return self.chance

    @property
    def position_helps(self) -> bool:
        """Whether `position_only` exceeds chance by at least one digit of a written score."""
        return self.position_only - self.chance >= 0.001

    @property
    def score_name(self) -> str:
        return self.rates[0].rows[0].score_name

    @property
    def parameters(self) -> int | None:
        """The number of parameters, counted on the model of the first run that was built."""
        return next((row.parameters for row in self.rows if row.parameters is not None), None)

    @property
    def state_size(self) -> int | None:
        """The number of floats that a decoder keeps per layer and sequence."""
        return next((row.state_size for row in self.rows if row.state_size is not None), None)

    @property
    def scored_rates(self) -> tuple[Rate, ...]:
        return tuple(rate for rate in self.rates if rate.scores)

    @property
    def best(self) -> Rate | None:
        """The rate with the best mean score, or None before any run has a score. It is a rate where
        every run diverged only if that holds at all rates (`all_diverged`).
        """
        return _best(self.scored_rates)

    @property
    def all_diverged(self) -> bool:
        """Whether every run so far diverged, so that no rate can be called the best."""
        return bool(self.scored_rates) and all(rate.all_diverged for rate in self.scored_rates)

    @property
    def scored_runs(self) -> int:
        return sum(len(rate.scores) for rate in self.rates)

    def window(self, tau: float = TAU) -> Window | None:
        """Return W(tau) of the mean over seeds."""
        rates = self.scored_rates
        return find_window([rate.lr for rate in rates], [rate.mean for rate in rates], tau)


def group_cells(rows: Sequence[RunRow]) -> tuple[Cell, ...]:
    """Group rows into cells, in the order of their first runs and named by their differences."""
    members = rows_by_cell(rows)
    return _cells(_names(members), members)


class Grouping:
    """Which runs form which cell, and the names of the cells.

    It depends on specifications alone, so it serves for the same runs as their results arrive.
    """

    def __init__(self, rows: Sequence[RunRow]):
        members = rows_by_cell(rows)
        self._names = _names(members)
        self._places = {row.run_id: place for place, own in enumerate(members) for row in own}

    def cells(self, rows: Sequence[RunRow]) -> tuple[Cell, ...]:
        """The cells of these rows, which must be those of the runs that were grouped."""
        members: list[list[RunRow]] = [[] for _ in self._names]
        for row in rows:
            members[self._places[row.run_id]].append(row)
        return _cells(self._names, members)


def _names(members: Sequence[Sequence[RunRow]]) -> list[tuple[str, str]]:
    return name_specs([own[0].spec for own in members])


def _cells(names: Sequence[tuple[str, str]], members: Sequence[list[RunRow]]) -> tuple[Cell, ...]:
    return tuple(Cell(*name, _rates(own)) for name, own in zip(names, members, strict=True))


def sparse_best(cell: Cell) -> Rate | None:
    """Return the best of Zoology's four rates, or None before all four have a score: the best of
    fewer would be the result of another search.
    """
    rates = [rate for rate in cell.scored_rates if is_sparse_rate(rate.lr)]
    if len(rates) < len(ZOOLOGY_RATES):
        return None
    return _best(rates)


def _best(rates: Sequence[Rate]) -> Rate | None:
    """Return the best rate, preferring rates where some run did not diverge: such a run may also
    score no more than the 0 of a diverged one.
    """
    eligible = [rate for rate in rates if not rate.all_diverged] or rates
    return eligible[best_index([rate.mean for rate in eligible])] if eligible else None


def _rates(rows: list[RunRow]) -> tuple[Rate, ...]:
    by_rate: dict[float, list[RunRow]] = {}
    for row in sorted(rows, key=lambda row: row.spec["seed"]):
        by_rate.setdefault(row.spec["train"]["lr"], []).append(row)
    return tuple(Rate(lr, tuple(by_rate[lr]), _scores(by_rate[lr])) for lr in sorted(by_rate))


def _scores(rows: list[RunRow]) -> dict[int, float]:
    ended = [row for row in rows if row.has_result]
    return {row.spec["seed"]: row.score for row in ended if row.score is not None}
