"""From a specification file to runs.

A recipe fills in open settings, axes multiply the base, and variants change single settings. Runs
can be grouped by shape. An example of a file:

recipe = "study"                            # fills in settings that are left open; optional
search = "edges"                            # which runs are trained, if not all; see SEARCHES
[task]                                      # the base: settings that all runs share
name = "mqar"
[sweep]                                     # the axes: their product is the sweep
model.mixer = ["attention", "mamba"]
train.lr = { from = 1e-4, to = 1e-1, points = 13 }    # equally spaced in log(rate), with both ends
seed = [42, 123]
[[sweep.zip]]                               # lists of equal length that move together
task.length = [64, 128]
task.pairs = [4, 8]
[[sweep.variant]]                           # in addition to the product itself, the whole product
train.warmup = [0.0, 0.3]                   # is repeated with each of these values
[[sweep.variant]]
where.model.mixer = "mamba"                 # only for these runs; a list names several values
model.mixer.init = ["zoology"]              # lists of one variant move together, as in a zip

A variant that changes nothing, because the run already has that value, adds no run. So all values
of a setting can be listed, including the one that the base has.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.errors import SpecError
from recollect.spec.axes import SweepAxes, Values, copy_tables, put_all, read_axes
from recollect.spec.base import shorten, suggest
from recollect.spec.overrides import apply_override
from recollect.spec.recipes import Recipe, choose_recipe
from recollect.spec.run import RunSpec
from recollect.spec.toml_text import load_toml, read_text

MAX_RUNS = 100_000
MAX_NAME = 200
MAX_DEPTH = 8  # levels of tables and lists; a real specification has five
_TOP_KEYS = {"name", "recipe", "search", "task", "model", "train", "seed", "data_seed", "sweep"}
# Which runs of a sweep are trained, and in which order (running/planning/order.py). This does not
# change the runs.
SEARCHES = {
    "edges": "only what the edges of its windows need",
    "best": "only what its best scores need",
    "all": "every run, within a budget one cell after another",
}


@dataclass(frozen=True)
class Sweep:
    """A named set of runs, with the text they came from."""

    name: str
    source: str
    runs: tuple[RunSpec, ...]
    recipe: str | None = None  # filled in the open settings; recipe_of gives the recipe of a run
    search: str | None = None  # one of SEARCHES


def read_sweep(path: Path, overrides: Iterable[str] = (), recipe: str | None = None) -> Sweep:
    """Read the sweep in a TOML file, or raise SpecError.

    `overrides` are texts such as `a.b=1`; `recipe` replaces the recipe of the file.
    """
    text = read_text(path)
    name = "".join(letter if letter.isprintable() else "?" for letter in path.stem)[:MAX_NAME]
    return parse_sweep(text, overrides, recipe, name=name, origin=str(path))


def parse_sweep(
    text: str,
    overrides: Iterable[str] = (),
    recipe: str | None = None,
    name: str = "sweep",
    origin: str = "specification",
) -> Sweep:
    """Read the sweep in a TOML text."""
    try:
        table = load_toml(text)
    except ValueError as error:
        raise SpecError(f"{origin}: not TOML: {shorten(str(error), 200)}") from None
    overrides = list(overrides)
    for override in overrides:
        apply_override(table, override)
    said = [f"--set {override}" for override in overrides]
    if recipe is not None:
        table["recipe"] = recipe
        said.append(f"--recipe {recipe}")
    return build_sweep(table, name=name, source=text + "".join(f"\n# {line}" for line in said))


def build_sweep(table: Mapping[str, Any], name: str = "sweep", source: str = "") -> Sweep:
    """Build the sweep from a parsed table."""
    _check_form(table)
    for key in table:
        if key not in _TOP_KEYS:
            raise SpecError(f"{key}: unknown key; {suggest(key, _TOP_KEYS)}")
    name = table.get("name", name)
    if not isinstance(name, str) or not 1 <= len(name) <= MAX_NAME or not name.isprintable():
        raise SpecError(
            f"name = {shorten(name)}: must be a text of 1 to {MAX_NAME} printable characters"
        )
    recipe = choose_recipe(table["recipe"]) if "recipe" in table else None
    require_search(table.get("search"), "search = ")
    base = {
        key: value
        for key, value in table.items()
        if key not in ("name", "recipe", "search", "sweep")
    }
    base.setdefault("train", {})
    axes = read_axes(table.get("sweep", {}))
    if axes.size > MAX_RUNS:
        raise SpecError(
            f"sweep: {axes.size:,} runs; at most {MAX_RUNS:,} fit into one sweep: shorten an axis "
            "or split the file"
        )
    return Sweep(
        name,
        source,
        _expand(base, axes, recipe),
        recipe.name if recipe else None,
        table.get("search"),
    )


def _check_form(value: Any, depth: int = 0) -> None:
    """Refuse keys that would make a message unreadable, and too deeply nested tables."""
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
    """Group runs by shape; each group can train together. Shapes are in order of appearance."""
    groups: dict[str, list[RunSpec]] = {}
    for run in runs:
        groups.setdefault(run.shape_id, []).append(run)
    return [tuple(group) for group in groups.values()]


def require_search(search: Any, said: str) -> None:
    """Refuse an unknown search; `said` begins the message, e.g. "search = "."""
    if search is not None and (not isinstance(search, str) or search not in SEARCHES):
        meanings = ", ".join(f"{name} ({about})" for name, about in SEARCHES.items())
        raise SpecError(f"{said}{shorten(search)}: must be one of {meanings}")


def _expand(base: dict[str, Any], axes: SweepAxes, recipe: Recipe | None) -> tuple[RunSpec, ...]:
    """Build all runs: first the product of the axes, then variant by variant."""
    runs: dict[str, RunSpec] = {}

    def add(run: RunSpec, values: Values) -> None:
        if run.run_id in runs:
            raise SpecError(
                f"sweep: the same run comes twice, with {shorten(values, 120)}; remove the "
                "repeated value"
            )
        runs[run.run_id] = run

    unchanged = []
    for values in axes.points():
        unchanged.append(_build(base, values, recipe))
        add(unchanged[-1], values)
    for variant in axes.variants:
        for without, values in zip(unchanged, axes.points(), strict=True):
            if variant.fits(_filled(base, values)):
                run = _build(base, values | variant.changes, recipe)
                if run.run_id != without.run_id:
                    add(run, values | variant.changes)
    return tuple(runs.values())


def _filled(base: dict[str, Any], values: Values) -> dict[str, Any]:
    spec: dict[str, Any] = copy_tables(base)
    put_all(spec, values)
    return spec


def _build(base: dict[str, Any], values: Values, recipe: Recipe | None) -> RunSpec:
    try:
        spec = _filled(base, values)
        return RunSpec.parse(recipe.fill(spec) if recipe else spec)
    except SpecError as error:
        where = ", ".join(f"{path} = {shorten(value, 30)}" for path, value in values.items())
        lines = str(error).splitlines()[:2]
        raise SpecError(
            "\n".join(
                [*lines, f"(in the run with {shorten(where, 160)[1:-1]})"] if where else lines
            )
        ) from None
