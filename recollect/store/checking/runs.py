"""Checks of the stored row of a run: its id must match its specification, its numbers must exist.

The id is a digest of the specification's content, so it serves as a checksum in every store. It
does not depend on the code of a mixer: the id of a run with a plug-in that is not loaded is
recomputed like any other. Only the plug-in's own validation of its options is skipped.
"""

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.errors import SpecError
from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec
from recollect.store import Store

_DEEPEST = 8  # nesting of tables in a specification
_LARGEST = 2**63
# Keys and types that every reader of rows may rely on, for mixers of plug-ins too.
_NEEDED: dict[str, tuple[type, ...]] = {
    "task.name": (str,),
    "model.mixer.name": (str,),
    "train.lr": (int, float),
    "train.steps": (int,),
    "seed": (int,),
}


def wrong_row(row: RunRow) -> str | None:
    """The reason why this row must not be used, or None if it may be used."""
    wrong = _wrong_specification(row)
    if wrong is None and row.status == "done" and row.accuracy is None:
        return "it is done, but has no evaluation"
    return wrong


def leave_out_wrong(store: Store) -> None:
    """Exclude rows that must not be used from all later reads of the store."""
    rows = store.rows()
    named = " ".join(store.problems)
    for run_id in sorted(store.planned_ids() - {row.run_id for row in rows}):
        if run_id not in named:
            store.leave_out(run_id, "it is planned, but its row is not there")
    for row in rows:
        why = wrong_row(row)
        if why:
            store.leave_out(row.run_id, why)


def missing_steps(row: RunRow, curve: Sequence[Evaluation]) -> list[int]:
    """Steps of the evaluations that a finished run must have but lacks.

    Empty if its specification cannot be read here.
    """
    if not row.has_result or row.steps is None:
        return []
    try:
        run = RunSpec.parse(row.spec)
    except SpecError:
        return []
    # The evaluation that revealed the divergence of a run is not stored.
    last = row.steps if row.status == "done" else row.steps - 1
    there = {point.step for point in curve}
    return [step for step in run.train.evaluation_steps() if step <= last and step not in there]


def gap_in_curve(row: RunRow, curve: Sequence[Evaluation]) -> str | None:
    """One line about the missing points of a finished run's curve, or None if it is complete."""
    missing = missing_steps(row, curve)
    if not missing:
        return None
    lacks = "1 point" if len(missing) == 1 else f"{len(missing):,} points"
    return f"run {row.run_id}: its curve lacks {lacks}, the first at step {missing[0]}"


def _wrong_specification(row: RunRow) -> str | None:
    try:
        text = json.dumps(row.spec, sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, RecursionError):
        return "its specification holds what no specification can"
    if hashlib.sha256(text.encode()).hexdigest()[:16] != row.run_id:
        return "its id is not that of its specification"
    try:
        RunSpec.parse(row.spec)
    except SpecError:
        return _wrong_shape(row.spec)
    return None


def _wrong_shape(spec: Mapping[str, Any]) -> str | None:
    """Why a specification that RunSpec rejects must not be used; None if it may be used.

    It may need a plug-in that is not loaded. It can be used if its parts can be named and compared.
    """
    if not _is_plain(spec, _DEEPEST):
        return "its specification holds what no specification can"
    for path, types in _NEEDED.items():
        value: Any = spec
        for key in path.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        if type(value) not in types:
            return f"its specification has no {path}"
    return None


def _is_plain(value: Any, depth: int) -> bool:
    if isinstance(value, dict):
        return depth > 0 and all(_is_plain(entry, depth - 1) for entry in value.values())
    if isinstance(value, list):
        return depth > 0 and all(_is_plain(entry, depth - 1) for entry in value)
    if isinstance(value, int):
        return abs(value) < _LARGEST
    return math.isfinite(value) if isinstance(value, float) else True
