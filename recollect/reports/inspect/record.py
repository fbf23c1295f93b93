"""The record of an inspection: plain numbers in DIR/inspect/RUN_ID.json, with pictures next to it.

Lists over layers hold None for a layer whose mixer has no effective attention. Lists over moments
follow MOMENTS; an untrained run has only the first.
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
LONGEST_STORED = 64  # maps of longer rows are drawn but not stored
MOMENTS = ("at initialisation", "after training")

Heads = list[float]  # one number per map of a layer


@dataclass(frozen=True)
class InspectedLayer:
    """One layer whose mixer has an effective attention."""

    mixer: str
    heads: int  # number of maps: one per head, or a single one
    channels: int  # channels averaged into the single map; 0 if there is one map per head
    exclude_current_token: bool
    # [moment][head][distance]: mean |Phi|; for probabilities, relative to an equal share.
    mass: list[list[Heads]]
    # [moment][head]: factor by which the mass falls per token of distance.
    kept_per_token: list[Heads]
    around_key: list[list[Heads]]  # [step][head][offset]: share that questions take from there
    scores: dict[str, list[Heads]]  # by name: [step][head]
    uniform: dict[str, float]  # the scores of a map that takes equally from all positions
    # [moment, head, query, position]: shares in the first row; not stored if the row is long.
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
    """All measurements inside one run."""

    run_id: str
    name: str  # describes the model and training, for a title
    spec: dict[str, Any]
    score_name: str
    score: float
    test_loss: float
    weights: str  # "kept", "trained again" or "as initialised"
    # The test loss with the inspected weights. It differs from test_loss only if the run was
    # trained again on another device or version; NaN if the run was not trained.
    weights_test_loss: float
    rows: int  # number of test rows inspected
    tokens: list[int]  # tokens of the first row
    questions: list[int]  # positions of the questions in the first row
    offsets: list[int]  # offsets from the key, for around_key
    steps: list[int]  # steps of the scores and losses
    losses: list[float]  # losses on the inspected rows
    layers: list[InspectedLayer | None]
    gradients: GradientNorms
    curve: list[dict[str, float]]  # step, test_loss and score, as stored
    pictures: list[InspectionPicture] = field(default_factory=list)
    command: str = ""  # the command that repeats the inspection
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
    """Convert a value for JSON: six digits per number, which halves a file with maps, and null for
    numbers that are not finite.
    """
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, np.ndarray):
        return _plain(value.tolist()) if value.shape[-1] <= LONGEST_STORED else None
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
