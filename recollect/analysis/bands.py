"""The spread of seeds as a band around their mean. The kind is chosen when something is drawn.

min-max    the lowest and the highest seed
std        mean -+ s, s the standard deviation of the seeds (n - 1 in the denominator)
interval   mean -+ t s / sqrt(n), t the 97.5 % quantile of Student's distribution with n - 1 degrees
           of freedom: the 95 % confidence interval of the mean if scores are normally distributed

A score is a fraction, so a band ends at 0 and 1. A single seed shows no spread: its band has no
width, whatever the kind.
"""

import math
import statistics
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any, Literal, get_args

from recollect.errors import SpecError
from recollect.spec.base import shorten, suggest

BandKind = Literal["min-max", "std", "interval"]
BANDS: tuple[BandKind, ...] = get_args(BandKind)
COVERAGE = 0.95


def band(
    scores: Iterable[float] | Mapping[Any, float], kind: str = "min-max"
) -> tuple[float, float]:
    """Return (low, high) of the scores, one per seed; `scores` may be the dict of a Rate."""
    values = list(scores.values() if isinstance(scores, Mapping) else scores)
    if kind not in BANDS:
        raise SpecError(f"band = {shorten(kind)}: {suggest(str(kind), BANDS)}")
    if not values:
        raise SpecError("band: no scores; a band needs at least one finished run")
    if kind == "min-max":
        return min(values), max(values)
    mean = math.fsum(values) / len(values)
    reach = deviation(values) if kind == "std" else mean_reach(values)
    # The mean of equal scores may be off by a rounding error, and a band must contain its mean.
    return min(mean, max(0.0, mean - reach)), max(mean, min(1.0, mean + reach))


def deviation(values: list[float]) -> float:
    """Return the standard deviation over seeds; 0 for a single seed."""
    return statistics.stdev(values) if len(values) > 1 else 0.0


def mean_reach(values: list[float]) -> float:
    """Return half the width of the 95 % interval of the mean; 0 for a single value."""
    if len(values) < 2:
        return 0.0
    return student(len(values) - 1) * deviation(values) / math.sqrt(len(values))


@lru_cache
def student(freedom: float, coverage: float = COVERAGE) -> float:
    """Return the t that |T| exceeds in 1 - coverage of all cases (`freedom`: degrees of
    freedom).
    """
    # With T = sqrt(freedom) tan(a), the density of a is proportional to cos(a) ** (freedom - 1).
    inside = coverage * _angles(math.pi / 2, freedom)
    low, high = 0.0, math.pi / 2
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if _angles(middle, freedom) < inside else (low, middle)
    return math.sqrt(freedom) * math.tan((low + high) / 2)


def _angles(end: float, freedom: float, pieces: int = 200) -> float:
    """Return the integral of cos(a) ** (freedom - 1) from 0 to `end`, by Simpson's rule."""
    width = end / pieces
    inner = sum(
        (4 if i % 2 else 2) * math.cos(i * width) ** (freedom - 1) for i in range(1, pieces)
    )
    return width / 3 * (1 + inner + max(0.0, math.cos(end)) ** (freedom - 1))
