"""The runs that are exported here, and what a tracker must have of them."""

import math

from rows_made import make_row

from recollect.rows import Evaluation, RunRow

DONE = make_row("attention", lr=1e-3, seed=1)
DIVERGED = make_row("fla:GatedDeltaNet", lr=0.3, seed=2, status="diverged")
FAILED = make_row("mamba", seed=3, status="failed")
TODO = make_row("mamba", seed=4, status="todo")
SLICES = {"length 8": {"test_loss": 0.25, "accuracy": 0.75, "exact": 0.5}}
CURVES = {
    DONE.run_id: [
        Evaluation(50, 2.5, 2.25, 0.25, 0.0, SLICES, train_score=0.125),
        Evaluation(100, 0.1, 0.3, 0.875, 0.5, SLICES, train_score=0.9),
    ],
    DIVERGED.run_id: [
        Evaluation(50, math.inf, 3.0, 0.25, 0.0),
        Evaluation(70, math.nan, math.nan, 0.0, 0.0),
    ],
}


def told(run: RunRow) -> dict[str, list[tuple[int, float]]]:
    """The metrics that a tracker must have of a run: steps and values by name."""
    found: dict[str, list[tuple[int, float]]] = {}
    for point in CURVES[run.run_id]:
        metrics = {
            "train/loss": point.train_loss,
            "test/loss": point.test_loss,
            "test/accuracy": point.accuracy,
            "test/exact": point.exact,
        }
        if run is DONE:
            metrics["train/score"] = point.train_score or 0.0
            metrics["test/length 8/loss"] = 0.25
            metrics["test/length 8/accuracy"] = 0.75
            metrics["test/length 8/exact"] = 0.5
        for name, value in metrics.items():
            found.setdefault(name, []).append((point.step, value))
    return found
