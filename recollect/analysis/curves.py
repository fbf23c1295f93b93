"""What a run's curve tells: when it was solved, and a shorter version of itself for drawing."""

import math
import statistics
from collections.abc import Mapping, Sequence

from recollect.analysis.cells import Rate
from recollect.analysis.windows import TAU
from recollect.rows import Evaluation


def solve_step(curve: Sequence[Evaluation], score_name: str, tau: float = TAU) -> int | None:
    """The step of the first evaluation that reaches tau."""
    return next((point.step for point in curve if point.score(score_name) >= tau), None)


def steps_to_solve(
    rate: Rate, curves: Mapping[str, Sequence[Evaluation]], tau: float = TAU
) -> float | None:
    """Median over the finished seeds at one rate; a seed that never got there is infinitely late.

    None if so is the median.
    """
    steps = [solve_step(curves.get(row.run_id, ()), row.score_name, tau) for row in rate.scored]
    median = (
        statistics.median(math.inf if step is None else step for step in steps)
        if steps
        else math.inf
    )
    return median if math.isfinite(median) else None


def thin(curve: Sequence[Evaluation], limit: int) -> list[Evaluation]:
    """At most `limit` (two or more) points, evenly spread, with the first and the last among them."""
    if len(curve) <= limit:
        return list(curve)
    return [curve[round(index * (len(curve) - 1) / (limit - 1))] for index in range(limit)]
