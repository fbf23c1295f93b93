"""Score against learning rate (Figs 1, 5, 7, 13): a line per model, a panel per task and size, the
sparse grid dashed.

A cross is a run that diverged, at the level of chance it counts as; a ring at the bottom is a rate
that was planned and has no result yet.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import ZOOLOGY_RATES, band
from recollect.reports.page.style import FAINT, rate_axis
from recollect.reports.paper.figures import sheet
from recollect.reports.paper.figures.looks import Look, looks
from recollect.reports.paper.figures.places import Curves, Place
from recollect.reports.paper.figures.question import Question, ask
from recollect.rows import RunRow

PANEL = (2.6, 1.9)
DASHES = (0, (4, 3))
WAITING: dict[str, Any] = {"ls": "", "marker": "o", "ms": 3, "mfc": "none", "mew": 0.8, "zorder": 6}
WAITING_HEIGHT = -0.025


def draw(
    question: Question, by_size: bool, rows: Sequence[RunRow], curves: Curves, kind: str
) -> Figure:
    """`by_size`: a panel for each width and depth; else sizes are lines of one panel, as where each
    model has its own size.
    """
    places = ask(question, rows)
    places, left_out = _compared(places) if by_size else (_sized(places), [])
    columns = list(dict.fromkeys(place.column for place in places))
    sizes = sorted({_size(place) for place in places}) if by_size else [(0, 0)]
    look = looks(places)
    with sheet.paper_style():
        figure, axes = sheet.panel_grid(len(sizes), len(columns), PANEL, sharex=True, sharey=True)
        for row, size in enumerate(sizes):
            for column, task in enumerate(columns):
                here = [
                    place
                    for place in places
                    if place.column == task and (not by_size or _size(place) == size)
                ]
                _draw_panel(axes[row, column], here, look, kind, _limits(places))
                title = (
                    next(place.task for place in places if place.column == task) if row == 0 else ""
                )
                sheet.panel_title(axes[row, column], title, _absent(here, look))
                if row < len(sizes) - 1:
                    axes[row, column].set_xlabel("")
            label = sheet.score_label(places)
            axes[row, 0].set_ylabel(f"{_size_text(size, sizes)}\n{label}" if by_size else label)
        entries: list[sheet.Entry] = [(_handle(style), model) for model, style in look.items()]
        entries += [
            (Line2D([], [], color=FAINT, lw=0.8, ls=DASHES), "Zoology's four rates"),
            *sheet.marks(figure),
        ]
        if any(not rate.scores for place in places for rate in place.cell.rates):
            entries.append((Line2D([], [], color=FAINT, **WAITING), "planned, no result"))
        return sheet.finish(
            figure, question.title, entries, [*sheet.small_print(question, places, kind), *left_out]
        )


def _compared(places: list[Place]) -> tuple[list[Place], list[str]]:
    """Without panels that show one mixer alone, where there are others that compare; and a line
    about it.

    A folder may hold other sweeps, which share one model with this figure.
    """
    panels: dict[tuple[object, ...], list[Place]] = {}
    for place in places:
        panels.setdefault((place.column, _size(place)), []).append(place)
    alone = [
        own for own in panels.values() if len({place.mixer for place in own if place.cell.best}) < 2
    ]
    if not alone or len(alone) == len(panels):
        return places, []
    dropped = {id(place) for own in alone for place in own}
    told = (
        f"Left out: {len(alone)} combinations of task and size at which fewer "
        "than two models have a result."
    )
    return [place for place in places if id(place) not in dropped], [told]


def _draw_panel(
    ax: Axes, places: list[Place], look: dict[str, Look], kind: str, limits: tuple[float, float]
) -> None:
    rate_axis(ax, *limits)
    sheet.score_axis(ax, "")
    if not any(place.cell.best for place in places):
        sheet.mark_missing(ax, sheet.why_missing(places[0].cell if places else None))
    for rate in ZOOLOGY_RATES:
        if limits[0] / 1.25 < rate < limits[1] * 1.25:
            ax.axvline(rate, color=FAINT, lw=0.8, ls=DASHES, zorder=1, label="sparse rate")
    sheet.draw_chance(ax, [place.cell for place in places])
    for place in places:
        _draw_line(ax, place, look[place.model], kind)


def _absent(places: Sequence[Place], look: dict[str, Look]) -> str:
    """Which models have no result in a panel where others have one."""
    absent = [
        model
        for model in look
        if not any(place.model == model and place.cell.best for place in places)
    ]
    return f"no result: {', '.join(absent)}" if 0 < len(absent) < len(look) else ""


def _draw_line(ax: Axes, place: Place, style: Look, kind: str) -> None:
    rates = place.cell.scored_rates
    x = [rate.lr for rate in rates]
    bands = [band(rate.scores, kind) for rate in rates]
    ax.fill_between(
        x,
        [low for low, _ in bands],
        [high for _, high in bands],
        color=style.colour,
        alpha=0.16,
        lw=0,
        label="band",
    )
    mean: dict[str, Any] = {
        "color": style.colour,
        "ls": style.stroke,
        "marker": style.marker,
        "ms": 3.4,
        "lw": 1.3,
        "mec": "white",
        "mew": 0.4,
    }
    ax.plot(x, [rate.mean for rate in rates], label=place.model, zorder=3, **mean)
    crosses = [
        (rate.lr, row.chance) for rate in rates for row in rate.scored if row.status == "diverged"
    ]
    ax.plot(
        [lr for lr, _ in crosses],
        [score for _, score in crosses],
        color=style.colour,
        label="diverged",
        **sheet.CROSS,
    )
    waiting = [rate.lr for rate in place.cell.rates if not rate.scores]
    ax.plot(
        waiting, [WAITING_HEIGHT] * len(waiting), color=style.colour, label="waiting", **WAITING
    )


def _handle(style: Look) -> Line2D:
    return Line2D([], [], color=style.colour, ls=style.stroke, marker=style.marker, ms=3.6, lw=1.3)


def _limits(places: Sequence[Place]) -> tuple[float, float]:
    rates = [rate.lr for place in places for rate in place.cell.rates]
    return min(rates), max(rates)


def _size(place: Place) -> tuple[int, int]:
    return place.depth, place.width


def _size_text(size: tuple[int, int], sizes: Sequence[tuple[int, int]]) -> str:
    depth, width = size
    return (
        f"width {width}"
        if len({depth for depth, _ in sizes}) == 1
        else f"{depth} layers, width {width}"
    )


def _sized(places: Sequence[Place]) -> list[Place]:
    """The size as part of a model's name."""
    return [replace(place, name=f"{place.name}, {place.depth} x {place.width}") for place in places]
