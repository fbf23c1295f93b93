"""Draw the README's figure, docs/demo.png, from the rows of a demo: python docs/figures.py DIR.

A line is the mean over seeds, its band reaches from the worst seed to the best, faint marks are
runs; bars on top are the windows, where the mean is at least 0.9. An arrow: the grid ended first.
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import TAU, ZOOLOGY_RATES, group_cells
from recollect.api import Results
from recollect.plotting import sheet
from recollect.plotting.colours import FAINT, mixer_style
from recollect.plotting.settings import SCREEN, screen_style, to_bytes

DASHED = (0, (5, 4))
LOWEST_BAR, BAR_STEP = 1.065, 0.055


def draw(rows):
    """One panel with a line for each mixer."""
    cells = [cell for cell in group_cells(rows) if cell.best]
    rates = [rate.lr for cell in cells for rate in cell.scored_rates]
    with screen_style():
        figure = Figure(figsize=(5.6, 3.7), layout="constrained")
        ax = figure.subplots()
        sheet.rate_axis(ax, min(rates), max(rates))
        sheet.score_axis(ax, "accuracy")
        ax.set_ylim(-0.03, 1.04 + BAR_STEP * len(cells))
        sheet.draw_chance(ax, [cell.chance for cell in cells])
        tau = ax.axhline(TAU, color=FAINT, lw=0.6)
        low, high = ax.get_xlim()
        for rate in ZOOLOGY_RATES:
            if low < rate < high:
                ax.axvline(rate, ymax=0.9, color=FAINT, lw=0.8, ls=DASHED)
        for number, cell in enumerate(cells):
            draw_cell(ax, cell, mixer_style(cell.mixer), LOWEST_BAR + BAR_STEP * number)
        handles = {cell.mixer: sheet.line_handle(mixer_style(cell.mixer)) for cell in cells}
        handles[f"{TAU:g}, the window's level"] = tau
        handles["Zoology's four rates"] = Line2D([], [], color=FAINT, lw=0.8, ls=DASHED)
        handles |= {name: handle for handle, name in sheet.marks(figure)}
        options = {"loc": "outside lower center", "ncols": 3, "frameon": False}
        figure.legend(handles.values(), handles.keys(), handlelength=2.6, **options)
    return figure


def draw_cell(ax, cell, style, height):
    """A mixer's line and band, its diverged runs as crosses, its window as a bar at `height`."""
    rates = cell.scored_rates
    x = [rate.lr for rate in rates]
    lows = [min(rate.scores.values()) for rate in rates]
    highs = [max(rate.scores.values()) for rate in rates]
    ax.fill_between(x, lows, highs, color=style.colour, alpha=0.13, lw=0)
    line = {"color": style.colour, "ls": style.stroke, "marker": style.marker}
    ax.plot(x, [rate.mean for rate in rates], ms=4.5, lw=1.8, mec="white", mew=0.6, **line)
    runs = [(rate.lr, row.score) for rate in rates for row in rate.scored if row.status == "done"]
    faint = {"marker": style.marker, "ms": 3, "mew": 0, "alpha": 0.35}
    ax.plot(
        [lr for lr, _ in runs], [score for _, score in runs], ls="", color=style.colour, **faint
    )
    lost = [rate.lr for rate in rates for row in rate.scored if row.status == "diverged"]
    ax.plot(lost, [cell.chance] * len(lost), color=style.colour, **sheet.CROSS)
    window = cell.window(TAU)
    if window is None:
        return
    bar = {"color": style.colour, "clip_on": False}
    ax.plot([window.low, window.high], [height] * 2, lw=3, solid_capstyle="butt", **bar)
    ends = ((window.low, window.open_low, "<"), (window.high, window.open_high, ">"))
    for rate, is_open, arrow in ends:
        mark = {"marker": arrow, "mew": 0} if is_open else {"marker": "|", "mew": 1.5}
        ax.plot([rate], [height], ms=6, **mark, **bar)


if __name__ == "__main__":
    figure = draw(Results.load(Path(sys.argv[1])).rows)
    target = Path(__file__).with_name("demo.png")
    target.write_bytes(to_bytes(figure, "png", 120, SCREEN))
