"""Windows with other seeds: draws against a plain loop over the same values and weights, and
against what can be counted by hand.
"""

import math
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from rows_made import make_row, make_sweep, only_cell
from searched_cells import Played, whole

from recollect.analysis import TAUS, group_cells, seed_spread, windows_by_threshold
from recollect.analysis.seeds.drawn_windows import find_windows
from recollect.analysis.seeds.other_seeds import DRAWS, draw_means, draw_windows, interval_of
from recollect.analysis.seeds.prediction import NOISE, SURPRISE, pools_of_others
from recollect.running.searching import edges

SWEEP = {1e-4: [0.0, 0.0, 0.4], 1e-3: [1.0, 0.9, 1.0], 1e-2: [1.0, 1.0, 0.3], 1e-1: [0.0] * 3}
LOST = {1e-4: [0.0] * 3, 1e-3: [1.0, 0.0, 1.0], 1e-2: [0.9, 1.0, 0.8], 1e-1: [1.0, 0.0, 0.0]}


def one_by_one(pool, draw: random.Random) -> float:
    """The mean over new seeds at one rate, as the docstrings of the two modules describe it."""
    if pool.own:
        found = draw.choices(pool.values, pool.weights, k=pool.planned)
    elif draw.random() < SURPRISE:
        found = [draw.random()] * pool.planned
    else:
        found = draw.choices(draw.choices(pool.sides, pool.nearness)[0], k=pool.planned)
    scores = []
    for score in found:
        score = pool.chance if draw.random() < pool.lost else score
        deviation = NOISE * abs(score - pool.chance) / (1 - pool.chance) * (1 - score)
        scores.append(min(1.0, max(0.0, draw.gauss(score, deviation))))
    return sum(scores) / len(scores)


@pytest.mark.parametrize("scores", [SWEEP, LOST, SWEEP | {1e-2: [0.7]}, SWEEP | {1e-2: []}])
def test_means_are_drawn_as_described(scores):
    rows = [row for row in make_sweep(scores) if row.has_result]
    tried = {(row.spec["train"]["lr"], row.spec["seed"]) for row in rows}
    rows += [
        make_row(lr=lr, seed=seed, score=None, status="todo")
        for lr in scores
        for seed in (1, 2, 3)
        if (lr, seed) not in tried
    ]
    cell = only_cell(rows)
    rates, means = draw_means(cell)
    assert rates == tuple(scores)
    draw = random.Random(0)
    for pool, ours in zip(pools_of_others(cell), means.T, strict=True):
        theirs = [one_by_one(pool, draw) for _ in range(8000)]
        assert ours.mean() == pytest.approx(np.mean(theirs), abs=0.012)
        assert ours.std() == pytest.approx(np.std(theirs), abs=0.012)
        for level in (0.05, 0.3, 0.6, 0.9):
            shares = [np.mean(np.asarray(drawn) >= level) for drawn in (ours, theirs)]
            assert shares[0] == pytest.approx(shares[1], abs=0.025)


def test_with_a_single_pair_what_has_learnt_nothing_scores_0():
    """There chance is 1: whoever guesses among the values solves the task."""
    found = {}
    for chance in (0.0, 1.0):
        found[chance] = draw_means(
            only_cell([replace(row, chance=chance) for row in make_sweep(SWEEP)])
        )[1]
    assert np.array_equal(found[0.0], found[1.0])


def test_seeds_that_agree_do_not_show_that_others_would():
    """A rate is drawn from its neighbours, too. Beyond the grid they are at chance, 0.25 here."""
    _, means = draw_means(only_cell(make_sweep({1e-3: [1.0] * 3, 10**-2.9: [0.25] * 3})))
    changed = 1 - (means == [1.0, 0.25]).mean(axis=0)
    near, beyond = math.exp(-0.1 / 0.5), math.exp(-0.5 / 0.5)
    like, unlike = 3, beyond + 0.3 * near
    assert changed[0] == pytest.approx(1 - (like / (like + unlike)) ** 3, abs=0.01)
    like, unlike = 3 + 0.3 * beyond, near
    assert changed[1] == pytest.approx(1 - (like / (like + unlike)) ** 3, abs=0.01)


