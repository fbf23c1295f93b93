"""A cell of a results table: the runs that differ in learning rate and seed alone.

Works on the specification as data (`RunSpec.model_dump(mode="json")`, `RunRow.spec`), so that
neither torch nor pydantic is needed to group rows.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def cell_table(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The specification without learning rate and seed; the original is left alone."""
    table = {key: value for key, value in spec.items() if key != "seed"}
    table["train"] = {key: value for key, value in spec["train"].items() if key != "lr"}
    return table


def cell_id(spec: Mapping[str, Any]) -> str:
    """Equal for the runs of one cell. Files of kept weights carry it: it must not change."""
    text = json.dumps(cell_table(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_name(spec: Mapping[str, Any]) -> str:
    """What tells a run from the others of its cell, with its mixer: "mamba lr=0.001 seed=1"."""
    if "model" not in spec or "train" not in spec:
        return "a run"
    return f"{spec['model']['mixer']['name']} lr={spec['train']['lr']:.4g} seed={spec['seed']}"
