"""The data of the page's plots as one table of plain values: cells, rates, runs, curves, colours.

Names are made printable and short here; the script inserts them as text. Numbers are rounded to the
precision of a screen.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

from recollect.analysis import ZOOLOGY_RATES, CellSummary, Curves, Rate, Window, thin
from recollect.analysis.bands import BANDS, band
from recollect.analysis.cells import Cell
from recollect.analysis.curves import plateaus
from recollect.analysis.seeds import windows_by_threshold
from recollect.analysis.seeds.other_seeds import DRAWS
from recollect.errors import SpecError
from recollect.plotting.colours import (
    DARK_PAGE,
    DARK_RATE_SCALE,
    DARK_SCORE_SCALE,
    PAGE,
    RATE_SCALE,
    SCORE_SCALE,
    LineStyle,
    line_styles,
    on_dark,
)
from recollect.plotting.coordinates import Coordinates, in_order, number
from recollect.plotting.text import LONGEST_LINE, SCORE_NAMES, plain
from recollect.rows import RunRow

MAX_POINTS = 40  # points of one curve
MAX_ALL_POINTS = 10_000  # points of all curves together: they are the largest part of a page
MIN_POINTS = 8
MOST_DRAWN = 40  # with more cells, intervals of windows against tau would take too long
LINE_WIDTH = 2  # pixels; dashes are given in line widths
# plotly's names for matplotlib's markers.
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "h": "hexagon",
    "p": "pentagon",
    "<": "triangle-left",
    ">": "triangle-right",
    "d": "diamond-tall",
}


def plot_data(
    summaries: Sequence[CellSummary], places: Sequence[Coordinates], curves: Curves, tau: float
) -> dict[str, Any]:
    """All data that the script draws. The same rows give the same data."""
    tasks = list(dict.fromkeys(place.task for place in places))
    widths = in_order([place.width for place in places])
    depths = in_order([place.depth for place in places])
    shown = [
        (place.label, summary.cell.mixer) for summary, place in zip(summaries, places, strict=True)
    ]
    labels = list(dict.fromkeys(label for label, _ in shown))
    steps: dict[tuple[int, ...], int] = {}
    points = max(MIN_POINTS, min(MAX_POINTS, MAX_ALL_POINTS // max(1, len(curves))))
    draws = DRAWS if len(summaries) <= MOST_DRAWN else 0
    cells = [
        _cell(summary, curves, steps, points)
        | {"taus": _taus(summary.cell, draws)}
        | {
            "task": tasks.index(place.task),
            "width": widths.index(place.width),
            "depth": depths.index(place.depth),
            "label": labels.index(place.label),
        }
        for summary, place in zip(summaries, places, strict=True)
    ]
    return {
        "tau": tau,
        "zoology": list(ZOOLOGY_RATES),
        "bands": list(BANDS),
        "scoreNames": SCORE_NAMES,
        "colours": {
            "light": PAGE | {"scores": SCORE_SCALE, "rates": RATE_SCALE},
            "dark": DARK_PAGE | {"scores": DARK_SCORE_SCALE, "rates": DARK_RATE_SCALE},
        },
        "lineWidth": LINE_WIDTH,
        "tasks": [_name(task) for task in tasks],
        "widths": [_name(width) for width in widths],
        "widthNumbers": [number(width) for width in widths],
        "depths": [_name(depth) for depth in depths],
        "labels": [_label(label, style) for label, style in line_styles(shown).items()],
        "steps": [list(own) for own in steps],
        "cells": cells,
    }


def to_json(value: Any) -> str:
    """JSON that is safe inside a script element: no character can end the element or a line of
    JavaScript.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _label(label: str, style: LineStyle) -> dict[str, str]:
    dashes = ",".join(f"{LINE_WIDTH * length:g}px" for length in style.dashes)
    return {
        "name": _name(label),
        "light": style.colour,
        "dark": on_dark(style.colour),
        "symbol": SYMBOLS[style.marker],
        "dash": dashes or "solid",
    }


def _cell(
    summary: CellSummary, curves: Curves, steps: dict[tuple[int, ...], int], points: int
) -> dict[str, Any]:
    cell = summary.cell
    return {
        "name": _name(cell.name),
        "chance": _rounded(cell.chance),
        "position": _rounded(cell.position_only) if cell.position_helps else None,
        "score": cell.score_name,
        "window": _window(summary.window),
        "best": cell.rates.index(summary.best) if summary.best else None,
        "parameters": cell.parameters,
        "state": cell.state_size,
        "levels": _levels(cell),
        "rates": [
            _rate(rate, curves, steps, points, is_best=rate is summary.best) for rate in cell.rates
        ],
    }


def _taus(cell: Cell, draws: int) -> list[list[Any]]:
    """Per tau: [tau, decades, whether the grid ended inside the window, low and high of the
    interval or null].
    """
    return [
        [
            found.tau,
            _rounded_decades(found.decades),
            found.is_open,
            *(map(_rounded_decades, found.interval) if found.interval else (None, None)),
        ]
        for found in windows_by_threshold(cell, draws=draws)
    ]


def _rounded_decades(decades: float) -> float:
    return round(decades, 3)


def _rate(
    rate: Rate,
    curves: Curves,
    steps: dict[tuple[int, ...], int],
    points: int,
    is_best: bool,
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "lr": rate.lr,
        "runs": [
            _run(row, rate, curves, steps, points, is_best)
            for row in rate.rows
            if row.status != "todo"
        ],
    }
    if rate.scores:
        found["mean"] = _rounded(rate.mean)
        found["bands"] = [[_rounded(edge) for edge in band(rate.scores, kind)] for kind in BANDS]
    return found


def _run(
    row: RunRow,
    rate: Rate,
    curves: Curves,
    steps: dict[tuple[int, ...], int],
    points: int,
    is_best: bool,
) -> list[Any]:
    """[id, seed, status, score or null], followed by the curve if there is one.

    A curve is [index into the lists of steps, test losses, scores], and at the best rate also the
    train losses.
    """
    score = rate.scores.get(row.spec["seed"]) if row.has_result else None
    found: list[Any] = [_name(row.run_id), row.spec["seed"], row.status, _rounded(score)]
    curve = thin(curves.get(row.run_id, ()), points)
    if curve:
        which = steps.setdefault(tuple(point.step for point in curve), len(steps))
        scores = [_rounded(point.score(row.score_name), 3) for point in curve]
        losses = [[_significant(point.test_loss) for point in curve]]
        trained = [[_significant(point.train_loss) for point in curve]] if is_best else []
        found.append([which, *losses, scores, *trained])
    return found


def _levels(cell: Cell) -> dict[str, float]:
    """Losses at which a model may plateau; empty for a task that this version does not know."""
    try:
        return {
            _name(name): _significant(level) or 0.0
            for name, level in plateaus(cell.rows[0].spec.get("task", {})).items()
        }
    except (SpecError, ValueError, TypeError, AttributeError):
        return {}


def _window(window: Window | None) -> list[Any] | None:
    return [window.low, window.high, window.open_low, window.open_high] if window else None


def _name(text: str) -> str:
    return plain(text, LONGEST_LINE)


def _rounded(value: float | None, digits: int = 4) -> float | None:
    """Round a share. A share below 1 is never rounded up to 1."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits) if value >= 1 else min(round(value, digits), 1 - 10**-digits)


def _significant(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
