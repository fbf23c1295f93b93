"""From cells to what the page draws: what is said of each mixer, and the numbers, rounded but not
bent.
"""

import math

import pytest
from rows_made import make_curve, make_row, make_sweep

from recollect.analysis import group_cells, summarise
from recollect.analysis.bands import BANDS, band
from recollect.plotting.coordinates import find_coordinates
from recollect.reports.page.findings import mixer_findings
from recollect.reports.page.plot_data import MAX_POINTS, MIN_POINTS, plot_data, to_json


def data_of(rows, curves=None, tau=0.9):
    cells = group_cells(rows)
    return plot_data(
        summarise(cells, curves or {}, tau), find_coordinates(cells), curves or {}, tau
    )


def findings_of(rows):
    cells = group_cells(rows)
    return mixer_findings(summarise(cells, {}), find_coordinates(cells))


# --- findings


def test_a_mixer_with_several_cells_has_one_sentence():
    rows = make_sweep({1e-4: [0.3], 1e-3: [1.0], 1e-2: [0.3]}, width=64)
    rows += make_sweep({1e-4: [0.9], 1e-3: [1.0], 1e-2: [0.3]}, width=128)
    rows += make_sweep({1e-4: [0.3], 1e-3: [0.5], 1e-2: [0.3]}, width=256)
    (finding,) = findings_of(rows)
    assert finding.sentence == (
        "attention solves 2 of 3 cells; its narrowest window is 0.3 decades (7.2e-4 to 1.39e-3) "
        "at width 64, its widest at least 1.1 decades (1e-4 to 1.39e-3) at width 128."
    )
    assert finding.cautions == ["1 window reaches the edge of the grid."]
    assert finding.solved


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            make_sweep({1e-4: [0.3], 1e-3: [1.0], 1e-2: [0.3]}),
            "attention solves it (best 1.000 at 1e-3) over 0.3 decades",
        ),
        (
            make_sweep({1e-3: [0.4]}, width=64) + make_sweep({1e-3: [0.5]}, width=128),
            "attention solves none of 2 cells: best 0.500 at width 128, below 0.9 (chance 0.250).",
        ),
        (
            make_sweep({1e-3: [1.0]}, width=64) + make_sweep({1e-3: [1.0]}, width=128),
            "attention solves all 2 cells; with a single rate tried, nothing is known about the "
            "window.",
        ),
        (
            [make_row(score=None, status="todo", model={"width": width}) for width in (1, 2)],
            "attention has no result yet in any of 2 cells.",
        ),
        (
            [make_row(model={"width": 1}), make_row(score=None, status="todo", model={"width": 2})],
            "attention solves all 1 of 2 cells with a result",
        ),
    ],
)
def test_the_sentence_says_no_more_than_is_known(rows, words):
    (finding,) = findings_of(rows)
    assert finding.sentence.startswith(words)


# --- data


def test_rates_carry_means_bands_and_runs():
    rows = make_sweep({1e-3: [0.5, 0.75]})
    rows += [
        make_row(lr=1e-2, seed=1, status="diverged", score=None),
        make_row(lr=1e-2, seed=2, status="running", score=0.9),
    ]
    (cell,) = data_of(rows)["cells"]
    first, second = cell["rates"]
    assert (first["lr"], first["mean"]) == (1e-3, 0.625)
    assert first["bands"] == [
        [round(edge, 4) for edge in band([0.5, 0.75], kind)] for kind in BANDS
    ]
    assert [run[1:] for run in first["runs"]] == [[1, "done", 0.5], [2, "done", 0.75]]
    assert [run[1:] for run in second["runs"]] == [[1, "diverged", 0.0], [2, "running", None]]
    assert second["mean"] == 0.0
    assert (cell["best"], cell["window"], cell["chance"]) == (0, None, 0.25)


def test_a_cell_without_a_result_has_no_best_rate():
    (cell,) = data_of([make_row(status="todo", score=None)])["cells"]
    assert cell["best"] is None
    assert "bands" not in cell["rates"][0]
    assert cell["rates"][0]["runs"] == [], "what has not begun takes no room"


def test_a_score_below_one_is_never_rounded_up_to_it():
    (cell,) = data_of([make_row(score=0.99999)])["cells"]
    assert cell["rates"][0]["mean"] == 0.9999


