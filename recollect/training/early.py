"""When a run may end before its last step: solved, or hopeless. Its specification allows either;
both look back only.

What a run can still learn is bounded by the learning rate it still has. With less than a share
`train.stop_hopeless` of the sum of its rates ahead, the fall of its training loss over the last
EVALUATIONS evaluations is extrapolated to the end at SAFETY times its speed per unit of rate. If
that moves the loss by less than a share FLAT, the run is hopeless, unless its test score,
extrapolated in the same way, reaches HIGH.

The constants come from full curves (`bench/early_decisions.py` replays the rule on any stored
results; docs/decisions/stop-hopeless.md has the outcome). A loss alone says little about the
score: at small rates a run answers .97 right with a loss of 2. The known danger is a loss that
stays flat for long and then falls at once, as attention's does: such runs are protected by the
share of rate that must be spent first, which is why that share is a setting. No share protects
those whose rate was too high until the schedule has brought it down to where they learn: at the
study's size one of 195 runs is such a one, and the rule is off by default.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from recollect.rows import Evaluation, StopReason
from recollect.spec.run import RunSpec
from recollect.training.schedule import sums_of_rates

EVALUATIONS = 3
SAFETY = 4.0
FLAT = 0.1
# Well below what counts as solved: the score of a run near the edge of a window places that edge,
# and must be the one it ends with.
HIGH = 0.5


class EarlyDecisions:
    """The end of each member's curve, and what follows from it."""

    def __init__(self) -> None:
        self._curves: dict[str, list[Evaluation]] = {}
        self._behind: dict[str, Mapping[int, float]] = {}

    def remember(self, run: RunSpec, curve: Sequence[Evaluation]) -> None:
        """Set what a resumed run had recorded up to its checkpoint."""
        self._curves[run.run_id] = list(curve)

    def decide(self, run: RunSpec, evaluation: Evaluation) -> StopReason | None:
        """Why this run may end with this evaluation, if it may."""
        curve = self._curves.setdefault(run.run_id, [])
        curve.append(evaluation)
        del curve[: -max(EVALUATIONS + 1, run.train.solved_evaluations)]
        if is_solved(run, curve):
            return "solved"
        if run.train.stop_hopeless > 0:
            if run.run_id not in self._behind:
                self._behind[run.run_id] = rates_behind(run)
            if is_hopeless(run, curve, self._behind[run.run_id]):
                return "hopeless"
        return None


def is_solved(run: RunSpec, curve: Sequence[Evaluation]) -> bool:
    """Twice in a row unless the specification says otherwise: one lucky evaluation is not a
    result.
    """
    train = run.train
    scores = [point.score(run.task.score_name) for point in curve[-train.solved_evaluations :]]
    enough = len(scores) == train.solved_evaluations
    return train.stop_solved > 0 and enough and min(scores) >= train.stop_solved


def is_hopeless(run: RunSpec, curve: Sequence[Evaluation], behind: Mapping[int, float]) -> bool:
    """See above; `behind` is the run's `rates_behind`."""
    last = curve[-(EVALUATIONS + 1) :]
    ahead = 1 - behind[last[-1].step]
    if len(last) <= EVALUATIONS or ahead > run.train.stop_hopeless:
        return False
    times = SAFETY * ahead / max(behind[last[-1].step] - behind[last[0].step], 1e-12)
    fall = max(0.0, last[0].train_loss - last[-1].train_loss)
    scores = [point.score(run.task.score_name) for point in last]
    gain = max(scores) - min(scores)
    return fall * times < FLAT * last[-1].train_loss and max(scores) + gain * times < HIGH


def rates_behind(run: RunSpec) -> dict[int, float]:
    """For each evaluation step the share of the sum of all learning rates that is behind it."""
    waiting, begun, total = deque(run.train.evaluation_steps()), 0, 0.0
    found: dict[int, float] = {}
    for sums in sums_of_rates(run):
        while waiting and waiting[0] <= begun + len(sums):
            step = waiting.popleft()
            found[step] = total = float(sums[step - 1 - begun])
        begun += len(sums)
    return {step: behind / total for step, behind in found.items()}  # the last one is the total
