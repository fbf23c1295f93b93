"""W as a function of tau: the width of a cell's window for every score that may count as solved.

A window's width depends on the threshold, and two models may change their order with it. Each point
has an interval over other seeds (other_seeds.py).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from recollect.analysis.cells import Cell
from recollect.analysis.seeds.other_seeds import DRAWS, draw_windows, interval_of
from recollect.analysis.seeds.resampling import Interval
from recollect.analysis.windows import TAU, Window, find_window

# The thresholds at which claims are judged: this package's, the study's, and one near the top.
TAUS = (TAU, 0.95, 0.98)
DRAWN_TAUS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95, 0.96, 0.97, 0.98, 0.99)


@dataclass(frozen=True)
class ThresholdWindow:
    """W(tau) of one cell."""

    tau: float
    decades: float  # 0 where the mean score never reaches tau
    is_open: bool  # the grid ends inside the window, so `decades` is a lower bound
    interval: Interval | None  # of the decades, 95 %; see SeedSpread


def windows_by_threshold(
    cell: Cell, taus: Sequence[float] = DRAWN_TAUS, draws: int = DRAWS
) -> tuple[ThresholdWindow, ...]:
    """Return one point per tau, in their order; none before any run has a score."""
    rates = cell.scored_rates
    if not rates:
        return ()
    # The same draws serve every tau, so that within each draw the width never grows with tau.
    drawn = draw_windows(cell, taus, draws)
    intervals = [interval_of(own.widths) for own in drawn] if drawn else [None] * len(taus)
    lrs, means = [rate.lr for rate in rates], [rate.mean for rate in rates]
    return tuple(
        _point(tau, find_window(lrs, means, tau), interval)
        for tau, interval in zip(taus, intervals, strict=True)
    )


def _point(tau: float, found: Window | None, interval: Interval | None) -> ThresholdWindow:
    return ThresholdWindow(
        tau=tau,
        decades=found.decades if found else 0.0,
        is_open=bool(found and found.is_open),
        interval=interval,
    )
