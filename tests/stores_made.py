"""Stores filled by hand for the tests of what reads them:
rows in, a folder of results out, no training.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from recollect.rows import Evaluation, RunRow
from recollect.store import PlannedRun, Result, Store


def make_store(
    folder: Path, rows: Sequence[RunRow], name: str = "made", source: str = "", time: float = 1e9
) -> None:
    """A store that gives these rows back; each finished one has a curve up to its step 100."""
    with Store.create(folder) as store:
        store.wall = lambda: time
        plan(store, rows, name, source)
        finish(store, [row for row in rows if row.status != "todo"])


def plan(store: Store, rows: Sequence[RunRow], name: str = "made", source: str = "") -> None:
    store.plan(
        [PlannedRun(row.run_id, json.dumps(row.spec), row.score_name, row.chance) for row in rows],
        name,
        source,
    )


def begin(store: Store, rows: Sequence[RunRow]) -> dict[str, int]:
    """Plan these runs and claim those that are not todo."""
    plan(store, rows)
    return store.claim([row.run_id for row in rows if row.status != "todo"], "me", 1e9)


def finish(store: Store, rows: Sequence[RunRow]) -> None:
    """Claim planned runs and end them as their rows say; those that run are only claimed."""
    claims = store.claim([row.run_id for row in rows], "me", 1e9)
    half = Evaluation(50, 1.0, 1.0, 0.0, 0.0)
    store.record(claims, [(row.run_id, half) for row in rows if row.has_result])
    store.finish(
        [
            Result(
                row.run_id,
                claims[row.run_id],
                row.status,
                steps=100,
                wall_s=1.0,
                last=Evaluation(100, 1.0, 1.0, row.accuracy or 0.0, row.exact or 0.0),
                diverged_step=row.diverged_step,
                failure=row.failure,
                device="cpu",
            )
            for row in rows
            if row.status != "running"
        ]
    )
