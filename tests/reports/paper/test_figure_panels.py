"""What each kind of figure draws: rates, widths, maps, scaling, dynamics."""

from dataclasses import replace

import pytest
from figures_made import (
    FEW,
    PANELS,
    THREE,
    draw,
    drawn,
    hatched,
    legend,
    lose,
    rows_for,
    texts,
)
from study_made import SIZES, study_curve, study_rows

from recollect.analysis import ZOOLOGY_RATES, band, group_cells
from recollect.plotting.colours import line_styles
from recollect.reports.paper.figures import FIGURES
from recollect.reports.paper.figures.all_figures import DEFINITIONS
from recollect.reports.paper.figures.definition import select_cells
from recollect.reports.paper.figures.dynamics import smallest_solving
from recollect.reports.paper.figures.figure_cells import to_figure_cells
from recollect.reports.paper.zoology import star


def test_rates_lines_are_means_and_bands_the_kind_asked_for():
    for kind in ("min-max", "std", "interval"):
        figure = draw("fig1", kind=kind)
        ax = figure.axes[0]
        [cell] = group_cells([r for r in rows_for("fig1") if _is(r, "mamba", 64, 64)])
        [points] = drawn(ax, "Mamba")
        assert points == [(rate.lr, rate.mean) for rate in cell.scored_rates]
        area = [area for area in ax.collections if area.get_label() == "band"][2]
        expected = {
            round(edge, 9) for rate in cell.scored_rates for edge in band(rate.scores, kind)
        }
        assert {round(y, 9) for y in area.get_paths()[0].vertices[:, 1]} == expected
    assert "95 % interval" in " ".join(texts(figure))


def _is(row, mixer, length, width):
    return (
        row.spec["model"]["mixer"]["name"],
        row.spec["task"]["length"],
        row.spec["model"]["width"],
    ) == (
        mixer,
        length,
        width,
    )


def test_the_sparse_grid_is_dashed_in_every_panel():
    for ax in draw("fig1").axes:
        lines = [line for line in ax.get_lines() if line.get_label() == "sparse rate"]
        assert [line.get_xdata()[0] for line in lines] == list(ZOOLOGY_RATES)
        assert all(line.is_dashed() for line in lines)


def test_a_diverged_run_is_a_cross_at_zero_in_its_colour():
    rows = list(rows_for("fig1"))
    figure = draw("fig1", rows)
    diverged = [row for row in rows if row.status == "diverged" and _is(row, "mamba", 64, 64)]
    assert diverged
    ax = figure.axes[0]
    style = styles_of(select_cells(DEFINITIONS["fig1"], rows).cells)["Mamba"]
    crosses = [
        line
        for line in ax.get_lines()
        if line.get_label() == "diverged" and line.get_color() == style.colour
    ]
    assert [tuple(point) for line in crosses for point in line.get_xydata()] == [(0.1, 0.0)] * len(
        diverged
    )


def test_rates_without_a_result_are_rings_and_panels_without_runs_are_hatched():
    rows = [
        lose(row, "todo") if row.spec["train"]["lr"] == 1e-2 else row for row in rows_for("fig1")
    ]
    rows = [
        row
        for row in rows
        if not (row.spec["task"]["length"] == 128 and row.spec["model"]["width"] == 128)
    ]
    rows = [row for row in rows if not _is(row, "hyena", 64, 64)]
    figure = draw("fig1", rows)
    first, *_, last = figure.axes
    assert [x for points in drawn(first, "waiting") for x, _ in points] == [1e-2, 1e-2]
    assert "no result: Hyena" in [text.get_text() for text in first.texts]
    assert "not run" in [text.get_text() for text in last.texts]
    assert hatched(figure) == 1
    assert {"planned, no result", "not run, or no result"} <= set(legend(figure))


def test_a_variant_without_any_result_is_left_out_and_named():
    """Another sweep of the folder has planned it; a model without a result stays in its place."""
    rows = list(rows_for("fig1"))
    model = {"name": "mamba", "init": "zoology"}
    planned = [lose(row, "todo") for row in study_rows([model], rates=(1e-3, 1e-2), seeds=(1,))]
    for name in ("fig1", "fig11"):
        figure = draw(name, [*rows, *planned])
        told = " ".join(text.get_text() for text in figure.texts).replace("\n", " ")
        assert "Planned, without a result: Mamba, init zoology." in told
        shown = [*legend(figure), *(ax.get_ylabel() for ax in figure.axes)]
        assert not any("init" in text for text in shown)
    # With one result it is shown, and the others are told apart from it.
    figure = draw("fig1", [*rows, *study_rows([model], rates=(1e-3,), seeds=(1,)), *planned])
    assert "Mamba, init zoology" in legend(figure)


def styles_of(cells):
    return line_styles((cell.model, cell.mixer) for cell in cells)


