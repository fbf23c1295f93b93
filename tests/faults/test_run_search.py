"""Searches under kill -9: they continue from what is stored, train the same runs and no others, and
give the same numbers.
"""

import random
import time
from pathlib import Path

import pytest
import run_workers
from harness import child
from run_workers import T, outcome

from recollect.running.planning.order import searched_sweeps
from recollect.store import Store

SEARCHED = T.replace(
    'model.mixer = ["attention", { name = "mamba", state = 4 }]', 'model.mixer = ["attention"]'
).replace("[1e-3, 1e-2, 1e-1]", "[1e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1, 1.0]")
KILLS = 6


def live(folder: Path, journal: Path, steps: int | None, search: str) -> bool:
    """One life, killed after so many steps unless None; whether it came to its end."""
    with child(journal, run_workers.search, folder, SEARCHED, search) as running:
        while running.process.is_alive() and (steps is None or len(running.acknowledged()) < steps):
            time.sleep(0.003)
        if steps is None:
            running.process.join()
    return running.end() == 0


@pytest.mark.parametrize(("search", "left"), [("edges", 1), ("best", 0)])
def test_a_search_that_is_killed_trains_the_same_runs_with_the_same_numbers(
    tmp_path: Path, search: str, left: int
):
    """Scores that are all noise may leave a search for the best nothing to spare."""
    assert live(tmp_path / "whole", tmp_path / "whole-journal", None, search)
    expected = outcome(tmp_path / "whole")
    assert 0 < sum(text.startswith("done") for text in expected.values()) <= len(expected) - left

    draw, folder = random.Random(0), tmp_path / "killed"
    has_ended = False
    for number in range(KILLS):
        has_ended = live(folder, tmp_path / f"{number}", draw.randrange(8, 60), search)
        if has_ended:
            break
        with Store.open(folder) as store:
            assert searched_sweeps(store) == {"sweep": search}  # the next life continues it
    assert has_ended or live(folder, tmp_path / "last", None, search)
    assert outcome(folder) == expected
