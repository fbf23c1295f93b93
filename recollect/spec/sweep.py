"""From a specification file to runs: axes (lists, log grids, seeds, zipped lists) times a base; and
runs grouped by shape.

[task]                                      # the base: what all runs share
name = "mqar"
[sweep]                                     # the axes: their product is the sweep
model.mixer = ["attention", "mamba"]
train.lr = { from = 1e-4, to = 1e-1, points = 13 }    # equally spaced in log(rate), with both ends
seed = [42, 123]
[[sweep.zip]]                               # lists of equal length that move together
task.length = [64, 128]
task.pairs = [4, 8]
"""

import itertools
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import SpecError
from recollect.spec.base import shorten, suggest
from recollect.spec.run import RunSpec

MAX_FILE_BYTES = 1_000_000
MAX_RUNS = 100_000
MAX_NAME = 200
MAX_DOTS = 2_000
MAX_DEPTH = 8  # levels of tables and lists; a real specification has five
_NUMBER = re.compile(r"(?<![\w.])\d[\d_]*\.\d[\w+-]*(?![\w.])")
_GRID_KEYS = {"from", "to", "points"}
_TOP_KEYS = {"name", "task", "model", "train", "seed", "data_seed", "sweep"}

# One axis: the paths that move together, and for each of its points their values.
Axis = tuple[tuple[str, ...], list[tuple[Any, ...]]]


@dataclass(frozen=True)
class Sweep:
    """A named set of runs, with the text they came from."""

    name: str
    source: str
    runs: tuple[RunSpec, ...]


def read_sweep(path: Path, overrides: Iterable[str] = ()) -> Sweep:
    """The sweep in a TOML file, with `a.b=1` overrides; SpecError if anything in it is off."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)  # not all of it: a device may never end
        if len(content) > MAX_FILE_BYTES:
            raise SpecError(
                f"{path}: more than {MAX_FILE_BYTES:,} bytes; a specification has at most that many"
            )
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise SpecError(
            f"{path}: not UTF-8 at byte {error.start}; save the file as UTF-8 text"
        ) from None
    except OSError as error:
        raise SpecError(
            f"{path}: cannot be read ({error.strerror}); give the path of a TOML file"
        ) from None
    name = "".join(letter if letter.isprintable() else "?" for letter in path.stem)[:MAX_NAME]
    return parse_sweep(text, overrides, name=name, origin=str(path))


def parse_sweep(
    text: str, overrides: Iterable[str] = (), name: str = "sweep", origin: str = "specification"
) -> Sweep:
    """The sweep in a TOML text."""
    try:
        table = _load(text)
    except ValueError as error:
        raise SpecError(f"{origin}: not TOML: {shorten(str(error), 200)}") from None
    overrides = list(overrides)
    for override in overrides:
        _apply(table, override)
    source = text + "".join(f"\n# --set {override}" for override in overrides)
    return build_sweep(table, name=name, source=source)


def _load(text: str) -> dict[str, Any]:
    """The tables of a TOML text, or a ValueError;
    what would keep the parser busy for minutes is refused before.
    """
    # Its time grows with the square of the number of parts of a key such as a.b.c; the dots inside
    # numbers are harmless.
    if _NUMBER.sub("", text).count(".") > MAX_DOTS:
        raise ValueError(f"more than {MAX_DOTS:,} dots outside of numbers")
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply; a specification has at most a few levels") from None


def build_sweep(table: Mapping[str, Any], name: str = "sweep", source: str = "") -> Sweep:
    """The sweep in an already parsed table."""
    _check_form(table)
    for key in table:
        if key not in _TOP_KEYS:
            raise SpecError(f"{key}: unknown key; {suggest(key, _TOP_KEYS)}")
    name = table.get("name", name)
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise SpecError(
            f"name = {shorten(name)}: must be a text of 1 to {MAX_NAME} printable characters"
        )
    base = {key: value for key, value in table.items() if key not in ("name", "sweep")}
    base.setdefault("train", {})
    axes = _axes(table.get("sweep", {}))
    size = math.prod(len(points) for _, points in axes)
    if size > MAX_RUNS:
        raise SpecError(
            f"sweep: {size:,} runs; at most {MAX_RUNS:,} fit into one sweep: shorten an axis or "
            "split the file"
        )
    return Sweep(name, source, _expand(base, axes))


def _check_form(value: Any, depth: int = 0) -> None:
    """Refuse keys that would make a message unreadable and tables nested without end."""
    if depth > MAX_DEPTH:
        raise SpecError(
            f"nested more than {MAX_DEPTH} levels deep; a specification has at most a few"
        )
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str) or len(key) > MAX_NAME or not key.isprintable():
                raise SpecError(
                    f"key {shorten(key)}: must be a text of at most {MAX_NAME} printable characters"
                )
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            _check_form(inner, depth + 1)


def group_by_shape(runs: Iterable[RunSpec]) -> list[tuple[RunSpec, ...]]:
    """The runs of each shape, which can train together; shapes in the order they first appear."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.shape_id, []).append(run)
    return [tuple(group) for group in groups.values()]