def test_no_two_models_look_alike_in_grey():
    styles = (
        list(styles_of(select_cells(DEFINITIONS["fig1"], rows_for("fig1")).cells).values())
        + list(styles_of(select_cells(DEFINITIONS["fig7"], rows_for("fig7")).cells).values())[1:]
    )
    assert (
        len({style.marker for style in styles})
        == len({str(style.stroke) for style in styles})
        == len(styles)
        == 5
    )


def test_panels_of_one_model_alone_give_way_to_those_that_compare():
    more = study_rows(["mamba"], SIZES[2:3], (64, 512), (1,), (1e-3,))
    figure = draw("fig7", [*rows_for("fig7"), *more])
    assert len(figure.axes) == 2
    assert "Left out: 2 combinations" in " ".join(texts(figure))
    alone = draw("fig7", more)
    assert len(alone.axes) == 2
    assert "Not run: Mamba2, DeltaNet." in " ".join(texts(alone))


def test_copying_names_sizes_and_positions():
    assert legend(draw("fig5"))[:3] == [
        "Attention (RoPE), 3 x 64",
        "Mamba, 3 x 64",
        "Mamba, 3 x 96",
    ]


def test_width_shows_the_fine_grid_the_sparse_one_and_the_official_value():
    figure = draw("fig2")
    ax = figure.axes[PANELS["fig2"] // 3]  # Hyena, length 64
    rows = [
        row
        for row in rows_for("fig2")
        if row.spec["model"]["mixer"]["name"] == "hyena" and row.spec["task"]["length"] == 64
    ]
    best, sparse = [], []
    for cell in sorted(group_cells(rows), key=lambda cell: cell.rows[0].spec["model"]["width"]):
        best.append(max(rate.mean for rate in cell.rates))
        sparse.append(max(rate.mean for rate in cell.rates if rate.lr != 1e-3))
    assert drawn(ax, "fine") == [list(enumerate(best))]
    assert drawn(ax, "sparse") == [list(enumerate(sparse))]
    assert drawn(ax, "official") == [
        [(0, star("hyena", 64, 4, 64).accuracy), (1, star("hyena", 64, 4, 128).accuracy)]
    ]


def test_width_without_all_four_rates_or_with_another_vocabulary():
    small = {"name": "mqar", "length": 64, "pairs": 4, "vocabulary": 64}
    figure = draw("fig2", study_rows(THREE, widths=(64, 128), rates=FEW[:-1], task=small))
    assert not any(
        points
        for ax in figure.axes
        for label in ("sparse", "official")
        for line in drawn(ax, label)
        for points in line
    )
    assert "no dotted line" in " ".join(texts(figure))


def test_width_breaks_a_line_where_a_width_is_missing():
    rows = study_rows(THREE, widths=(64, 128, 256), rates=(1e-3,), seeds=(1,))
    rows = [row for row in rows if not _is(row, "mamba", 64, 128)]
    figure = draw("fig2", rows)
    [points] = drawn(figure.axes[2], "fine")
    assert [x for x, y in points if y == y] == [0, 2]
    assert hatched(figure) == 1


def test_the_map_writes_every_number_and_marks_every_hole():
    rows = [row for row in rows_for("fig3") if not _is(row, "hyena", 128, 128)]
    rows = [lose(row, "failed") if _is(row, "mamba", 128, 128) else row for row in rows]
    figure = draw("fig3", rows)
    panels = {ax.get_title(loc="left"): ax for ax in figure.axes}
    for model, count in (("Attention", 4), ("Hyena", 3), ("Mamba", 3)):
        squares = [patch for patch in panels[model].patches if patch.get_label() == "score"]
        assert len(squares) == count
    found = [text.get_text() for text in panels["Hyena"].texts + panels["Mamba"].texts]
    assert found.count("not\nrun") == found.count("no\nresult") == 1
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == [
        "(64, 4)",
        "(128, 8)",
    ]


def test_a_square_of_the_map_shows_mean_band_and_losses():
    rows = study_rows(["mamba"], depths=(1,), rates=(1e-3,))
    rows = [
        replace(row, accuracy=score) for row, score in zip(rows, (0.5, 0.75, 0.997), strict=True)
    ]
    figure = draw("fig3", [replace(rows[0], status="diverged"), *rows[1:]])
    ax = next(ax for ax in figure.axes if ax.get_title(loc="left") == "Mamba")
    assert [text.get_text() for text in ax.texts] == ["0.58", "0.00-0.99", "1"]
    assert len(drawn(ax, "diverged")) == 1


def test_scaling_draws_a_line_per_model_and_depth():
    figure = draw("fig4")
    [ax] = figure.axes
    for depth, dashed in (("1", True), ("2", False)):
        lines = [line for line in ax.get_lines() if line.get_label() == depth]
        assert len(lines) == 3
        assert all(line.is_dashed() == dashed and len(line.get_xdata()) == 2 for line in lines)
    counts = sorted({row.parameters for row in rows_for("fig4")})
    assert (
        sorted({x for line in ax.get_lines() if line.get_label() in "12" for x in line.get_xdata()})
        == counts
    )
    partial = [
        row
        for row in rows_for("fig4")
        if not (row.spec["model"]["depth"] == 2 and _is(row, "hyena", 64, 64))
    ]
    partial = [
        row
        for row in partial
        if not (row.spec["model"]["depth"] == 2 and _is(row, "hyena", 64, 128))
    ]
    assert "no result (layers): Hyena (2)" in texts(draw("fig4", partial))


@pytest.mark.parametrize(("name", "size"), [("fig4", (256, 64)), ("fig6", (256, 16))])
def test_a_figure_of_another_size_than_the_study_s_says_so(name, size):
    length, pairs = size
    told = f"The study shows length {length}, {pairs} pairs, of which there is no result."
    depths = (1, 2) if name == "fig4" else (1,)

    def drawn_at(wanted):
        rows = study_rows(["attention", "mamba"], sizes=(wanted,), depths=depths, rates=(1e-3,))
        return " ".join(texts(draw(name, rows)))

    assert told in drawn_at((64, 4))
    assert told not in drawn_at(size)


def test_an_axis_of_parameters_has_numbers_however_short_it_is():
    """Models of nearly one size, and a task of which nothing has a result."""
    rows = study_rows(("attention", "mamba"), sizes=((64, 4), (128, 8)), rates=(1e-3,), seeds=(1,))
    counts = {"attention": 340_123, "mamba": 380_456}
    rows = [
        replace(row, parameters=counts[row.spec["model"]["mixer"]["name"]])
        if row.spec["task"]["length"] == 64
        else replace(row, status="todo", accuracy=None)
        for row in rows
    ]
    short, empty = draw("fig4", rows).axes
    assert [label.get_text() for label in short.get_xticklabels()] == ["340k", "380k"]
    assert list(empty.get_xticks()) == []


def test_dynamics_draws_the_narrowest_that_solves_or_the_widest_tried():
    rows = study_rows(["attention"], widths=(64, 128, 256), depths=(1,), rates=(1e-3,), seeds=(1,))
    scored = [
        replace(row, accuracy=score) for row, score in zip(rows, (0.5, 0.97, 1.0), strict=True)
    ]
    assert smallest_solving(to_figure_cells(group_cells(scored))).width == 128
    assert (
        smallest_solving(
            to_figure_cells(group_cells([replace(row, accuracy=0.3) for row in rows]))
        ).width
        == 256
    )
    assert (
        smallest_solving(to_figure_cells(group_cells([lose(row, "todo") for row in rows]))) is None
    )


def test_dynamics_names_the_runs_it_draws_in_full_task_by_task():
    one = " ".join(" ".join(texts(draw("fig6"))).split())
    assert "best rate. Attention (128) rate 1e-3, seed " in one
    rows = study_rows(["attention"], SIZES[:2], (64,), (1,), (1e-3,))
    two = " ".join(" ".join(texts(draw("fig6", rows))).split())
    assert "length 64, 4 pairs: Attention (64) rate 1e-3, seed " in two
    assert ". length 128, 8 pairs: Attention (64) rate 1e-3, seed " in two


def test_dynamics_draws_curves_levels_and_bumps():
    rows = rows_for("fig6")
    figure = draw("fig6", rows)
    attention, score = figure.axes[0], figure.axes[3]
    assert [len(drawn(attention, label)) for label in ("test", "train", "other")] == [1, 1, 2]
    assert {text.get_text() for text in attention.texts} == {"ln V", "ln 2K", "ln K"}
    spans = [patch for patch in attention.patches if patch.get_label() == "bump"]
    assert len(spans) == 1
    assert spans[0].get_hatch()  # attention gains nothing from it
    assert [points[-1][1] for points in drawn(score, "test")] == [pytest.approx(0.26, abs=0.02)]
    mamba = [
        replace(row, accuracy=end)
        for row, end in zip(rows_for("fig6")[-3:], (1.0, 0.5, 0.75), strict=True)
    ]
    ends = {
        label: [points[-1][1] for points in drawn(draw("fig6", mamba).axes[5], label)]
        for label in ("test", "other")
    }
    assert ends["test"] == [pytest.approx(0.75, abs=0.01)]  # the median seed
    assert sorted(ends["other"]) == pytest.approx([0.5, 1.0], abs=0.01)
    assert not drawn(score, "train score")
    assert "train (loss)" in texts(figure)
    curves = {
        row.run_id: [replace(point, train_score=0.7) for point in study_curve(row)] for row in rows
    }
    known = FIGURES["fig6"](rows, curves, "min-max")
    assert [points[-1][1] for points in drawn(known.axes[3], "train score")] == [0.7]
    assert "train (loss)" not in texts(known)
    without = FIGURES["fig6"](rows, {}, "min-max")
    assert hatched(without) == 6
    assert "no curve" in texts(without)
