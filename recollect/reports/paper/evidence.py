"""Stored results as evidence: the stores below a folder, which of them have the study's size, and
their rows by recipe.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recollect.rows import Evaluation, RunRow
from recollect.running.results import RunSet
from recollect.spec.recipes import recipe_of
from recollect.spec.recipes.label import ALPHABET, VOCABULARY
from recollect.store.joining.folders import find_stores

# A label names what differs from a recipe after this word; no recipe's name holds it.
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
        return any(is_reduced(row.spec) for row in self.rows)

    @property
    def ended(self) -> list[RunRow]:
        return [row for row in self.rows if row.has_result]

    @property
    def minutes(self) -> float:
        """Of training: a run's `wall_s` is its share of the time of all that trained beside it in
        its process, so these add up to it.
        """
        return sum(row.wall_s or 0.0 for row in self.rows) / 60


def load_stores(root: Path) -> list[StoredResults]:
    """The stores at or below `root`, each by itself."""
    loaded = [(folder, RunSet.load(folder)) for folder in find_stores([root])]
    return [StoredResults(folder, found.rows, found.curves) for folder, found in loaded]


def join_stores(stores: Iterable[StoredResults]) -> RunSet:
    """All rows as one; a run that stands in several stores is taken once."""
    rows: dict[str, RunRow] = {}
    curves: dict[str, list[Evaluation]] = {}
    for store in stores:
        for row in store.rows:
            if row.run_id not in rows or (row.has_result and not rows[row.run_id].has_result):
                rows[row.run_id] = row
                curves[row.run_id] = list(store.curves.get(row.run_id, ()))
    return RunSet(list(rows.values()), {run_id: curve for run_id, curve in curves.items() if curve})


def rows_by_recipe(rows: Iterable[RunRow], varied: Collection[str] = ()) -> dict[str, list[RunRow]]:
    """Whole recipes first, then what differs from one; the more rows, the earlier. The flat keys
    `varied` set no rows apart: a figure that compares them says so in its definition.
    """
    found: dict[str, list[RunRow]] = {}
    for row in rows:
        found.setdefault(recipe_of(row.spec, varied), []).append(row)
    order = sorted(found, key=lambda name: (name.count(BUT), name != "study", -len(found[name])))
    return {name: found[name] for name in order}


def is_reduced(spec: Mapping[str, Any]) -> bool:
    """Whether a run has fewer tokens or letters than the study's."""
    task = spec.get("task", {})
    return (
        task.get("vocabulary", VOCABULARY) < VOCABULARY or task.get("alphabet", ALPHABET) < ALPHABET
    )
