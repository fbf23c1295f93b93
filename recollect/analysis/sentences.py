"""A cell's summary as sentences: the result first, then its limitations; comparisons of cells."""

import math
from collections.abc import Callable, Collection, Sequence

from recollect.analysis.cells import Cell
from recollect.analysis.summary import CellSummary, count_statuses
from recollect.analysis.windows import Window
from recollect.analysis.wording import and_text, count_text, rate_text, score_text

MOST_TOLD = 12  # cells that get a sentence each


def sentence(summary: CellSummary) -> str:
    """Return the result of a cell as one sentence."""
    cell, best = summary.cell, summary.best
    if best is None:
        states = ", ".join(
            f"{count} {status}" for status, count in count_statuses(cell.rows).items() if count
        )
        return f"{cell.name} has no result yet ({states})."
    if cell.all_diverged:
        return (
            f"{cell.name} diverged in every run ({count_text(cell.scored_runs, 'run')}), whatever "
            "the rate."
        )
    reached = f"{best_text(cell, summary.tau)} at {rate_text(best.lr)}"
    if summary.window is None:
        # The text does not say "not yet": a search may know enough without the remaining runs.
        share = f", {cell.scored_runs} of {count_text(len(cell.rows), 'run')} done"
        return (
            f"{cell.name} does not solve it{share if _pending(cell) else ''}: {reached}, below "
            f"{summary.tau:g} (chance {score_text(cell.chance)})."
        )
    if len(cell.scored_rates) == 1:
        return (
            f"{cell.name} solves it ({reached}); with a single rate tried, nothing is known about "
            "the window."
        )
    return f"{cell.name} solves it ({reached}) over {decades_text(summary.window)}."


def closing(summaries: Sequence[CellSummary], ended: Collection[str]) -> list[str]:
    """Return the results after a call that ended the runs `ended`: a sentence for each cell, or, if
    there are many, for each cell with such a run, and one line that counts the other cells.
    """
    if len(summaries) <= MOST_TOLD:
        return [sentence(summary) for summary in summaries]
    trained = [own for own in summaries if any(row.run_id in ended for row in own.cell.rows)]
    told = trained[:MOST_TOLD]
    others = len(summaries) - len(told)
    without = sum(own.best is None for own in summaries) - sum(own.best is None for own in told)
    noun = "other cell" if told else "cell"
    return [
        *map(sentence, told),
        f"{count_text(others - without, noun)} with a result, {without:,} without.",
    ]


def cautions(summary: CellSummary) -> list[str]:
    """Return what limits the sentence: edges of the grid, seeds that disagree, missing runs."""
    cell, best, window = summary.cell, summary.best, summary.window
    found: list[str] = []
    if "@" in cell.mixer:
        found.append(f"{cell.mixer} sees more than its own past; no fair comparison with others.")
    if window and len(cell.scored_rates) > 1:
        found += _edge_cautions(cell, "The window reaches", window.open_low, window.open_high)
    elif best and not cell.all_diverged and len(cell.scored_rates) > 1:
        rates = cell.scored_rates
        found += _edge_cautions(cell, "The best rate is at", best is rates[0], best is rates[-1])
    if best and 0 < summary.solved_seeds < len(best.scores):
        found.append(
            f"Only {summary.solved_seeds} of {len(best.scores)} seeds solve it at the best rate."
        )
    missing = len(cell.rows) - cell.scored_runs
    if best and missing:
        found.append(f"{missing} of {count_text(len(cell.rows), 'run')} without a result.")
    return found


def _edge_cautions(cell: Cell, what: str, at_low: bool, at_high: bool) -> list[str]:
    """Tell apart two cases beyond an end of the grid: nothing planned, or no result yet."""
    done, planned = cell.scored_rates, cell.rates
    ends = [
        ("smaller", at_low, done[0] is planned[0]),
        ("larger", at_high, done[-1] is planned[-1]),
    ]
    beyond = [side for side, at_end, is_last in ends if at_end and is_last]
    waiting = [side for side, at_end, is_last in ends if at_end and not is_last]
    found = [f"{what} the edge of the grid: try {' and '.join(beyond)} rates."] if beyond else []
    return found + (
        [f"{what} the last rate with a result; {' and '.join(waiting)} ones have none yet."]
        if waiting
        else []
    )


