"""What stands around the panels of a figure."""

import pytest
from matplotlib.lines import Line2D

from recollect.plotting import sheet
from recollect.plotting.settings import print_style


@pytest.mark.parametrize(
    ("width", "columns"), [(2.0, 1), (3.4, 2), (7.0, 5)], ids=["narrow", "column", "page"]
)
def test_a_legend_has_as_many_columns_as_its_names_allow(width, columns):
    """One long name makes its own column wide, not every column."""
    names = [*(f"mixer {number}" for number in range(9)), "0.9, the windows' level"]
    with print_style(), sheet.framed(sheet.Frame(width)):
        figure, _ = sheet.panel_grid(1, 1, (2.0, 2.0))
        sheet.finish(figure, "", [(Line2D([], []), name) for name in names], [])
        figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len({round(text.get_window_extent().x0) for text in legend.get_texts()}) == columns
    box = legend.get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1
