"""The score of a cell at its best rate and the window around it, as far as they are known.

In a strict reading, only rates with enough seeds count. A score is known exactly only after a
search that is fine and wide enough, and a window only on a fine grid. Both are also known if the
runs that such a grid still lacks would hardly change them (`--search best`, `--search edges`), and
known to lie between two values if a search has begun. Otherwise every trained run counts.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from recollect.analysis import Cell, Rate, count_text, decades_text, rate_text, score_text
from recollect.analysis.seeds.other_seeds import Draw
from recollect.analysis.seeds.prediction import CONFIDENCE
from recollect.analysis.windows import find_window
from recollect.reports.paper.claims.checks import Measure, join
from recollect.reports.paper.claims.thresholds import (
    FINEST_STEP,
    LEAST_RATES,
    LEAST_SEEDS,
    LEAST_SPAN,
    MOST_NOISE,
    NOISES,
)
from recollect.reports.paper.claims.wanted import BEYOND, scored_runs
from recollect.reports.paper.study import RATES
from recollect.running.searching.best import TOLERANCE as BEST_TOLERANCE
from recollect.running.searching.best import is_covered
from recollect.running.searching.edges import TOLERANCE as EDGE_TOLERANCE
from recollect.running.searching.edges import bounds, is_known
from recollect.running.searching.outlook import best_outlook, window_outlook


def tuned(cell: Cell, name: str, strict: bool, brief: bool = False) -> Measure:
    """The score at the best rate: exact after a proper search or if not `strict`, else a lower
    bound.

    `brief` omits every text but the name. It is for callers that need only the numbers, several
    hundred times.
    """
    whole, cell = cell, trusted(cell) if strict else cell
    best = cell.best
    if best is None:
        return Measure(0.0, 1.0, "", f"{name}: {_wanted_seeds(strict)}")
    lacking = search_lacks(cell) if strict else ""
    planned = [rate.lr for rate in whole.rates]
    if lacking and not _grid_lacks(planned) and _is_searchable(whole) and is_covered(whole):
        return _searched_best(whole, best, name, brief)
    return Measure(
        best.mean,
        1.0 if lacking else best.mean,
        name if brief else f"{name}: {_score_told(cell, best)}",
        f"{name}: {lacking}" if lacking else "",
        noise=standard_error([best]),
    )


def window(cell: Cell, name: str, strict: bool, tau: float, brief: bool = False) -> Measure:
    """W(tau) in decades; a lower bound if the grid ends inside the window.

    After a proper search, a model that never reaches tau has a window of 0. `brief` is as in
    `tuned`.
    """
    if strict and (known := _searched_window(cell, name, tau, brief)):
        return known
    found = _tried_window(cell, name, strict, tau, brief)
    if strict and found.low == 0 and found.high == math.inf:
        return _bounded_window(cell, name, tau, brief) or found
    return found


def up_to_gaps(found: Measure, cell: Cell, name: str, tau: float, draw: Draw | None) -> Measure:
    """The window, which may be wider if gaps in it are noise: from as it was found to without them.

    `cell` must have a score at every rate; `draw` is one of it with other seeds, or None. A gap is
    a single rate below tau between two that reach it, by less than the noise of the cell's rates
    that reach it. Noise at an edge moves it by a part of a step of the grid; a gap may halve a
    window.
    """
    tried = trusted(cell).scored_rates
    if len(tried) < len(cell.rates):
        return found
    noise = standard_error(rate for rate in tried if rate.mean >= tau)
    least = tau - min(NOISES * noise, MOST_NOISE)
    rates = draw.rates if draw else [rate.lr for rate in tried]
    means = draw.means if draw else [rate.mean for rate in tried]
    gaps = [
        place
        for place in range(1, len(means) - 1)
        if least <= means[place] < tau <= min(means[place - 1], means[place + 1])
    ]
    whole = [tau if place in gaps else mean for place, mean in enumerate(means)]
    closed = find_window(rates, whole, tau) if gaps else None
    if closed is None or closed.decades <= found.high:
        return found
    inside = [rate_text(rates[gap]) for gap in gaps if closed.low < rates[gap] < closed.high]
    more = "or more " if closed.is_open else ""
    told = f"{closed.decades:.1f} {more}if the gap at {' and '.join(inside)} is noise"
    return replace(
        found,
        high=math.inf if closed.is_open else closed.decades,
        text=f"{found.text}, {told}",
        lacks=join([found.lacks, f"{name}: more seeds at {' and '.join(inside)}"]),
    )


def _tried_window(cell: Cell, name: str, strict: bool, tau: float, brief: bool) -> Measure:
    """The window of the rates that count, whatever else may be trained."""
    cell = trusted(cell) if strict else cell
    rates = [rate.lr for rate in cell.scored_rates]
    found = cell.window(tau)
    if found is None and strict and rates and not search_lacks(cell):
        best = cell.best
        assert best is not None
        text = name if brief else f"{name}: no window, {_score_told(cell, best)}"
        return Measure(0.0, 0.0, text)
    if found is None or len(rates) < 3:
        lacks = (
            _wanted_seeds(strict)
            if not rates
            else "more rates"
            if found
            else f"a setting in which it reaches {tau:g}"
        )
        return Measure(0.0, math.inf, "", f"{name}: {lacks}")
    text = name if brief else f"{name}: {decades_text(found)[:-1]}{_seeds_told(cell, tau)})"
    if strict and _widest_step(rates) > FINEST_STEP:
        return Measure(0.0, math.inf, text, f"{name}: rates at most {FINEST_STEP:g} decades apart")
    if found.is_open:
        sides = " and ".join(_open_sides(found.open_low, found.open_high))
        return Measure(found.decades, math.inf, text, f"{name}: {sides} rates")
    return Measure(found.decades, found.decades, text)


def _searched_best(cell: Cell, best: Rate, name: str, brief: bool) -> Measure:
    """The best score of a cell with untrained runs, and how far these runs may raise it.

    `best` is the best of the rates with enough seeds.
    """
    high = max(best.mean, best_outlook(cell).high)
    lacks = f"{name}: its best score to {BEST_TOLERANCE:g}"
    return Measure(
        best.mean,
        min(1.0, high),
        name if brief else f"{name}: {_searched_told(cell, best)}",
        lacks if high > best.mean + BEST_TOLERANCE else "",
        noise=standard_error([best]),
    )


def _searched_told(cell: Cell, best: Rate) -> str:
    """The best score with enough seeds in words, and a better one with fewer."""
    higher = cell.best
    assert higher is not None
    few = (
        f"; {score_text(higher.mean)} with {count_text(len(higher.scores), 'seed')} at "
        f"{rate_text(higher.lr)}"
        if score_text(higher.mean) != score_text(best.mean) and higher.mean > best.mean
        else ""
    )
    return f"{_score_told(trusted(cell), best)[:-1]}{few}; {_tried_told(cell)})"


def _searched_window(cell: Cell, name: str, tau: float, brief: bool) -> Measure | None:
    """The window of a cell with untrained runs; None if these runs may change it noticeably."""
    if not cell.scored_rates or not _is_searchable(cell):
        return None
    if not is_known(cell, tau):
        return None
    outlook = window_outlook(cell, tau)
    found = cell.window(tau)
    told = "" if brief else f"; {_tried_told(cell)}"
    if found is None:
        assert cell.best is not None
        text = name if brief else f"{name}: no window, {_score_told(cell, cell.best)}{told}"
        return Measure(0.0, 0.0, text)
    text = name if brief else f"{name}: {decades_text(found)[:-1]}{told})"
    if found.is_open:
        sides = " and ".join(_open_sides(found.open_low, found.open_high))
        return Measure(outlook.low, math.inf, text, f"{name}: {sides} rates")
    return Measure(outlook.low, outlook.high, text)


def _bounded_window(cell: Cell, name: str, tau: float, brief: bool) -> Measure | None:
    """The window of a cell whose search has begun: from where to where it may still lie."""
    between = bounds(cell, tau) if _is_searchable(cell) else None
    if between is None:
        return None
    low, high = between
    lacks = f"{name}: its window to {EDGE_TOLERANCE:g} decades"
    if window_outlook(cell, tau).is_open:
        told, high = f"at least {low:.1f} decades", math.inf
    else:
        told = f"{low:.1f} to {high:.1f} decades"
    sure = f"{100 * CONFIDENCE:.0f} % sure so far, {_tried_told(cell)}"
    return Measure(low, high, name if brief else f"{name}: {told} ({sure})", lacks)


def _is_searchable(cell: Cell) -> bool:
    """Whether the cell has untrained runs on a fine enough grid, so that a search of part of the
    grid can predict the rest.
    """
    planned = [rate.lr for rate in cell.rates]
    return (
        any(row.status == "todo" for row in cell.rows)
        and min(len(rate.rows) for rate in cell.rates) >= LEAST_SEEDS
        and len(planned) >= 3
        and _widest_step(planned) <= FINEST_STEP
    )


def _tried_told(cell: Cell) -> str:
    todo = sum(row.status == "todo" for row in cell.rows)
    tried = len(cell.scored_rates)
    return f"searched with {len(cell.rows) - todo} of {len(cell.rows)} runs at {tried} rates"


def redrawn_score(trained: Measure, draw: Draw) -> Measure:
    """The score at the best rate with other seeds. Runs that were not trained may raise it as far
    as that of the trained cell. What is not known of the trained cell stays unknown.
    """
    if (trained.low, trained.high) == (0.0, 1.0):
        return trained
    is_bound = trained.low < trained.high == 1.0
    high = 1.0 if is_bound else min(1.0, draw.best + trained.high - trained.low)
    return replace(trained, low=draw.best, high=high)


def redrawn_window(trained: Measure, draw: Draw, tau: float) -> Measure:
    """The window with other seeds. It does not vary where untried rates cannot be drawn, and what
    is not known of the trained cell stays unknown.
    """
    if not draw.is_whole or (trained.low, trained.high) == (0.0, math.inf):
        return trained
    found = draw.window(tau)
    decades = found.decades if found else 0.0
    is_open = found is not None and found.is_open
    return replace(trained, low=decades, high=math.inf if is_open else decades)


def missing_rates(cell: Cell, tau: float) -> tuple[float, ...]:
    """The rates that a cell lacks: all of the study's, or those beyond an open end of its window.

    Empty if the cell was searched at all of the study's rates and both edges are known.
    """
    if scored_runs(cell) < len(RATES) * LEAST_SEEDS:
        return RATES
    found = trusted(cell).window(tau)
    sides = _open_sides(found.open_low, found.open_high) if found else []
    return tuple(rate for side in sides for rate in BEYOND[side])


def trusted(cell: Cell) -> Cell:
    """The cell with only the rates that have enough seeds: a mean over fewer may be luck."""
    return replace(
        cell, rates=tuple(rate for rate in cell.rates if len(rate.scores) >= LEAST_SEEDS)
    )


def search_lacks(cell: Cell) -> str:
    """What the search lacks before its best score counts as tuned; empty if nothing."""
    return _grid_lacks([rate.lr for rate in cell.scored_rates])


def _grid_lacks(rates: Sequence[float]) -> str:
    if len(rates) < LEAST_RATES:
        return f"at least {LEAST_RATES:g} rates ({len(rates)} so far)"
    if math.log10(rates[-1] / rates[0]) < LEAST_SPAN:
        return f"rates over at least {LEAST_SPAN:g} decades"
    return ""


def standard_error(rates: Iterable[Rate]) -> float:
    """The standard error of a mean over seeds, pooled over all these rates."""
    several = [rate.scores.values() for rate in rates if len(rate.scores) > 1]
    if not several:
        return 0.0
    variances = []
    for scores in several:
        mean = sum(scores) / len(scores)
        variances.append(sum((score - mean) ** 2 for score in scores) / (len(scores) - 1))
    return math.sqrt(sum(variances) / len(variances) / min(map(len, several)))


def _score_told(cell: Cell, best: Rate) -> str:
    """The best score in words, with its seeds and the rates that were searched."""
    scores, rates = best.scores.values(), cell.scored_rates
    seeds = (
        f"{score_text(min(scores))}-{score_text(max(scores))}, {len(scores)} seeds, "
        if len(scores) > 1
        else "1 seed, "
    )
    search = (
        f"best of {len(rates)} rates {rate_text(rates[0].lr)} to {rate_text(rates[-1].lr)}: "
        if len(rates) > 1
        else "rate "
    )
    return f"{score_text(best.mean)} ({seeds}{search}{rate_text(best.lr)})"


def _seeds_told(cell: Cell, tau: float) -> str:
    """The spread of the windows of single seeds, and the number of rates."""
    rates = cell.scored_rates
    seeds = sorted({seed for rate in rates for seed in rate.scores})
    alone = []
    for seed in seeds:
        own = [rate for rate in rates if seed in rate.scores]
        found = find_window([rate.lr for rate in own], [rate.scores[seed] for rate in own], tau)
        alone.append(found.decades if found else 0.0)
    spread = f"; single seeds {min(alone):.1f}-{max(alone):.1f}" if len(seeds) > 1 else ""
    return f"{spread}; {len(rates)} rates"


def _open_sides(low: bool, high: bool) -> list[str]:
    return [side for side, is_open in (("smaller", low), ("larger", high)) if is_open]


def _wanted_seeds(strict: bool) -> str:
    return f"runs with {LEAST_SEEDS:g} seeds" if strict else "a finished run"


def _widest_step(rates: Sequence[float]) -> float:
    return max(math.log10(b / a) for a, b in pairwise(rates))
