"""Which runs come first within a budget: on rows made by hand, where the right answer is plain."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from rows_made import make_row

from recollect.rows import RunRow
from recollect.running.planning.priority import Stage, budget_text, coarse_rates, next_stage

GRID = (1e-5, 3e-5, 1e-4, 3e-4, 4.642e-4, 1e-3, 2.154e-3, 3e-3, 5e-3, 1e-2, 3e-2, 1e-1, 3e-1)
COARSE = (1e-5, 1e-4, 4.642e-4, 2.154e-3, 1e-2, 1e-1)
Scores = Mapping[float, float | Sequence[float]]


def planned(
    scores: Scores,
    rates: Sequence[float] = GRID,
    seeds: Sequence[int] = (1, 2, 3),
    mixer: str = "mamba",
    **model: Any,
) -> list[RunRow]:
    """A cell with every rate and seed planned;
    `scores` has those of the first seeds at some of the rates.
    """
    rows = []
    for lr in rates:
        found = scores.get(lr, ())
        found = [found] if isinstance(found, float) else list(found)
        for index, seed in enumerate(seeds):
            score = found[index] if index < len(found) else None
            status = "todo" if score is None else "done"
            rows.append(make_row(mixer, lr, seed, score, status, model=model))
    return rows


def chosen(rows: Sequence[RunRow]) -> tuple[str, list[tuple[float, int]]]:
    """The next stage as (name, [(rate, seed), ...]) in ascending order."""
    stage = next_stage(rows)
    assert stage is not None
    specs = {row.run_id: row.spec for row in rows}
    return stage.name, sorted(
        (specs[run_id]["train"]["lr"], specs[run_id]["seed"]) for run_id in stage.run_ids
    )


def coarse(score: float) -> dict[float, float]:
    return dict.fromkeys(COARSE, score)


# ---- the coarse grid ----


def test_the_coarse_grid_holds_zoologys_rates_and_reaches_to_both_ends():
    assert coarse_rates(GRID) == list(COARSE)


def test_a_grid_without_them_is_thinned_to_a_distance():
    assert coarse_rates([1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2]) == [
        1e-4,
        2e-4 * 2.5,
        2e-3,
        1e-2,
    ]
    assert coarse_rates([0.1]) == [0.1]


def test_first_comes_a_coarse_grid_with_one_seed_in_every_cell():
    rows = planned({}) + planned({}, mixer="attention")
    name, runs = chosen(rows)
    assert name == "coarse"
    assert runs == sorted((rate, 1) for rate in COARSE for _ in range(2))


def test_a_rate_that_somebody_trains_is_left_to_them():
    rows = [
        replace(row, status="running")
        if row.spec["seed"] == 1 and row.spec["train"]["lr"] in {*COARSE[1:], 3e-2}
        else row
        for row in planned({1e-5: 0.2})
    ]
    name, runs = chosen(rows)
    assert (name, runs) == ("search", [(lr, 1) for lr in GRID if lr not in {*COARSE, 3e-2}])
    between = [
        replace(row, status="running")
        if row.spec["seed"] == 1 and row.spec["train"]["lr"] == 1e-3
        else row
        for row in planned(coarse(0.1) | {4.642e-4: 0.95})
    ]
    assert chosen(between) == ("edges", [(3e-4, 1)])


def test_what_is_tried_is_not_tried_again_and_the_middle_comes_first():
    rows = planned({1e-4: 0.3, 1e-1: 0.2})
    stage = next_stage(rows)
    assert stage is not None
    rates = {row.run_id: row.spec["train"]["lr"] for row in rows}
    first, second, *ends = [rates[run_id] for run_id in stage.run_ids]
    assert (first, second, sorted(ends)) == (4.642e-4, 2.154e-3, [1e-5, 1e-2])


def test_cells_are_compared_by_all_but_rate_and_seed():
    done = planned(coarse(0.25) | {1e-3: 0.25}, width=64)
    name, runs = chosen(done + planned({}, width=128))
    assert (name, len(runs)) == ("coarse", len(COARSE))


# ---- stages that fill a GPU ----


def test_a_stage_is_filled_with_the_runs_that_follow():
    """Three rates, of which one is Zoology's: that one first, then the others, then more seeds."""
    rows = planned({}, rates=(5e-3, 1e-2, 3e-2))
    specs = {row.run_id: row.spec for row in rows}
    for wanted in (1, 2, 4, 9, 16):
        stage = next_stage(rows, wanted)
        assert stage is not None
        assert stage.name == "coarse"
        runs = [(specs[i]["seed"], specs[i]["train"]["lr"]) for i in stage.run_ids]
        assert len(runs) == len(set(runs)) >= min(wanted, 9)
        assert runs[0] == (1, 1e-2)
        assert [seed for seed, _ in runs] == sorted(seed for seed, _ in runs)


