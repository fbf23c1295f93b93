"""Stored results as evidence: the stores below a folder, whether they have the study's size, and
their rows by recipe.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.rows import Evaluation, RunRow
from recollect.running.results import RunSet
from recollect.spec.recipes import recipe_of, scale_of
from recollect.store.joining.folders import find_stores

# In a label, the deviations from a recipe follow this word. No recipe's name contains it.
BUT = " but "


@dataclass(frozen=True)
class StoredResults:
    """One folder of results."""

    folder: Path
    rows: Sequence[RunRow]
    curves: Mapping[str, Sequence[Evaluation]]

    @property
    def is_reduced(self) -> bool:
        """Whether its runs are smaller than the study's."""
        return any(scale_of(row.spec) == "small" for row in self.rows)

    @property
    def ended(self) -> list[RunRow]:
        return [row for row in self.rows if row.has_result]

    @property
    def minutes(self) -> float:
        """Minutes of training."""
        return minutes_of(self.rows)


def minutes_of(rows: Iterable[RunRow]) -> float:
    """Minutes of training of these runs.

    The `wall_s` of a run is its share of the time of all runs that trained together in its process,
    so the sum is the total time.
    """
    return sum(row.wall_s or 0.0 for row in rows) / 60


def load_stores(root: Path) -> list[StoredResults]:
    """Load the stores at or below `root`, each separately."""
    loaded = [(folder, RunSet.load(folder)) for folder in find_stores([root])]
    return [StoredResults(folder, found.rows, found.curves) for folder, found in loaded]


def join_stores(stores: Iterable[StoredResults]) -> RunSet:
    """Join all rows into one set. A run that is in several stores is included once."""
    rows: dict[str, RunRow] = {}
    curves: dict[str, list[Evaluation]] = {}
    for store in stores:
        for row in store.rows:
            if row.run_id not in rows or (row.has_result and not rows[row.run_id].has_result):
                rows[row.run_id] = row
                curves[row.run_id] = list(store.curves.get(row.run_id, ()))
    return RunSet(list(rows.values()), {run_id: curve for run_id, curve in curves.items() if curve})


def rows_by_recipe(rows: Iterable[RunRow], varied: Collection[str] = ()) -> dict[str, list[RunRow]]:
    """Rows by the label of their recipe: exact recipes first, then deviations from a recipe; each
    by decreasing number of rows.

    The flat keys in `varied` do not count as deviations: they are the settings that a figure
    compares, as its definition says.
    """
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        found.setdefault(recipe_of(row.spec, varied), []).append(row)
    order = sorted(found, key=lambda name: (name.count(BUT), name != "study", -len(found[name])))
    return {name: found[name] for name in order}
