"""Selects the rows of a picture by KEY=VALUE: a flat key of the specification, "recipe", or "scale"
(full or small, as of the presets).
"""

from collections.abc import Collection, Iterable, Sequence
from typing import Any

from recollect.analysis import flatten, select_rows
from recollect.errors import SpecError
from recollect.reports.paper.evidence import scale_of
from recollect.reports.paper.presets import SCALES
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.spec.overrides import read_value
from recollect.spec.recipes import recipe_of

RECIPE, SCALE = "recipe", "scale"
COLUMNS = "recollect export DIR | head -1"  # lists the keys of runs
_SHORT = {"model.mixer": "model.mixer.name"}  # short keys that a sweep and --set allow


def choose_rows(
    rows: Sequence[RunRow], wanted: Iterable[str], varied: Collection[str] = ()
) -> list[RunRow]:
    """The rows that meet every KEY=VALUE. Values are as for --set; a list allows several values.

    A recipe stands for its exact rows, and for those that differ from it in the flat keys `varied`.
    """
    conditions = read_conditions(wanted, rows)
    recipes, scales = conditions.pop(RECIPE, None), conditions.pop(SCALE, None)
    chosen = select_rows(rows, conditions)
    if recipes is not None:
        names = as_list(recipes)
        chosen = [
            row
            for row in chosen
            if recipe_of(row.spec) in names or recipe_of(row.spec, varied) in names
        ]
    if scales is not None:
        chosen = [row for row in chosen if scale_of(row.spec) in as_list(scales)]
    return chosen


def as_list(value: Any) -> list[Any]:
    """The values that a condition allows."""
    return value if isinstance(value, list) else [value]


def read_conditions(wanted: Iterable[str], rows: Sequence[RunRow]) -> dict[str, Any]:
    """The conditions by flat key, "recipe" or "scale". Raises SpecError for a key or scale that
    there is not.
    """
    found: dict[str, Any] = {}
    texts = list(wanted)
    known = {RECIPE, SCALE, *(key for row in rows for key in flatten(row.spec))} if texts else set()
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
    for scale in as_list(found.get(SCALE, [])):
        if scale not in SCALES:
            raise SpecError(f"--where scale={shorten(str(scale))}: must be {' or '.join(SCALES)}")
    return found
