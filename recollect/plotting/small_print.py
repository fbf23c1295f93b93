"""The small print of every picture about the runs it shows: seeds, band, results, recipe."""

from collections.abc import Mapping, Sequence
from typing import Any

from recollect.analysis import Cell, flatten
from recollect.analysis.settings import canonical
from recollect.analysis.wording import value_text
from recollect.plotting.text import SCORE_NAMES
from recollect.spec.recipes import recipe_name, recipe_of
from recollect.spec.recipes.label import UNCOVERED

BAND_WORDS = {
    "min-max": "band: lowest to highest seed",
    "std": "band: one standard deviation over seeds",
    "interval": "band: 95 % interval of the mean over seeds",
}
ONE_SEED = "one seed"
RECIPE_KEYS = {
    "vocabulary": "task.vocabulary",
    "data": "task.data",
    "batch": "train.batch",
    "steps": "train.steps",
    "weight decay": "train.weight_decay",
    "warmup": "train.warmup",
    "schedule": "train.decay",
    "precision": "train.precision",
}


def averaged_text(cells: Sequence[Cell], band: str) -> str:
    """Return the number of seeds averaged over, and what the band is."""
    seeds = seeds_text(cells)
    return "One seed." if seeds == ONE_SEED else f"Mean over {seeds}, {BAND_WORDS[band]}."


def seeds_text(cells: Sequence[Cell]) -> str:
    """Return the number of seeds per rate: "one seed", "3 seeds", "2 to 3 seeds"."""
    counts = {len(rate.scores) for cell in cells for rate in cell.scored_rates}
    few, most = min(counts, default=0), max(counts, default=0)
    if most <= 1:
        return ONE_SEED
    return f"{most} seeds" if few == most else f"{few} to {most} seeds"


def results_text(cells: Sequence[Cell]) -> str:
    """Return how many of the planned runs have a result, and how many of those diverged."""
    rows = [row for cell in cells for row in cell.rows]
    scored = sum(cell.scored_runs for cell in cells)
    diverged = sum(row.status == "diverged" for row in rows)
    lost = f"{diverged} of them diverged (counted as 0)" if diverged else "none diverged"
    return f"{scored} of {len(rows)} planned runs have a result, {lost}."


def recipe_text(specs: Sequence[Mapping[str, Any]]) -> str:
    """Return the recipe's name and numbers in one line; all values where tasks or models differ."""
    flats = [flatten(spec) for spec in specs]
    texts = [_recipe_names(specs)]
    for word, key in RECIPE_KEYS.items():
        values = {canonical(flat[key]): flat[key] for flat in flats if key in flat}
        ordered = sorted(values.values(), key=lambda entry: (str(type(entry)), entry))
        if ordered:
            texts.append(f"{word} {' or '.join(value_text(entry) for entry in ordered)}")
    return ", ".join(filter(None, texts))


def _recipe_names(specs: Sequence[Mapping[str, Any]]) -> str:
    """Return the recipe with its differences, or the names alone if cells differ in them."""
    full = list(dict.fromkeys(recipe_of(spec) for spec in specs))
    names = full if len(full) == 1 else list(dict.fromkeys(recipe_name(spec) for spec in specs))
    return "" if names == [UNCOVERED] else " or ".join(name for name in names if name != UNCOVERED)


def score_label(cells: Sequence[Cell]) -> str:
    """Return the names of the scores shown, for an axis."""
    return " / ".join(
        dict.fromkeys(SCORE_NAMES.get(cell.score_name, cell.score_name) for cell in cells)
    )
