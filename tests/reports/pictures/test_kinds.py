"""What each kind of picture shows: rates, windows, curves, scaling."""

import itertools
import math
from dataclasses import replace

import pytest
from pictures_made import NARROW, OPEN, WIDE, draw, lines, points, source, two_mixers, words
from rows_made import make_curve, make_row, make_sweep

from recollect.analysis import ZOOLOGY_RATES, group_cells
from recollect.analysis.seeds import TAUS
from recollect.errors import SpecError
from recollect.reports.pictures import Look, PictureRequest, Source, rates

# ---- rates ----


def test_rates_show_means_bands_crosses_and_windows():
    rows = [*two_mixers(), make_row("leaky", 1.0, 1, status="diverged", diverged_step=3)]
    (ax,) = draw("rates", source(rows)).axes
    attention, leaky = group_cells(rows)
    [mean] = lines(ax, "Attention")
    assert points(mean) == [(rate.lr, rate.mean) for rate in attention.rates]
    crosses = [point for line in lines(ax, "diverged") for point in points(line)]
    assert crosses == [(1.0, rows[-1].score)]
    bars = [tuple(line.get_xdata()) for line in lines(ax, "window")]
    assert bars == [
        (window.low, window.high) for cell in (attention, leaky) if (window := cell.window(0.9))
    ]
    drawn = {line.get_xdata()[0] for line in lines(ax, "sparse rate")}
    assert drawn == set(ZOOLOGY_RATES)


def test_rates_within_a_decade_are_labelled_in_one_way():
    figure = draw("rates", source(make_sweep({1e-3: [0.5], 4.6e-3: [0.6]})))
    figure.draw_without_rendering()
    axis = figure.axes[0].xaxis
    assert [label.get_text() for label in axis.get_ticklabels()] == ["1e-3", "3e-3"]
    assert not any(label.get_text() for label in axis.get_ticklabels(minor=True))


def test_an_open_window_ends_in_an_arrow():
    (ax,) = draw("rates", source(make_sweep(OPEN))).axes
    assert [line.get_marker() for line in lines(ax, "window's end")] == ["|", ">"]


def test_a_row_of_panels_has_room_for_its_own_windows_alone():
    rows = [row for mixer in ("a", "b", "c") for row in make_sweep(WIDE, mixer, width=16)]
    for width in (32, 64, 128):
        rows += make_sweep(WIDE, width=width)
    figure = draw("rates", source(rows))
    figure.draw_without_rendering()
    many, *_, one = figure.axes
    assert many.get_ylim()[1] - one.get_ylim()[1] == pytest.approx(2 * rates.BAR_STEP)
    inches = [
        ax.get_window_extent().height / (ax.get_ylim()[1] - ax.get_ylim()[0]) for ax in (many, one)
    ]
    assert inches[0] == pytest.approx(inches[1], rel=0.01), "a score is as high in every row"


# ---- windows ----


def test_bars_are_equally_thick_in_rows_of_many_and_of_few():
    rows = [row for mixer in "abcde" for row in make_sweep(WIDE, mixer, width=16)]
    rows += [row for width in (32, 64) for row in make_sweep(WIDE, width=width)]
    figure = draw("windows", source(rows))
    figure.draw_without_rendering()
    many, _, few = figure.axes
    assert len(many.patches) > len(few.patches)
    thick = [ax.patches[0].get_window_extent().height for ax in (many, few)]
    assert thick[0] == pytest.approx(thick[1], rel=0.01)


def test_windows_are_sorted_by_width_and_a_bar_stands_for_each_level():
    rows = make_sweep(NARROW, "leaky") + make_sweep(WIDE)
    rows += make_sweep({lr: [0.5, 0.4] for lr in (1e-3, 1e-2, 1e-1)}, "lost")
    rows += make_sweep({1e-3: [0.3, 0.2]}, "new")
    (ax,) = draw("windows", source(rows)).axes
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == ["Attention", "leaky", "lost", "new"]
    cell = group_cells(make_sweep(WIDE))[0]
    expected = [window for tau in TAUS if (window := cell.window(tau))]
    bars = [patch for patch in ax.patches if patch.get_y() < 0.5]
    assert [patch.get_label() for patch in bars] == [f"W({window.tau:g})" for window in expected]
    for patch, window in zip(bars, expected, strict=True):
        assert patch.get_x() == window.low
        assert math.isclose(patch.get_x() + patch.get_width(), window.high)
    notes = [text.get_text() for text in ax.texts]
    assert "best 0.450 at 1e-2" in notes
    assert "none" in notes
    assert "1 rate tried" in notes, "of a window nothing is known"


def test_the_white_mark_is_inside_the_window():
    """Where a single rate elsewhere scores a little more than the whole window, too."""
    scores = {1e-4: 1.0, 1e-3: 0.2, 1e-2: 0.995, 3e-2: 0.996, 1e-1: 0.1}
    (ax,) = draw("windows", source(make_sweep({lr: [own] for lr, own in scores.items()}))).axes
    [mark] = lines(ax, "best rate")
    assert list(mark.get_xdata()) == [3e-2]


