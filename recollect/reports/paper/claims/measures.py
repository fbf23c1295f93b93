"""The score of a cell at its best rate and the window around it, as far as they are known.

Strictly, only rates with enough seeds count, a score is known exactly only after a search that is
fine and wide enough, and a window only on a fine grid. As it is, whatever was trained counts.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from recollect.analysis import Cell, decades_text, rate_text, score_text, seed_spread
from recollect.reports.paper.claims.checks import Measure
from recollect.reports.paper.claims.thresholds import (
    FINEST_STEP,
    LEAST_RATES,
    LEAST_SEEDS,
    LEAST_SPAN,
    WINDOW,
)


def tuned(cell: Cell, name: str, strict: bool) -> Measure:
    """The score at the best rate: exact after a proper search (or as it is), else at least that."""
    cell = trusted(cell) if strict else cell
    best = cell.best
    if best is None:
        return Measure(0.0, 1.0, "", f"{name}: {_wanted_seeds(strict)}")
    scores = best.scores.values()
    seeds = (
        f"{score_text(min(scores))}-{score_text(max(scores))}, {len(scores)} seeds, "
        if len(scores) > 1
        else "1 seed, "
    )
    text = f"{name}: {score_text(best.mean)} ({seeds}rate {rate_text(best.lr)})"
    lacking = search_lacks(cell) if strict else ""
    return Measure(
        best.mean, 1.0 if lacking else best.mean, text, f"{name}: {lacking}" if lacking else ""
    )


def window(cell: Cell, name: str, strict: bool) -> Measure:
    """W(WINDOW) in decades; at least that where the grid ends first.

    A model that solves nothing has no window.
    """
    cell = trusted(cell) if strict else cell
    rates = [rate.lr for rate in cell.scored_rates]
    found = cell.window(WINDOW)
    if found is None or len(rates) < 3:
        lacks = (
            _wanted_seeds(strict)
            if not rates
            else "more rates"
            if found
            else f"a setting in which it reaches {WINDOW:g}"
        )
        return Measure(0.0, math.inf, "", f"{name}: {lacks}")
    spread = seed_spread(cell, WINDOW)
    seeds = (
        f"; single seeds {spread.low:.1f}-{spread.high:.1f}" if spread and spread.seeds > 1 else ""
    )
    text = f"{name}: {decades_text(found)[:-1]}{seeds})"
    if strict and _widest_step(rates) > FINEST_STEP:
        return Measure(0.0, math.inf, text, f"{name}: rates at most {FINEST_STEP:g} decades apart")
    if found.is_open:
        sides = " and ".join(
            side
            for side, is_open in (("smaller", found.open_low), ("larger", found.open_high))
            if is_open
        )
        return Measure(found.decades, math.inf, text, f"{name}: {sides} rates")
    return Measure(found.decades, found.decades, text)


def trusted(cell: Cell) -> Cell:
    """Only the rates with enough seeds: a mean over fewer may be luck."""
    return replace(
        cell, rates=tuple(rate for rate in cell.rates if len(rate.scores) >= LEAST_SEEDS)
    )


def search_lacks(cell: Cell) -> str:
    """What keeps a best score from being called tuned."""
    rates = cell.scored_rates
    if len(rates) < LEAST_RATES:
        return f"at least {LEAST_RATES:g} rates ({len(rates)} so far)"
    if math.log10(rates[-1].lr / rates[0].lr) < LEAST_SPAN:
        return f"rates over at least {LEAST_SPAN:g} decades"
    return ""


def _wanted_seeds(strict: bool) -> str:
    return f"runs with {LEAST_SEEDS:g} seeds" if strict else "a finished run"


def _widest_step(rates: Sequence[float]) -> float:
    return max(math.log10(b / a) for a, b in pairwise(rates))
