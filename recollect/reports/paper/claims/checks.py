"""The parts of a rule: measures that may be known only in part, and checks that may be open.

A measure is an interval. A tuned score is exact if the grid is fine enough; otherwise it is a
lower bound. A window that reaches the end of its grid is a lower bound too. A cell that was not
trained may have any value. A check compares a measure with a threshold. It is true, false, or open
if the interval lies on both sides of the threshold. An open check names what must be trained.

`noise` is the standard error of a measure over seeds. Noise may excuse a shortfall, but it shows
nothing. Most comparisons are exact. With `not_above` and `not_below`, which show that something
has no effect, a deviation that noise explains does not count. With `reaches` and `misses`, which
show that a model solves a task or does not, such a shortfall leaves the check open.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from recollect.reports.paper.claims.thresholds import MOST_NOISE, NOISES
from recollect.reports.paper.claims.wanted import Want

MOST_TEXTS = 3  # the texts of a list that are written out; the others are only counted


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
    """One comparison, or several combined. `holds` is None while it is open; `lacks` says why."""

    holds: bool | None
    text: str
    lacks: str = ""
    count: str = ""  # how many of its parts fail or hold, in words
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
    """Like at_least, but allow for the noise of the seeds.

    A shortfall that noise can explain does not fail the check. If the noise exceeds MOST_NOISE,
    such a shortfall does not confirm it either, and the check stays open. The margin leaves the
    allowance out: with it, the noisiest measure would look safest.
    """
    noise = NOISES * measure.noise
    check = at_least(measure, threshold - min(noise, MOST_NOISE))
    found = _unless_noisy(check, measure, measure.high < threshold - noise)
    return replace(found, margin=measure.low - threshold) if found.holds else found


def not_above(measure: Measure, threshold: float) -> Check:
    """Like at_most, but allow for the noise of the seeds as in not_below."""
    noise = NOISES * measure.noise
    check = at_most(measure, threshold + min(noise, MOST_NOISE))
    found = _unless_noisy(check, measure, measure.low > threshold + noise)
    return replace(found, margin=threshold - measure.high) if found.holds else found


def _unless_noisy(check: Check, measure: Measure, is_contradicted: bool) -> Check:
    if check.holds is not False or is_contradicted:
        return check
    return Check(None, measure.text, measure.lacks or f"more seeds than in {measure.text}")


def reaches(measure: Measure, threshold: float) -> Check:
    """Like at_least, but a shortfall that the noise of the seeds explains leaves the check open.

    It explains at most MOST_NOISE: a mean with a lost seed among three is no noise.
    """
    least = threshold - min(NOISES * measure.noise, MOST_NOISE)
    return _unless_noisy(at_least(measure, threshold), measure, measure.high < least)


def misses(measure: Measure, threshold: float) -> Check:
    """The opposite of reaches."""
    return opposite(reaches(replace(measure, wants=_of_the_best(measure)), threshold))


def clearly_above(measure: Measure, slack: float) -> Check:
    """Whether a difference is at least `slack`. It fails if it is at most minus `slack`. One in
    between is open, and says so if it is known to lie there: no further run is wanted then.
    """
    if measure.low >= slack:
        return Check(True, measure.text, margin=measure.low - slack)
    if measure.high <= -slack:
        return Check(False, measure.text, margin=measure.high + slack)
    are_alike = -slack < measure.low and measure.high < slack
    alike = f" (within {slack:g} of each other)" if are_alike else ""
    return Check(None, f"{measure.text}{alike}", measure.lacks, wants=measure.wants)


def below(measure: Measure, threshold: float) -> Check:
    """Like at_most, but a measure equal to the threshold fails."""
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
    """The wants that show the best score.

    A single score needs the whole search. A difference does not, since it may be small because
    both scores are high.
    """
    return tuple(want.to_show_the_best(not measure.is_difference) for want in measure.wants)


def every(checks: Iterable[Check], text: str = "", lacks: str = "") -> Check:
    """A check that holds if all checks hold, and fails if one fails.

    Its text names the checks that fail, else the tightest one. `lacks` is used if there are no
    checks.
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
    """A check that holds if at least one check holds.

    Its text names the check that holds most clearly, else the one that comes nearest to holding.
    """
    parts = tuple(checks)
    clearest = max((part for part in parts if part.holds), key=_margin, default=None)
    if clearest:
        return Check(True, text or clearest.text, "", "", clearest.margin, parts)
    if not parts or any(part.holds is None for part in parts):
        # One is enough, so only the first open check that can be trained, in the rule's order, asks
        # for training.
        unsettled = _open(parts, text, lacks)
        first = next((part.wants for part in parts if part.holds is None and part.wants), ())
        return replace(unsettled, wants=first)
    nearest = max(parts, key=_margin)
    count = f"the nearest of {len(parts)} comparisons" if len(parts) > 1 and not text else ""
    return Check(False, text or nearest.text, "", count, nearest.margin, parts)


def _open(parts: tuple[Check, ...], text: str, lacks: str) -> Check:
    """An open check with what is known so far, and what is missing."""
    lacking = join(part.lacks for part in parts if part.holds is None) if parts else lacks
    return Check(
        None,
        text or join(part.text for part in parts if part.holds is not None),
        lacking,
        parts=parts,
        wants=tuple(want for part in parts if part.holds is None for want in part.wants),
    )


def join(texts: Iterable[str], limit: int = MOST_TEXTS) -> str:
    """Join distinct texts: the first `limit` of them, and the number of the others."""
    told = list(dict.fromkeys(text for text in texts if text))
    more = f"; and {len(told) - limit} more" if len(told) > limit else ""
    return "; ".join(told[:limit]) + more


def told_all(checks: Sequence[Check]) -> str:
    """The texts of the checks that fail, else of all that hold.

    It is for checks on both decades and scores, which have no common scale to find the tightest.
    """
    failed = [check.text for check in checks if check.holds is False]
    return join(failed or [check.text for check in checks if check.holds], limit=len(checks))


def _margin(check: Check) -> float:
    return check.margin