def _pending(cell: Cell) -> bool:
    return any(row.status in ("todo", "running") for row in cell.rows)


def best_text(cell: Cell, tau: float = 1.0) -> str:
    """Return e.g. "best 0.93". A mean over diverged runs only is not called a best. A score below
    tau is never rounded up to tau.
    """
    if cell.best is None:
        return "no result"
    return "every run diverged" if cell.all_diverged else f"best {_told(cell.best.mean, tau)}"


def _told(score: float, tau: float) -> str:
    """Return the score; cut it off after a fourth digit where three would round up to tau."""
    text = score_text(score)
    return text if score >= tau or float(text) < tau else f"{math.floor(score * 1e4) / 1e4:.4f}"


def decades_text(window: Window) -> str:
    """Return "1.4 decades (2e-4 to 5e-3)", with "at least" if the grid ends inside the window."""
    edges = f"{rate_text(window.low)} to {rate_text(window.high)}"
    return f"{_bound(window)}{window.decades:.1f} decades ({edges})"


# ---- cells side by side ----


def several_rates(cell: Cell) -> bool:
    """Whether a cell has at least two rates; with fewer there is nothing to call a window."""
    return len(cell.scored_rates) > 1


def ranking(
    named: Sequence[tuple[str, CellSummary]], is_searched: Callable[[Cell], bool] = several_rates
) -> list[str]:
    """Return sentences that compare cells of one task and size under the given names: windows from
    the widest to the narrowest, the cells that do not solve it, the fastest learner, and the cells
    whose window a sparse grid may miss.

    Return nothing for fewer than two cells with a result. Leave out the windows of cells for which
    `is_searched` is false.
    """
    scored = [(name, summary) for name, summary in named if summary.best]
    if len(scored) < 2:
        return []
    searched = [(name, summary) for name, summary in scored if is_searched(summary.cell)]
    texts = [_widest(searched), _unsolved(scored), _fastest(scored), _missed(searched)]
    return [text for text in texts if text]


def _widest(searched: Sequence[tuple[str, CellSummary]]) -> str:
    windows = [(name, summary.window) for name, summary in searched if summary.window]
    windows.sort(key=lambda pair: -pair[1].decades)
    if not windows:
        return ""
    (first, widest), *others = windows
    rest = [f"{name} ({_bound(window)}{window.decades:.1f})" for name, window in others]
    return (
        f"The widest window is that of {first}, {decades_text(widest)}"
        + (f"; then {and_text(rest)}" if rest else "")
        + "."
    )


def _unsolved(scored: Sequence[tuple[str, CellSummary]]) -> str:
    below = [(name, summary) for name, summary in scored if not summary.window]
    below.sort(key=lambda pair: -(pair[1].best.mean if pair[1].best else 0.0))
    if not below:
        return ""
    names = [f"{name} ({best_text(own.cell, own.tau)})" for name, own in below]
    verb = "stays" if len(names) == 1 else "stay"
    return f"{and_text(names)} {verb} below {below[0][1].tau:g} at every rate tried."


def _fastest(scored: Sequence[tuple[str, CellSummary]]) -> str:
    steps = sorted(
        (summary.steps_to_solve, name)
        for name, summary in scored
        if summary.steps_to_solve is not None
    )
    if len(steps) < 2 or steps[0][0] == steps[-1][0]:
        return ""
    least, most = steps[0][0], steps[-1][0]
    first, last = ([name for step, name in steps if step == end] for end in (least, most))
    rates, verb = ("its best rate", "solves") if len(first) == 1 else ("their best rates", "solve")
    return (
        f"At {rates} {and_text(first)} {verb} it first, after {least:,.0f} steps, and "
        f"{and_text(last)} last, after {most:,.0f}."
    )


def _missed(searched: Sequence[tuple[str, CellSummary]]) -> str:
    missed = [
        f"{name} (found with probability {summary.luck:.0%})"
        for name, summary in searched
        if summary.window and not summary.window.is_open and summary.luck < 1
    ]
    if not missed:
        return ""
    return f"A grid of four rates, shifted at random, may miss the window of {and_text(missed)}."


def _bound(window: Window) -> str:
    return "at least " if window.is_open else ""