def test_a_stage_that_is_large_enough_gets_no_more():
    assert next_stage(planned({}), len(COARSE)) == next_stage(planned({}))


def test_what_was_begun_is_not_filled_up():
    rows = planned({})
    begun = make_row("mamba", 3e-1, 3, None, "todo", attempt=1)
    rows = [begun if row.run_id == begun.run_id else row for row in rows]
    stage = next_stage(rows, 16)
    assert stage is not None
    assert stage.run_ids == (begun.run_id,)


# ---- edges ----


def test_an_edge_between_two_coarse_rates_gets_what_lies_between_next():
    scores = coarse(0.25) | {2.154e-3: 1.0}
    assert chosen(planned(scores)) == ("edges", [(1e-3, 1), (5e-3, 1)])


def test_an_edge_is_halved_until_nothing_lies_between():
    scores = coarse(0.25) | {2.154e-3: 1.0, 1e-3: 0.25, 5e-3: 0.25}
    assert chosen(planned(scores)) == ("edges", [(3e-3, 1)])
    assert chosen(planned(scores | {3e-3: 1.0}))[0] == "seeds"


def test_beyond_the_last_rate_that_solves_comes_the_next():
    assert chosen(planned(coarse(1.0))) == ("edges", [(3e-1, 1)])
    shorter = {rate: 1.0 for rate in COARSE if rate > 1e-5}
    assert chosen(planned(shorter, rates=GRID[1:])) == ("edges", [(3e-5, 1), (3e-1, 1)])


def test_a_failed_or_running_rate_is_not_waited_for():
    rows = planned(coarse(0.25) | {2.154e-3: 1.0})
    stuck = [make_row("mamba", 1e-3, seed, None, "failed") for seed in (1, 2, 3)]
    rows = [row for row in rows if row.spec["train"]["lr"] != 1e-3] + stuck
    assert chosen(rows) == ("edges", [(5e-3, 1)])


# ---- search ----


def test_a_cell_that_nothing_has_solved_gets_its_other_rates_from_the_best_outwards():
    rows = planned(coarse(0.25) | {1e-2: 0.5})
    stage = next_stage(rows)
    assert stage is not None
    rates = {row.run_id: row.spec["train"]["lr"] for row in rows}
    assert stage.name == "search"
    assert [rates[run_id] for run_id in stage.run_ids][:3] == [5e-3, 3e-2, 3e-3]
    assert len(stage.run_ids) == len(GRID) - len(COARSE)


def test_edges_come_before_the_search_in_other_cells():
    solved, lost = planned(coarse(0.25) | {2.154e-3: 1.0}), planned(coarse(0.25), mixer="hyena")
    assert chosen(lost + solved)[0] == "edges"


# ---- seeds and the rest ----

KNOWN = dict.fromkeys(GRID, 0.25)


def test_more_seeds_go_to_the_edges_of_a_window_and_one_at_a_time():
    scores: dict[float, Any] = KNOWN | dict.fromkeys((1e-3, 2.154e-3, 3e-3, 5e-3), 1.0)
    assert chosen(planned(scores)) == ("seeds", [(4.642e-4, 2), (1e-3, 2), (5e-3, 2), (1e-2, 2)])
    scores |= {4.642e-4: [0.25, 0.25]}
    assert chosen(planned(scores)) == ("seeds", [(1e-3, 2), (5e-3, 2), (1e-2, 2)])
    scores |= {rate: [scores[rate], scores[rate]] for rate in (1e-3, 5e-3, 1e-2)}
    assert chosen(planned(scores)) == ("seeds", [(4.642e-4, 3), (1e-3, 3), (5e-3, 3), (1e-2, 3)])


