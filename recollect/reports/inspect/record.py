"""The record of an inspection: plain numbers in DIR/inspect/RUN_ID.json, pictures beside it.

Lists over layers hold None where a layer's mixer has no effective attention; lists over `moments`
follow MOMENTS, of which an untrained run has the first alone.
"""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from recollect.rows import Evaluation
from recollect.store.durable import make_folder, write_atomically

FOLDER = "inspect"
FORMAT = 1
LONGEST_STORED = 64  # maps of longer rows are drawn and not stored
MOMENTS = ("at initialisation", "after training")

Heads = list[float]  # one number per map of a layer


@dataclass(frozen=True)
class InspectedLayer:
    """One layer whose mixer has an effective attention."""

    mixer: str
    heads: int  # maps: the heads', or one
    channels: int  # how many were averaged into the one map; 0: the maps are the heads'
    exclude_current_token: bool
    # [moment][head][distance]: mean |Phi|, for probabilities relative to an equal share
    mass: list[list[Heads]]
    # [moment][head]: factor by which the mass falls per token of distance
    kept_per_token: list[Heads]
    around_key: list[list[Heads]]  # [step][head][offset]: share that questions take from there
    scores: dict[str, list[Heads]]  # by name [step][head]
    uniform: dict[str, float]  # the scores of a map that takes equally from everywhere
    # [moment, head, query, position]: shares in the first row; not stored if it is long
    maps: np.ndarray


@dataclass(frozen=True)
class GradientNorms:
    """Norms of the gradient of a question's loss with respect to the embedded tokens."""

    by_distance: list[list[float]]  # [moment][distance back from the question]
    places: list[dict[str, float]]  # [moment]: at the question, its key, its value and elsewhere


@dataclass(frozen=True)
class InspectionPicture:
    """A picture that was drawn."""

    file: str  # relative to the folder of results
    title: str
    caption: str


@dataclass(frozen=True)
class Inspection:
    """All that was found inside one run."""

    run_id: str
    name: str  # what was trained, for a title
    spec: dict[str, Any]
    score_name: str
    score: float
    test_loss: float
    weights: str  # "kept", "trained again" or "as initialised"
    # with the weights looked at; another number than test_loss only if trained again elsewhere,
    # NaN if not trained
    weights_test_loss: float
    rows: int  # test rows looked at
    tokens: list[int]  # of the first row
    questions: list[int]  # where in it something is asked
    offsets: list[int]  # of around_key
    steps: list[int]  # of the scores and losses
    losses: list[float]  # on the rows looked at
    layers: list[InspectedLayer | None]
    gradients: GradientNorms
    curve: list[dict[str, float]]  # step, test_loss, score, as stored
    pictures: list[InspectionPicture] = field(default_factory=list)
    command: str = ""  # what makes all this once more
    format: int = FORMAT
    moments: tuple[str, ...] = MOMENTS

    def to_json(self) -> str:
        return json.dumps(_plain(asdict(self)), allow_nan=False)

    def save(self, path: Path) -> None:
        make_folder(path.parent)
        write_atomically(path, self.to_json().encode())


def curve_points(curve: list[Evaluation], score_name: str) -> list[dict[str, float]]:
    return [
        {"step": point.step, "test_loss": point.test_loss, "score": point.score(score_name)}
        for point in curve
    ]


def _plain(value: Any) -> Any:
    """Six digits of every number, which halves a file with maps; null for what is no number."""
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return _plain(value.tolist()) if value.shape[-1] <= LONGEST_STORED else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