def test_windows_sizes_and_levels_are_as_the_analysis_has_them():
    rows = make_sweep({1e-4: [0.95], 1e-3: [1.0], 1e-2: [0.5]})
    data = data_of([*rows, make_row("mamba", parameters=7, state_size=3)])
    low, high, open_low, open_high = data["cells"][0]["window"]
    assert (low, open_low, open_high) == (1e-4, True, False)
    assert high == pytest.approx(10**-2.8)
    assert (data["cells"][1]["parameters"], data["cells"][1]["state"]) == (7, 3)
    assert data["cells"][0]["levels"]["ln K"] == pytest.approx(math.log(4), rel=1e-3)


@pytest.mark.parametrize(
    "task", [{"name": "unknown"}, {"name": "mqar", "pairs": -1}, {"name": ["mqar"]}, {}]
)
def test_a_task_that_is_not_known_here_has_no_levels(task):
    row = make_row()
    row.spec["task"] = task
    (cell,) = data_of([row])["cells"]
    assert cell["levels"] == {}


def test_curves_are_thinned_and_what_is_not_finite_is_a_gap():
    rows = make_sweep({1e-3: [1.0, 1.0]})
    curves = {
        rows[0].run_id: make_curve([0.5] * 200),
        rows[1].run_id: make_curve([0.5] * 200, loss=math.nan),
    }
    data = data_of(rows, curves)
    (first, second) = (run[4] for run in data["cells"][0]["rates"][0]["runs"])
    assert first[0] == second[0] == 0, "runs evaluated at the same steps share them"
    assert (len(data["steps"][0]), data["steps"][0][0], data["steps"][0][-1]) == (
        MAX_POINTS,
        100,
        20_000,
    )
    assert first[1:] == [[2.0] * MAX_POINTS, [0.5] * MAX_POINTS, [2.0] * MAX_POINTS]
    assert second[1] == [None] * MAX_POINTS


def test_train_losses_are_those_of_the_best_rate():
    rows = make_sweep({1e-3: [1.0], 1e-2: [0.3]})
    data = data_of(rows, {row.run_id: make_curve([0.5]) for row in rows})
    assert [len(rate["runs"][0][4]) for rate in data["cells"][0]["rates"]] == [4, 3]


def test_windows_against_tau_fall_and_have_intervals_from_three_seeds_on():
    few = make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.9], 1e-2: [0.6, 0.3]})
    many = make_sweep({1e-4: [0.3] * 3, 1e-3: [1.0] * 3, 1e-2: [0.6] * 3}, "mamba")
    first, second = (cell["taus"] for cell in data_of(few + many)["cells"])
    assert [point[0] for point in first] == sorted(point[0] for point in first)
    for taus in (first, second):
        decades = [point[1] for point in taus]
        assert decades == sorted(decades, reverse=True)
    assert all(point[3:] == [None, None] for point in first)
    assert all(point[3] <= point[1] <= point[4] for point in second)


def test_many_cells_have_no_intervals(monkeypatch):
    monkeypatch.setattr("recollect.reports.page.plot_data.MOST_DRAWN", 0)
    [cell] = data_of(make_sweep({1e-3: [1.0] * 3, 1e-2: [0.2] * 3}))["cells"]
    assert all(point[3:] == [None, None] for point in cell["taus"])


def test_many_curves_share_what_room_there_is(monkeypatch):
    monkeypatch.setattr("recollect.reports.page.plot_data.MAX_ALL_POINTS", 40)
    rows = [make_row(lr=10**-power) for power in (1, 2)]
    curves = {row.run_id: make_curve([0.5] * 100) for row in rows}
    assert [len(steps) for steps in data_of(rows, curves)["steps"]] == [20]
    monkeypatch.setattr("recollect.reports.page.plot_data.MAX_ALL_POINTS", 1)
    assert [len(steps) for steps in data_of(rows, curves)["steps"]] == [MIN_POINTS]


def test_labels_look_alike_nowhere():
    labels = data_of([make_row(f"mixer{index}") for index in range(20)])["labels"]
    assert len({(label["light"], label["symbol"], label["dash"]) for label in labels}) == 20


def test_json_can_stand_in_a_script_element():
    text = to_json({"</script>": "\u2028\u2029<!--&\ud800"})
    assert text == '{"\\u003c/script\\u003e":"\\u2028\\u2029\\u003c!--\\u0026\\ud800"}'
    with pytest.raises(ValueError, match="not JSON compliant"):
        to_json(math.nan)
