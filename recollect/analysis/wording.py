"""Numbers as the page and the terminal say them."""

from collections.abc import Mapping

from recollect.rows import Status


def rate_text(rate: float) -> str:
    """0.003 as 3e-3, with three digits at most: 4.64e-4."""
    mantissa, exponent = f"{rate:.2e}".split("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def score_text(score: float) -> str:
    """Three decimals, and never a rounded-up 1.000 for a score that is not perfect."""
    return f"{min(score, 0.999):.3f}" if score < 1 else "1.000"


def count_text(count: int, noun: str) -> str:
    """1 run, 2 runs, 10,000 runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def counts_text(counts: Mapping[Status, int]) -> str:
    """The sum of planned runs written out, so that no run can go missing unnoticed."""
    order: tuple[Status, ...] = ("done", "diverged", "failed", "running", "todo")
    return f"{sum(counts.values())} planned = " + " + ".join(
        f"{counts[status]} {status}" for status in order
    )
