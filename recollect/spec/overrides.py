"""`--set a.b=1`: set one value of a specification from the command line.

Setting a value that is an axis of the sweep removes that axis. Setting a value inside of an axis
(`model.mixer.heads` where `model.mixer` is a list) sets it in every value of the axis and of the
variants.
"""

from collections.abc import Iterator
from typing import Any

from recollect.errors import SpecError
from recollect.spec.axes import GRID_KEYS, copy_tables, put
from recollect.spec.base import shorten
from recollect.spec.toml_text import load_toml


def apply_override(table: dict[str, Any], override: str) -> None:
    """Apply an override such as `a.b=1` to the table of a specification."""
    path, equals, text = override.partition("=")
    path = path.strip()
    if (
        not equals
        or not all(part.strip() for part in path.split("."))
        or not override.isprintable()
    ):
        raise SpecError(
            f"--set {shorten(override)}: must look like a.b=1, for example --set train.lr=1e-3"
        )
    value = read_value(text)
    sweep = table.get("sweep")
    if not isinstance(sweep, dict):
        sweep = {}
    axes, variants = [sweep, *_entries(sweep, "zip")], _entries(sweep, "variant")
    for lists in axes:
        _drop_axis(lists, path.removeprefix("sweep."))
    swept = [place for lists in axes for place in _axes_above(lists, path)]
    varied = [place for lists in variants for place in _axes_above(lists, path)]
    for lists, key, rest in [*swept, *varied]:
        lists[key] = _put_in_each(lists[key], key.split(".")[-1], rest, path, value)
    if not swept:
        put(table, path, value)


def read_value(text: str) -> Any:
    """Parse a value from the command line: TOML, or a text without quotes."""
    try:
        return load_toml(f"value = {text}")["value"]
    except ValueError:
        return text.strip()


def _entries(sweep: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = sweep.get(key, [])
    return (
        [entry for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
    )


def _drop_axis(axes: dict[str, Any], path: str) -> None:
    axes.pop(path, None)
    head, dot, rest = path.partition(".")
    inner = axes.get(head)
    if dot and isinstance(inner, dict) and not inner.keys() & GRID_KEYS:
        _drop_axis(inner, rest)
        if not inner:
            del axes[head]


def _axes_above(axes: dict[str, Any], path: str) -> Iterator[tuple[dict[str, Any], str, str]]:
    """Yield the axes whose values contain the path, as (table, key, rest of the path)."""
    for key, value in axes.items():
        if path.startswith(f"{key}."):
            rest = path.removeprefix(f"{key}.")
            if isinstance(value, dict) and not value.keys() & GRID_KEYS:
                yield from _axes_above(value, rest)
            else:
                yield axes, key, rest


def _put_in_each(values: Any, name: str, rest: str, path: str, value: Any) -> list[Any]:
    if not isinstance(values, list):
        raise SpecError(
            f"{path}: {name} = {shorten(values)} is no list of tables, so nothing can be set in it"
        )
    changed = []
    for entry in values:
        holder = {name: copy_tables(entry)}
        try:
            put(holder, f"{name}.{rest}", value)
        except SpecError as error:
            raise SpecError(f"{path}:{str(error).partition(':')[2]}") from None
        changed.append(holder[name])
    return changed
