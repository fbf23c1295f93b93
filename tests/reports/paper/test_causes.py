"""Pairs of cells that differ in one setting alone, and what its change did to the window."""

import math
from dataclasses import replace

import pytest
from study_made import study_row, study_rows

from recollect.analysis import group_cells, seed_spread
from recollect.analysis.seeds.drawn_windows import find_windows
from recollect.analysis.seeds.other_seeds import draw_means, interval_of
from recollect.reports.paper.causes import find_causes

RATES = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)


def rows(mixer="attention", seeds=(1, 2, 3), low=1e-4, high=1e-1, **more):
    """Runs that are solved at the rates from `low` to `high`, and only there."""
    return [
        replace(
            study_row(mixer, lr=lr, seed=seed, status="done", **more),
            accuracy=1.0 if low <= lr <= high else 0.1,
        )
        for lr in RATES
        for seed in seeds
    ]


def test_one_setting_changed_is_a_cause_with_its_decades():
    base, changed = rows(low=3e-4, high=1e-2), rows(low=1e-3, high=3e-3, dropout=0.1)
    [cause] = find_causes(base + changed, "plain")
    assert (cause.mixer, cause.text) == ("attention", "dropout 0 to 0.1")
    before, after = (group_cells(own)[0].window().decades for own in (base, changed))
    gain = cause.gains[0]
    assert (gain.before, gain.after) == (before, after)
    assert math.isclose(gain.decades, after - before)
    assert gain.decades < 0
    assert gain.interval[0] < gain.decades < gain.interval[1] < 0
    assert gain.is_firm
    assert not gain.is_bound
    assert [found.tau for found in cause.gains] == [0.9, 0.95, 0.98]


def test_two_settings_changed_are_none():
    assert find_causes(rows() + rows(dropout=0.1, positions="rope"), "plain") == []


@pytest.mark.parametrize("other", [{"width": 128}, {"depth": 1}, {"size": (128, 8)}])
def test_another_size_is_no_cause(other):
    assert find_causes(rows() + rows(**other), "plain") == []


def test_another_mixer_is_no_cause():
    found = find_causes(rows("gru") + rows("min_gru"), "plain")
    assert found == []


def test_of_a_mixer_s_options_the_default_is_the_base():
    both = rows("mamba") + rows({"name": "mamba", "init": "zoology"}, high=1e-2)
    [cause] = find_causes(both, "plain")
    assert cause.text == "init official to zoology"
    [same] = find_causes(both[::-1], "plain")
    assert same.text == cause.text


@pytest.mark.parametrize(
    ("mixer", "text"),
    [
        ({"name": "mamba", "kernel": 0}, "without convolution"),
        ({"name": "mamba", "gate": False}, "without gate"),
        ({"name": "attention", "conv": "k"}, "+ conv on K"),
        ({"name": "mamba", "kernel": 2}, "kernel 4 to 2"),
    ],
)
def test_a_part_put_in_or_taken_out_is_said_as_such(mixer, text):
    [cause] = find_causes(rows(mixer["name"]) + rows(mixer, high=1e-2), "plain")
    assert cause.text == text


def test_few_seeds_have_no_interval_and_open_windows_are_bounds():
    both = rows(seeds=(1, 2)) + rows(seeds=(1, 2), low=1e-3, high=1e-2, dropout=0.1)
    [cause] = find_causes(both, "plain")
    assert cause.gains[0].interval is None
    assert cause.gains[0].is_bound


def test_causes_stand_cell_by_cell_the_largest_gain_first():
    both = rows(low=1e-3, high=1e-2)
    both += rows(low=1e-3, high=3e-3, dropout=0.2) + rows(low=3e-4, high=1e-2, dropout=0.1)
    both += rows("mamba", low=1e-3, high=1e-2)
    both += rows("mamba", low=1e-3, high=3e-3, dropout=0.1)
    assert [(cause.mixer, cause.text) for cause in find_causes(both, "plain")] == [
        ("attention", "dropout 0 to 0.1"),
        ("attention", "dropout 0 to 0.2"),
        ("mamba", "dropout 0 to 0.1"),
    ]


def test_a_gain_rests_on_the_draws_of_its_two_cells():
    """Independent of each other, and those of every other interval of the same cell."""
    uneven = rows(low=3e-4, high=1e-2), rows(low=3e-4, high=1e-2, dropout=0.1)
    failed = [
        [replace(row, accuracy=0.1) if is_last_seed(row, 1e-2) else row for row in own]
        for own in uneven
    ]
    [cause] = find_causes(failed[0] + failed[1], "plain")
    for gain in cause.gains:
        before, after = (
            find_windows(*draw_means(cell), gain.tau).widths for cell in (cause.before, cause.after)
        )
        assert gain.interval == interval_of(after - before)
        assert gain.interval[0] < -0.3 < 0.3 < gain.interval[1], "the same draws would cancel out"
        assert [interval_of(own) for own in (before, after)] == [
            seed_spread(cell, gain.tau).interval for cell in (cause.before, cause.after)
        ]


def is_last_seed(row, lr):
    return (row.spec["train"]["lr"], row.spec["seed"]) == (lr, 3)


def test_a_recipe_without_rows_has_no_causes():
    assert find_causes(study_rows(("attention",)), "zoology") == []


@pytest.mark.parametrize("tried", [(1e-2,), (3e-3, 1e-2), (1e-4, 1e-2, 1e-1)])
def test_a_cell_that_was_not_searched_says_nothing_about_its_window(tried):
    """Two rates that solve the task are no narrow window, and one that fails is not none."""
    base = rows(low=3e-4, high=1e-2)
    few = [row for row in rows(dropout=0.1) if row.spec["train"]["lr"] in tried]
    failing = [row for row in rows(dropout=0.1, low=1.0) if row.spec["train"]["lr"] in tried]
    assert find_causes(base + few, "plain") == find_causes(base + failing, "plain") == []


def test_a_window_beyond_the_grid_shows_a_gain_and_no_loss():
    narrow, wide = {"low": 1e-3, "high": 1e-2}, {"low": 1e-4, "high": 1e-1}
    [gain] = find_causes(rows(**narrow) + rows(dropout=0.1, **wide), "plain")
    [loss] = find_causes(rows(**wide) + rows(dropout=0.1, **narrow), "plain")
    [less] = find_causes(rows(low=1e-4, high=1e-2) + rows(dropout=0.1, low=1e-3), "plain")
    assert (gain.gains[0].is_firm, loss.gains[0].is_firm) == (True, True)
    assert less.gains[0].decades < 0 or not less.gains[0].is_firm
    [unsure] = find_causes(rows(low=3e-4, high=3e-2) + rows(dropout=0.1, low=3e-2), "plain")
    assert unsure.gains[0].decades < 0
    assert not unsure.gains[0].is_firm, "its upper end may lie anywhere above"
