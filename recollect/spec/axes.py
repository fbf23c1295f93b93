"""The [sweep] table of a specification.

It has axes that are multiplied, lists that move together, and variants that change one setting at a
time. The docstring of sweep.py shows an example of each.
"""

import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from recollect.errors import SpecError
from recollect.spec.base import shorten

MAX_AXES = 100
GRID_KEYS = {"from", "to", "points"}
# For these keys a bare name stands for a table with that name.
NAMED = ("mixer", "task")
_NOWHERE = object()

Values = dict[str, Any]  # by dotted path


@dataclass(frozen=True)
class Axis:
    """Paths that move together, and their values at each point of the axis."""

    paths: tuple[str, ...]
    points: list[tuple[Any, ...]]


@dataclass(frozen=True)
class Variant:
    """Changes to the runs whose settings match `where`."""

    changes: Values
    where: Mapping[str, list[Any]] = field(default_factory=dict)

    def fits(self, spec: Mapping[str, Any]) -> bool:
        return all(_find(spec, path) in wanted for path, wanted in self.where.items())


@dataclass(frozen=True)
class SweepAxes:
    """The content of a [sweep] table."""

    axes: list[Axis]
    variants: list[Variant]

    @property
    def size(self) -> int:
        """Upper bound of the number of runs: a variant may change nothing or match few runs."""
        return math.prod(len(axis.points) for axis in self.axes) * (1 + len(self.variants))

    def points(self) -> Iterator[Values]:
        """Yield the values at each point of the product of the axes, in the order of the file."""
        for point in itertools.product(*(axis.points for axis in self.axes)):
            yield {
                path: value
                for axis, chosen in zip(self.axes, point, strict=True)
                for path, value in zip(axis.paths, chosen, strict=True)
            }


def read_axes(table: Any) -> SweepAxes:
    """Read the axes and variants of a [sweep] table."""
    if not isinstance(table, dict):
        raise SpecError(
            f"sweep = {shorten(table)}: must be a table of axes, for example seed = [42, 123]"
        )
    if len(table) > MAX_AXES:
        raise SpecError(
            f"sweep: {len(table):,} axes; at most {MAX_AXES} make sense: leave some out"
        )
    single = {key: value for key, value in table.items() if key not in ("zip", "variant")}
    axes = [
        Axis((path,), [(value,) for value in values]) for path, values in _lists(single).items()
    ]
    axes += [_zipped("zip", lists) for lists in _tables(table, "zip") if lists]
    seen: set[str] = set()
    for axis in axes:
        _refuse_repeats(axis.paths, seen)
        seen.update(axis.paths)
    variants = [variant for entry in _tables(table, "variant") for variant in _variants(entry)]
    for path in {path for variant in variants for path in variant.changes}:
        if path in seen:
            raise SpecError(
                f"sweep.variant: {path} is an axis already; a variant changes what is no axis"
            )
    return SweepAxes(axes, variants)


def put(table: dict[str, Any], path: str, value: Any) -> None:
    """Set one value by its dotted path. A bare name along the path becomes a table."""
    *parents, last = path.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if isinstance(inner, str) and parent in NAMED:
            inner = table[parent] = {"name": inner}
        if not isinstance(inner, dict):
            raise SpecError(
                f"{path}: {parent} = {shorten(inner)} is no table, so nothing can be set inside it"
            )
        table = inner
    table[last] = value


def put_all(table: dict[str, Any], values: Values) -> None:
    """Set several values. A whole table is set before values inside it, in whatever order given."""
    for path in sorted(values, key=lambda path: path.count(".")):
        put(table, path, copy_tables(values[path]))


def copy_tables(value: Any) -> Any:
    """Copy nested tables, so that the copy can be changed.

    Lists and other values are not copied, because they are never changed in place.
    """
    return (
        {key: copy_tables(inner) for key, inner in value.items()}
        if isinstance(value, dict)
        else value
    )


def log_grid(low: float, high: float, points: int) -> list[float]:
    """Points equally spaced in the logarithm, from `low` to `high`.

    Inner points are rounded to four digits, as a user would type them.
    """
    if points == 1:
        return [low]
    exponents = (
        math.log10(low) + i * (math.log10(high) - math.log10(low)) / (points - 1)
        for i in range(1, points - 1)
    )
    return [low, *(float(f"{10**exponent:.3e}") for exponent in exponents), high]


