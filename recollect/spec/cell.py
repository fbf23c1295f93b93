"""A cell of a results table: runs that differ only in learning rate and seed.

This module works on specifications as plain data (`RunSpec.model_dump(mode="json")`,
`RunRow.spec`), so that neither torch nor pydantic is needed to group rows.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any


def cell_table(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the specification without learning rate and seed."""
    table = {key: value for key, value in spec.items() if key != "seed"}
    table["train"] = {key: value for key, value in spec["train"].items() if key != "lr"}
    return table


def cell_id(spec: Mapping[str, Any]) -> str:
    """Id that the runs of one cell share. It must not change: files of kept weights contain it."""
    text = json.dumps(cell_table(spec), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def run_name(spec: Mapping[str, Any]) -> str:
    """Mixer, learning rate and seed of a run: "mamba lr=0.001 seed=1"."""
    if "model" not in spec or "train" not in spec:
        return "a run"
    return f"{spec['model']['mixer']['name']} lr={spec['train']['lr']:.4g} seed={spec['seed']}"
