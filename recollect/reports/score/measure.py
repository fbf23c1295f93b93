"""The numbers of a card, from its rows."""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis import (
    Cell,
    CellSummary,
    Curves,
    ScalingPoint,
    best_points,
    get_setting,
    group_cells,
    summarise,
)
from recollect.rows import RunRow


@dataclass(frozen=True)
class MixerScore:
    """What the card says about one mixer.

    The standard cells are those of the first cell's width and length.
    """

    label: str
    windows: dict[int, CellSummary]  # the standard cells by their depth
    # The deepest standard cell and those like it at other widths, each at its best rate.
    widths: tuple[ScalingPoint, ...]
    lengths: tuple[ScalingPoint, ...]
    parameters: int | None  # of the deepest standard cell, as the next two
    state_size: int | None
    run_steps_per_s: float | None  # measured while it trained, evaluations included
    planned: int
    missing: int  # runs without a result


def score_mixer(label: str, rows: Sequence[RunRow], curves: Curves) -> MixerScore:
    """`rows` are one mixer's, in the order of the card."""
    cells = group_cells(rows)
    width, length = _sizes(cells[0])
    standard = sorted((cell for cell in cells if _sizes(cell) == (width, length)), key=_depth)
    deepest = standard[-1]
    like = [cell for cell in cells if _depth(cell) == _depth(deepest)]
    widths = best_points([cell for cell in like if _sizes(cell)[1] == length], "model.width")
    lengths = best_points([cell for cell in like if _sizes(cell)[0] == width], "task.length")
    own = next((point for point in widths if point.cell is deepest), None)
    return MixerScore(
        label=label,
        windows={_depth(summary.cell): summary for summary in summarise(standard, curves)},
        widths=tuple(widths),
        lengths=tuple(lengths),
        parameters=own.parameters if own else None,
        state_size=own.state_size if own else None,
        run_steps_per_s=_speed(deepest.rows),
        planned=len(rows),
        missing=len(rows) - sum(cell.scored_runs for cell in cells),
    )


def _sizes(cell: Cell) -> tuple[int, int]:
    """Width and length."""
    return get_setting(cell.rows[0], "model.width"), get_setting(cell.rows[0], "task.length")


def _depth(cell: Cell) -> int:
    return int(get_setting(cell.rows[0], "model.depth"))


def _speed(rows: Sequence[RunRow]) -> float | None:
    """A run's time is its share of its population's, so this is the speed of all together."""
    timed = [(row.steps, row.wall_s) for row in rows if row.steps and row.wall_s]
    seconds = sum(wall_s for _, wall_s in timed)
    return sum(steps for steps, _ in timed) / seconds if seconds else None
