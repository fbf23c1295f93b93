"""What the page's pictures are drawn from: cells, rates, runs and curves as one table of plain
values.

Names are made printable and short here; the page's script puts them in as text. Numbers are rounded
to what a screen can show.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from recollect.analysis import ZOOLOGY_RATES, CellSummary, Rate, Window, thin
from recollect.analysis.bands import BANDS, band
from recollect.analysis.cells import Cell
from recollect.analysis.dynamics import plateaus
from recollect.errors import SpecError
from recollect.reports.page.axes import Place, in_order, number
from recollect.reports.page.looks import line_style, plain
from recollect.rows import Evaluation, RunRow

MAX_POINTS = 60  # of one curve
MAX_ALL_POINTS = 250_000  # of all curves together: they are the largest part of a page
MIN_POINTS = 8
MAX_NAME = 160
SYMBOLS = {
    "o": "circle",
    "s": "square",
    "D": "diamond",
    "^": "triangle-up",
    "v": "triangle-down",
    "P": "cross",
    "h": "hexagon",
}
DASHES = {"-": "solid", "--": "dash", "-.": "dashdot", ":": "dot"}

Curves = Mapping[str, Sequence[Evaluation]]


def picture_data(
    summaries: Sequence[CellSummary], places: Sequence[Place], curves: Curves, tau: float
) -> dict[str, Any]:
    """Everything the script draws; the same for the same rows."""
    tasks, labels = _in_order_of_tasks(places), list(dict.fromkeys(place.label for place in places))
    widths, depths = (
        in_order([place.width for place in places]),
        in_order([place.depth for place in places]),
    )
    steps: dict[tuple[int, ...], int] = {}
    points = max(MIN_POINTS, min(MAX_POINTS, MAX_ALL_POINTS // max(1, len(curves))))
    cells = [
        _cell(summary, curves, steps, points)
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
        "tasks": [_name(task) for task in tasks],
        "widths": [_name(width) for width in widths],
        "widthNumbers": [number(width) for width in widths],
        "depths": [_name(depth) for depth in depths],
        "labels": [_look(index, label) for index, label in enumerate(labels)],
        "steps": [list(own) for own in steps],
        "cells": cells,
    }


def to_json(value: Any) -> str:
    """JSON that may stand inside a script element: no character in it can end the element or a line
    of JavaScript.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _in_order_of_tasks(places: Sequence[Place]) -> list[str]:
    return list(dict.fromkeys(place.task for place in places))


def _look(index: int, label: str) -> dict[str, str]:
    style = line_style(index)
    return {
        "name": _name(label),
        "colour": style.colour,
        "symbol": SYMBOLS[style.marker],
        "dash": DASHES[style.dash],
    }


def _cell(
    summary: CellSummary, curves: Curves, steps: dict[tuple[int, ...], int], points: int
) -> dict[str, Any]:
    cell = summary.cell
    return {
        "name": _name(cell.name),
        "chance": _rounded(cell.chance),
        "score": cell.score_name,
        "window": _window(summary.window),
        "best": cell.rates.index(summary.best) if summary.best else None,
        "parameters": _first(cell, "parameters"),
        "state": _first(cell, "state_size"),
        "levels": _levels(cell),
        "rates": [_rate(rate, curves, steps, points) for rate in cell.rates],
    }


def _rate(
    rate: Rate, curves: Curves, steps: dict[tuple[int, ...], int], points: int
) -> dict[str, Any]:
    found: dict[str, Any] = {
        "lr": rate.lr,
        "runs": [_run(row, rate, curves, steps, points) for row in rate.rows],
    }
    if rate.scores:
        found["mean"] = _rounded(rate.mean)
        found["bands"] = [[_rounded(edge) for edge in band(rate.scores, kind)] for kind in BANDS]
    return found


def _run(
    row: RunRow, rate: Rate, curves: Curves, steps: dict[tuple[int, ...], int], points: int
) -> list[Any]:
    """[id, seed, status, score or null] and, if the run has one, its curve: [which steps, test
    losses, scores].
    """
    score = rate.scores.get(row.spec["seed"]) if row.status in ("done", "diverged") else None
    found: list[Any] = [_name(row.run_id), row.spec["seed"], row.status, _rounded(score)]
    curve = thin(curves.get(row.run_id, ()), points)
    if curve:
        which = steps.setdefault(tuple(point.step for point in curve), len(steps))
        scores = [_rounded(point.score(row.score_name), 3) for point in curve]
        found.append([which, [_significant(point.test_loss) for point in curve], scores])
    return found


def _levels(cell: Cell) -> dict[str, float]:
    """Losses at which a model may rest; none for a task that is not known here, or not in this
    version.
    """
    try:
        return {
            _name(name): _significant(level) or 0.0
            for name, level in plateaus(cell.rows[0].spec.get("task", {})).items()
        }
    except (SpecError, ValueError, TypeError, AttributeError):
        return {}


def _window(window: Window | None) -> list[Any] | None:
    return [window.low, window.high, window.open_low, window.open_high] if window else None


def _first(cell: Cell, name: str) -> int | None:
    return next((getattr(row, name) for row in cell.rows if getattr(row, name) is not None), None)


def _name(text: str) -> str:
    return plain(text, MAX_NAME)


def _rounded(value: float | None, digits: int = 4) -> float | None:
    """A share; never a rounded-up 1 for one that is not."""
    if value is None or not math.isfinite(value):
        return None
    return round(value, digits) if value >= 1 else min(round(value, digits), 1 - 10**-digits)


def _significant(value: float) -> float | None:
    return float(f"{value:.4g}") if math.isfinite(value) else None
