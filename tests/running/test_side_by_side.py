"""Places that ended runs leave are filled by waiting ones, in packs side by side.

Nothing about a result depends on it.
"""

import weakref

import pytest
import torch
from workers_made import results

from recollect import api
from recollect.running import pack as packs
from recollect.running import worker as working
from recollect.running.events import Advanced, Event, GivenUp, PackStarted, Remark, RunEnded
from recollect.running.planning import memory
from recollect.running.worker import Worker
from recollect.store import Store
from recollect.training.population import Population


def training(heard: list[Event]) -> list[int]:
    """Runs that train, after each event."""
    counts, now = [], 0
    for event in heard:
        now += len(event.runs) if isinstance(event, PackStarted) else -isinstance(event, RunEnded)
        counts.append(now)
    return counts


def test_results_are_those_of_packs_one_after_the_other(work):
    apart, beside = work("apart", side_by_side=False), work("beside")
    assert results(work.folder / "apart") == results(work.folder / "beside")
    sizes = [
        [len(event.runs) for event in heard if isinstance(event, PackStarted)]
        for heard in (apart, beside)
    ]
    assert sizes[0] == [4, 3, 3]
    assert sizes[1][0] == 4
    assert sum(sizes[1]) == 10


def test_the_places_stay_filled_and_are_never_more(work, monkeypatch):
    monkeypatch.setattr(working, "MOST_PACKS", 9)
    fill, seen = Worker._fill, []

    def filled(self):
        fill(self)
        seen.append((self.training, len(self.queue.waiting(self._selection))))

    monkeypatch.setattr(Worker, "_fill", filled)
    heard = work("beside")
    assert sum(isinstance(event, PackStarted) for event in heard) > 3
    assert max(training(heard)) == 4
    assert all(taken == 4 or not waiting for taken, waiting in seen)
    assert len(seen) > 5


def test_a_pack_waits_until_enough_places_are_free(work, monkeypatch):
    monkeypatch.setattr(memory, "JOIN_SHARE", 0.75)
    heard = work("beside", steps=lambda seed: 40 if seed % 4 == 0 else 4 * (seed % 4))
    started = [len(event.runs) for event in heard if isinstance(event, PackStarted)]
    assert started[0] == 4
    assert all(size == 3 for size in started[1:])
    assert sum(started) == 10


def test_not_more_packs_than_allowed(work, monkeypatch):
    monkeypatch.setattr(working, "MOST_PACKS", 2)
    living: dict[int, set[str]] = {}
    most = 0
    for event in work("beside", steps=lambda seed: 4 if seed % 2 else 40):
        match event:
            case PackStarted():
                living[event.pack] = {run.run_id for run in event.runs}
            case RunEnded():
                for runs in living.values():
                    runs.discard(event.run.run_id)
        most = max(most, sum(bool(runs) for runs in living.values()))
    assert len(living) > 2
    assert most == 2


@pytest.mark.parametrize("at", [3, 9, 14, 21])
def test_a_stop_saves_every_pack_and_nothing_changes(work, at, monkeypatch):
    monkeypatch.setattr(packs, "SAVE_EVERY_S", 1e9)  # no other checkpoints
    work("whole")
    asked = iter(range(10**9))
    heard = work("stopped", stop=lambda: 130 if next(asked) >= at else 0)
    assert heard[-1] == Remark("stopped")
    living = {event.pack for event in heard if isinstance(event, PackStarted)}
    made = {
        pack: sum(isinstance(event, Advanced) and event.pack == pack for event in heard)
        for pack in living
    }
    with Store.open(work.folder / "stopped") as store:
        assert not any(row.status == "running" for row in store.rows())
    resumed = work("stopped")
    starts = {event.from_step for event in resumed if isinstance(event, PackStarted)}
    assert starts & set(made.values())
    assert results(work.folder / "whole") == results(work.folder / "stopped")


def test_what_does_not_fit_beside_others_waits_for_them(work, monkeypatch):
    """A run that runs out of memory beside others has not failed,
    even if it is the only one of its pack.
    """
    step = Population.train_step
    first: list[Population] = []

    def full(self, batch):
        first[:] = first or [self]
        if self is not first[0] and first[0].step < 40:
            raise torch.OutOfMemoryError("CUDA out of memory")
        step(self, batch)

    monkeypatch.setattr(Population, "train_step", full)
    heard = work("beside", steps=lambda seed: 4 if seed == 0 else 40)
    assert sum(isinstance(event, GivenUp) for event in heard) == 1
    texts = [event.text for event in heard if isinstance(event, Remark)]
    assert texts == ["out of memory with 1 run beside 3 others: they wait for those"]
    assert {row.status for row in api.Results.load(work.folder / "beside").rows} == {"done"}


@pytest.mark.parametrize("fails", [False, True])
def test_a_pack_that_has_ended_holds_no_memory_when_the_next_is_planned(work, monkeypatch, fails):
    build, fill, step = Population.__init__, Worker._fill, Population.train_step
    built: weakref.WeakSet[Population] = weakref.WeakSet()
    seen = []

    def noted(self, *arguments):
        build(self, *arguments)
        built.add(self)

    def filled(self):
        seen.append((len(built), len(self._packs)))
        fill(self)

    def exhausted(self, batch):
        if fails and len(self.members) == 4:
            raise torch.OutOfMemoryError("CUDA out of memory")
        step(self, batch)

    monkeypatch.setattr(Population, "__init__", noted)
    monkeypatch.setattr(Population, "train_step", exhausted)
    monkeypatch.setattr(Worker, "_fill", filled)
    work("beside")
    assert len(seen) > 3
    assert all(populations <= packs for populations, packs in seen)


def test_a_pack_that_fails_takes_no_other_with_it(work, monkeypatch):
    step = Population.train_step

    def broken(self, batch):
        if any(run.seed == 7 for run in self.members):
            raise ValueError("seven")
        step(self, batch)

    monkeypatch.setattr(Population, "train_step", broken)
    heard = work("beside")
    packs = [event.runs for event in heard if isinstance(event, PackStarted)]
    together = next(runs for runs in packs if any(run.seed == 7 for run in runs))
    rows = {row.run_id: row for row in api.Results.load(work.folder / "beside").rows}
    assert {run_id for run_id, row in rows.items() if row.status == "failed"} == {
        run.run_id for run in together
    }
    assert sum(row.status == "done" for row in rows.values()) == 10 - len(together)


def test_a_run_that_goes_on_counts_the_seconds_before_its_stop(work, clock_by_steps):
    clock_by_steps(lambda population: 0.1 * len(population.members))
    asked = iter(range(10**9))
    work("stopped", steps=lambda seed: 40, stop=lambda: 130 if next(asked) == 30 else 0)
    work("stopped", steps=lambda seed: 40)
    for row in api.Results.load(work.folder / "stopped").rows:
        assert row.wall_s == pytest.approx(0.1 * row.steps)


def test_time_is_shared_among_all_that_train(work, clock_by_steps):
    now = clock_by_steps(lambda population: 1.0)
    work("beside")
    rows = api.Results.load(work.folder / "beside").rows
    assert sum(row.wall_s for row in rows) == pytest.approx(now[0], rel=0.3)
