"""Causes of a wide window, as a picture or a table: for each task and model, the changes of a
recipe, ranked by the decades of W that they gain or lose.

This is not in the study. The pairs of cells come from reports/paper/causes.py. Ablations make
another model of a mixer; they are left out, since the study has tables of its own for them.
"""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from recollect.analysis import Cell, Curves, count_text
from recollect.errors import SpecError
from recollect.plotting import sheet
from recollect.plotting.colours import FAINT, INK, line_styles
from recollect.plotting.settings import print_style
from recollect.plotting.text import mixer_title, plain
from recollect.reports.paper.causes import Cause, Gain, find_causes, is_thin
from recollect.reports.paper.figures.table import Table
from recollect.rows import RunRow
from recollect.spec.recipes import RECIPES

PANEL_WIDTH, LINE = 3.4, 0.2  # inches: a panel, one change
TITLE_INCHES, AXIS_INCHES = 0.5, 0.25  # height of a panel's title, and of the axis at the bottom
MOST_COLUMNS = 2
THIN = "†"  # marks a window inside which most rates have one seed
TITLE = "Why: decades of W gained or lost by one change from the recipe {}"
Panel = tuple[str, str, str]  # model, length and pairs, layers


def draw(rows: Sequence[RunRow], curves: Curves, kind: str) -> Figure:
    """Draw a panel for each task and model, with its changes from the best to the worst."""
    recipe, causes = _most_changed(rows)
    panels = _panels(causes)
    styles = line_styles((cause.mixer, cause.mixer) for cause in causes)
    tasks = len({panel[1:] for panel in panels})
    columns = sheet.columns_for(tasks if tasks > 1 else len(panels), PANEL_WIDTH, MOST_COLUMNS)
    counts = [len(own) for own in panels.values()]
    # The fullest panel sets the height of a row, so that all lines have the same spacing.
    fullest = [max(counts[first : first + columns]) for first in range(0, len(counts), columns)]
    high = TITLE_INCHES + (LINE * sum(fullest) + AXIS_INCHES) / len(fullest)
    with print_style():
        figure, axes = sheet.panel_grid(
            len(fullest), columns, (PANEL_WIDTH, high), height_ratios=fullest
        )
        for number, (ax, ((model, size, layers), own)) in enumerate(
            zip(axes.flat, panels.items(), strict=False)
        ):
            _draw_panel(ax, own, styles[own[0].mixer].colour, fullest[number // columns])
            ax.set_xlim(*_span(causes))
            if number + columns >= len(panels):  # there is no panel below it
                ax.set_xlabel("decades of W gained")
            width = _width_text(own[0].before, own[0].gains[0].before)
            before = f"W({_tau(own)}) {width} before"
            sheet.panel_title(ax, f"{model}, {size}", f"{layers}; {before}")
        for ax in list(axes.flat)[len(panels) :]:
            ax.set_axis_off()
        entries: list[sheet.LegendEntry] = [
            (Line2D([], [], color=INK, marker="o", ls="", ms=4.5), "beyond what seeds make of it"),
            (Line2D([], [], color=INK, marker="o", mfc="white", ls="", ms=4.5), "within it"),
            (Line2D([], [], color=INK, marker="D", mfc="white", ls="", ms=4), "too few seeds"),
        ]
        return sheet.finish(figure, TITLE.format(recipe), entries, _notes(causes))


def table(rows: Sequence[RunRow], curves: Curves, kind: str) -> Table:
    """One line per change, model by model and task by task, the largest gain first."""
    recipe, causes = _most_changed(rows)
    taus = [gain.tau for gain in causes[0].gains]
    gains = (f"gain at {tau:g}" for tau in taus)
    head = ("model", "task", "change", f"W({taus[0]:g})", "after", *gains)
    lines = tuple(
        (
            model,
            f"{size}, {layers}",
            cause.text,
            _width_text(cause.before, cause.gains[0].before),
            _width_text(cause.after, cause.gains[0].after),
            *map(_gain_text, cause.gains),
        )
        for (model, size, layers), own in _panels(causes).items()
        for cause in own
    )
    return Table("why", TITLE.format(recipe), head, lines, tuple(_notes(causes)), names=3)


def _most_changed(rows: Sequence[RunRow]) -> tuple[str, list[Cause]]:
    """The recipe with the most trained changes, and these changes; the first in case of a tie."""
    found = {
        recipe: [cause for cause in find_causes(rows, recipe) if not cause.is_ablation]
        for recipe in RECIPES
    }
    recipe = max(found, key=lambda name: len(found[name]))
    if not found[recipe]:
        raise SpecError(
            f"why: none of {len(rows)} runs is one change away from a recipe that was trained too;"
            "\nrun `recollect run paper:why --out DIR`, small: paper:why:small"
        )
    return recipe, found[recipe]


def _panels(causes: Sequence[Cause]) -> dict[Panel, list[Cause]]:
    """The changes by model and task. The tasks of one model are adjacent."""
    panels: dict[Panel, list[Cause]] = {}
    for cause in sorted(causes, key=lambda cause: cause.mixer):
        spec = cause.before.rows[0].spec
        task, model = spec["task"], spec["model"]
        size = f"({task.get('length')}, {task.get('pairs')})"
        layers = f"{count_text(model['depth'], 'layer')}, width {model['width']}"
        panels.setdefault((mixer_title(cause.mixer), size, layers), []).append(cause)
    return panels


def _span(causes: Sequence[Cause]) -> tuple[float, float]:
    """The limits of the axis that all panels share, with a small margin."""
    gains = [cause.gains[0] for cause in causes]
    ends = [end for gain in gains for end in (0.0, gain.decades, *(gain.interval or ()))]
    room = 0.05 * (max(ends) - min(ends)) or 0.1
    return min(ends) - room, max(ends) + room


def _draw_panel(ax: Axes, causes: Sequence[Cause], colour: str, lines: int) -> None:
    """Draw one panel. `lines` is the number of changes in the fullest panel of its row."""
    ax.axvline(0, color=FAINT, lw=0.8, zorder=1)
    ax.spines["left"].set_visible(False)  # it could be mistaken for the line at zero
    for place, cause in enumerate(causes):
        gain = cause.gains[0]
        if gain.interval:
            ax.hlines(place, *gain.interval, color=colour, lw=1.1)
        fill, marker = colour if gain.is_firm else "white", "o" if gain.interval else "D"
        point: dict[str, Any] = {
            "color": colour,
            "mfc": fill,
            "marker": marker,
            "ms": 4.5,
            "ls": "",
        }
        ax.plot([gain.decades], [place], label="gain", **point)
    ax.set_ylim(lines - 0.4, -0.6)
    texts = [
        f"{cause.text}{f' {THIN}' * is_thin(cause.after)}{' (bound)' * cause.gains[0].is_bound}"
        for cause in causes
    ]
    ax.set_yticks(range(len(causes)), [plain(text) for text in texts], parse_math=False)
    ax.tick_params(axis="y", length=0)


def _notes(causes: Sequence[Cause]) -> list[str]:
    bounds = any(gain.is_bound for cause in causes for gain in cause.gains[:1])
    notes = [
        f"W({_tau(causes)}): the decades of learning rate around a best one where the mean score "
        f"over seeds is at least {_tau(causes)}; 0 where it is nowhere. Intervals: where the gain "
        "would lie if both sides were trained with other seeds (95 %)."
    ]
    if bounds:
        notes.append("Bound: a grid of rates ended inside one of the two windows.")
    if any(is_thin(cell) for cause in causes for cell in (cause.before, cause.after)):
        notes.append(
            f"{THIN}: most rates inside the window have one seed, so single seeds that fail there "
            "may go unseen."
        )
    return notes


def _tau(causes: Sequence[Cause]) -> str:
    return f"{causes[0].gains[0].tau:g}"


def _width_text(cell: Cell, decades: float) -> str:
    return f"{decades:.2f}{THIN if is_thin(cell) else ''}"


def _gain_text(gain: Gain) -> str:
    interval = f" [{gain.interval[0]:+.2f}, {gain.interval[1]:+.2f}]" if gain.interval else ""
    return f"{gain.decades:+.2f}{interval}{' (bound)' if gain.is_bound else ''}"
