"""What the study's figures say about the runs they show: axis labels, gaps, the small print."""

from collections.abc import Sequence

from recollect.analysis import Cell
from recollect.plotting import small_print as shared
from recollect.reports.paper.figures.definition import FigureDefinition
from recollect.reports.paper.figures.figure_cells import FigureCell


def small_print(definition: FigureDefinition, cells: Sequence[FigureCell], band: str) -> list[str]:
    """How many runs there are, what the band is, which models are absent, and the recipe."""
    runs = [cell.runs for cell in cells]
    absent = definition.absent(cells)
    return [
        f"{shared.averaged_text(runs, band)} {shared.results_text(runs)}"
        + (f" Not run: {', '.join(absent)}." if absent else ""),
        f"Recipe: {shared.recipe_text([cell.rows[0].spec for cell in runs])}.",
    ]


def score_label(cells: Sequence[FigureCell]) -> str:
    """The names of the scores shown, for an axis."""
    return shared.score_label([cell.runs for cell in cells])


def why_missing(runs: Cell | None) -> str:
    """A cell without a result was never planned, or has not ended well."""
    return "not run" if runs is None else "no result"


def share_text(share: float) -> str:
    """Two decimals, and never 1.00 for what is not perfect."""
    return "1.00" if share == 1 else f"{min(share, 0.994):.2f}"
