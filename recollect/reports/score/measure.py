"""Computes the numbers of a card from its rows."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis import Cell, CellSummary, Curves, get_setting, group_cells, summarise
from recollect.reports.score.recipe import CardCell, card_cell
from recollect.rows import RunRow


@dataclass(frozen=True)
class MixerScore:
    """The results of the card for one mixer."""

    label: str
    cells: dict[CardCell, CellSummary]  # in the order of the card; the first is the headline
    # This and the next two are for the headline cell.
    parameters: int | None
    state_size: int | None
    run_steps_per_s: float | None  # measured while it trained, evaluations included
    planned: int
    missing: int  # runs without a result

    def rank_key(self, cell: CardCell) -> tuple[float, float]:
        """Larger is better: the width of the window, then the best score."""
        summary = self.cells.get(cell)
        if summary is None or summary.best is None:
            return -1.0, -math.inf
        return summary.window.decades if summary.window else -1.0, summary.best.mean


def score_mixer(
    label: str, rows: Sequence[RunRow], curves: Curves, planned: int | None = None
) -> MixerScore:
    """Score one mixer by its `rows`, in the order of the card, which has `planned` runs."""
    cells = sorted(group_cells(rows), key=lambda cell: rows.index(cell.rows[0]))
    headline = cells[0]
    total = len(rows) if planned is None else planned
    return MixerScore(
        label=label,
        cells={
            card_cell(summary.cell.rows[0].spec): summary for summary in summarise(cells, curves)
        },
        parameters=headline.parameters,
        state_size=headline.state_size,
        run_steps_per_s=_speed(headline.rows),
        planned=total,
        missing=total - sum(cell.scored_runs for cell in cells),
    )


def cell_text(cell: Cell) -> str:
    """A cell of the card in words: "3 pairs in 12 tokens, width 64, 2 layers"."""
    pairs, length, width, depth = (
        get_setting(cell.rows[0], key)
        for key in ("task.pairs", "task.length", "model.width", "model.depth")
    )
    return f"{pairs} pairs in {length} tokens, width {width}, {depth} layers"


def _speed(rows: Sequence[RunRow]) -> float | None:
    """Run-steps per second of all runs together: the time of a run is its share of the time of its
    population.
    """
    timed = [(row.steps, row.wall_s) for row in rows if row.steps and row.wall_s]
    seconds = sum(wall_s for _, wall_s in timed)
    return sum(steps for steps, _ in timed) / seconds if seconds else None
