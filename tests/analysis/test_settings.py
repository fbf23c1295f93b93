"""Settings by flat key, and rows chosen by them."""

import pytest
from rows_made import make_row

from recollect.analysis import (
    flatten,
    get_setting,
    select_rows,
)

ROWS = [
    make_row("attention", model={"depth": 1}),
    make_row("mamba", model={"depth": 1, "width": 128}),
    make_row("mamba", lr=1e-2, model={"mixer": {"name": "mamba", "state": 32, "extra": {}}}),
]


def test_a_flat_key_reads_one_setting():
    assert get_setting(ROWS[0], "task.length") == 64
    assert get_setting(ROWS[2], "model.mixer.state") == 32
    assert get_setting(ROWS[2], "model.mixer.extra") == {}
    assert get_setting(ROWS[0], "seed") == 42


@pytest.mark.parametrize(
    "key", ["model.mixer.state", "model.mixer", "nothing", "seed.inner", "task.name.length"]
)
def test_what_is_no_setting_of_a_run_reads_as_the_default(key):
    assert get_setting(ROWS[0], key) is None
    assert get_setting(ROWS[0], key, 7) == 7


@pytest.mark.parametrize(
    ("conditions", "found"),
    [
        ({}, [0, 1, 2]),
        ({"model.depth": 1}, [0, 1]),
        ({"model.depth": 1, "model.mixer.name": "mamba"}, [1]),
        ({"model.width": (128, 256)}, [1]),
        ({"model.width": [64, 128]}, [0, 1, 2]),
        ({"model.mixer.name": {"attention", "hyena"}}, [0]),
        ({"train.lr": lambda lr: lr > 5e-3}, [2]),
        # A run without the setting is not asked about it, so the function need not expect None.
        ({"model.mixer.state": lambda state: state > 16}, [2]),
        ({"model.mixer.state": None}, [0, 1]),
        ({"model.depth": ()}, []),
    ],
)
def test_rows_meet_all_conditions(conditions, found):
    assert select_rows(ROWS, conditions) == [ROWS[index] for index in found]


def test_flatten_keeps_lists_and_empty_tables():
    assert flatten({"a": {"b": {"c": [1, 2]}, "d": {}}, "e": None}) == {
        "a.b.c": [1, 2],
        "a.d": {},
        "e": None,
    }
