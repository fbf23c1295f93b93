"""Selects the rows of a picture by KEY=VALUE, with a flat key of the specification or "recipe"."""

from collections.abc import Iterable, Sequence
from typing import Any

from recollect.analysis import flatten, select_rows
from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.spec.overrides import read_value
from recollect.spec.recipes import recipe_of

RECIPE = "recipe"
COLUMNS = "recollect export DIR | head -1"  # lists the keys of runs
_SHORT = {"model.mixer": "model.mixer.name"}  # short keys that a sweep and --set allow


def choose_rows(rows: Sequence[RunRow], wanted: Iterable[str]) -> list[RunRow]:
    """The rows that meet every KEY=VALUE. Values are as for --set; a list allows several values."""
    conditions = _read(wanted, rows)
    recipes = conditions.pop(RECIPE, None)
    chosen = select_rows(rows, conditions)
    if recipes is None:
        return chosen
    names = recipes if isinstance(recipes, list) else [recipes]
    return [row for row in chosen if recipe_of(row.spec) in names]


def _read(wanted: Iterable[str], rows: Sequence[RunRow]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    texts = list(wanted)
    known = {RECIPE, *(key for row in rows for key in flatten(row.spec))} if texts else {RECIPE}
    for text in texts:
        written, equals, value = text.partition("=")
        key = _SHORT.get(written, written)
        if not equals:
            raise SpecError(
                f"--where {shorten(text)}: must be written KEY=VALUE; for example model.width=64"
            )
        if key not in known:
            raise SpecError(f"--where {shorten(text)}: {suggest(key, known, COLUMNS)}")
        found[key] = read_value(value)
    return found
