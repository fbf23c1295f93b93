"""Selects rows by KEY=VALUE: a flat key of the specification, "recipe", or "scale" (full or small,
as of the presets).
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from recollect.analysis import flatten, select_rows
from recollect.errors import SpecError
from recollect.rows import RunRow
from recollect.spec.base import shorten, suggest
from recollect.spec.overrides import read_value
from recollect.spec.recipes import recipe_of, scale_of
from recollect.spec.recipes.label import SCALES

RECIPE, SCALE = "recipe", "scale"
ALL = "all"  # as a recipe or a scale: any
MOST_LISTED = 6  # values, or recipes, in a refusal
COLUMNS = "recollect export DIR | head -1"  # lists the keys of runs
_SHORT = {"model.mixer": "model.mixer.name"}  # short keys that a sweep and --set allow


def choose_rows(
    rows: Sequence[RunRow], where: Iterable[str], varied: Collection[str] = ()
) -> list[RunRow]:
    """The rows that meet every KEY=VALUE. Values are as for --set; a list allows several values.

    A recipe stands for its exact rows, and for those that differ from it in the flat keys `varied`.
    """
    conditions = _read(where, rows)
    recipes, scales = conditions.pop(RECIPE, [ALL]), conditions.pop(SCALE, [ALL])
    chosen = select_rows(rows, conditions)
    if ALL not in recipes:
        chosen = [
            row
            for row in chosen
            if recipe_of(row.spec) in recipes or recipe_of(row.spec, varied) in recipes
        ]
    if ALL not in scales:
        chosen = [row for row in chosen if scale_of(row.spec) in scales]
    return chosen


def read_condition(text: str) -> tuple[str, Any]:
    """The key and the value of KEY=VALUE; several values are a list."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise SpecError(
            f"--where {shorten(text)}: must be written KEY=VALUE; for example model.width=64"
        )
    return _SHORT.get(key, key), read_value(value)


def keys_of_several(where: Iterable[str]) -> frozenset[str]:
    """The keys of which several values are asked for, as a list or as "all"."""
    return frozenset(
        key for key, value in map(read_condition, where) if isinstance(value, list) or value == ALL
    )


def values_of(key: str, rows: Iterable[RunRow]) -> list[str]:
    """The values that runs have of a key, written as in a condition."""
    if key == RECIPE:
        return sorted({recipe_of(row.spec) for row in rows})
    if key == SCALE:
        return sorted({scale_of(row.spec) for row in rows})
    flat = [flatten(row.spec) for row in rows]
    values = [own[key] for own in flat if key in own]
    # A list would be several values, so a value that is one stands in a list.
    found = {json.dumps([own] if isinstance(own, list) else own): own for own in values}
    numbers = [text for text, value in found.items() if isinstance(value, int | float)]
    return [*sorted(numbers, key=lambda text: found[text]), *sorted(found.keys() - {*numbers})]


def what_there_is(
    rows: Sequence[RunRow], where: Iterable[str], varied: Collection[str] = ()
) -> str:
    """The values that rows have of the first key of which none has what is asked for."""
    for text in where:
        if not choose_rows(rows, [text], varied):
            key, _ = read_condition(text)
            there = values_of(key, rows)
            more = f" and {len(there) - MOST_LISTED} more" if len(there) > MOST_LISTED else ""
            return f"there {key} is {'; '.join(there[:MOST_LISTED])}{more}"
    return "some fit each condition alone: leave one out"


def as_list(value: Any) -> list[Any]:
    """The values that a condition allows."""
    return value if isinstance(value, list) else [value]


def _read(where: Iterable[str], rows: Sequence[RunRow]) -> dict[str, list[Any]]:
    """The allowed values by key. Raises SpecError for a key that no row has, a key given twice, and
    a scale that there is not.
    """
    found: dict[str, list[Any]] = {}
    texts = list(where)
    known = {RECIPE, SCALE, *(key for row in rows for key in flatten(row.spec))} if texts else set()
    for text in texts:
        key, value = read_condition(text)
        if key not in known:
            raise SpecError(f"--where {shorten(text)}: {suggest(key, known, COLUMNS)}")
        if key in found:
            both = f"{key}={json.dumps([*found[key], *as_list(value)], default=str)}"
            raise SpecError(
                f"--where {shorten(text)}: {key} is given twice; write several values as a list,\n"
                f"--where {shorten(both)}"
            )
        found[key] = as_list(value)
    for scale in found.get(SCALE, []):
        if scale not in (*SCALES, ALL):
            raise SpecError(
                f"--where {shorten(f'{SCALE}={scale}')}: must be {', '.join(SCALES)} or {ALL}"
            )
    return found
