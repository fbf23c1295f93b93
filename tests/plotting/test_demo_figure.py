"""The README's figure: lines in the mixers' colours, windows as bars, guides in the legend."""

import runpy
from pathlib import Path

from rows_made import make_row, make_sweep

from recollect.plotting.colours import mixer_style

SCRIPT = Path(__file__).parents[2] / "docs" / "figures.py"


def sweep():
    rows = make_sweep({1e-4: [0.3, 0.4], 1e-3: [1.0, 0.98], 1e-2: [0.5, 0.3]})
    rows += make_sweep({1e-4: [0.3, 0.3], 1e-3: [0.3, 0.3], 1e-2: [0.95, 0.9]}, "mamba")
    return [*rows, make_row("mamba", 1e-1, 1, status="diverged", diverged_step=1234)]


def test_the_figure_shows_means_windows_crosses_and_guides():
    figure = runpy.run_path(str(SCRIPT))["draw"](sweep())
    (ax,) = figure.axes
    lines = [(line.get_color(), [*line.get_xdata()], [*line.get_ydata()]) for line in ax.lines]
    blue, orange = mixer_style("attention").colour, mixer_style("mamba").colour
    assert (blue, [1e-4, 1e-3, 1e-2], [0.35, 0.99, 0.4]) in lines
    bars = [(colour, x) for colour, x, y in lines if len(x) == 2 and y[0] == y[1] > 1]
    assert [colour for colour, _ in bars] == [blue, orange]
    assert all(low < high for _, (low, high) in bars)
    assert (orange, [1e-1], [0.25]) in lines, "a diverged run counts at chance"
    assert {x[0] for _, x, _ in lines if len(x) == 2 and x[0] == x[1]} >= {1e-4, 1e-2}
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "attention",
        "mamba",
        "0.9, the window's level",
        "Zoology's four rates",
        "chance",
        "diverged run",
    ]
