"""What may still become of a window and of a best score: on cells with some scores."""

from dataclasses import replace

import pytest
from rows_made import make_row, only_cell

from recollect.analysis import Cell
from recollect.running.searching.outlook import best_outlook, window_outlook

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)


def cell(scores: dict[float, list[float]], seeds: int = 3) -> Cell:
    rows = []
    for lr in RATES:
        found = scores.get(lr, [])
        for seed in range(seeds):
            row = make_row("mamba", lr, seed, 0.0)
            known = seed < len(found)
            rows.append(
                replace(
                    row,
                    status="done" if known else "todo",
                    accuracy=found[seed] if known else None,
                )
            )
    return only_cell(rows)


SOLVED, FAILED = [0.99] * 3, [0.1] * 3
WHOLE = {1e-4: FAILED, 3e-4: FAILED, 1e-3: SOLVED, 3e-3: SOLVED, 1e-2: SOLVED, 3e-2: FAILED}


def test_a_whole_cell_leaves_nothing_open():
    outlook = window_outlook(cell(WHOLE))
    assert outlook.low == outlook.high == outlook.decades
    assert outlook.window == cell(WHOLE).window()
    assert outlook.edge_spread == (0.0, 0.0)
    assert set(outlook.doubt) == {0.0}
    assert outlook.is_within(0.0)


def test_with_a_single_pair_what_has_learnt_nothing_scores_0():
    """There chance is 1: whoever guesses among the values solves the task."""
    for scores in (WHOLE | {1e-2: [], 3e-2: [0.5]}, {1e-3: [0.0], 1e-2: [0.01]}):
        sure, none = (
            only_cell([replace(row, chance=chance) for row in cell(scores).rows])
            for chance in (1.0, 0.0)
        )
        assert window_outlook(sure) == window_outlook(none)
        assert best_outlook(sure) == best_outlook(none)


def test_a_gap_at_an_edge_is_as_wide_as_what_is_not_known():
    outlook = window_outlook(cell({lr: seeds for lr, seeds in WHOLE.items() if lr != 1e-2}))
    assert outlook.high - outlook.low > 0.3  # half a decade
    assert outlook.edge_spread[0] == 0.0  # the other edge is known
    assert outlook.edge_spread[1] > 0.3
    assert not outlook.is_within(0.1)
    doubts = dict(zip(RATES, outlook.doubt, strict=True))
    assert max(doubts, key=lambda lr: doubts[lr]) == 1e-2


def test_a_seed_that_fails_at_the_edge_settles_it_and_one_that_solves_does_not():
    one_fails = window_outlook(cell(WHOLE | {3e-4: [0.1]}))
    one_solves = window_outlook(cell(WHOLE | {1e-3: [0.99]}))
    assert one_fails.is_within(0.1)
    assert one_fails.edge_spread[0] < one_solves.edge_spread[0]


def test_rates_that_are_too_large_break_some_seeds_and_spare_others():
    """Seeds beside one that fails: likelier to solve it above the window than below it."""
    above = window_outlook(cell(WHOLE | {3e-2: [0.1]}))
    below = window_outlook(cell(WHOLE | {3e-4: [0.1]}))
    assert above.edge_spread[1] > below.edge_spread[0]


def test_a_seed_that_was_lost_inside_puts_the_other_rates_inside_in_doubt():
    """Also those that are not its neighbours. A seed that fails at all higher rates is not lost:
    they are too large for it.
    """
    some = {1e-4: [0.99], 3e-4: [0.99], 1e-3: [0.99], 1e-2: SOLVED, 3e-2: [0.99]}
    broken = [0.99, 0.1, 0.99]
    lost, whole, edge = (
        dict(zip(RATES, window_outlook(cell(some | scores)).doubt, strict=True))
        for scores in (
            {3e-3: broken},
            {3e-3: SOLVED},
            {3e-3: SOLVED, 1e-2: broken, 3e-2: broken},
        )
    )
    assert lost[3e-4] > 0.1 > 0.05 > whole[3e-4]
    assert edge[3e-4] == whole[3e-4]


def test_the_same_rows_give_the_same_outlook():
    some = {1e-3: [0.95], 1e-2: [0.2]}
    assert window_outlook(cell(some)) == window_outlook(cell(some))


def test_without_a_window_the_width_is_nought():
    outlook = window_outlook(cell({lr: [0.1] for lr in RATES}))
    assert outlook.window is None
    assert (outlook.decades, outlook.low, outlook.high) == (0.0, 0.0, 0.0)
    assert outlook.edge_spread == (0.0, 0.0)


@pytest.mark.parametrize(("tau", "expected"), [(0.9, 1.0), (0.98, 0.0)])
def test_every_tau_has_its_own(tau, expected):
    some = WHOLE | {1e-3: [0.95] * 3, 3e-3: [0.97] * 3, 1e-2: [0.95] * 3}
    assert window_outlook(cell(some), tau).decades == pytest.approx(expected, abs=0.2)


def test_a_failed_run_counts_as_none():
    rows = list(cell(WHOLE | {3e-3: [0.99, 0.99]}).rows)
    failed = [replace(row, status="failed") if row.status == "todo" else row for row in rows]
    assert window_outlook(only_cell(failed)).is_within(0.0)


# ---- best scores ----


def test_a_whole_cell_has_one_best_score():
    outlook = best_outlook(cell(WHOLE | {3e-3: [0.995] * 3}))
    assert outlook.best == outlook.low == outlook.high == 0.995
    assert dict(zip(RATES, outlook.wins, strict=True))[3e-3] == 1.0
    assert outlook.is_within(0.0)


def test_half_learnt_scores_may_get_better_and_guessing_does_not():
    guessing, learning = (
        best_outlook(cell({lr: [score] for lr in RATES})) for score in (0.25, 0.6)
    )
    assert guessing.is_within(0.001)
    assert learning.high > 0.65
    assert not learning.is_within(0.02)


def test_the_rates_beside_the_best_one_may_be_better():
    outlook = best_outlook(cell({1e-4: FAILED, 1e-3: [0.7] * 3, 1e-2: [0.2] * 3}))
    wins = dict(zip(RATES, outlook.wins, strict=True))
    assert sum(wins.values()) == pytest.approx(1.0)
    assert wins[1e-3] + wins[3e-4] + wins[3e-3] > 0.9
    assert wins[3e-3] > wins[3e-2]


def test_a_rate_that_only_failed_never_wins():
    rows = list(cell(WHOLE | {3e-3: []}).rows)
    failed = [replace(row, status="failed") if row.status == "todo" else row for row in rows]
    outlook = best_outlook(only_cell(failed))
    assert dict(zip(RATES, outlook.wins, strict=True))[3e-3] == 0.0
    assert outlook.low == outlook.high
