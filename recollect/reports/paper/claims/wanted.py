"""The cells that still have to be trained for a claim, the command that trains each, and its cost.

The cost is counted in run-steps: optimiser steps of single runs. A grid consists of the study's
rates with the fewest seeds that decide a claim, less the runs that exist already. A search of it
(`--search`) costs less. A single rate is enough to show that a model solves the task: if some
rates are likely to do so, only these are requested first, and the whole grid only after they fail.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from recollect.analysis import Cell, count_text, rate_text
from recollect.reports.paper.claims.roles import Role, usual_settings
from recollect.reports.paper.claims.thresholds import LEAST_SEEDS
from recollect.reports.paper.presets import preset_text
from recollect.reports.paper.study import EPOCHS, RATES, SEEDS, TRAIN_ROWS, VOCABULARY, Size
from recollect.spec.recipes import RECIPES
from recollect.spec.recipes.batches import steps_per_epoch, usual_batch

HEADLINE = "study"  # the recipe that presets have when none is named
BEYOND = {"smaller": (RATES[0] / 10, RATES[0] / 3), "larger": (1.0, 3.0)}
# By task: the preset from which the command for a single cell is derived.
CELL_PRESETS = {"mqar": "fig2", "copying": "table1"}
COPY_LENGTH = 620  # tokens of a row of the copying preset
_SAME = 0.01  # rates within one per cent of each other count as the same rate
_BREADTH = {"best": 0, "edges": 1, "": 2}  # a broader search includes the runs of a narrower one


@dataclass(frozen=True)
class Want:
    """A cell that a rule requests."""

    role: Role
    size: Size
    width: int
    depth: int
    task: str = "mqar"
    positions: str = ""  # if they are not the role's own
    preset: str = ""  # if the command is not derived from the task's usual preset
    rates: tuple[float, ...] = RATES
    trained: int = 0  # runs of this search that have a result
    likely: tuple[float, ...] = ()  # untried rates at which it should score high
    in_full: bool = False  # the whole search is needed; a few rates cannot settle the question
    search: str = (
        ""  # how its rates are trained (running/searching/searches.py); every run if empty
    )

    @property
    def runs(self) -> int:
        return max(0, len(self.rates) * int(LEAST_SEEDS) - self.trained)

    @property
    def text(self) -> str:
        place = f" ({self.size[0]},{self.size[1]})" if any(self.size) else ""
        is_open = callable(self.role.depth) or self.role.depth is None
        deep = f", {count_text(self.depth, 'layer')}" if is_open else ""
        positions = f", positions {self.positions}" if self.positions else ""
        rates = "" if self.rates == RATES else f" at {' and '.join(map(rate_text, self.rates))}"
        return f"{self.role.name}{place} width {self.width}{deep}{positions}{rates}"

    @property
    def is_part(self) -> bool:
        """Whether it covers only some of the study's rates."""
        return {*self.rates} < {*RATES}

    @property
    def is_searched(self) -> bool:
        """Whether a search trains it, which may need fewer than all of its runs."""
        return bool(self.search) and self.rates == RATES

    def to_show_a_score(self) -> "Want":
        """The runs that may be enough if a high score settles the check."""
        if not self.likely:
            return self
        return replace(self, rates=self.likely, trained=0, likely=())

    def to_show_the_best(self, in_full: bool = False) -> "Want":
        """The runs needed to show that no rate scores higher."""
        return replace(self, likely=(), in_full=in_full)

    def run_steps(self, recipe: str = HEADLINE) -> int:
        """Optimiser steps of all its missing runs together."""
        return self.runs * (_mqar_steps(self, recipe) if self.task == "mqar" else _copy_steps())

    def work(self, recipe: str = HEADLINE) -> float:
        """A rough measure of time, used only for ordering: steps times tokens times weights."""
        length = self.size[0] or COPY_LENGTH
        tokens = usual_batch(length, TRAIN_ROWS) * length
        weights = self.width * (VOCABULARY + 12 * self.depth * self.width)
        return float(self.run_steps(recipe)) * tokens * weights

    def command(self, recipe: str = HEADLINE) -> str:
        """The command that trains it."""
        settings: dict[str, object] = {"model.mixer": _mixer_toml(self.role)}
        if self.task == "mqar":
            settings |= {"task.length": self.size[0], "task.pairs": self.size[1]}
        else:
            settings |= _copied(self.role)
        settings |= {"model.depth": self.depth, "model.width": self.width}
        if self.positions:
            settings["model.positions"] = self.positions
        seeds = ",".join(map(str, SEEDS[: int(LEAST_SEEDS)]))
        words = [f"--set {_quoted(f'{key}={value}')}" for key, value in settings.items()]
        words.append(f"--set 'sweep.seed=[{seeds}]'")
        if self.rates != RATES:
            rates = ",".join(map(_exact_text, self.rates))
            words.append(f"--set 'sweep.train.lr=[{rates}]'")
        if self.is_searched:
            words.append(f"--search {self.search}")
        named = [] if recipe == HEADLINE else [f"--recipe {recipe}"]
        preset = self.preset or CELL_PRESETS[self.task]
        return " ".join([f"recollect run paper:{preset}", *named, *words, "--out out"])


