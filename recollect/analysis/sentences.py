"""A cell's summary as sentences: the result first, then what limits it."""

from recollect.analysis.cells import Cell
from recollect.analysis.summary import CellSummary, count_statuses
from recollect.analysis.windows import Window
from recollect.analysis.wording import count_text, rate_text, score_text


def sentence(summary: CellSummary) -> str:
    """What a cell showed, in one sentence."""
    cell, best = summary.cell, summary.best
    if best is None:
        states = ", ".join(
            f"{count} {status}" for status, count in count_statuses(cell.rows).items() if count
        )
        return f"{cell.name} has no result yet ({states})."
    if all(row.status == "diverged" for rate in cell.scored_rates for row in rate.scored):
        return (
            f"{cell.name} diverged in every run ({count_text(cell.scored_runs, 'run')}), whatever "
            "the rate."
        )
    reached = f"best {score_text(best.mean)} at {rate_text(best.lr)}"
    if summary.window is None:
        verdict = "has not solved it yet" if _pending(cell) else "does not solve it"
        return (
            f"{cell.name} {verdict}: {reached}, below {summary.tau:g} (chance "
            f"{score_text(cell.chance)})."
        )
    if len(cell.scored_rates) == 1:
        return (
            f"{cell.name} solves it ({reached}); with a single rate tried, nothing is known about "
            "the window."
        )
    return f"{cell.name} solves it ({reached}) over {decades_text(summary.window)}."


def cautions(summary: CellSummary) -> list[str]:
    """What limits the sentence: edges of the grid, split seeds, missing runs."""
    cell, best, window = summary.cell, summary.best, summary.window
    found: list[str] = []
    if window and len(cell.scored_rates) > 1:
        found += _edge_cautions(cell, "The window reaches", window.open_low, window.open_high)
    elif best and len(cell.scored_rates) > 1:
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
    """Beyond an end of the grid either nothing was planned, or runs have no result yet."""
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


def decades_text(window: Window) -> str:
    """1.4 decades (2e-4 to 5e-3), with "at least" where the grid ended first."""
    bound = "at least " if window.is_open else ""
    return (
        f"{bound}{window.decades:.1f} decades ({rate_text(window.low)} to {rate_text(window.high)})"
    )