def _tables(table: dict[str, Any], key: str) -> list[dict[str, Any]]:
    entries = table.get(key, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise SpecError(
            f"sweep.{key}: must be written as [[sweep.{key}]] with lists of equal length below it"
        )
    return entries


def _zipped(kind: str, table: dict[str, Any]) -> Axis:
    lists = _lists(table, at=f"{kind}.")
    lengths = {path: len(values) for path, values in lists.items()}
    if len(set(lengths.values())) > 1:
        raise SpecError(f"sweep.{kind}: lists must have equal lengths, not {shorten(lengths, 120)}")
    return Axis(tuple(lists), list(zip(*lists.values(), strict=True)))


def _variants(table: dict[str, Any]) -> list[Variant]:
    changes = {key: value for key, value in table.items() if key != "where"}
    where = table.get("where", {})
    if not changes or not isinstance(where, dict):
        raise SpecError(
            "sweep.variant: needs a list of values to change, for example train.warmup = [0.0], "
            'and may have where.model.mixer = "mamba"'
        )
    axis, wanted = _zipped("variant", changes), dict(_flat(where))
    return [Variant(dict(zip(axis.paths, point, strict=True)), wanted) for point in axis.points]


def _flat(table: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, list[Any]]]:
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, dict):
            yield from _flat(value, f"{path}.")
        else:
            yield path, value if isinstance(value, list) else [value]


def _find(spec: Mapping[str, Any], path: str) -> Any:
    """The value at a path; for a mixer or a task, its name."""
    found: Any = spec
    for part in path.split("."):
        found = found.get(part, _NOWHERE) if isinstance(found, dict) else _NOWHERE
    if isinstance(found, dict) and path.split(".")[-1] in NAMED:
        return found.get("name")
    return found


def _refuse_repeats(new: Iterable[str], known: Collection[str]) -> None:
    for path in new:
        if path in known:
            raise SpecError(f"sweep: {path} is an axis twice; keep one of them")


def _lists(table: dict[str, Any], prefix: str = "", at: str = "") -> dict[str, list[Any]]:
    """Flatten tables of lists: `train.lr = [...]` and `"train.lr" = [...]` give the same key.

    The result is {"train.lr": [...]}. `at` is the place of the table, for messages.
    """
    found: dict[str, list[Any]] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, list):
            if not value:
                raise SpecError(f"sweep.{at}{path} = []: an axis needs at least one value")
            new = {path: value}
        elif isinstance(value, dict) and value.keys() & GRID_KEYS:
            new = {path: _grid(f"{at}{path}", value)}
        elif isinstance(value, dict) and value:
            new = _lists(value, f"{path}.", at)
        else:
            raise SpecError(
                f"sweep.{at}{path} = {shorten(value)}: must be a list or a grid such as "
                "{ from = 1e-4, to = 1e-1, points = 7 }"
            )
        _refuse_repeats(new, found)
        found |= new
    return found


def _grid(path: str, table: dict[str, Any]) -> list[float]:
    low, high, points = (table.get(key) for key in ("from", "to", "points"))
    if table.keys() != GRID_KEYS:
        raise SpecError(
            f"sweep.{path}: a grid has exactly the keys from, to and points, not "
            f"{shorten(', '.join(table))}"
        )
    for value in (low, high):
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not 0 < value < math.inf
        ):
            raise SpecError(
                f"sweep.{path}: from and to must be finite numbers greater than 0, not "
                f"{shorten(value)}"
            )
    if isinstance(points, bool) or not isinstance(points, int) or not 1 <= points <= 10_000:
        raise SpecError(
            f"sweep.{path}.points = {shorten(points)}: must be a whole number from 1 to 10,000"
        )
    assert isinstance(low, int | float)
    assert isinstance(high, int | float)
    if low >= high and points > 1:
        raise SpecError(f"sweep.{path}: from = {low} must be less than to = {high}")
    return log_grid(low, high, points)