@dataclass(frozen=True)
class NextCell:
    """A cell to train, and the claims that request it."""

    want: Want
    claims: tuple[str, ...]
    recipe: str

    @property
    def run_steps(self) -> int:
        return self.want.run_steps(self.recipe)


def scored_runs(cell: Cell, rates: Sequence[float] = RATES) -> int:
    """The number of runs with a result at the given rates, at most LEAST_SEEDS per rate."""
    found = 0
    for wanted in rates:
        near = [rate for rate in cell.scored_rates if abs(rate.lr / wanted - 1) < _SAME]
        found += min(int(LEAST_SEEDS), max((len(rate.scores) for rate in near), default=0))
    return found


def next_cells(wants: Mapping[str, Iterable[Want]], recipe: str = HEADLINE) -> list[NextCell]:
    """The wanted cells of all claims, in an order that decides the most claims soonest.

    For every claim that requests it, a cell is worth its share of that claim's missing work. The
    cells with the most worth per unit of work come first.
    """
    curves = {
        replace(want, preset=""): want for own in wants.values() for want in own if want.preset
    }
    asked: dict[Want, list[str]] = {}
    worth_for_work: dict[Want, float] = {}
    for claim, own in wants.items():
        # If one claim needs the curves of a cell, the runs with curves serve the other claims too.
        distinct = [want for want in first_of_each(curves.get(w, w) for w in own) if want.runs]
        total = sum(want.work(recipe) for want in distinct)
        for want in distinct:
            asked.setdefault(want, []).append(claim)
            worth_for_work[want] = worth_for_work.get(want, 0.0) + 1 / total
    found = [NextCell(want, tuple(claims), recipe) for want, claims in asked.items()]
    return sorted(
        found,
        key=lambda cell: (-worth_for_work[cell.want], cell.want.work(recipe), cell.want.text),
    )


def first_of_each(wants: Iterable[Want]) -> list[Want]:
    """Remove wants that another want of the same cell makes unnecessary.

    If both a whole search and a few rates are wanted, keep the few rates, since they may settle
    both questions; but keep the search if it is needed in full. If several searches of the same
    rates are wanted, keep the broadest.
    """
    distinct = list(dict.fromkeys(wants))
    begun = {_cell(want) for want in distinct if want.is_part}
    in_full = {_cell(want) for want in distinct if want.in_full and want.rates == RATES}

    def is_due(want: Want) -> bool:
        if want.is_part:
            return _cell(want) not in in_full
        return want.rates != RATES or _cell(want) in in_full or _cell(want) not in begun

    searches: dict[Want, str] = {}
    for want in filter(is_due, distinct):
        asked = replace(want, in_full=False, search="")
        searches[asked] = max(
            searches.get(asked, want.search), want.search, key=_BREADTH.__getitem__
        )
    return [replace(want, search=search) for want, search in searches.items()]


def _cell(want: Want) -> Want:
    """The cell itself, regardless of which runs are wanted."""
    return replace(want, rates=RATES, trained=0, likely=(), in_full=False, search="")


def _mqar_steps(want: Want, recipe: str) -> int:
    known = RECIPES[recipe] if recipe in RECIPES else RECIPES[HEADLINE]
    choices = known.choices(want.task, (want.role.mixer,)) or {}
    batch, keep_last = usual_batch(want.size[0], TRAIN_ROWS), choices.get("train.last_batch")
    per_epoch = steps_per_epoch(TRAIN_ROWS, batch, keep_last == "keep")
    return round(choices.get("train.epochs", EPOCHS) * per_epoch)


@cache
def _copy_steps() -> int:
    return int(tomllib.loads(preset_text(CELL_PRESETS["copying"]))["train"]["steps"])


def _copied(role: Role) -> dict[str, object]:
    """The model settings that the copying preset gives this mixer."""
    axes = tomllib.loads(preset_text(CELL_PRESETS["copying"]))["sweep"]["zip"][0]["model"]
    place = next(i for i, mixer in enumerate(axes["mixer"]) if mixer["name"] == role.mixer)
    own = {f"model.{key}": values[place] for key, values in axes.items()}
    return own | {"model.mixer": _toml(own["model.mixer"])}


def _mixer_toml(role: Role) -> str:
    """The value for `--set model.mixer=...`: a bare name unless the mixer has options."""
    usual = usual_settings(role.mixer)
    options = {
        key.removeprefix("model.mixer."): value
        for key, value in role.options.items()
        if key.startswith("model.mixer.") and not callable(value) and value != usual.get(key)
    }
    return _toml({"name": role.mixer, **options}) if options else role.mixer


def _toml(table: Mapping[str, object]) -> str:
    words = [
        f'{key}="{value}"' if isinstance(value, str) else f"{key}={str(value).lower()}"
        for key, value in table.items()
    ]
    return "{" + ",".join(words) + "}"


def _exact_text(rate: float) -> str:
    """Format a rate exactly, since a rounded rate would be a different run."""
    short = rate_text(rate)
    return short if float(short) == rate else repr(rate)


def _quoted(text: str) -> str:
    return f"'{text}'" if any(letter in text for letter in "{[\"' ") else text
