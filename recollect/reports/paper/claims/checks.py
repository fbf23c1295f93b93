"""What a rule is made of: measures that may be known only in part, and checks that may be open.

A measure is an interval. A tuned score is known exactly once the grid was fine enough, and is a
lower bound before; a window that reaches the end of its grid is a lower bound too; what was not
trained may be anything. A check compares a measure with a threshold and is true, false, or open
when the interval lies on both sides. A check that is still open says what must be trained.

`noise` is the standard error that seeds give a measure. Comparisons are exact unless they are made
with `not_above` and `not_below`: these fail only where seeds cannot explain it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.reports.paper.claims.thresholds import MOST_NOISE, NOISES
from recollect.reports.paper.claims.wanted import Want

MOST_TEXTS = 3  # of a list that are written out; the others are counted


@dataclass(frozen=True)
class Measure:
    """A number between `low` and `high`, its text, and what would make it exact."""

    low: float
    high: float
    text: str
    lacks: str = ""
    wants: tuple[Want, ...] = ()
    noise: float = 0.0
    is_difference: bool = False


@dataclass(frozen=True)
class Check:
    """One comparison, or several as one. `holds` is None while it is open, and `lacks` says why."""

    holds: bool | None
    text: str
    lacks: str = ""
    count: str = ""  # of the checks it is made of, how many fail or hold
    margin: float = math.inf  # how clearly it holds (positive) or fails (negative)
    parts: "tuple[Check, ...]" = ()
    wants: tuple[Want, ...] = ()

    @property
    def told(self) -> str:
        return f"{self.text} ({self.count})" if self.count else self.text

    @property
    def leaves(self) -> "tuple[Check, ...]":
        """The single comparisons it is made of."""
        return tuple(leaf for part in self.parts for leaf in part.leaves) if self.parts else (self,)


def at_least(measure: Measure, threshold: float) -> Check:
    if measure.low >= threshold:
        return Check(True, measure.text, margin=measure.low - threshold)
    if measure.high < threshold:
        return Check(False, measure.text, margin=measure.high - threshold)
    wants = tuple(want.to_show_a_score() for want in measure.wants)
    return Check(None, measure.text, measure.lacks, wants=wants)


def at_most(measure: Measure, threshold: float) -> Check:
    if measure.high <= threshold:
        return Check(True, measure.text, margin=threshold - measure.high)
    if measure.low > threshold:
        return Check(False, measure.text, margin=threshold - measure.low)
    return Check(None, measure.text, measure.lacks, wants=_of_the_best(measure))


def not_below(measure: Measure, threshold: float) -> Check:
    """As at_least, but what seeds can explain is no contradiction; nor is it a confirmation, where
    they could explain more than MOST_NOISE.
    """
    noise = NOISES * measure.noise
    check = at_least(measure, threshold - min(noise, MOST_NOISE))
    return _unless_noisy(check, measure, measure.high < threshold - noise)


def not_above(measure: Measure, threshold: float) -> Check:
    """As at_most, and otherwise as not_below."""
    noise = NOISES * measure.noise
    check = at_most(measure, threshold + min(noise, MOST_NOISE))
    return _unless_noisy(check, measure, measure.low > threshold + noise)


def _unless_noisy(check: Check, measure: Measure, is_contradicted: bool) -> Check:
    if check.holds is not False or is_contradicted:
        return check
    return Check(None, measure.text, measure.lacks or f"more seeds than in {measure.text}")


def below(measure: Measure, threshold: float) -> Check:
    """As at_most, but the threshold itself is too much."""
    return opposite(at_least(replace(measure, wants=_of_the_best(measure)), threshold))


def opposite(check: Check) -> Check:
    if check.holds is None:
        return check
    return replace(check, holds=not check.holds, margin=-check.margin)


def difference(more: Measure, less: Measure) -> Measure:
    """`more` - `less`."""
    return Measure(
        more.low - less.high,
        more.high - less.low,
        ", ".join(filter(None, [more.text, less.text])),
        join([more.lacks, less.lacks]),
        (*more.wants, *(want.to_show_the_best() for want in less.wants)),
        math.hypot(more.noise, less.noise),
        is_difference=True,
    )


def _of_the_best(measure: Measure) -> tuple[Want, ...]:
    """A difference may be small because both scores are high; a score must be searched for."""
    return tuple(want.to_show_the_best(not measure.is_difference) for want in measure.wants)


def every(checks: Iterable[Check], text: str = "", lacks: str = "") -> Check:
    """All must hold; one that fails settles it.

    Told: what fails, else the tightest. `lacks` is for no checks at all.
    """
    parts = tuple(checks)
    failed = sorted((part for part in parts if part.holds is False), key=_margin)
    if failed:
        several = len(parts) > 1 and not text
        count = f"{len(failed)} of {len(parts)} comparisons fail" if several else ""
        return Check(
            False, text or join(part.text for part in failed), "", count, failed[0].margin, parts
        )
    if not parts or any(part.holds is None for part in parts):
        return _open(parts, text, lacks)
    tightest = min(parts, key=_margin)
    count = f"the tightest of {len(parts)} comparisons" if len(parts) > 1 and not text else ""
    return Check(True, text or tightest.text, "", count, tightest.margin, parts)


def some(checks: Iterable[Check], text: str = "", lacks: str = "") -> Check:
    """One must hold, and settles it.

    Told: the clearest that holds, else the one that comes nearest.
    """
    parts = tuple(checks)
    clearest = max((part for part in parts if part.holds), key=_margin, default=None)
    if clearest:
        return Check(True, text or clearest.text, "", "", clearest.margin, parts)
    if not parts or any(part.holds is None for part in parts):
        # One is enough: the first of those that are open, as the rule orders them.
        unsettled = _open(parts, text, lacks)
        first = next((part.wants for part in parts if part.holds is None), ())
        return replace(unsettled, wants=first)
    nearest = max(parts, key=_margin)
    count = f"the nearest of {len(parts)} comparisons" if len(parts) > 1 and not text else ""
    return Check(False, text or nearest.text, "", count, nearest.margin, parts)


def _open(parts: tuple[Check, ...], text: str, lacks: str) -> Check:
    """What is known so far, and what is missing."""
    lacking = join(part.lacks for part in parts if part.holds is None) if parts else lacks
    return Check(
        None,
        text or join(part.text for part in parts if part.holds is not None),
        lacking,
        parts=parts,
        wants=tuple(want for part in parts if part.holds is None for want in part.wants),
    )


def join(texts: Iterable[str], limit: int = MOST_TEXTS) -> str:
    """Different texts as one, the first few of them and the number of the others."""
    told = list(dict.fromkeys(text for text in texts if text))
    more = f" and {len(told) - limit} more" if len(told) > limit else ""
    return "; ".join(told[:limit]) + more


def told_all(checks: Sequence[Check]) -> str:
    """Decades and scores have no common scale to say which is tightest: what fails, else all."""
    failed = [check.text for check in checks if check.holds is False]
    return join(failed or [check.text for check in checks if check.holds], limit=len(checks))


def _margin(check: Check) -> float:
    return check.margin
