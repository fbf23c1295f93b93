"""What a learning curve shows beyond its end: levels at which a loss may rest, and sudden changes
between them ("bumps").
"""

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pydantic import ValidationError

from recollect.errors import SpecError
from recollect.rows import Evaluation
from recollect.tasks.options import TASKS
from recollect.tasks.options.pairs import PairsSpec
from recollect.tasks.options.strings import StringsSpec

# A change is sudden if it is over within LONGEST of the curve's whole time, and at least CALM times
# as fast as the loss moved just before: what falls fast from the first evaluation on, and slower
# and slower, is a smooth curve.
LONGEST = 0.2
CALM = 3.0
LEAST_SHARE = 0.1  # of the curve's range: smaller steps are not told
LEAST_NATS = 0.25  # and never less than this, so that a curve that learns nothing has no bumps
# standard deviations of the noise between neighbouring evaluations that a change must exceed
NOISES = 6.0
LEAST_EVALUATIONS = 5
GAIN = 0.1  # of the score above chance, from which a bump counts as one with a gain


@dataclass(frozen=True)
class Bump:
    """A sudden change of the loss, between the last evaluation before it and the first one after
    it.
    """

    start_step: int
    end_step: int
    loss_before: float
    loss_after: float
    score_before: float
    score_after: float
    gained: bool  # the score rose by GAIN or more above chance

    @property
    def is_fall(self) -> bool:
        return self.loss_after < self.loss_before


def plateaus(task: Mapping[str, Any]) -> dict[str, float]:
    """Losses at which a model rests that knows something, but not the answer; by name, from knowing
    nothing on downwards.

    `task` is the task's table of a specification; one that cannot be read here has no levels. Where
    an answer is one of the pairs in the row, mqar's power-law placement lets positions push the
    loss a little below ln K (see spec/placement.py).
    """
    try:
        spec = TASKS[str(task.get("name"))].model_validate(dict(task))
    except (KeyError, ValidationError):
        return {}
    if isinstance(spec, PairsSpec):
        levels = {"ln V": math.log(spec.vocabulary)}  # any token
        if spec.vocabulary_split == "halves":
            levels["ln V/2"] = math.log(spec.vocabulary / 2)  # any value
        else:
            levels["ln 2K"] = math.log(2 * spec.pairs)  # any token of the pairs, keys among them
        return {**levels, "ln K": math.log(spec.pairs)}  # one of the values in the row
    assert isinstance(spec, StringsSpec)
    bags = [_bag_of_letters(letters, spec.alphabet) for letters in spec.eval_lengths]
    return {
        "ln V": math.log(spec.vocabulary),  # any token
        "ln A": math.log(spec.alphabet),  # any letter
        "bag of letters": math.fsum(bags)
        / len(bags),  # a letter of the string, as often as it stands there
    }


def bumps(
    curve: Sequence[Evaluation], score_name: str, chance: float = 0.0, loss: str = "test"
) -> list[Bump]:
    """Sudden changes of the loss ("test" or "train") in the order of steps.

    Single outliers are taken out by a median of three before anything is measured. With the task's
    `chance` (RunRow.chance) a score that only climbs up to chance, by learning which values stand
    in the row, is no gain.
    """
    if loss not in ("test", "train"):
        raise SpecError(f"loss = {loss!r}: must be test or train")
    points = [point for point in curve if math.isfinite(_loss(point, loss))]
    if len(points) < LEAST_EVALUATIONS:
        return []
    raw = [_loss(point, loss) for point in points]
    steps, losses, noise = [point.step for point in points], _medians(raw), _noise(raw)
    least = max(LEAST_NATS, LEAST_SHARE * (max(losses) - min(losses)), NOISES * noise)
    found = []
    for first, last in _sudden(steps, losses, least, noise):
        before, after = points[first].score(score_name), points[last].score(score_name)
        gained = max(after, chance) - max(before, chance) >= GAIN
        found.append(
            Bump(steps[first], steps[last], losses[first], losses[last], before, after, gained)
        )
    return found


def _loss(point: Evaluation, which: str) -> float:
    return point.test_loss if which == "test" else point.train_loss


def _medians(values: Sequence[float]) -> list[float]:
    """A running median of three; the ends stay."""
    inner = [statistics.median(values[i - 1 : i + 2]) for i in range(1, len(values) - 1)]
    return [values[0], *inner, values[-1]]


def _noise(values: Sequence[float]) -> float:
    """Standard deviation of independent noise on a slowly changing curve, from the median of its
    second differences.
    """
    bends = [abs(a - 2 * b + c) for a, b, c in zip(values, values[1:], values[2:], strict=False)]
    return 1.4826 * statistics.median(bends) / math.sqrt(6)


def _sudden(
    steps: Sequence[int], losses: Sequence[float], least: float, noise: float
) -> list[tuple[int, int]]:
    """(first, last) evaluation of every sudden change of at least `least`.

    Stretches are looked for at one slope after the other, from the slowest that a sudden change can
    have on; what was found at a slope is not looked into again. So a fall is seen whole where it
    stands alone, and still seen where it ends a slow drift.
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
    """Where the loss moves at least so fast in one direction; a single slower interval in between
    does not end a stretch.
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
    """Whether the loss moved slowly, noise allowed for, in the time before a change, as far back as
    the change took.
    """
    lasting = steps[last] - steps[first]
    start = max((i for i in range(first) if steps[first] - steps[i] >= lasting), default=0)
    if start == first:
        return False
    before = (abs(losses[first] - losses[start]) + 2 * noise) / (steps[first] - steps[start])
    return before * CALM <= abs(losses[last] - losses[first]) / lasting


def _bag_of_letters(letters: int, alphabet: int) -> float:
    """The mean entropy of the letters of a random string: ln n less the mean of c ln c / n over
    each letter's count c.
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