def test_lost_runs_count_once():
    """Other seeds are lost as often as seeds were, at every rate between those that learn; the rate
    at which one was lost is not drawn from it once more.
    """
    whole = {10**power: [1.0] * 3 for power in (-4, -3.5, -3, -2.5, -2)}
    one_fails = [1.0, 0.25, 1.0]  # at chance
    _, means = draw_means(only_cell(make_sweep(whole | {1e-3: one_fails})))
    lost = 1 / 9  # of the runs at the three rates in the middle
    assert means[:, 1:4].mean(axis=0) == pytest.approx([1 - 0.75 * lost] * 3, abs=0.005)
    # A seed that fails at all higher rates, too, is not lost, and is drawn like any other.
    _, means = draw_means(only_cell(make_sweep(whole | {10**-2.5: one_fails, 1e-2: one_fails})))
    lower, higher = math.exp(-1), 0.3 * math.exp(-1)
    fails = (1 + higher / 3) / (3 + lower + higher)
    assert means[:, 3].mean() == pytest.approx(1 - 0.75 * fails, abs=0.005)


def test_rates_are_drawn_independently_and_often_enough():
    cell = only_cell(make_sweep({1e-3: [0.0, 0.5, 1.0], 1e-2: [0.0, 0.5, 1.0]}))
    _, means = draw_means(cell)
    assert means.shape == (DRAWS, 2)
    assert abs(np.corrcoef(means.T)[0, 1]) < 0.03
    assert DRAWS >= 20_000


def test_the_draws_of_a_cell_are_the_same_everywhere():
    """Pinned, since a page written on another machine must have the same numbers."""
    _, means = draw_means(only_cell(make_sweep(SWEEP)))
    assert means[:3, 2].tolist() == [0.529305942549, 1.0, 0.581860788182]
    again = draw_means(only_cell(make_sweep(SWEEP)[::-1]))
    assert (again[1] == means).all(), "whatever the order of the rows"


def test_cells_are_drawn_independently_of_each_other():
    first, second = group_cells(make_sweep(SWEEP) + make_sweep(SWEEP, width=128))
    means = draw_means(first)[1], draw_means(second)[1]
    assert abs(np.corrcoef(means[0][:, 1], means[1][:, 1])[0, 1]) < 0.03


def test_an_interval_rests_on_the_same_draws_at_every_tau_and_in_every_use():
    cell = only_cell(make_sweep(SWEEP))
    rates, means = draw_means(cell)
    taus = (0.5, 0.8, 0.9)
    wanted = [interval_of(find_windows(rates, means, tau).widths) for tau in taus]
    assert [seed_spread(cell, tau).interval for tau in taus] == wanted
    assert [found.interval for found in windows_by_threshold(cell, taus)] == wanted
    # A name is no part of it: pages shorten names.
    assert seed_spread(replace(cell, mixer="other"), 0.5).interval == wanted[0]


@pytest.mark.parametrize(
    "rows",
    [
        make_sweep({1e-3: [1.0, 1.0, 1.0], 1e-2: [1.0, 1.0]}),  # two seeds at a rate
        [make_row(seed=seed, score=None, status="todo") for seed in (1, 2, 3)],
        [  # a rate more than a decade from all tried ones
            *make_sweep({1e-3: [1.0] * 3}),
            *(make_row(lr=2e-2, seed=seed, score=None, status="todo") for seed in (1, 2, 3)),
        ],
    ],
)
def test_too_little_gives_no_draws(rows):
    assert draw_means(only_cell(rows)) is None
    assert draw_windows(only_cell(rows), (0.9,)) is None


def test_without_draws_there_is_no_interval():
    assert draw_means(only_cell(make_sweep(SWEEP)), draws=0) is None


def test_a_searched_cell_has_an_interval_that_holds_the_window_of_its_whole_grid():
    """Also if some seeds break at the upper edge."""

    def score(lr: float, seed: int) -> float:
        return 1.0 if 2e-4 < lr < (2e-2 if seed == 1 else 6e-3) else 0.25

    played = Played(whole(score), edges.next_round)
    assert min(map(len, (rate.scores for rate in played.cell.rates))) < 3
    for tau, drawn in zip(TAUS, draw_windows(played.cell, TAUS), strict=True):
        low, high = interval_of(drawn.widths)
        assert low <= played.true_cell.window(tau).decades <= high
        assert 0.1 < high - low < 2.0


def test_numpy_is_loaded_only_to_draw():
    code = """
import sys
from rows_made import make_sweep, only_cell
from recollect.analysis import seed_spread, windows_by_threshold
import recollect.cli
few = only_cell(make_sweep({1e-3: [1.0, 1.0], 1e-2: [0.0, 0.0]}))
assert seed_spread(few).interval is windows_by_threshold(few)[0].interval is None
assert "numpy" not in sys.modules
seed_spread(only_cell(make_sweep({1e-3: [1.0] * 3})))
assert "numpy" in sys.modules
"""
    path = ":".join(sys.path)
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": path})
