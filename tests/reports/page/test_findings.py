"""How mixers compare at a task and size, in sentences."""

import re

from rows_made import make_sweep

from recollect.analysis import group_cells, summarise
from recollect.plotting.coordinates import find_coordinates
from recollect.reports.page.findings import comparisons

GRID = {1e-4: [0.1], 3e-4: [0.99], 1e-3: [0.99], 3e-3: [0.99], 1e-2: [0.1]}
TWO_RATES = {1e-3: [0.99], 2e-3: [0.99]}


def told(*rows) -> str:
    cells = group_cells([row for own in rows for row in own])
    (compared,) = comparisons(summarise(cells, {}), find_coordinates(cells))
    return " ".join(compared.sentences)


def test_beside_known_windows_two_rates_are_no_window():
    text = told(make_sweep(GRID, "attention"), make_sweep(TWO_RATES, "mamba"))
    assert "The widest window is that of attention, 1.1 decades" in text
    assert "mamba" not in text.split(". ")[0]


def test_where_no_window_is_known_the_least_that_they_are_is_told():
    text = told(make_sweep(TWO_RATES, "attention"), make_sweep({1e-3: [0.99], 3e-3: [1]}, "mamba"))
    assert "The widest window is that of mamba, at least 0.5 decades" in text


def evaluated(rows, count: int):
    for row in rows:
        row.spec["train"]["evaluations"] = count
    return rows


def test_how_often_runs_were_evaluated_is_told_only_where_it_tells_lines_apart():
    small, twice = (evaluated(make_sweep(GRID, "mamba", width=32), count) for count in (20, 40))
    wide = [*make_sweep(GRID, "attention"), *evaluated(make_sweep(GRID, "mamba"), 20)]
    cells = group_cells([*wide, *small, *twice])
    places = find_coordinates(cells)
    assert any("evaluations" in place.label for place in places if place.width == "64")
    at_64, at_32 = (" ".join(one.sentences) for one in comparisons(summarise(cells, {}), places))
    assert "then mamba (1.1)" in at_64
    assert "evaluations" not in at_64
    assert {"mamba, evaluations 20", "mamba, evaluations 40"} <= set(
        re.findall(r"mamba, evaluations \d+", at_32)
    )
