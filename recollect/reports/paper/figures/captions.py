"""What the study's figures say about the runs they show: axis labels, gaps, the small print."""

from collections.abc import Sequence

from recollect.analysis import Cell
from recollect.plotting.text import SCORE_NAMES
from recollect.reports.paper.figures.definition import FigureDefinition
from recollect.reports.paper.figures.figure_cells import FigureCell, recipe_text

BAND_WORDS = {
    "min-max": "band: lowest to highest seed",
    "std": "band: one standard deviation over seeds",
    "interval": "band: 95 % interval of the mean over seeds",
}


def small_print(definition: FigureDefinition, cells: Sequence[FigureCell], band: str) -> list[str]:
    """How many runs there are, what the band is, which models are absent, and the recipe."""
    rows = [row for cell in cells for row in cell.runs.rows]
    scored = sum(cell.runs.scored_runs for cell in cells)
    diverged = sum(row.status == "diverged" for row in rows)
    seeds = max((len(rate.scores) for cell in cells for rate in cell.runs.rates), default=0)
    averaged = f"Mean over {seeds} seeds, {BAND_WORDS[band]}." if seeds > 1 else "One seed."
    ended = (
        f"{scored} of {len(rows)} planned runs have a result, {diverged} of them diverged "
        "(counted at chance)."
    )
    absent = definition.absent(cells)
    return [
        f"{averaged} {ended}" + (f" Not run: {', '.join(absent)}." if absent else ""),
        f"Recipe: {recipe_text(cells)}.",
    ]


def score_label(cells: Sequence[FigureCell]) -> str:
    """The names of the scores shown, for an axis."""
    names = (cell.runs.score_name for cell in cells)
    return " / ".join(dict.fromkeys(SCORE_NAMES.get(name, name) for name in names))


def why_missing(runs: Cell | None) -> str:
    """A cell without a result was never planned, or has not ended well."""
    return "not run" if runs is None else "no result"


def share_text(share: float) -> str:
    """Two decimals, and never 1.00 for what is not perfect."""
    return "1.00" if share == 1 else f"{min(share, 0.994):.2f}"
