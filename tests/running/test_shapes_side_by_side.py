"""Where a pack does not fill the device, packs of other shapes train beside it.

Nothing about a result depends on it.
"""

import weakref
from itertools import pairwise

import pytest
import torch
from workers_made import SWEEP, living, results

from recollect import api
from recollect.running import pack as packs
from recollect.running import pack_queue
from recollect.running import worker as working
from recollect.running.events import Advanced, Event, GivenUp, PackStarted, Remark
from recollect.running.planning.speed import count_operations
from recollect.running.shapes import Shapes, kind_of
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.training.population import Population

# Five kinds, of two or four runs each: shapes that differ, and data that do.
KINDS = SWEEP.replace(
    "seed = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]",
    """
seed = [0, 1]
[[sweep.zip]]
model.mixer = ["attention", "mamba", "attention", "attention", "attention", "attention"]
model.width = [8, 8, 16, 16, 8, 8]
task.length = [8, 8, 8, 8, 10, 8]
train.lr = [1e-2, 1e-2, 1e-2, 1e-3, 1e-2, 1e-2]
data_seed = [0, 0, 0, 0, 0, 1]
""",
)


def kinds(heard: list[Event]) -> dict[int, tuple[str, str]]:
    return {event.pack: kind_of(event.runs[0]) for event in heard if isinstance(event, PackStarted)}


def test_shapes_side_by_side_give_what_they_give_apart(work):
    steps = {0: 40, 1: 28}.get
    apart = work("apart", side_by_side=False, steps=steps, sweep=KINDS)
    beside = work("beside", steps=steps, sweep=KINDS)
    assert results(work.folder / "apart") == results(work.folder / "beside")
    assert max(map(len, living(apart))) == 1
    assert max(map(len, living(beside))) == 5 <= working.MOST_PACKS
    assert len(set(kinds(beside).values())) == 5


def test_another_shape_begins_when_all_that_train_were_evaluated(work):
    heard = work("beside", steps=lambda seed: 40, sweep=KINDS)
    starts = [index for index, event in enumerate(heard) if isinstance(event, PackStarted)]
    for start, after in pairwise(starts[: working.MOST_PACKS]):
        new = heard[start].pack
        steps = sum(isinstance(e, Advanced) and e.pack == new for e in heard[start:after])
        assert steps == 4 + 1  # to the first evaluation, and one before the next is built


@pytest.mark.parametrize(("full", "most"), [(1, 1), (2, 1), (3, 2), (5, 3)])
def test_no_other_shape_begins_beside_so_many_that_they_fill_the_device(
    work, monkeypatch, full, most
):
    """The first pack has four runs, or two at a time."""
    monkeypatch.setattr(pack_queue, "FULL", full)
    heard = work("beside", steps=lambda seed: 40, size=2, sweep=KINDS)
    own = kinds(heard)
    shapes = [len({own[number] for number in numbers}) for numbers in living(heard)]
    assert max(shapes) == most


def test_a_shape_waits_for_its_kernels(work, monkeypatch):
    monkeypatch.setattr(Worker, "_is_compiled", lambda self, run: run.model.width == 16)
    heard = work("beside", steps=lambda seed: 40, sweep=KINDS)
    runs = {event.pack: event.runs[0] for event in heard if isinstance(event, PackStarted)}
    assert len(runs) == 5
    for numbers in living(heard):
        assert len(numbers) < 2 or any(runs[number].model.width == 16 for number in numbers)
    assert max(map(len, living(heard))) == 2


def test_what_does_not_fit_into_the_memory_that_is_left_waits(work, monkeypatch):
    monkeypatch.setattr(Shapes, "fitting_now", lambda self, runs, fixed: 0)
    heard = work("beside", steps=lambda seed: 40, sweep=KINDS)
    assert max(map(len, living(heard))) == 1
    assert {row.status for row in api.Results.load(work.folder / "beside").rows} == {"done"}


@pytest.mark.parametrize("which", ["first", "second"])
def test_a_shape_that_runs_out_of_memory_beside_others_trains_alone(work, monkeypatch, which):
    """Whichever of the two it happens to."""
    step = Population.train_step
    living_populations: weakref.WeakSet[Population] = weakref.WeakSet()

    def full(self, batch):
        living_populations.add(self)
        widths = {other.members[0].model.width for other in living_populations}
        if len(widths) > 1 and (self.members[0].model.width == 8) == (which == "first"):
            raise torch.OutOfMemoryError("CUDA out of memory")
        step(self, batch)

    monkeypatch.setattr(Population, "train_step", full)
    sweep = SWEEP.replace("seed = [0", "model.width = [8, 16]\nseed = [0").replace(", 9]", "]")
    sweep = sweep.replace("[0, 1, 2, 3, 4, 5, 6, 7, 8]", "[0, 1]")
    heard = work("beside", steps=lambda seed: 40, sweep=sweep)
    assert sum(isinstance(event, GivenUp) for event in heard) == 1
    texts = [event.text for event in heard if isinstance(event, Remark)]
    assert texts == ["out of memory with 2 runs beside 2 others: they wait for those"]
    assert {row.status for row in api.Results.load(work.folder / "beside").rows} == {"done"}
    # No smaller packs afterwards, since alone they fit.
    assert {len(event.runs) for event in heard if isinstance(event, PackStarted)} == {2}


@pytest.mark.parametrize("at", [7, 15, 23])
def test_a_stop_saves_every_shape_and_nothing_changes(work, at, monkeypatch):
    monkeypatch.setattr(packs, "SAVE_EVERY_S", 1e9)  # no other checkpoints
    work("whole", sweep=KINDS)
    asked = iter(range(10**9))
    heard = work("stopped", stop=lambda: 130 if next(asked) >= at else 0, sweep=KINDS)
    assert heard[-1] == Remark("stopped")
    resumed = work("stopped", sweep=KINDS)
    assert any(event.from_step for event in resumed if isinstance(event, PackStarted))
    assert results(work.folder / "whole") == results(work.folder / "stopped")


SECONDS = 1e-8  # of an operation: all of them within a lease


def test_time_is_shared_by_the_operations_of_a_step(work, clock_by_steps):
    def seconds(population):
        return SECONDS * len(population.members) * count_operations(population.members[0])

    now = clock_by_steps(seconds)
    work("beside", steps=lambda seed: 40, sweep=KINDS)
    rows = api.Results.load(work.folder / "beside").rows
    assert sum(row.wall_s for row in rows) == pytest.approx(now[0], rel=0.15)
    for row in rows:
        each = row.wall_s / row.steps / SECONDS
        assert each == pytest.approx(count_operations(RunSpec.parse(row.spec)), rel=0.3)
