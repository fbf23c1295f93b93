"""A mixer's card in one sentence: what it recalls, the width of its window, and its rank."""

import math
from collections.abc import Sequence

from recollect.analysis import CellSummary, get_setting, rate_text, score_text
from recollect.plotting.text import mixer_title
from recollect.reports.score.measure import MixerScore
from recollect.reports.score.recipe import CardCell


def verdict(score: MixerScore, baselines: Sequence[MixerScore]) -> str:
    """The result in the headline cell, the rank among baselines with that cell, and the number of
    missing runs.
    """
    headline, summary = next(iter(score.cells.items()))
    sentence = f"{score.label} {_result(summary)}"
    easier = [other for other in score.cells.values() if other.window is not None]
    if summary.best is not None and summary.window is None and easier:
        sentence += f"; {_result(easier[0])}"
    known = [other for other in baselines if headline in other.cells]
    if known and summary.best is not None:
        sentence += f"; {_rank(score, known, headline)}"
    missing = _missing(summary)
    if missing and summary.best is not None:
        sentence += f"; so far, {missing} of {len(summary.cell.rows)} runs are missing"
    return f"{sentence}."


def _missing(summary: CellSummary) -> int:
    """The number of its runs without a result."""
    return len(summary.cell.rows) - summary.cell.scored_runs


def _result(summary: CellSummary) -> str:
    pairs, width = (get_setting(summary.cell.rows[0], key) for key in ("task.pairs", "model.width"))
    what = f"{pairs} pairs at width {width}"
    if summary.best is None:
        return f"has no result on {what} yet"
    if summary.cell.all_diverged:
        return f"diverges at every rate tried on {what}"
    if summary.window is None:
        recalls = "has not recalled" if _missing(summary) else "does not recall"
        return (
            f"{recalls} {what}: best {score_text(summary.best.mean)} at "
            f"{rate_text(summary.best.lr)}, chance {score_text(summary.cell.chance)}"
        )
    window = summary.window
    bound = "at least " if window.is_open else ""
    centre = math.sqrt(window.low * window.high)
    return f"recalls {what} over {bound}{window.decades:.1f} decades, centre {rate_text(centre)}"


def _rank(score: MixerScore, known: Sequence[MixerScore], cell: CardCell) -> str:
    """The rank among all mixers, and the difference to the best baseline."""
    ranked = sorted(known, key=lambda other: other.rank_key(cell), reverse=True)
    place = 1 + sum(other.rank_key(cell) > score.rank_key(cell) for other in known)
    text = f"rank {place} of {len(known) + 1}"
    best = ranked[0]
    mine, theirs = (entry.cells[cell].window for entry in (score, best))
    if theirs is None:
        return text if mine is None else f"{text}, the only one with a window"
    name = mixer_title(best.label)
    if mine is None:
        return f"{text}; {name} has {theirs.decades:.1f} decades"
    apart = mine.decades - theirs.decades
    if abs(apart) < 0.05:
        return f"{text}; as wide as {name}"
    return f"{text}; {'wider' if apart > 0 else 'narrower'} than {name} by {abs(apart):.1f}"
