"""What a search over Zoology's four rates alone would have found, beside what the whole grid found."""

import math

from recollect.analysis.cells import Cell, Rate
from recollect.analysis.windows import ZOOLOGY_RATES, best_index

# a grid writes 10 ** (-10 / 3) as 4.64e-4 or 4.642e-4: within one per cent it is the same rate
NEAR = 0.01


def is_sparse_rate(lr: float) -> bool:
    """Whether a rate is one of the four."""
    return any(math.isclose(lr, rate, rel_tol=NEAR) for rate in ZOOLOGY_RATES)


def sparse_best(cell: Cell) -> Rate | None:
    """The best of the four rates; None before all four have a score, since the best of fewer is
    another search.
    """
    rates = [rate for rate in cell.scored_rates if is_sparse_rate(rate.lr)]
    if len(rates) < len(ZOOLOGY_RATES):
        return None
    return rates[best_index([rate.mean for rate in rates])]
