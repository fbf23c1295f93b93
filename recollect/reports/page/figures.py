"""Score against learning rate, the figure this tool exists for.

A line is the mean over seeds, the band reaches from the worst seed to the best, every faint mark is
a run and every cross a run that diverged. The bars above the axes are the windows: where the mean
is at least tau. An arrow says that the grid ended first.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import TAU, ZOOLOGY_RATES, Cell
from recollect.reports.page.style import (
    DOTTED,
    FAINT,
    PALETTE,
    SETTINGS,
    LineStyle,
    line_style,
    rate_axis,
    write,
)

PANEL_INCHES = (5.6, 3.7)
COLUMNS = 2
CROSS: dict[str, Any] = {"marker": "x", "ms": 8, "mew": 1.3, "zorder": 4}  # a run that diverged
SCORE_LABELS = {"exact": "rows all right (exact)", "accuracy": "accuracy"}


@dataclass(frozen=True)
class Panel:
    """Cells that are compared with each other, each with its label in the legend."""

    title: str
    lines: tuple[tuple[str, Cell], ...]


def panels(cells: Sequence[Cell]) -> list[Panel]:
    """One panel per setting with a line per mixer; all in one panel where no setting has two mixers
    to compare.
    """
    drawn = [cell for cell in cells if cell.best]
    by_setting: dict[str, list[Cell]] = {}
    for cell in drawn:
        by_setting.setdefault(cell.setting, []).append(cell)
    if len(by_setting) == len(drawn):
        return _pieces("", [(cell.name, cell) for cell in drawn])
    return [
        piece
        for name, own in by_setting.items()
        for piece in _pieces(name, [(cell.mixer, cell) for cell in own])
    ]


def _pieces(title: str, lines: list[tuple[str, Cell]]) -> list[Panel]:
    """As many panels as it takes for every line of a panel to have a colour of its own."""
    size = len(PALETTE)
    return [
        Panel(title, tuple(lines[start : start + size])) for start in range(0, len(lines), size)
    ]


def rate_figure(cells: Sequence[Cell], tau: float = TAU) -> Figure:
    """All panels as one figure, ready to be saved in any format."""
    drawn = panels(cells)
    styles = line_styles(drawn)
    with matplotlib.rc_context(SETTINGS):
        columns = min(COLUMNS, max(1, len(drawn)))
        rows = max(1, math.ceil(len(drawn) / columns))
        figure = Figure(
            figsize=(PANEL_INCHES[0] * columns, PANEL_INCHES[1] * rows), layout="constrained"
        )
        grid = figure.subplots(rows, columns, squeeze=False)
        for ax, panel in zip(grid.flat, drawn, strict=False):
            draw_panel(ax, panel, styles, tau)
        for ax in grid.flat[len(drawn) :]:
            ax.set_axis_off()
    return figure


def line_styles(drawn: Sequence[Panel]) -> dict[str, LineStyle]:
    """The look of every label, the same in all panels."""
    labels = dict.fromkeys(label for panel in drawn for label, _ in panel.lines)
    return {label: line_style(index) for index, label in enumerate(labels)}


def draw_panel(ax: Axes, panel: Panel, styles: dict[str, LineStyle], tau: float) -> None:
    """Axes, guides, one line per cell, window bars and the legend."""
    cells = [cell for _, cell in panel.lines]
    rates = [rate.lr for cell in cells for rate in cell.scored_rates]
    rate_axis(ax, min(rates), max(rates))
    top = 1.04 + 0.055 * len(cells)
    ax.set_ylim(-0.03, top)
    ax.set_yticks([0, 0.25, 0.5, 0.75, 1], ["0", ".25", ".5", ".75", "1"])
    ax.spines["left"].set_bounds(0, 1)
    ax.set_ylabel(
        " / ".join(
            dict.fromkeys(SCORE_LABELS.get(cell.score_name, cell.score_name) for cell in cells)
        )
    )
    guides = _draw_guides(ax, cells, tau)
    handles = []
    for index, (label, cell) in enumerate(panel.lines):
        handles.append(_draw_cell(ax, cell, styles[label]))
        _draw_window(ax, cell, styles[label], 1.065 + 0.055 * index, tau)
    _draw_legend(ax, handles, [label for label, _ in panel.lines], guides)
    if panel.title:
        write(ax.set_title(" ", loc="left", pad=10), panel.title)


def _draw_guides(ax: Axes, cells: Sequence[Cell], tau: float) -> list[Line2D]:
    low, high = ax.get_xlim()
    guides = [ax.axhline(tau, color=FAINT, lw=0.6, label=f"{tau:g}, the window's level")]
    # A dashed line far longer than the axes would draw dashes outside them: only what is in sight.
    inside = [
        ax.axvline(rate, ymax=0.9, color=FAINT, lw=0.8, ls=(0, (5, 4)))
        for rate in ZOOLOGY_RATES
        if low < rate < high
    ]
    for line in inside[:1]:
        line.set_label("Zoology's four rates")
        guides.append(line)
    chances = [
        ax.axhline(chance, color=FAINT, lw=1.2, ls=DOTTED, label="chance")
        for chance in {cell.chance for cell in cells}
    ]
    return [*guides, chances[0]]


def _draw_cell(ax: Axes, cell: Cell, style: LineStyle) -> Line2D:
    rates = cell.scored_rates
    x = [rate.lr for rate in rates]
    colour = style.colour
    ax.fill_between(
        x,
        [min(r.scores.values()) for r in rates],
        [max(r.scores.values()) for r in rates],
        color=colour,
        alpha=0.13,
        lw=0,
    )
    for status, look in (
        ("done", {"marker": style.marker, "ms": 3, "mew": 0, "alpha": 0.35}),
        ("diverged", CROSS),
    ):
        runs = [
            (rate.lr, rate.scores[row.spec["seed"]])
            for rate in rates
            for row in rate.scored
            if row.status == status
        ]
        ax.plot([lr for lr, _ in runs], [score for _, score in runs], ls="", color=colour, **look)
    means = [rate.mean for rate in rates]
    return ax.plot(
        x,
        means,
        color=colour,
        ls=style.dash,
        marker=style.marker,
        ms=4.5,
        lw=1.8,
        mec="white",
        mew=0.6,
    )[0]


def _draw_window(ax: Axes, cell: Cell, style: LineStyle, height: float, tau: float) -> None:
    window = cell.window(tau)
    if window is None:
        return
    ax.plot(
        [window.low, window.high],
        [height, height],
        color=style.colour,
        lw=3,
        solid_capstyle="butt",
        clip_on=False,
    )
    for rate, is_open, arrow in [
        (window.low, window.open_low, "<"),
        (window.high, window.open_high, ">"),
    ]:
        ax.plot(
            [rate],
            [height],
            arrow if is_open else "|",
            color=style.colour,
            ms=6,
            mew=0 if is_open else 1.5,
            clip_on=False,
        )


def _draw_legend(ax: Axes, handles: list[Line2D], labels: list[str], guides: list[Line2D]) -> None:
    cross = Line2D([], [], ls="", color=FAINT, **CROSS)
    every = [*handles, *guides, cross]
    names = [*labels, *(str(guide.get_label()) for guide in guides), "diverged"]
    # The names are put in afterwards: matplotlib gives meaning to underscores and dollar signs in
    # labels.
    legend = ax.figure.legend(
        every,
        ["-"] * len(every),
        loc="outside lower center",
        ncols=3,
        frameon=False,
        handlelength=2.2,
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        write(text, name)
