"""Runs of a store that end as a test says, and what a stage of training has."""

from collections.abc import Sequence

from recollect.rows import Evaluation
from recollect.store import Store
from recollect.store.records import Result


def finish(store: Store, run_ids: Sequence[str], score: float) -> None:
    claims = store.claim(run_ids, "test", 60.0)
    last = Evaluation(1, 1.0, 1.0, score, score)
    store.finish(
        Result(run_id, attempt, "done", steps=1, wall_s=1.0, last=last)
        for run_id, attempt in claims.items()
    )


def rates_of(store: Store, run_ids: Sequence[str]) -> list[tuple[int, float]]:
    specs = {row.run_id: row.spec for row in store.rows()}
    return sorted(
        {(specs[run_id]["model"]["width"], specs[run_id]["train"]["lr"]) for run_id in run_ids}
    )
