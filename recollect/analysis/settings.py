"""Settings of a specification, a cell or a run by flat key ("model.mixer.name").

Specifications arrive as nested dicts, possibly from plugins: no key is assumed to exist.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from recollect.rows import RunRow
from recollect.spec.cell import cell_table

MIXER, WIDTH, DEPTH = "model.mixer.name", "model.width", "model.depth"


def flatten(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Turn {"task": {"length": 64}} into {"task.length": 64}; lists and empty tables are values."""
    flat: dict[str, Any] = {}
    for key, value in spec.items():
        if isinstance(value, dict) and value:
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def cell_settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the flat settings that all runs of a cell share."""
    table = cell_table(spec)
    if not table["train"]:  # an empty table that remains without the rate is no setting
        del table["train"]
    return flatten(table)


def canonical(value: Any) -> str:
    """Return a text that is equal for equal values, whatever their order of keys."""
    return json.dumps(value, sort_keys=True, default=str)


def get_setting(row: RunRow, key: str, default: Any = None) -> Any:
    """Return one setting of a run by its flat key, or `default` if the run does not have it."""
    found: Any = row.spec
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            return default
        found = found[part]
    # As in `flatten`, a table with entries is not a value; its entries are.
    return default if isinstance(found, dict) and found else found


def select_rows(rows: Iterable[RunRow], conditions: Mapping[str, Any]) -> list[RunRow]:
    """Return the rows that meet all conditions, in their order.

    Example: {"model.depth": 1, "model.mixer.name": ("mamba", "mamba2")}. A condition is a value,
    several values to choose from (tuple, list or set), or a function of the value. A run without
    the setting meets only the condition None; functions are not called for it.
    """
    return [
        row
        for row in rows
        if all(_meets(get_setting(row, key), condition) for key, condition in conditions.items())
    ]


def _meets(found: Any, condition: Any) -> bool:
    if callable(condition):
        return found is not None and bool(condition(found))
    if isinstance(condition, tuple | list | set | frozenset):
        return any(found == choice for choice in condition)
    return bool(found == condition)
