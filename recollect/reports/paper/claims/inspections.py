"""How fast a model's maps decay with distance, from the records that `recollect inspect` writes
next to a store.

The study explains DeltaNet's stability by off-diagonal terms that need not vanish, and Mamba's
window by a decay that makes them vanish. `inspect` fits the factor that is kept per token.
"""

import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recollect.reports.inspect.record import FOLDER, MOMENTS

MOST_BYTES = 50_000_000
BEFORE_TRAINING = MOMENTS.index("at initialisation")


def kept_per_token(folders: Iterable[Path]) -> dict[str, tuple[float, ...]]:
    """By run id: the factors that its maps keep per token at initialisation, of all layers.

    Initialisation is used because the study refers to the gradients from which training starts.
    Files that cannot be read, or that `inspect` did not write, are skipped.
    """
    found: dict[str, tuple[float, ...]] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            record = _record(path)
            kept = _kept(record.get("layers"))
            if kept:
                found[str(record.get("run_id", path.stem))] = kept
    return found


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _kept(layers: Any) -> tuple[float, ...]:
    values: list[float] = []
    for layer in layers if isinstance(layers, list) else []:
        moments = layer.get("kept_per_token") if isinstance(layer, dict) else None
        if isinstance(moments, list) and len(moments) > BEFORE_TRAINING:
            heads = moments[BEFORE_TRAINING]
            values += [value for value in heads if isinstance(value, int | float)]
    return tuple(value for value in values if math.isfinite(value))
