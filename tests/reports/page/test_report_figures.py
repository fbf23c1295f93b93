"""The figure of score against learning rate, drawn for print, and how names and lines look in every
picture.
"""

from io import BytesIO, StringIO

import matplotlib
import pytest
from rows_made import make_row, make_sweep

from recollect.analysis import group_cells
from recollect.reports.page.figures import line_styles, panels, rate_figure
from recollect.reports.page.looks import plain
from recollect.reports.page.style import SETTINGS


def sweep():
    rows = make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.98], 1e-2: [0.5, 0.3]})
    rows += make_sweep({1e-4: [0.3, 0.3], 1e-3: [0.3, 0.3], 1e-2: [0.95, 0.9]}, "mamba")
    return [*rows, make_row("mamba", 1e-1, 1, status="diverged", diverged_step=1234)]


def test_hostile_text_in_a_figure_is_written_out():
    cells = group_cells(
        [make_row("$x$ <b>", model={"width": "_w"}), make_row("$x$ <b>", model={"width": "$"})]
    )
    out = StringIO()
    with matplotlib.rc_context(SETTINGS):
        rate_figure(cells).savefig(out, format="svg")
    assert "$x$ &lt;b&gt;, width _w" in out.getvalue()
    assert "<b>" not in out.getvalue()


def test_cells_that_can_be_compared_share_a_panel():
    rows = [
        make_row(mixer, model={"width": width})
        for width in (64, 128)
        for mixer in ("attention", "mamba")
    ]
    drawn = panels(group_cells(rows))
    assert [(panel.title, [label for label, _ in panel.lines]) for panel in drawn] == [
        ("width 64", ["attention", "mamba"]),
        ("width 128", ["attention", "mamba"]),
    ]
    alone = panels(group_cells([make_row(model={"width": width}) for width in (64, 128)]))
    assert [label for label, _ in alone[0].lines] == ["attention, width 64", "attention, width 128"]
    assert panels(group_cells([make_row(score=None, status="todo")])) == []


def test_no_two_lines_of_a_figure_look_alike():
    drawn = panels(group_cells([make_row(f"mixer{index}") for index in range(20)]))
    styles = line_styles(drawn)
    assert len(set(styles.values())) == 20
    assert all(len(panel.lines) <= 7 for panel in drawn)


def test_the_rate_figure_shows_means_seeds_crosses_and_guides():
    (ax,) = rate_figure(group_cells(sweep())).axes
    lines = [(list(line.get_xdata()), list(line.get_ydata())) for line in ax.lines]
    assert ([1e-4, 1e-3, 1e-2], pytest.approx([0.35, 0.99, 0.4])) in lines
    crosses = [line for line in ax.lines if line.get_marker() == "x" and len(line.get_xdata())]
    assert [(list(line.get_xdata()), list(line.get_ydata())) for line in crosses] == [
        ([1e-1], [0.25])
    ]
    upright = [
        line.get_xdata()[0]
        for line in ax.lines
        if len(line.get_xdata()) == 2 and line.get_xdata()[0] == line.get_xdata()[1]
    ]
    assert set(upright) >= {1e-4, 1e-2}


def test_figures_can_be_saved_as_pictures():
    for figure in (rate_figure(group_cells(sweep())), rate_figure([])):
        out = BytesIO()
        figure.savefig(out, format="png")
        assert out.getvalue().startswith(b"\x89PNG")


def test_labels_are_one_short_printable_line():
    assert plain("a\n\tb\x00") == "a b"
    assert len(plain("x" * 500)) == 48