def test_a_few_rates_are_no_window():
    """Two that solve the task show that it can be solved, not over how many decades."""
    few = make_sweep({1e-3: [1.0, 1.0, 1.0], 2e-3: [1.0, 1.0, 1.0]}, "new")
    figure = draw("windows", source(make_sweep(WIDE) + few))
    notes = [text.get_text() for text in figure.axes[0].texts]
    assert "2 rates tried" in notes
    assert not any("≥ 0.3" in note for note in notes)
    assert "Rates tried: too few to know a window by." in words(figure)
    assert "too few" not in words(draw("windows", source(make_sweep(WIDE))))


def test_three_seeds_give_intervals_and_an_open_window_a_bound():
    rows = make_sweep({lr: [*scores, scores[0]] for lr, scores in OPEN.items()})
    (ax,) = draw("windows", source(rows)).axes
    [note] = [text.get_text() for text in ax.texts]
    assert note.startswith("≥ 2.1 [")
    assert len(lines(ax, "edge over seeds")) == 1, "the other edge is the grid's"


def test_long_names_leave_windows_their_width():
    def width(name):
        figure = draw("windows", source(make_sweep(WIDE, name) + make_sweep(WIDE, width=128)))
        figure.draw_without_rendering()
        return figure.axes[0].get_window_extent().width

    assert width("a_mixer_with_quite_a_long_name") > 0.95 * width("short")


# ---- curves ----


def test_curves_show_both_losses_and_the_score_of_the_median_seed_in_full():
    rows = make_sweep({1e-4: [0.1, 0.1, 0.1], 1e-3: [0.9, 0.5, 0.7]})
    curves = {row.run_id: make_curve([0.1, row.score]) for row in rows}
    train, test, score = draw("curves", source(rows, curves=curves)).axes
    assert [ax.get_title(loc="left") for ax in (train, test, score)] == [
        "train loss",
        "test loss",
        "accuracy",
    ]
    [full] = lines(score, "Attention")
    assert list(full.get_ydata()) == [0.1, 0.7]
    assert sorted(line.get_ydata()[-1] for line in lines(score, "other seed")) == [0.5, 0.9]


def test_curves_without_an_evaluation_are_refused():
    with pytest.raises(SpecError, match="no run has an evaluation"):
        PictureRequest("curves").draw(Source("mine", two_mixers(), {}))


# ---- scaling ----


def test_scaling_shows_best_score_and_window_against_the_first_size_that_differs():
    rows = make_sweep(NARROW, width=64) + make_sweep(OPEN, width=128)
    upper, lower = draw("scaling", source(rows)).axes
    [best] = lines(upper, "Attention")
    assert points(best) == [(64, 0.985), (128, 1.0)]
    [decades] = lines(lower, "Attention")
    cells = group_cells(rows)
    assert points(decades) == [(64, cells[0].window().decades), (128, cells[1].window().decades)]
    assert lower.get_xlabel() == "width"
    assert any("at least" in str(group.get_label()) for group in lower.containers)


def test_scaling_shows_a_decade_where_nothing_is_solved():
    nowhere = {1e-3: [0.2, 0.3], 1e-2: [0.1, 0.2]}
    rows = make_sweep(nowhere, width=64) + make_sweep(nowhere, width=128)
    _, lower = draw("scaling", source(rows)).axes
    assert lower.get_ylim() == (-0.05, 1.0)


def test_scaling_leaves_out_panels_of_one_size_and_says_so():
    rows = make_sweep(NARROW, width=64) + make_sweep(WIDE, width=128)
    rows += make_sweep(NARROW, "leaky", width=64, depth=1)
    figure = draw("scaling", source(rows))
    assert [ax.get_title(loc="left") for ax in figure.axes[:1]] == ["2 layers"]
    assert len(figure.axes) == 2
    [names] = [legend.get_texts() for legend in figure.legends]
    assert "leaky" not in [name.get_text() for name in names]
    said = " ".join(text.get_text() for text in figure.texts)
    assert "Not shown, of one width each: 1 layer." in said


def test_ticks_of_scaling_leave_room_for_their_labels():
    sizes = (574_000, 575_000, 578_000, 588_000, 589_000, 590_000, 601_000)
    rows = [
        replace(row, parameters=size)
        for size in sizes
        for row in make_sweep(NARROW, f"mixer{size}")
    ]
    figure = draw("scaling", source(rows))
    figure.draw_without_rendering()
    labels = [label.get_window_extent() for label in figure.axes[1].get_xticklabels()]
    assert len(labels) == 4
    assert all(one.x1 < two.x0 for one, two in itertools.pairwise(labels))


def test_a_band_of_one_point_is_a_line():
    rows = make_sweep({1e-3: [0.2, 0.8]}, "one", width=8)
    rows += make_sweep({1e-3: [0.5, 0.5]}, "two", width=16)
    figure = draw("scaling", source(rows))
    upright = [
        lines.get_segments()[0][:, 1].tolist()
        for lines in figure.axes[0].collections
        if lines.get_label() == "band"
    ]
    assert upright == [[0.2, 0.8], [0.5, 0.5]]


def test_scaling_against_what_was_counted():
    rows = [
        make_row(lr=lr, model={"width": width}, parameters=100 * width)
        for width in (16, 32)
        for lr in (1e-3, 1e-2)
    ]
    upper, lower = draw("scaling", source(rows), look=Look(against="parameters")).axes
    assert [x for x, _ in points(lines(upper, "Attention")[0])] == [1600, 3200]
    assert lower.get_xlabel() == "parameters"
