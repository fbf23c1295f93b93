"""The time left of a search, which does not train all runs: an estimate and a limit."""

import numpy as np

from recollect.reports.live.likely import LikelyRuns
from recollect.reports.live.progress import Progress
from recollect.rows import RunRow
from recollect.running.events import PackStarted, RunEnded, SearchRound
from recollect.spec.cell import cell_id


def test_a_search_has_an_estimate_and_a_limit(monkeypatch):
    progress = Progress([])
    progress.feed(SearchRound("sweep", "1 of 2 windows known"))
    for likely, text in ((20.0, "about 20 s, at most 1 min 1 s"), (None, "at most 1 min 1 s")):
        monkeypatch.setattr(progress, "_foretell", lambda likely=likely: [61.0, likely])
        assert progress._left() == f", {text} left"


def test_a_search_should_train_a_part_of_what_waits(make_run):
    """Two of eight runs in training, four should follow; each has 100 steps of a second."""
    runs = [make_run({"train.lr": lr, "train.steps": 100}) for lr in np.geomspace(1e-4, 1e-1, 8)]
    rows = [
        RunRow(run.run_id, run.model_dump(mode="json"), "todo", "accuracy", 0.25) for run in runs
    ]
    cell = cell_id(rows[0].spec)
    progress = Progress(rows, step_s={runs[0].shape_id: 1.0}, likely={cell: 6})
    assert (progress.remaining_s, progress.likely_s) == (800, 600)
    progress.feed(PackStarted(tuple(runs[:2]), 0))
    assert (progress.remaining_s, progress.likely_s) == (800, 600)
    progress.feed(SearchRound("sweep", "", {cell: 1, "another": 5}))
    assert (progress.remaining_s, progress.likely_s) == (800, 300)
    progress.feed(PackStarted(tuple(runs[2:3]), 0, 1))
    assert (progress.remaining_s, progress.likely_s) == (800, 300)  # more rounds may follow
    progress.feed(SearchRound("sweep", "", {cell: 0}))
    assert (progress.remaining_s, progress.likely_s) == (300, 300)  # none follows
    for run in runs[3:]:
        progress.feed(RunEnded(run, "failed", None, 0))
    assert (progress.remaining_s, progress.likely_s) == (300, 300)


def test_what_a_search_left_before_counts_as_no_time_left(make_run):
    """Also if its shape was never timed."""
    runs = [make_run({"train.steps": 100, "model.width": width}) for width in (8, 16)]
    rows = [
        RunRow(run.run_id, run.model_dump(mode="json"), "todo", "accuracy", 0.25) for run in runs
    ]
    timed = {runs[1].shape_id: 1.0}
    progress = Progress(rows, step_s=timed, likely={cell_id(rows[0].spec): 0})
    assert (progress.remaining_s, progress.likely_s) == (100, 100)


def test_runs_of_cells_that_no_search_chooses_are_all_likely():
    left = LikelyRuns({"searched": 1})
    for number, cell in enumerate(["searched", "searched", "whole", "whole", "whole"]):
        left.plan(f"{cell} {number}", cell, f"shape of {cell}", 10)
    assert left.run_steps() == {"shape of searched": 10, "shape of whole": 30}
    assert left.unneeded() == {}
    for run in ("searched 0", "searched 0", "whole 2", "unknown"):  # each counts once
        left.begin(run)
    assert left.run_steps() == {"shape of searched": 0, "shape of whole": 20}


def test_no_more_runs_are_likely_than_wait():
    left = LikelyRuns({"cell": 5})
    left.plan("run", "cell", "shape", 10)
    assert left.run_steps() == {"shape": 10}