def test_a_score_between_chance_and_solved_is_telling_too():
    assert chosen(planned(KNOWN | {3e-2: 0.6})) == ("seeds", [(1e-2, 2), (3e-2, 2), (1e-1, 2)])
    assert chosen(planned(dict.fromkeys(GRID, 0.6))) == ("seeds", [(rate, 2) for rate in GRID])


@pytest.mark.parametrize("score", [1.0, 0.25, 0.0, 0.34])
def test_a_cell_that_is_solved_or_at_chance_everywhere_gets_no_more(score):
    settled = planned(dict.fromkeys(GRID, score))
    telling = planned(KNOWN | {3e-2: 1.0}, mixer="attention")
    mixers = {row.run_id: row.spec["model"]["mixer"]["name"] for row in settled + telling}
    stage = next_stage(settled + telling)
    assert stage is not None
    assert (stage.name, {mixers[run_id] for run_id in stage.run_ids}) == ("seeds", {"attention"})


def test_in_the_end_everything_is_trained():
    """Stage after stage on a made-up truth: every run once, seeds last, and coarse before fine."""
    truth = {rate: 1.0 if 4e-4 < rate < 2e-2 else 0.25 for rate in GRID}
    rows = planned({})
    stages: list[Stage] = []
    while (stage := next_stage(rows)) is not None:
        stages.append(stage)
        rows = [
            make_row("mamba", lr, row.spec["seed"], truth[lr])
            if row.run_id in stage.run_ids
            else row
            for row in rows
            for lr in [row.spec["train"]["lr"]]
        ]
    trained = [run_id for stage in stages for run_id in stage.run_ids]
    assert len(trained) == len(set(trained)) == len(rows)
    names = [stage.name for stage in stages]
    assert names[:2] == ["coarse", "edges"]
    assert (
        names.index("seeds")
        < names.index("rest")
        == names.count("coarse") + names.count("edges") + names.count("seeds")
    )
    assert sum(len(stage.run_ids) for stage in stages if stage.name != "rest") < len(rows) / 2


def test_nothing_is_left_of_a_finished_sweep():
    assert (
        next_stage(
            [
                make_row(),
                make_row(lr=1e-2, status="diverged"),
                make_row(lr=1e-1, score=None, status="failed"),
            ]
        )
        is None
    )
    assert next_stage([]) is None


def test_a_diverged_run_is_a_result():
    rows = planned(coarse(0.25) | {2.154e-3: 1.0})
    diverged = make_row("mamba", 1e-2, 1, None, "diverged")
    rows = [diverged if row.run_id == diverged.run_id else row for row in rows]
    assert chosen(rows) == ("edges", [(1e-3, 1), (5e-3, 1)])


def test_what_was_begun_comes_before_all():
    rows = planned({})
    begun = make_row("mamba", 3e-1, 3, None, "todo", attempt=1)
    rows = [begun if row.run_id == begun.run_id else row for row in rows]
    assert chosen(rows) == ("begun", [(3e-1, 3)])
    assert chosen([make_row(attempt=1), make_row(lr=1e-2, score=None, status="todo")]) == (
        "coarse",
        [(1e-2, 42)],
    )


# ---- in words ----


def test_a_spent_budget_in_words():
    rows = [*planned(coarse(0.25), seeds=(1,)), make_row("hyena", 1e-3, 1, None, "todo", attempt=1)]
    assert budget_text(rows, next_stage(rows), 2.0, "recollect resume out") == (
        "the budget of 2 min is spent: 6 of 14 runs have a result, 1 begun and kept, 7 not begun; "
        "next: what was begun\n"
        "continue with `recollect resume out --budget 2`, or without a limit with "
        "`recollect resume out`"
    )
    assert budget_text([make_row()], None, 0.5, "recollect resume out") == (
        "all is trained within the budget of 0.5 min"
    )
    assert budget_text(rows, None, 3.0, "recollect resume out") == (
        "all that was asked for is trained within the budget of 3 min"
    )
    beside = [make_row(), make_row("hyena", 1e-3, 1, None, "running", attempt=1)]
    assert budget_text(beside, None, 3.0, "recollect resume out") == (
        "all that no other process trains is trained within the budget of 3 min"
    )
