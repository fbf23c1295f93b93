"""Texts in the study's figures about their runs: axis labels, gaps, the small print."""

from collections.abc import Sequence

from recollect.analysis import Cell
from recollect.plotting import small_print as shared
from recollect.reports.paper.figures.definition import FigureDefinition
from recollect.reports.paper.figures.figure_cells import FigureCell


def small_print(definition: FigureDefinition, cells: Sequence[FigureCell], band: str) -> list[str]:
    """The number of runs, the meaning of the band, the absent models, and the recipe."""
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
    """Why a cell has no result: it was not planned ("not run"), or its runs gave none."""
    return "not run" if runs is None else "no result"


def share_text(share: float) -> str:
    """A share with two decimals. It is 1.00 only for exactly 1."""
    return "1.00" if share == 1 else f"{min(share, 0.994):.2f}"
