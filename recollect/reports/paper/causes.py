"""Causes of a wide window: pairs of cells that differ in a single setting, and the decades of
window that the change gains or loses.

One cell of a pair follows a recipe exactly. Settings for early stopping and evaluation do not count
as a difference. The windows of both cells are measured (see searched.py). The interval is where the
gain should lie if both cells were trained with other seeds (analysis/seeds/other_seeds.py).

A change is either a choice of a recipe, which says how a model is trained, or an ablation, which
makes another model of it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from recollect.analysis import TAU, Cell, group_cells
from recollect.analysis.mixer_options import MIXER_OPTIONS, part_text
from recollect.analysis.naming import Settings, differing_keys, short_labels
from recollect.analysis.seeds import TAUS, Interval
from recollect.analysis.seeds.other_seeds import draw_windows, interval_of
from recollect.analysis.settings import DEPTH, MIXER, WIDTH, cell_settings
from recollect.analysis.wording import spaced, value_text
from recollect.mixers.registry import MIXERS
from recollect.reports.paper.searched import is_measured
from recollect.rows import RunRow
from recollect.spec.base import Later, Spec
from recollect.spec.cell import cell_id
from recollect.spec.model import ModelSpec
from recollect.spec.recipes import recipe_of
from recollect.spec.recipes.label import EVALUATION_KEYS
from recollect.spec.train import TrainSpec

if TYPE_CHECKING:
    from recollect.analysis.seeds.drawn_windows import Floats

# Two cells are compared only if these agree: the task, its size, and the shape of the model.
SAME = ("task.name", "task.length", "task.pairs", WIDTH, DEPTH, MIXER)
# Options of a mixer that are choices like those of a recipe. All its others make another model.
CHOICES = ("init", "qk_norm", "precision")
SAME_RATE = 1 + 1e-9  # an end of a window is computed, and may lie on a rate


@dataclass(frozen=True)
class Gain:
    """The change of W at one tau."""

    tau: float
    before: float  # decades; 0 if the task was not solved
    after: float
    interval: Interval | None  # for the difference; None with fewer than three seeds on a side
    before_open: bool  # the grid ended inside the window, so the window is wider than measured
    after_open: bool

    @property
    def decades(self) -> float:
        return self.after - self.before

    @property
    def is_bound(self) -> bool:
        return self.before_open or self.after_open

    @property
    def is_firm(self) -> bool:
        """Whether neither other seeds nor a wider grid would reverse the sign of the change."""
        if self.interval is None or self.interval[0] <= 0 <= self.interval[1]:
            return False
        return not (self.before_open if self.decades > 0 else self.after_open)


@dataclass(frozen=True)
class Cause:
    """One change from a recipe, and its effect on the window."""

    recipe: str
    before: Cell
    after: Cell
    key: str
    values: tuple[Any, Any]
    gains: tuple[Gain, ...]  # by tau

    @property
    def mixer(self) -> str:
        return self.before.mixer

    @property
    def is_ablation(self) -> bool:
        """Whether the change makes another model, e.g. Mamba without its convolution."""
        option = self.key.removeprefix(MIXER_OPTIONS)
        return option != self.key and option not in CHOICES

    @property
    def text(self) -> str:
        """The change in words: "dropout 0.1 to 0", "without convolution"."""
        part = part_text(self.mixer, self.key, self.values[1])
        if part:
            return part
        label = short_labels([self.key])[self.key]
        before, after = map(value_text, self.values)
        if label == "name":
            return f"{before} to {after}"
        return f"{spaced(label)} {before} to {after}"


def find_causes(rows: Iterable[RunRow], recipe: str, taus: Sequence[float] = TAUS) -> list[Cause]:
    """All pairs whose first cell follows the recipe, ordered by cell, then by decreasing gain."""
    cells = [cell for cell in group_cells(list(rows)) if is_measured(cell)]
    measured = {cell_id(cell.rows[0].spec): _Measured(cell, taus) for cell in cells}
    flats = [_settings(cell) for cell in cells]
    found = []
    for base, own in zip(cells, flats, strict=True):
        if recipe_of(base.rows[0].spec) != recipe:
            continue
        for cell, other in zip(cells, flats, strict=True):
            keys = differing_keys([own, other])
            if len(keys) != 1 or keys & set(SAME):
                continue
            [key] = keys
            if _is_base(own, other, key, recipe_of(cell.rows[0].spec) == recipe):
                before, after = (measured[cell_id(one.rows[0].spec)] for one in (base, cell))
                gains = tuple(_gain(before, after, tau) for tau in taus)
                found.append(Cause(recipe, base, cell, key, (own.get(key), other.get(key)), gains))
    return sorted(found, key=_order)


def ranked(causes: Iterable[Cause]) -> list[Cause]:
    """The causes by the size of their gain or loss, the largest first."""
    return sorted(causes, key=lambda cause: -abs(cause.gains[0].decades))


def is_thin(cell: Cell, tau: float = TAU) -> bool:
    """Whether most rates inside the window of a cell have one seed only. Such a window cannot show
    that single seeds fail inside it (docs/decisions/search-edges.md, "Lost seeds").
    """
    window = cell.window(tau)
    if window is None:
        return False
    seeds = [
        len(rate.scores)
        for rate in cell.scored_rates
        if window.low / SAME_RATE <= rate.lr <= window.high * SAME_RATE
    ]
    return 2 * seeds.count(1) > len(seeds)


def _settings(cell: Cell) -> dict[str, Any]:
    """The settings of a cell by flat key, including defaults that its specification omits."""
    flat = cell_settings(cell.rows[0].spec)
    parts: dict[str, type[Spec] | None] = {
        "model": ModelSpec,
        "train": TrainSpec,
        "model.mixer": MIXERS.get(str(flat.get(MIXER))),
    }
    defaults = {
        f"{part}.{name}": field.default
        for part, options in parts.items()
        for name, field in (options.model_fields.items() if options else ())
        if any(isinstance(mark, Later) for mark in field.metadata)
    }
    return {key: value for key, value in (defaults | flat).items() if key not in EVALUATION_KEYS}


def _is_base(own: Settings, other: Settings, key: str, are_alike: bool) -> bool:
    """Whether the first of two cells is the base of the comparison and the other the change.

    A recipe does not fix the options of a mixer. If both cells follow the recipe, the one with
    the default value of the option is the base.
    """
    if not are_alike:
        return True
    options = MIXERS.get(str(own.get(MIXER)))
    field = options.model_fields.get(key.removeprefix(MIXER_OPTIONS)) if options else None
    return field is not None and own.get(key) == field.default != other.get(key)


class _Measured:
    """A cell with the widths of its window over other seeds. Many pairs share it."""

    def __init__(self, cell: Cell, taus: Sequence[float]):
        self.cell = cell
        self.taus = taus

    def is_open(self, tau: float) -> bool:
        window = self.cell.window(tau)
        return window is not None and window.is_open

    def decades(self, tau: float) -> float:
        window = self.cell.window(tau)
        return window.decades if window else 0.0

    @cached_property
    def redrawn(self) -> "dict[float, Floats] | None":
        """By tau, the width of the window in each draw; None if there are too few seeds.

        Every cell has its own draws, so that the two sides of a pair are independent.
        """
        drawn = draw_windows(self.cell, self.taus)
        if drawn is None:
            return None
        return {tau: found.widths for tau, found in zip(self.taus, drawn, strict=True)}


def _gain(before: _Measured, after: _Measured, tau: float) -> Gain:
    first, second = before.redrawn, after.redrawn
    interval = interval_of(second[tau] - first[tau]) if first and second else None
    return Gain(
        tau,
        before.decades(tau),
        after.decades(tau),
        interval,
        before.is_open(tau),
        after.is_open(tau),
    )


def _order(cause: Cause) -> tuple[Any, ...]:
    task, model = (cause.before.rows[0].spec[part] for part in ("task", "model"))
    size = task.get("length", 0), task.get("pairs", 0), model["depth"], model["width"]
    return (*size, cause.mixer, -cause.gains[0].decades)
