"""Results as a notebook shows them: the number of planned and finished runs, and a line per cell
with its best rate, its window and a small picture of score against rate.

The card is legible on a light and on a dark background: text has the notebook's own colour, lines
have colours that show on both.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jinja2 import Environment, Template

from recollect.analysis import (
    TAU,
    Cell,
    Window,
    count_statuses,
    decades_text,
    group_cells,
    rate_text,
    score_text,
)
from recollect.analysis.wording import short_counts_text
from recollect.errors import printable
from recollect.plotting.colours import line_styles, on_dark
from recollect.running.results import RunSet

MOST_CELLS, MOST_PROBLEMS = 20, 3
WIDTH, HEIGHT, MARGIN = 120, 24, 3  # of the small picture, in pixels


@dataclass(frozen=True)
class _Line:
    """A cell as the table shows it; a text is empty if there is no value yet."""

    name: str
    colour: str
    runs: str
    score: str
    rate: str
    window: str
    points: str  # of the small picture: mean score against the logarithm of the rate
    shade: tuple[float, float] | None  # left edge and width of its window there
    marks: tuple[tuple[float, float], ...]


def card(runs: RunSet, name: str) -> str:
    """Return the HTML of results; `name` is the name of their folder."""
    # Cells with a result come first, so that a large plan does not push them out of the table.
    cells = sorted(group_cells(runs.rows), key=lambda cell: cell.best is None)
    problems = [*runs.problems, *runs.conflicts]
    return _template().render(
        name=printable(name),
        counts=short_counts_text(count_statuses(runs.rows)),
        score=cells[0].score_name if len({cell.score_name for cell in cells}) == 1 else "score",
        lines=_lines(cells),
        more=max(0, len(cells) - MOST_CELLS),
        problems=[printable(problem) for problem in problems[:MOST_PROBLEMS]],
        more_problems=max(0, len(problems) - MOST_PROBLEMS),
        size=(WIDTH, HEIGHT),
        level=_height(TAU),
        tau=TAU,
    )


def _lines(cells: Sequence[Cell]) -> list[_Line]:
    styles = line_styles((cell.name, cell.mixer) for cell in cells)
    rates = [rate.lr for cell in cells for rate in cell.rates]
    return [_line(cell, styles[cell.name].colour, rates) for cell in cells[:MOST_CELLS]]


def _line(cell: Cell, colour: str, rates: Sequence[float]) -> _Line:
    low, high = min(rates), max(rates)
    best, window = cell.best, cell.window()
    marks = tuple((_place(rate.lr, low, high), _height(rate.mean)) for rate in cell.scored_rates)
    ended = sum(row.is_finished for row in cell.rows)
    return _Line(
        name=printable(cell.name),
        colour="currentColor" if colour.upper() == "#000000" else on_dark(colour),
        runs=f"{ended}" if ended == len(cell.rows) else f"{ended} of {len(cell.rows)}",
        score=score_text(best.mean) if best else "",
        rate=rate_text(best.lr) if best else "",
        window=_window_text(cell, window),
        points=" ".join(f"{x:g},{y:g}" for x, y in marks),
        shade=_shade(window, low, high),
        marks=marks,
    )


def _window_text(cell: Cell, window: Window | None) -> str:
    """Return the window as text. From a single rate nothing is known except whether it works."""
    if cell.best is None:
        return ""
    return decades_text(window) if window and len(cell.scored_rates) > 1 else "none"


def _shade(window: Window | None, low: float, high: float) -> tuple[float, float] | None:
    if window is None:
        return None
    left, right = _place(window.low, low, high), _place(window.high, low, high)
    return left, round(right - left, 1)


def _place(rate: float, low: float, high: float) -> float:
    share = math.log(rate / low) / math.log(high / low) if high > low else 0.5
    return round(MARGIN + share * (WIDTH - 2 * MARGIN), 1)


def _height(score: float) -> float:
    return round(HEIGHT - MARGIN - score * (HEIGHT - 2 * MARGIN), 1)


@cache
def _template() -> Template:
    text = Path(__file__).with_name("card.html").read_text()
    return Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(text)
