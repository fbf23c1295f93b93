"""Which sweep of a folder comes first: those of the command, then those that were planned first."""

from dataclasses import replace

import pytest
from planned_rounds import finish, rates_of

from recollect.running import engine
from recollect.running.planning.order import order_of, remember_search


def named(sweep):
    """A sweep of the command: its name and the runs that it has there."""
    return sweep.name, frozenset(run.run_id for run in sweep.runs)


@pytest.mark.parametrize("search", [None, "edges"])
def test_a_sweep_given_again_with_other_runs_comes_before_what_it_had(store, sweeps, search):
    """What its earlier text planned has its turn later."""
    early = replace(sweeps[0], runs=sweeps[0].runs[:6])
    late = replace(early, source="another text", runs=sweeps[0].runs[6:])
    for sweep in (early, sweeps[1], late):
        engine.plan(store, sweep)
    remember_search(store, ["first"] if search else [], search)
    choose = order_of(store, within_budget=False, first=[named(late)])
    stages = []
    while (stage := choose(store.rows())) is not None:
        stages.append(set(stage.run_ids))
        finish(store, stage.run_ids, 0.1)
    _, own = named(late)
    _, others = named(early)
    assert stages[0] <= own
    trained = set[str]().union(*stages)
    assert trained & others, "they have their turn"
    until = next(place for place, stage in enumerate(stages) if stage & others)
    assert all(stage <= own for stage in stages[: 1 if search is None else until - 1])
    if search is None:
        assert stages[0] == own


def test_sweeps_that_are_named_come_before_the_others(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    choose = order_of(store, within_budget=False, first=[named(sweeps[1])])
    assert {width for width, _ in rates_of(store, choose(store.rows()).run_ids)} == {32}
    finish(store, [run.run_id for run in sweeps[1].runs], 1.0)
    assert {width for width, _ in rates_of(store, choose(store.rows()).run_ids)} == {16}


def test_runs_of_a_round_know_the_place_of_their_sweep(store, sweeps):
    for sweep in sweeps:
        engine.plan(store, sweep)
    remember_search(store, ["first", "second"], "edges")
    for first, places in (((), [16, 32]), ([named(sweeps[1])], [32, 16])):
        stage = order_of(store, within_budget=False, wanted=99, first=first)(store.rows())
        assert by_rank(store, stage) == [{places[0]}, {places[1]}]
        assert tuple(stage.ranks) == stage.run_ids


def by_rank(store, stage) -> list[set[int]]:
    """The widths of the runs of each rank, in order."""
    widths = {row.run_id: row.spec["model"]["width"] for row in store.rows()}
    ranks = sorted(set(stage.ranks.values()))
    return [{widths[i] for i in stage.run_ids if stage.ranks[i] == rank} for rank in ranks]


def test_cells_that_have_begun_come_before_those_that_have_not(store, make_sweep):
    """Of one sweep; an earlier sweep comes first even if nothing of it has begun."""
    for sweep in (make_sweep("early", 8), make_sweep("late", 16, 32, 64)):
        engine.plan(store, sweep)
    remember_search(store, ["early", "late"], "edges")
    begun = [row for row in store.rows() if row.spec["model"]["width"] == 32]
    finish(store, [row.run_id for row in begun[:1]], 0.1)
    stage = order_of(store, within_budget=False, wanted=99)(store.rows())
    assert by_rank(store, stage) == [{8}, {32}, {16, 64}]
