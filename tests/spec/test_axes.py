"""Axes of a sweep: products, zips, log grids and variants, in the order of the file."""

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from recollect.errors import SpecError
from recollect.spec import sweep
from recollect.spec.axes import log_grid, put_all, read_axes
from recollect.spec.sweep import parse_sweep

BASE = 'task = "mqar"\nmodel.mixer = "attention"\n'


def rates(text: str, *overrides: str) -> list[float]:
    return [run.train.lr for run in parse_sweep(text, overrides).runs]


# ---- axes ----


def test_no_axis_is_one_run():
    sweep = parse_sweep(BASE)
    assert len(sweep.runs) == 1
    assert (sweep.name, sweep.source) == ("sweep", BASE)


def test_axes_multiply_in_the_order_of_the_file():
    sweep = parse_sweep(
        BASE + '[sweep]\nmodel.mixer = ["attention", "mamba"]\ntrain.lr = '
        "[1e-3, 1e-2]\n"
        "seed = [1, 2, 3]\n"
    )
    found = [(run.model.mixer.name, run.train.lr, run.seed) for run in sweep.runs]
    assert found == list(itertools.product(["attention", "mamba"], [1e-3, 1e-2], [1, 2, 3]))


@pytest.mark.parametrize("key", ["train.lr", '"train.lr"', 'train."lr"', '"train".lr'])
def test_a_key_may_be_nested_or_quoted(key):
    assert rates(f"{BASE}[sweep]\n{key} = [0.5, 0.25]\n") == [0.5, 0.25]


def test_an_axis_stands_above_the_base():
    assert rates("train.lr = 1.0\n" + BASE + "[sweep]\ntrain.lr = [0.5]\n") == [0.5]


def test_options_of_a_mixer_can_be_an_axis():
    runs = parse_sweep(BASE + "[sweep]\nmodel.mixer.heads = [1, 2]\n").runs
    assert [run.model.mixer.heads for run in runs] == [1, 2]


def test_zipped_lists_move_together():
    text = (
        BASE
        + "[sweep]\nseed = [1, 2]\n[[sweep.zip]]\ntask.length = [64, 128]\ntask.pairs = [4, 8]\n"
    )
    found = [(run.seed, run.task.length, run.task.pairs) for run in parse_sweep(text).runs]
    assert found == [(1, 64, 4), (1, 128, 8), (2, 64, 4), (2, 128, 8)]


def test_two_zips_multiply():
    text = (
        BASE + "[[sweep.zip]]\nseed = [1, 2]\ndata_seed = [3, "
        "4]\n[[sweep.zip]]\ntrain.lr = "
        "[0.5, 0.25]\ntrain.clip = [1, 2]\n"
    )
    assert len(parse_sweep(text).runs) == 4


# ---- log grids ----


def test_a_grid_is_equally_spaced_in_the_logarithm_with_both_ends():
    text = BASE + "[sweep]\ntrain.lr = { from = 1e-4, to = 1e-1, points = 7 }\n"
    assert rates(text) == [1e-4, 3.162e-4, 1e-3, 3.162e-3, 1e-2, 3.162e-2, 1e-1]


@given(st.floats(1e-6, 1), st.floats(1.5, 1e6), st.integers(2, 30))
def test_grid_ends_are_the_numbers_that_were_written(low, ratio, points):
    grid = log_grid(low, low * ratio, points)
    assert (len(grid), grid[0], grid[-1]) == (points, low, low * ratio)
    expected = [low * ratio ** (i / (points - 1)) for i in range(points)]
    assert all(math.isclose(a, b, rel_tol=5.1e-4) for a, b in zip(grid, expected, strict=True))


def test_a_grid_of_one_point_is_its_beginning():
    assert rates(BASE + "[sweep]\ntrain.lr = { from = 1e-3, to = 1e-1, points = 1 }\n") == [1e-3]


# ---- variants ----


def test_variants_change_one_thing_at_a_time():
    text = BASE + (
        "[sweep]\nseed = [1, 2]\n[[sweep.variant]]\ntrain.warmup = [0.0, 0.3]\n"
        "[[sweep.variant]]\nmodel.dropout = [0.5]\ntrain.clip = [1.0]\n"
    )
    found = [
        (run.train.warmup, run.model.dropout, run.train.clip, run.seed)
        for run in parse_sweep(text).runs
    ]
    assert found == [
        (warmup, dropout, clip, seed)
        for warmup, dropout, clip in [(0.1, 0, 0), (0, 0, 0), (0.3, 0, 0), (0.1, 0.5, 1)]
        for seed in (1, 2)
    ]


@pytest.mark.parametrize("where", ['where.model.mixer = "mamba"', 'where.model.mixer = ["mamba"]'])
@pytest.mark.parametrize("mamba", ['"mamba"', '{ name = "mamba", state = 8 }'])
def test_a_variant_of_some_runs_alone(where, mamba):
    text = BASE + (
        f'[sweep]\nmodel.mixer = ["attention", {mamba}]\n'
        f'[[sweep.variant]]\n{where}\nmodel.mixer.init = ["zoology"]\n'
    )
    runs = parse_sweep(text).runs
    assert [run.model.mixer.name for run in runs] == ["attention", "mamba", "mamba"]
    assert [run.model.mixer.init for run in runs[1:]] == ["official", "zoology"]
    assert runs[1].model.mixer.state == runs[2].model.mixer.state


