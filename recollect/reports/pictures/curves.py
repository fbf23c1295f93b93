"""Learning curves of all mixers at their best rates: train loss, test loss and score side by side,
a row of panels per task and size.

The seed with the median score is drawn in full, the others thin. Dotted lines are chance, and the
losses at which a model plateaus that has learned part of the task but not the answer.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from recollect.analysis import Curves, plateaus, rate_text
from recollect.analysis.curves import PLATEAU_WORDS
from recollect.errors import SpecError
from recollect.plotting import sheet, small_print
from recollect.plotting.colours import FAINT, LineStyle
from recollect.plotting.settings import DOTTED, print_style
from recollect.plotting.text import write
from recollect.reports.pictures.captions import caption
from recollect.reports.pictures.lines import legend
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.shown import Panel, Shown, ShownCell
from recollect.rows import Evaluation, RunRow

PANEL = (2.3, 1.75)
FULL: dict[str, Any] = {"lw": 1.4, "zorder": 3}
OTHER: dict[str, Any] = {"lw": 0.5, "alpha": 0.45, "zorder": 2}
TOP = 1.08  # top of a loss axis, relative to the highest level or initial loss


def draw(shown: Shown, look: Look) -> Figure:
    """Draw one row of three panels for each task and size."""
    panels = [
        panel
        for panel in shown.panels()
        if any(_runs(cell, _curves(shown, cell)) for cell in panel.cells)
    ]
    if not panels:
        raise SpecError(
            "curves: no run has an evaluation: all diverged before the first, or they come from a "
            "CSV export;\ndraw rates, or train with more evaluations: --set train.evaluations=N"
        )
    with print_style():
        figure, axes = sheet.panel_grid(len(panels), 3, PANEL, sharex="row")
        for row, panel in zip(axes, panels, strict=True):
            _draw_row(row, panel, shown)
        for ax in axes[-1]:
            ax.set_xlabel("step")
        rates = "; ".join(
            dict.fromkeys(
                f"{cell.label}{_of_source(shown, cell)} {rate_text(cell.runs.best.lr)}"
                for panel in panels
                for cell in panel.cells
                if cell.runs.best and len(panels) == 1
            )
        )
        what = (
            "Every mixer at its best rate"
            + (f" ({rates})" if rates else "")
            + f"; {_seeds_text(shown)}a dot: training stopped there, solved. {_levels_text(panels)}"
        )
        score = small_print.score_label(shown.runs)
        title = f"Loss and {score} over training: {shown.shared()}".rstrip(": ")
        return sheet.finish(
            figure,
            title,
            legend(shown, figure, marked=False),
            caption(shown, what, panels, shown.shared()),
        )


def _seeds_text(shown: Shown) -> str:
    """The number of seeds and, if there are several, how each is drawn."""
    seeds = small_print.seeds_text(shown.runs)
    if seeds == small_print.ONE_SEED:
        return f"{seeds}; "
    return f"{seeds}: in full the one with the median score, thin the others; "


def _levels_text(panels: Sequence[Panel]) -> str:
    """The meaning of the dotted lines."""
    levels = dict.fromkeys(
        level for panel in panels for level in plateaus(panel.cells[0].runs.rows[0].spec["task"])
    )
    guesses = ", ".join(f"{PLATEAU_WORDS[level]} ({level})" for level in levels)
    return f"Dotted: the loss of a guess at {guesses}; chance." if guesses else "Dotted: chance."


def _draw_row(row: Sequence[Axes], panel: Panel, shown: Shown) -> None:
    train_ax, test_ax, score_ax = row
    score = small_print.score_label([cell.runs for cell in panel.cells])
    for ax, name in zip(row, ("train loss", "test loss", score), strict=True):
        sheet.panel_title(ax, name if not panel.title else f"{name}: {panel.title}")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 3)))
        ax.xaxis.set_minor_locator(NullLocator())
        ax.xaxis.set_major_formatter(FuncFormatter(lambda step, _: _step_text(step)))
    sheet.score_axis(score_ax, "")
    sheet.draw_floors(score_ax, [cell.runs for cell in panel.cells])
    parts: tuple[tuple[Axes, Callable[[Evaluation, RunRow], float]], ...] = (
        (train_ax, lambda point, row: point.train_loss),
        (test_ax, lambda point, row: point.test_loss),
        (score_ax, lambda point, row: point.score(row.score_name)),
    )
    tops = []
    for cell in panel.cells:
        curves, style = _curves(shown, cell), shown.styles[cell.label, cell.source]
        runs = _runs(cell, curves)
        for run in runs:
            is_full = run is runs[(len(runs) - 1) // 2]
            for ax, value in parts:
                _draw_curve(ax, run, curves[run.run_id], value, style, is_full, cell.label)
            tops.append(curves[run.run_id][0].test_loss)
    levels = plateaus(panel.cells[0].runs.rows[0].spec["task"])
    highest = max([*levels.values(), *(top for top in tops if math.isfinite(top))], default=1.0)
    for ax in (train_ax, test_ax):
        ax.set_ylim(0, TOP * highest)
        _draw_levels(ax, levels)


def _draw_curve(
    ax: Axes,
    run: RunRow,
    curve: Sequence[Evaluation],
    value: Callable[[Evaluation, RunRow], float],
    style: LineStyle,
    is_full: bool,
    label: str,
) -> None:
    found = [value(point, run) for point in curve]
    steps = [point.step for point in curve]
    line = {**(FULL if is_full else OTHER), "color": style.colour, "ls": style.stroke}
    finite = [number if math.isfinite(number) else math.nan for number in found]
    ax.plot(steps, finite, label=label if is_full else "other seed", **line)
    if is_full and run.stopped_early == "solved":
        ax.plot(steps[-1:], finite[-1:], marker="o", ms=3, color=style.colour, ls="", zorder=4)
    if run.status == "diverged":
        at, height = [run.diverged_step or steps[-1]], [finite[-1]]
        ax.plot(at, height, color=style.colour, label="diverged", **sheet.CROSS)


def _draw_levels(ax: Axes, levels: dict[str, float]) -> None:
    """Draw dotted lines with their names inside the panel, on the right."""
    for label, level in levels.items():
        ax.axhline(level, color=FAINT, lw=0.8, ls=DOTTED, zorder=1)
        name = ax.text(0.99, level, " ", transform=ax.get_yaxis_transform(), size=5.5, color=FAINT)
        name.set(ha="right", va="bottom")
        write(name, label)


def _curves(shown: Shown, cell: ShownCell) -> Curves:
    return shown.sources[cell.source].curves


def _runs(cell: ShownCell, curves: Curves) -> list[RunRow]:
    """The runs at the best rate that have a curve, the worst first."""
    best = cell.runs.best
    runs = [row for row in best.scored if curves.get(row.run_id)] if best else []
    return sorted(runs, key=lambda row: (row.score or 0.0, row.run_id))


def _of_source(shown: Shown, cell: ShownCell) -> str:
    return f" of {shown.source_name(cell.source, 24)}" if shown.is_comparison else ""


def _step_text(step: float) -> str:
    return f"{step / 1000:g}k" if step >= 1000 else f"{step:g}"
