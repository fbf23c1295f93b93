"""Facts about a run's curve: the step at which it solves the task, the plateaus at which a loss may
rest, and the sudden changes between them ("bumps").
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from recollect.analysis.cells import Rate
from recollect.analysis.windows import TAU
from recollect.errors import SpecError
from recollect.rows import Evaluation
from recollect.tasks.options import TASKS
from recollect.tasks.options.pairs import PairsSpec
from recollect.tasks.options.strings import StringsSpec

# A change is sudden if it takes at most LONGEST of the curve's whole time and is at least CALM
# times as fast as the loss moved just before. A curve that falls fast from the first evaluation on,
# and then slower and slower, is smooth.
LONGEST = 0.2
CALM = 3.0
LEAST_SHARE = 0.1  # of the curve's range: smaller changes are not reported
LEAST_NATS = 0.25  # a change has at least so many nats: a curve that learns nothing has no bumps
NOISES = 6.0  # a change must exceed so many standard deviations of the noise between evaluations
LEAST_POINTS = 5
SCORE_GAIN = 0.1  # rise of the score above chance from which a bump counts as a gain


Curves = Mapping[str, Sequence[Evaluation]]  # by run id


@dataclass(frozen=True)
class Bump:
    """A sudden change of the loss, from the last evaluation before it to the first after it."""

    start_step: int
    end_step: int
    loss_before: float
    loss_after: float
    score_before: float
    score_after: float
    gain: float  # rise of the score above chance

    @property
    def gained(self) -> bool:
        return self.gain >= SCORE_GAIN


def solve_step(curve: Sequence[Evaluation], score_name: str, tau: float = TAU) -> int | None:
    """Return the step of the first evaluation that reaches tau, or None."""
    return next((point.step for point in curve if point.score(score_name) >= tau), None)


def steps_to_solve(rate: Rate, curves: Curves, tau: float = TAU) -> float | None:
    """Return the median over the seeds with a result at one rate; a seed that never solves the task
    counts as infinity. Return None if the median is infinite or there is no result.
    """
    steps = [solve_step(curves.get(row.run_id, ()), row.score_name, tau) for row in rate.scored]
    if not steps:
        return None
    median = statistics.median(math.inf if step is None else step for step in steps)
    return median if math.isfinite(median) else None


def thin(curve: Sequence[Evaluation], limit: int) -> list[Evaluation]:
    """Return at most `limit` (two or more) evenly spread points, with the first and the last."""
    if len(curve) <= limit:
        return list(curve)
    return [curve[round(index * (len(curve) - 1) / (limit - 1))] for index in range(limit)]


# What a model guesses while its loss rests at a level of `plateaus`.
PLATEAU_WORDS = {
    "ln V": "any token",
    "ln V/2": "any value",
    "ln 2K": "any key or value of the row",
    "ln K": "any value of the row",
    "ln A": "any letter",
    "bag of letters": "letters as often as the string has them",
}


def plateaus(task: Mapping[str, Any]) -> dict[str, float]:
    """Return the losses at which a model may rest before it knows the answer, by name, highest
    first.

    `task` is the task's table of a specification; a table that cannot be read here has no levels.
    With mqar's power-law placement, positions alone push the loss a little below ln K (see
    tasks/options/placement.py).
    """
    try:
        spec = TASKS[str(task.get("name"))].model_validate(dict(task))
    except (KeyError, ValidationError):
        return {}
    if isinstance(spec, PairsSpec):
        levels = {"ln V": math.log(spec.vocabulary)}
        if spec.vocabulary_split == "halves":
            levels["ln V/2"] = math.log(spec.vocabulary / 2)
        else:
            levels["ln 2K"] = math.log(2 * spec.pairs)
        return {**levels, "ln K": math.log(spec.pairs)}
    assert isinstance(spec, StringsSpec)
    bags = [_bag_of_letters(letters, spec.alphabet) for letters in spec.eval_lengths]
    return {
        "ln V": math.log(spec.vocabulary),
        "ln A": math.log(spec.alphabet),
        "bag of letters": math.fsum(bags) / len(bags),
    }


def bumps(
    curve: Sequence[Evaluation], score_name: str, chance: float = 0.0, loss: str = "test"
) -> list[Bump]:
    """Return the sudden changes of the loss ("test" or "train") in the order of steps.

    A median of three removes single outliers first. `chance` is the task's (RunRow.chance): a score
    that only climbs up to chance, because the model learned which values occur in the row, is no
    gain.
    """
    if loss not in ("test", "train"):
        raise SpecError(f"loss = {loss!r}: must be test or train")
    points = [point for point in curve if math.isfinite(_loss(point, loss))]
    if len(points) < LEAST_POINTS:
        return []
    raw = [_loss(point, loss) for point in points]
    steps, losses, noise = [point.step for point in points], _medians(raw), _noise(raw)
    least = max(LEAST_NATS, LEAST_SHARE * (max(losses) - min(losses)), NOISES * noise)
    found = []
    for first, last in _sudden(steps, losses, least, noise):
        before, after = points[first].score(score_name), points[last].score(score_name)
        gain = max(after, chance) - max(before, chance)
        found.append(
            Bump(steps[first], steps[last], losses[first], losses[last], before, after, gain)
        )
    return found


def _loss(point: Evaluation, which: str) -> float:
    return point.test_loss if which == "test" else point.train_loss


def _medians(values: Sequence[float]) -> list[float]:
    """Return the running median of three; the first and the last value are kept."""
    inner = [statistics.median(values[i - 1 : i + 2]) for i in range(1, len(values) - 1)]
    return [values[0], *inner, values[-1]]


def _noise(values: Sequence[float]) -> float:
    """Estimate the standard deviation of independent noise, from the median second difference."""
    bends = [abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return 1.4826 * statistics.median(bends) / math.sqrt(6)


def _sudden(
    steps: Sequence[int], losses: Sequence[float], least: float, noise: float
) -> list[tuple[int, int]]:
    """Return the (first, last) evaluation of every sudden change of at least `least`.

    The search goes through slopes, doubling from the slowest that a sudden change can have. A
    stretch found at one slope is not searched again at the next. An isolated fall is therefore
    found whole, and a fall at the end of a slow drift is still found.
    """
    slopes = [
        (b - a) / (end - start)
        for (a, b), (start, end) in zip(pairwise(losses), pairwise(steps), strict=True)
    ]
    longest = LONGEST * (steps[-1] - steps[0])
    steepest = max(map(abs, slopes))
    slope = least / longest
    found: list[tuple[int, int]] = []
    while slope <= steepest:
        for first, last in _stretches(slopes, slope):
            alone = all(last <= start or first >= end for start, end in found)
            large = (
                abs(losses[last] - losses[first]) >= least and steps[last] - steps[first] <= longest
            )
            if alone and large and _calm_before(steps, losses, first, last, noise):
                found.append((first, last))
        slope *= 2
    return sorted(found)


def _stretches(slopes: Sequence[float], least: float) -> list[tuple[int, int]]:
    """Return where the loss moves at least this fast in one direction; a stretch may contain single
    slower intervals.
    """
    stretches: list[tuple[int, int]] = []
    for index, slope in enumerate(slopes):
        if abs(slope) < least:
            continue
        if stretches and index - stretches[-1][1] <= 1 and slope * slopes[stretches[-1][1] - 1] > 0:
            stretches[-1] = (stretches[-1][0], index + 1)
        else:
            stretches.append((index, index + 1))
    return stretches


def _calm_before(
    steps: Sequence[int], losses: Sequence[float], first: int, last: int, noise: float
) -> bool:
    """Whether the loss moved slowly, apart from noise, for as long before a change as it lasts."""
    lasting = steps[last] - steps[first]
    start = max((i for i in range(first) if steps[first] - steps[i] >= lasting), default=0)
    if start == first:
        return False
    before = (abs(losses[first] - losses[start]) + 2 * noise) / (steps[first] - steps[start])
    return before * CALM <= abs(losses[last] - losses[first]) / lasting


def _bag_of_letters(letters: int, alphabet: int) -> float:
    """Return the mean entropy of the letters of a random string: ln n - mean of sum(c ln c) / n,
    with c each letter's count.
    """
    share = 1 / alphabet
    repeats = sum(
        math.exp(
            _log_choose(letters, count)
            + count * math.log(share)
            + (letters - count) * math.log1p(-share)
        )
        * (count * math.log(count))
        for count in range(2, letters + 1)
    )
    return math.log(letters) - alphabet / letters * repeats


def _log_choose(total: int, chosen: int) -> float:
    return math.lgamma(total + 1) - math.lgamma(chosen + 1) - math.lgamma(total - chosen + 1)
