"""Rows of several recipes and scales, made by hand."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rows_made import make_curve

from recollect.reports.pictures import Source
from recollect.rows import RunRow
from recollect.spec.recipes import choose_recipe
from recollect.spec.run import RunSpec

MIXERS = ("attention", "mamba")
SMALL = {"task.vocabulary": 64}
RATES = (1e-3, 1e-2)


def recipe_rows(
    recipe: str,
    mixers: Sequence[str] = MIXERS,
    rates: Sequence[float] = RATES,
    changes: dict[str, Any] | None = None,
) -> list[RunRow]:
    """Finished runs under a recipe, with other values at some flat keys."""
    rows = []
    for mixer in mixers:
        for lr in rates:
            table: dict[str, Any] = {
                "task": {"name": "mqar", "length": 64, "pairs": 4},
                "model": {"mixer": mixer, "width": 64, "depth": 2},
                "train": {"lr": lr},
                "seed": 1,
            }
            run = RunSpec.parse(choose_recipe(recipe).fill(table))
            spec = json.loads(run.canonical_json())
            rows.append(RunRow(run.run_id, spec, "done", "accuracy", 0.25, accuracy=0.9))
    return [changed(row, changes or {}) for row in rows]


def changed(row: RunRow, changes: dict[str, Any]) -> RunRow:
    """Another run: the same with these values at flat keys."""
    spec = json.loads(json.dumps(row.spec))
    for key, value in changes.items():
        *sections, last = key.split(".")
        table = spec
        for section in sections:
            table = table[section]
        table[last] = value
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    run_id = hashlib.sha256(text.encode()).hexdigest()[:16] if changes else row.run_id
    return replace(row, spec=spec, run_id=run_id)


def without_result(rows: Sequence[RunRow], status: Any = "todo") -> list[RunRow]:
    return [replace(row, status=status, accuracy=None, exact=None) for row in rows]


def source_of(*parts: Sequence[RunRow], name: str = "mine") -> Source:
    rows = [row for part in parts for row in part]
    return Source(name, rows, {row.run_id: make_curve([0.1, 0.5, 0.9]) for row in rows})