def log_grid(low: float, high: float, points: int) -> list[float]:
    """Equally spaced in the logarithm; inner points are rounded to four digits,
    as one would type them.
    """
    if points == 1:
        return [low]
    exponents = (
        math.log10(low) + i * (math.log10(high) - math.log10(low)) / (points - 1)
        for i in range(1, points - 1)
    )
    return [low, *(float(f"{10**exponent:.3e}") for exponent in exponents), high]


def _expand(base: dict[str, Any], axes: list[Axis]) -> tuple[RunSpec, ...]:
    runs: dict[str, RunSpec] = {}
    for point in itertools.product(*(points for _, points in axes)):
        values = {
            path: value
            for (paths, _), chosen in zip(axes, point, strict=True)
            for path, value in zip(paths, chosen, strict=True)
        }
        spec = _copy_tables(base)
        for path, value in values.items():
            _put(spec, path, value)
        try:
            run = RunSpec.parse(spec)
        except SpecError as error:
            where = ", ".join(f"{path} = {shorten(value, 30)}" for path, value in values.items())
            lines = str(error).splitlines()[:2]
            raise SpecError(
                "\n".join(
                    [*lines, f"(in the run with {shorten(where, 160)[1:-1]})"] if where else lines
                )
            ) from None
        if run.run_id in runs:
            raise SpecError(
                f"sweep: the same run comes twice, with {shorten(values, 120)}; remove the "
                "repeated value"
            )
        runs[run.run_id] = run
    return tuple(runs.values())


def _axes(table: Any) -> list[Axis]:
    if not isinstance(table, dict):
        raise SpecError(
            f"sweep = {shorten(table)}: must be a table of axes, for example seed = [42, 123]"
        )
    zipped = table.get("zip", [])
    if not isinstance(zipped, list) or not all(isinstance(entry, dict) for entry in zipped):
        raise SpecError(
            "sweep.zip: must be written as [[sweep.zip]] with lists of equal length below it"
        )
    single = {key: value for key, value in table.items() if key != "zip"}
    axes: list[Axis] = [
        ((path,), [(value,) for value in values]) for path, values in _lists(single).items()
    ]
    for lists in filter(None, map(_lists, zipped)):
        lengths = {path: len(values) for path, values in lists.items()}
        if len(set(lengths.values())) > 1:
            raise SpecError(
                f"sweep.zip: lists must have equal lengths, not {shorten(lengths, 120)}"
            )
        axes.append((tuple(lists), list(zip(*lists.values(), strict=True))))
    seen: set[str] = set()
    for names, _ in axes:
        _refuse_repeats(names, seen)
        seen.update(names)
    return axes


def _refuse_repeats(new: Iterable[str], known: Collection[str]) -> None:
    for path in new:
        if path in known:
            raise SpecError(f"sweep: {path} is an axis twice; keep one of them")


def _lists(table: dict[str, Any], prefix: str = "") -> dict[str, list[Any]]:
    """`train.lr = [...]` and `"train.lr" = [...]` alike as {"train.lr": [...]}."""
    found: dict[str, list[Any]] = {}
    for key, value in table.items():
        path = f"{prefix}{key}"
        if isinstance(value, list):
            if not value:
                raise SpecError(f"sweep.{path} = []: an axis needs at least one value")
            new = {path: value}
        elif isinstance(value, dict) and value.keys() & _GRID_KEYS:
            new = {path: _grid(path, value)}
        elif isinstance(value, dict) and value:
            new = _lists(value, f"{path}.")
        else:
            raise SpecError(
                f"sweep.{path} = {shorten(value)}: must be a list or a grid such as "
                "{ from = 1e-4, to = 1e-1, points = 7 }"
            )
        _refuse_repeats(new, found)
        found |= new
    return found


def _grid(path: str, table: dict[str, Any]) -> list[float]:
    low, high, points = (table.get(key) for key in ("from", "to", "points"))
    if table.keys() != _GRID_KEYS:
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


def _apply(table: dict[str, Any], override: str) -> None:
    """`a.b=1` onto the table. Fixing a value that is an axis of the sweep takes the axis away."""
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
    axis = path.removeprefix("sweep.")
    sweep = table.get("sweep")
    if isinstance(sweep, dict):
        zipped = sweep.get("zip", [])
        for axes in [sweep, *(zipped if isinstance(zipped, list) else [])]:
            if isinstance(axes, dict):
                _drop_axis(axes, axis)
    _put(table, path, value)


def read_value(text: str) -> Any:
    """A value as the command line writes it: TOML, or a word without its quotes."""
    try:
        return _load(f"value = {text}")["value"]
    except ValueError:
        return text.strip()


def _drop_axis(axes: dict[str, Any], path: str) -> None:
    axes.pop(path, None)
    head, dot, rest = path.partition(".")
    inner = axes.get(head)
    if dot and isinstance(inner, dict):
        _drop_axis(inner, rest)
        if not inner:
            del axes[head]


def _put(table: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for parent in parents:
        inner = table.setdefault(parent, {})
        if isinstance(inner, str) and parent in ("mixer", "task"):
            inner = table[parent] = {"name": inner}
        if not isinstance(inner, dict):
            raise SpecError(
                f"{path}: {parent} = {shorten(inner)} is no table, so nothing can be set inside it"
            )
        table = inner
    table[last] = value


def _copy_tables(value: Any) -> Any:
    return (
        {key: _copy_tables(inner) for key, inner in value.items()}
        if isinstance(value, dict)
        else value
    )
