"""Texts in the study's figures about their runs: axis labels, gaps, the small print."""

from collections.abc import Sequence

from recollect.analysis import Cell
from recollect.plotting import small_print as shared
from recollect.reports.paper.figures.definition import FigureDefinition
from recollect.reports.paper.figures.figure_cells import FigureCell


def small_print(
    definition: FigureDefinition,
    cells: Sequence[FigureCell],
    band: str,
    left_out: Sequence[str] = (),
) -> list[str]:
    """The number of runs, the meaning of the band, the absent models, size and recipe."""
    runs = [cell.runs for cell in cells]
    absent = definition.absent(cells)
    return [
        f"{shared.averaged_text(runs, band)} {shared.results_text(runs)}"
        + (f" Not run: {', '.join(absent)}." if absent else "")
        + (f" Planned, without a result: {'; '.join(left_out)}." if left_out else ""),
        *setting_lines(definition, cells),
    ]


def setting_lines(definition: FigureDefinition, cells: Sequence[FigureCell]) -> list[str]:
    """The recipe, and before it the size that the study shows if it is not among these."""
    recipe = f"Recipe: {shared.recipe_text([cell.runs.rows[0].spec for cell in cells])}."
    shown = {cell.size for cell in cells if cell.runs.scored_rates}
    if definition.size is None or definition.size in shown:
        return [recipe]
    length, pairs = definition.size
    return [f"The study shows length {length}, {pairs} pairs, of which there is no result.", recipe]


def score_label(cells: Sequence[FigureCell]) -> str:
    """The names of the scores shown, for an axis."""
    return shared.score_label([cell.runs for cell in cells])


def why_missing(runs: Cell | None) -> str:
    """Why a cell has no result: it was not planned ("not run"), or its runs gave none."""
    return "not run" if runs is None else "no result"


def share_text(share: float) -> str:
    """A share with two decimals. It is 1.00 only for exactly 1."""
    return "1.00" if share == 1 else f"{min(share, 0.994):.2f}"
