"""Windows of learning rates that work, and the probability that a sparse grid hits one.

Window W(tau): the widest contiguous range of learning rates, in decades, where the score is at
least tau everywhere and within AS_GOOD of the best score somewhere. A single rate that happens to
score a little more than a whole range elsewhere is thus not taken for the window.

An edge lies between the last rate inside and the first outside, interpolated linearly in
log10(rate). Where the grid ends before the score falls, the edge is the last rate tried and the
window is *open* there: the true window is at least that wide.

Grid luck G(k): a searcher cuts a range of D decades into k equal slices of s = D / k decades and
tries one rate per slice, all at the same uniformly random place within their slices (a k-point log
grid with a random offset). Then, for a window of which W' decades lie inside the range,

    G(k) = P(at least one of the k rates lies in the window) = min(1, W' / s) = min(1, k W' / D).

This is exact, not an approximation: the slices repeat with period s, and an interval shorter than s
is hit by one point at most.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from recollect.errors import SpecError

TAU = 0.9  # default for the score from which a cell counts as solved
# A rate is as good as the best one if its score is this near: below a hundredth two scores coincide
# in a figure, and it is about the error of an evaluation.
AS_GOOD = 0.01
DIGITS = 12  # of a mean score
ROUNDING = 10**-DIGITS  # scores, and widths in decades, that differ by no more are equal
# The four rates of the grid behind most published numbers.
ZOOLOGY_RATES = (1e-4, 10 ** (-10 / 3), 10 ** (-8 / 3), 1e-2)
# A grid writes 10 ** (-10 / 3) as 4.64e-4 or 4.642e-4: within one per cent it is the same rate.
SAME_RATE = 0.01

# The range in which a four-point grid with every point in the middle of its slice is exactly
# ZOOLOGY_RATES: 8/3 decades.
SEARCH_RANGE = (10 ** (-13 / 3), 10 ** (-5 / 3))


@dataclass(frozen=True)
class Window:
    """The rates from `low` to `high`, all of which score at least `tau`."""

    tau: float
    low: float
    high: float
    open_low: bool  # the grid ends here, so the window may extend further down
    open_high: bool

    @property
    def decades(self) -> float:
        return math.log10(self.high) - math.log10(self.low)

    @property
    def is_open(self) -> bool:
        return self.open_low or self.open_high


def is_sparse_rate(lr: float) -> bool:
    """Whether a rate is one of Zoology's four."""
    return any(math.isclose(lr, rate, rel_tol=SAME_RATE) for rate in ZOOLOGY_RATES)


def best_index(scores: Sequence[float]) -> int:
    """Return the index of the best score; of equal scores the middle, the safest of a plateau."""
    top = max(scores)
    tied = [index for index, score in enumerate(scores) if score == top]
    return tied[(len(tied) - 1) // 2]


def mean_score(scores: Collection[float]) -> float:
    """Return the mean, rounded to DIGITS. Scores are fractions of some thousands of answers,
    so further digits are rounding errors, which could keep a mean of 0.9 below a tau of 0.9.
    """
    return round(math.fsum(scores) / len(scores), DIGITS)


def find_window(rates: Sequence[float], scores: Sequence[float], tau: float = TAU) -> Window | None:
    """Return the window of `scores`, one per ascending rate; None if all are below tau.

    Of equally wide ranges it is the one with the best score, then the middle one.
    """
    _check(rates, scores, tau)
    runs = _good_runs(scores, tau)
    windows = [_span(rates, scores, first, last, tau) for first, last in runs]
    if len(windows) < 2:
        return windows[0] if windows else None
    widest = max(window.decades for window in windows)
    tied = [place for place, own in enumerate(windows) if own.decades >= widest - ROUNDING]
    tops = [max(scores[first : last + 1]) for first, last in (runs[place] for place in tied)]
    return windows[tied[best_index(tops)]]


def grid_luck(
    window: Window | None, points: int = 4, search: tuple[float, float] = SEARCH_RANGE
) -> float:
    """Return G(points) over the rates `search` = (lowest, highest); a lower bound if open."""
    low, high = search
    if points < 1 or not 0 < low < high < math.inf:
        raise SpecError(
            f"grid_luck: points = {points}, search = {search}: needs at least one point and 0 < "
            "lowest < highest;\n"
            "for example points = 4, search = (1e-5, 1e-1)"
        )
    if window is None:
        return 0.0
    inside = math.log10(min(window.high, high)) - math.log10(max(window.low, low))
    slice_width = (math.log10(high) - math.log10(low)) / points
    return min(1.0, max(0.0, inside) / slice_width)


def _good_runs(scores: Sequence[float], tau: float) -> list[tuple[int, int]]:
    """Return the first and last index of each run of scores of at least tau that contains one as
    good as the best.
    """
    if not scores:
        return []
    good = max(scores) - AS_GOOD - ROUNDING
    found = []
    for is_inside, group in groupby(range(len(scores)), lambda index: scores[index] >= tau):
        run = list(group)
        if is_inside and max(scores[index] for index in run) >= good:
            found.append((run[0], run[-1]))
    return found


def _span(
    rates: Sequence[float], scores: Sequence[float], first: int, last: int, tau: float
) -> Window:
    """Return the window of the run from index `first` to `last`."""
    open_low, open_high = first == 0, last == len(scores) - 1
    low = rates[first] if open_low else _crossing(rates, scores, first, first - 1, tau)
    high = rates[last] if open_high else _crossing(rates, scores, last, last + 1, tau)
    return Window(tau, low, high, open_low, open_high)


def _crossing(
    rates: Sequence[float], scores: Sequence[float], inside: int, outside: int, tau: float
) -> float:
    share = (scores[inside] - tau) / (scores[inside] - scores[outside])
    start, end = math.log10(rates[inside]), math.log10(rates[outside])
    return float(10 ** (start + share * (end - start)))


def _check(rates: Sequence[float], scores: Sequence[float], tau: float) -> None:
    if len(rates) != len(scores):
        raise SpecError(
            f"{len(rates)} rates and {len(scores)} scores: a window needs one score per rate"
        )
    if any(not 0 < rate < math.inf for rate in rates) or any(a >= b for a, b in pairwise(rates)):
        raise SpecError(
            f"rates = {list(rates)[:6]}: must be positive and ascending; sort them and drop repeats"
        )
    if not all(math.isfinite(score) for score in scores):
        raise SpecError("a score is not finite: count a diverged run as 0 (RunRow.score does)")
    if not 0 < tau <= 1:
        raise SpecError(f"tau = {tau}: must be above 0 and at most 1; for example tau = {TAU}")
