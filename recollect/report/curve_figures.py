"""Loss and score against step, one figure per cell, coloured from low to high learning rate.

Test loss is drawn, not train loss: both halves of the figure then speak of the same rows. A loss that shoots up leaves the axes
at the top, so that one diverged run does not flatten all the others.
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest

import matplotlib
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm
from matplotlib.figure import Figure

from recollect.analysis import Cell, rate_text, thin
from recollect.report.figures import SCORE_LABELS
from recollect.report.style import DOTTED, FAINT, SETTINGS, write
from recollect.rows import Evaluation, RunRow

MAX_LINES, MAX_POINTS = 36, 60
FIGURE_INCHES = (5.6, 4.6)
RATE_COLOURS = colormaps["viridis"].resampled(64)


def curve_figure(cell: Cell, curves: Mapping[str, Sequence[Evaluation]]) -> Figure:
    """Test loss above, score below, sharing the steps; at most MAX_LINES runs of MAX_POINTS points."""
    lines = [(row, thin(curves[row.run_id], MAX_POINTS)) for row in drawn_runs(cell, curves)]
    rates = [row.spec["train"]["lr"] for row, _ in lines]
    # The top of the colour map is too pale on white, so the scale ends before it.
    norm = LogNorm(min(rates), max(rates) * (max(rates) / min(rates)) ** 0.12) if len(set(rates)) > 1 else None
    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=FIGURE_INCHES, layout="constrained")
        loss_ax, score_ax = figure.subplots(2, 1, sharex=True)
        for row, points in lines:
            colour = RATE_COLOURS(norm(row.spec["train"]["lr"])) if norm else RATE_COLOURS(0.3)
            steps = [point.step for point in points]
            look = {"color": colour, "lw": 1.1, "alpha": 0.85, "marker": "o" if len(points) == 1 else "", "ms": 3}
            loss_ax.plot(steps, [_finite(point.test_loss) for point in points], **look)
            score_ax.plot(steps, [point.score(row.score_name) for point in points], **look)
        _finish_axes(loss_ax, score_ax, cell, [points for _, points in lines])
        if norm:
            _draw_rate_bar(figure, [loss_ax, score_ax], norm, sorted(set(rates)))
    return figure


def drawn_runs(cell: Cell, curves: Mapping[str, Sequence[Evaluation]]) -> list[RunRow]:
    """The runs of a cell that have a curve: one seed of every rate, then the next seeds, up to what a reader can tell apart."""
    by_rate = [[row for row in rate.rows if curves.get(row.run_id)] for rate in cell.rates]
    in_turn = chain.from_iterable(zip_longest(*by_rate))
    return [row for row in in_turn if row is not None][:MAX_LINES]


def _finish_axes(loss_ax: Axes, score_ax: Axes, cell: Cell, lines: list[list[Evaluation]]) -> None:
    starts = [points[0].test_loss for points in lines if math.isfinite(points[0].test_loss)]
    loss_ax.set_ylim(0, 1.3 * statistics.median(starts) if starts and statistics.median(starts) > 0 else 1)
    loss_ax.set_ylabel("test loss")
    score_ax.axhline(cell.chance, color=FAINT, lw=1.2, ls=DOTTED)
    score_ax.set_ylim(-0.03, 1.03)
    score_ax.set_ylabel(SCORE_LABELS.get(cell.score_name, cell.score_name))
    score_ax.set_xlabel("step")
    write(loss_ax.set_title(" ", loc="left"), cell.name)


def _draw_rate_bar(figure: Figure, axes: list[Axes], norm: LogNorm, rates: list[float]) -> None:
    bar = figure.colorbar(ScalarMappable(norm, RATE_COLOURS), ax=axes, aspect=40, pad=0.02)
    shown = rates if len(rates) <= 9 else rates[:: math.ceil(len(rates) / 9)]
    bar.set_ticks(shown, labels=[rate_text(rate) for rate in shown])
    bar.minorticks_off()
    bar.ax.set_ylim(rates[0], rates[-1])
    bar.outline.set_visible(False)
    bar.set_label("learning rate")


def _finite(loss: float) -> float:
    return loss if math.isfinite(loss) else math.nan
