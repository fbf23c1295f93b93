"""How fast a model's maps decay with distance, from what `recollect inspect` left beside a store.

The study explains DeltaNet's stability by terms away from the diagonal that need not vanish, and
Mamba's window by a decay that makes them. `inspect` fits the factor that is kept per token.
"""

import json
import math
import statistics
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from recollect.reports.inspect.record import FOLDER, MOMENTS

MOST_BYTES = 50_000_000
BEFORE_TRAINING = MOMENTS.index("at initialisation")


def kept_per_token(folders: Iterable[Path]) -> dict[str, float]:
    """By run id: the factor at initialisation, the mean over layers and maps.

    At initialisation, since the study means the gradients from which training starts. Files that
    cannot be read, or are none of ours, are left out.
    """
    found: dict[str, float] = {}
    for folder in folders:
        for path in sorted((folder / FOLDER).glob("*.json")):
            record = _record(path)
            kept = _kept(record.get("layers"))
            if kept:
                found[str(record.get("run_id", path.stem))] = statistics.fmean(kept)
    return found


def _record(path: Path) -> dict[str, Any]:
    try:
        record = json.loads(path.read_bytes()) if path.stat().st_size <= MOST_BYTES else None
    except (OSError, ValueError, RecursionError):
        return {}
    return record if isinstance(record, dict) else {}


def _kept(layers: Any) -> list[float]:
    values: list[float] = []
    for layer in layers if isinstance(layers, list) else []:
        moments = layer.get("kept_per_token") if isinstance(layer, dict) else None
        if isinstance(moments, list) and len(moments) > BEFORE_TRAINING:
            heads = moments[BEFORE_TRAINING]
            values += [value for value in heads if isinstance(value, int | float)]
    return [value for value in values if math.isfinite(value)]
