"""Which rows a question is about: chosen by the flat keys of their specifications, such as
"model.mixer.name".
"""

from collections.abc import Iterable, Mapping
from typing import Any

from recollect.rows import RunRow


def value(row: RunRow, key: str, default: Any = None) -> Any:
    """One setting of a run by its flat key; `default` where the run has none."""
    found: Any = row.spec
    for part in key.split("."):
        if not isinstance(found, dict) or part not in found:
            return default
        found = found[part]
    # As `flatten`: a table with entries is no value, its entries are.
    return default if isinstance(found, dict) and found else found


def where(rows: Iterable[RunRow], conditions: Mapping[str, Any]) -> list[RunRow]:
    """The rows that meet all conditions, in their order: {"model.depth": 1, "model.mixer.name":
    ("mamba", "mamba2")}.

    A condition is a value, several values to choose from (tuple, list or set), or a function of the
    value. A run that has no such setting meets only the condition None; a function is never asked
    about it.
    """
    return [
        row
        for row in rows
        if all(_meets(value(row, key), condition) for key, condition in conditions.items())
    ]


def _meets(found: Any, condition: Any) -> bool:
    if callable(condition):
        return found is not None and bool(condition(found))
    if isinstance(condition, tuple | list | set | frozenset):
        return any(found == choice for choice in condition)
    return bool(found == condition)
