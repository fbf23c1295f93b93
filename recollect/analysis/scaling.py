"""The best score as a function of a setting: width, depth, length, parameters, state size.

Every cell enters with its best rate, so a curve over widths compares models each at the rate that
suits it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import StatisticsError, correlation
from typing import Any

from recollect.analysis.bands import band
from recollect.analysis.cells import Cell
from recollect.analysis.naming import join_name, name_cells
from recollect.analysis.settings import WIDTH, canonical, cell_settings, get_setting

# Values that may be used in place of a flat key: they are counted on the model and not part of its
# specification.
MEASURED = ("parameters", "state_size")
# Settings that change together with another one: in the study, longer rows have more pairs and
# smaller batches.
MOVING = {"task.length": ("task.pairs", "train.batch", "train.steps", "train.evaluations")}


@dataclass(frozen=True)
class ScalingPoint:
    """A cell at its best rate, at position `x` of an axis."""

    x: Any
    cell: Cell
    lr: float
    mean: float
    low: float  # lowest score of a seed; any other band is computed from `scores`
    high: float
    scores: dict[int, float]  # by seed
    parameters: int | None
    state_size: int | None  # floats that a decoder keeps per layer and sequence


@dataclass(frozen=True)
class ScalingLine:
    """Points of cells that differ in one setting (and in what changes with it), in its order."""

    mixer: str
    setting: str
    points: tuple[ScalingPoint, ...]

    @property
    def name(self) -> str:
        return join_name(self.mixer, self.setting)


def best_points(cells: Iterable[Cell], key: str = WIDTH) -> list[ScalingPoint]:
    """Return one point per cell with a result, sorted by the flat `key` or one of MEASURED.

    Cells without a result or without the key have no place on the axis and are left out;
    `find_missing` counts the former.
    """
    points = [point for cell in cells if (point := _point(cell, key)) is not None]
    if all(isinstance(point.x, int | float) for point in points):
        points.sort(key=lambda point: point.x)
    return points


def scaling_lines(
    cells: Sequence[Cell], key: str = WIDTH, x: str | None = None
) -> list[ScalingLine]:
    """Return the cells as lines along `key`, over `x`: that key or another, e.g. "parameters"."""
    members: dict[str, list[Cell]] = {}
    settings: dict[str, dict[str, Any]] = {}
    for cell in cells:
        own = cell_settings(cell.rows[0].spec)
        shared = {
            name: entry for name, entry in own.items() if name not in (key, *MOVING.get(key, ()))
        }
        settings.setdefault(canonical(shared), shared)
        members.setdefault(canonical(shared), []).append(cell)
    names = name_cells(list(settings.values()))
    lines = [
        ScalingLine(*name, tuple(best_points(own, x or key)))
        for name, own in zip(names, members.values(), strict=True)
    ]
    return [line for line in lines if line.points]


def rank_correlation(points: Sequence[ScalingPoint]) -> float | None:
    """Return Spearman's coefficient of x and the mean score; None if one of them is constant or
    there are fewer than two points.
    """
    try:
        return correlation(
            _ranks([point.x for point in points]), _ranks([point.mean for point in points])
        )
    except StatisticsError:
        return None


def _ranks(values: Sequence[float]) -> list[float]:
    """Return ranks in ascending order; equal values share their mean rank."""
    return [
        sum(other < one for other in values) + sum(other == one for other in values) / 2
        for one in values
    ]


def _point(cell: Cell, key: str) -> ScalingPoint | None:
    best = cell.best
    if best is None:
        return None
    x = getattr(cell, key) if key in MEASURED else get_setting(cell.rows[0], key)
    if x is None:
        return None
    low, high = band(best.scores)
    sizes = cell.parameters, cell.state_size
    return ScalingPoint(x, cell, best.lr, best.mean, low, high, dict(best.scores), *sizes)
