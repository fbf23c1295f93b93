"""Points and lines of scaling curves, and the search over four rates alone."""

import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import (
    ZOOLOGY_RATES,
    best_points,
    group_cells,
    is_sparse_rate,
    rank_correlation,
    scaling_lines,
    sparse_best,
)


def widths(mixer="mamba", scores=((64, 0.3), (256, 0.9), (128, 0.5)), **model):
    rows = []
    for width, score in scores:
        rows += make_sweep(
            {1e-3: [0.1, 0.2], 1e-2: [score - 0.1, score + 0.1]}, mixer, width=width, **model
        )
    return rows


def test_a_point_is_a_cell_at_its_best_rate():
    points = best_points(group_cells(widths()))
    assert [(point.x, point.lr) for point in points] == [(64, 1e-2), (128, 1e-2), (256, 1e-2)]
    assert [point.mean for point in points] == pytest.approx([0.3, 0.5, 0.9])
    assert (points[0].low, points[0].high) == pytest.approx((0.2, 0.4))
    assert points[0].scores == pytest.approx({1: 0.2, 2: 0.4})


def test_sizes_come_from_whichever_row_has_them_and_can_be_the_axis():
    rows = [
        make_row(seed=1, model={"width": 64}, score=None, status="todo"),
        make_row(seed=2, model={"width": 64}, parameters=900, state_size=5),
        make_row(seed=2, model={"width": 128}, parameters=400, state_size=7),
        make_row(seed=2, model={"width": 256}),
    ]
    assert [point.x for point in best_points(group_cells(rows), "parameters")] == [400, 900]
    assert [point.x for point in best_points(group_cells(rows), "state_size")] == [5, 7]


def test_cells_without_a_result_or_without_the_key_have_no_point():
    rows = [make_row(score=None, status="todo"), make_row("mamba")]
    assert [point.cell.mixer for point in best_points(group_cells(rows))] == ["mamba"]
    assert best_points(group_cells(rows), "model.nothing") == []


def test_an_axis_of_words_keeps_the_order_of_the_sweep():
    rows = [make_row(model={"positions": positions}) for positions in ("none", "learned", "alibi")]
    assert [point.x for point in best_points(group_cells(rows), "model.positions")] == [
        "none",
        "learned",
        "alibi",
    ]


def test_lines_run_along_one_setting():
    rows = widths(depth=1) + widths(depth=2) + widths("attention", [(64, 0.2)], depth=1)
    lines = scaling_lines(group_cells(rows), "model.width")
    assert [line.name for line in lines] == [
        "mamba, depth 1",
        "mamba, depth 2",
        "attention, depth 1",
    ]
    assert [[point.x for point in line.points] for line in lines] == [
        [64, 128, 256],
        [64, 128, 256],
        [64],
    ]


def test_pairs_and_batch_move_with_the_length():
    rows = []
    for length, pairs, batch in ((64, 4, 512), (256, 16, 256)):
        row = make_row("mamba")
        row.spec["task"] |= {"length": length, "pairs": pairs}
        row.spec["train"]["batch"] = batch
        rows.append(row)
    (line,) = scaling_lines(group_cells(rows), "task.length")
    assert [point.x for point in line.points] == [64, 256]
    assert len(scaling_lines(group_cells(rows), "model.width")) == 2


@pytest.mark.parametrize(
    ("scores", "coefficient"),
    [
        ((0.1, 0.2, 0.9), 1.0),
        ((0.9, 0.5, 0.1), -1.0),
        ((0.1, 0.9, 0.5), 0.5),
        ((0.4, 0.4, 0.4), None),
        ((0.4,), None),
    ],
)
def test_rank_correlation(scores, coefficient):
    points = best_points(
        group_cells(widths(scores=list(zip((64, 128, 256), scores, strict=False))))
    )
    expected = coefficient if coefficient is None else pytest.approx(coefficient)
    assert rank_correlation(points) == expected


def test_equal_scores_share_their_rank():
    points = best_points(group_cells(widths(scores=[(64, 0.2), (128, 0.2), (256, 0.9)])))
    assert rank_correlation(points) == pytest.approx(3**0.5 / 2)


# --- the sparse grid


def test_the_best_of_zoologys_four_rates():
    grid = {1e-4: [0.1], 4.642e-4: [0.4], 1e-3: [1.0], 2.154e-3: [0.3], 1e-2: [0.2], 1e-1: [0.9]}
    (cell,) = group_cells(make_sweep(grid))
    assert cell.best.lr == 1e-3
    assert (sparse_best(cell).lr, sparse_best(cell).mean) == (4.642e-4, 0.4)


@pytest.mark.parametrize("gone", ZOOLOGY_RATES)
def test_fewer_than_the_four_rates_are_another_search(gone):
    rows = make_sweep({rate: [0.5] for rate in (*ZOOLOGY_RATES, 3e-3)})
    (cell,) = group_cells([row for row in rows if row.spec["train"]["lr"] != gone])
    assert sparse_best(cell) is None


def test_rates_are_told_apart():
    assert [is_sparse_rate(rate) for rate in (4.64e-4, 4.642e-4, 5e-4, 1e-3, 1e-2)] == [
        True,
        True,
        False,
        False,
        True,
    ]