def test_a_variant_that_changes_nothing_adds_no_run():
    text = BASE + "[sweep]\nseed = [1, 2]\n[[sweep.variant]]\ntrain.warmup = [0.0, 0.1, 0.3]\n"
    assert [run.train.warmup for run in parse_sweep(text).runs] == [0.1, 0.1, 0.0, 0.0, 0.3, 0.3]
    assert len(parse_sweep(text, ["train.warmup=0.3"]).runs) == 6


def test_an_override_reaches_the_mixers_of_variants():
    text = BASE + '[[sweep.variant]]\nmodel.mixer = ["delta_net"]\n'
    for heads, overrides in ((1, []), (2, ["model.mixer.heads=2"])):
        runs = parse_sweep(text, overrides).runs
        assert [(run.model.mixer.name, run.model.mixer.heads) for run in runs] == [
            ("attention", heads),
            ("delta_net", heads),
        ]


def test_a_variant_with_two_conditions_is_of_runs_that_meet_both():
    text = BASE + (
        '[sweep]\nmodel.mixer = ["attention", "mamba"]\nseed = [1, 2]\n'
        '[[sweep.variant]]\nwhere.model.mixer = "mamba"\nwhere.seed = 2\ntrain.clip = [1.0]\n'
    )
    changed = [run for run in parse_sweep(text).runs if run.train.clip]
    assert [(run.model.mixer.name, run.seed) for run in changed] == [("mamba", 2)]


# ---- tables ----


def test_the_size_counts_the_product_once_for_each_variant():
    table = {"seed": [1, 2, 3], "variant": [{"train.warmup": [0.0, 0.3]}, {"train.clip": [1.0]}]}
    assert read_axes(table).size == 3 * (1 + 3)
    assert read_axes({"seed": [1, 2, 3]}).size == 3


@pytest.mark.parametrize(
    ("grid", "points"),
    [
        ({"from": 1e-4, "to": 1.0, "points": 10_000}, 10_000),
        ({"from": 1e-4, "to": 1.0, "points": 10_001}, None),
        ({"from": 1e-4, "to": 1.0, "points": True}, None),
        ({"from": 1e-4, "to": 1.0, "points": 2.0}, None),
        ({"from": True, "to": 2.0, "points": 2}, None),
        ({"from": 1e-4, "to": math.inf, "points": 2}, None),
        ({"from": 0.5, "to": 0.5, "points": 1}, 1),
        ({"from": 0.5, "to": 0.5, "points": 2}, None),
    ],
    ids=repr,
)
def test_what_a_grid_may_be(grid, points):
    if points is None:
        with pytest.raises(SpecError, match=r"^sweep\.train\.lr"):
            read_axes({"train.lr": grid})
    else:
        (axis,) = read_axes({"train.lr": grid}).axes
        assert len(axis.points) == points


@pytest.mark.parametrize("axes", [100, 101])
def test_how_many_axes_make_sense(axes):
    table = {f"axis{i}": [1] for i in range(axes)}
    if axes == 100:
        assert read_axes(table).size == 1
    else:
        with pytest.raises(SpecError, match="101 axes; at most 100 make sense"):
            read_axes(table)


def test_a_whole_table_is_set_before_what_is_in_it_and_is_not_shared():
    mixer = {"name": "attention"}
    for values in ({"model.mixer.heads": 2, "model.mixer": mixer}, {"model.mixer": mixer}):
        table = {"model": {"width": 64}}
        put_all(table, values)
        heads = {"heads": 2} if len(values) == 2 else {}
        assert table == {"model": {"width": 64, "mixer": {"name": "attention"} | heads}}
        assert mixer == {"name": "attention"}


def test_only_a_mixer_or_a_task_can_be_named_by_a_text():
    table = {"task": "mqar", "train": "fast"}
    put_all(table, {"task.pairs": 8})
    assert table["task"] == {"name": "mqar", "pairs": 8}
    with pytest.raises(SpecError, match="train = 'fast' is no table, so nothing can be set"):
        put_all(table, {"train.lr": 1.0})


@pytest.mark.parametrize("count", [4, 5])
def test_as_many_runs_as_fit_and_not_one_more(monkeypatch, count):
    monkeypatch.setattr(sweep, "MAX_RUNS", 4)
    text = f"{BASE}[sweep]\nseed = {list(range(count))}\n"
    if count == 4:
        assert len(parse_sweep(text).runs) == 4
    else:
        with pytest.raises(SpecError, match="sweep: 5 runs; at most 4 fit"):
            parse_sweep(text)


@pytest.mark.parametrize("letters", [200, 201])
def test_names_and_keys_have_at_most_two_hundred_letters(letters):
    name, key = "n" * letters, "k" * letters
    if letters == 200:
        assert parse_sweep(f'name = "{name}"\n{BASE}').name == name
        with pytest.raises(SpecError, match="unknown key"):
            parse_sweep(f"{BASE}{key} = 1\n")
    else:
        with pytest.raises(SpecError, match=r"name = .*: must be a text of 1 to 200"):
            parse_sweep(f'name = "{name}"\n{BASE}')
        with pytest.raises(SpecError, match=r"key .*: must be a text of at most 200"):
            parse_sweep(f"{BASE}{key} = 1\n")


@pytest.mark.parametrize("levels", [8, 9])
def test_tables_are_nested_eight_levels_deep_at_most(levels):
    table: object = 1
    for _ in range(levels):
        table = {"a": table}
    words = "a: unknown key" if levels == 8 else "nested more than 8 levels deep"
    with pytest.raises(SpecError, match=words):
        sweep.build_sweep(table)
