"""Early stopping: a run may end before its last step if it is solved or hopeless.

The specification of the run enables each rule. Both use past evaluations only.

What a run can still learn is bounded by the learning rate that it has left. The rule for hopeless
runs applies when at most a share `train.stop_hopeless` of the sum of all rates is left. It
extrapolates the fall of the training loss over the last EVALUATIONS evaluations to the end, at
SAFETY times its speed per unit of rate. If that changes the loss by less than a share FLAT, the run
is hopeless, unless its test score, extrapolated in the same way, reaches HIGH.

The constants were chosen from full curves. `bench/early_decisions.py` replays the rule on any
stored results; docs/decisions/stop-hopeless.md has the outcome. The loss alone says little about
the score: at small rates a run answers .97 right with a loss of 2. The known risk is a loss that
stays flat for long and then falls suddenly, as attention's does. Such runs are protected by the
share of rate that must be spent first, which is why that share is a setting. No share protects runs
whose rate is too high until the schedule has lowered it to a level at which they learn. At the
study's size this is one of 195 runs, so the rule is off by default.
"""

from collections import deque
from collections.abc import Mapping, Sequence

from recollect.rows import Evaluation, StopReason
from recollect.spec.run import RunSpec
from recollect.training.schedule import sums_of_rates

EVALUATIONS = 3
SAFETY = 4.0
FLAT = 0.1
# Well below a solved score. The final score of a run near the edge of a window determines that
# edge, so such a run must not be stopped.
HIGH = 0.5


class EarlyDecisions:
    """Decides on early stopping from the last evaluations of each member."""

    def __init__(self) -> None:
        self._curves: dict[str, list[Evaluation]] = {}
        self._behind: dict[str, Mapping[int, float]] = {}

    def remember(self, run: RunSpec, curve: Sequence[Evaluation]) -> None:
        """Set the curve that a resumed run had recorded up to its checkpoint."""
        self._curves[run.run_id] = list(curve)

    def decide(self, run: RunSpec, evaluation: Evaluation) -> StopReason | None:
        """The reason why this run may end with this evaluation, or None."""
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
    """Whether the last `solved_evaluations` scores all reach `stop_solved`.

    The default is two evaluations in a row: a single one may be lucky.
    """
    train = run.train
    scores = [point.score(run.task.score_name) for point in curve[-train.solved_evaluations :]]
    enough = len(scores) == train.solved_evaluations
    return train.stop_solved > 0 and enough and min(scores) >= train.stop_solved


def is_hopeless(run: RunSpec, curve: Sequence[Evaluation], behind: Mapping[int, float]) -> bool:
    """Apply the rule in the module docstring; `behind` is the run's `rates_behind`."""
    last = curve[-(EVALUATIONS + 1) :]
    ahead = 1 - behind[last[-1].step]
    if len(last) <= EVALUATIONS or ahead > run.train.stop_hopeless:
        return False
    times = SAFETY * ahead / max(behind[last[-1].step] - behind[last[0].step], 1e-12)
    fall = last[0].train_loss - last[-1].train_loss  # a rise is no hope
    scores = [point.score(run.task.score_name) for point in last]
    gain = max(scores) - min(scores)
    return fall * times < FLAT * last[-1].train_loss and max(scores) + gain * times < HIGH


def rates_behind(run: RunSpec) -> dict[int, float]:
    """The share of the sum of all learning rates that is spent at each evaluation step."""
    waiting, begun, total = deque(run.train.evaluation_steps()), 0, 0.0
    found: dict[int, float] = {}
    for sums in sums_of_rates(run):
        while waiting and waiting[0] <= begun + len(sums):
            step = waiting.popleft()
            found[step] = total = float(sums[step - 1 - begun])
        begun += len(sums)
    return {step: behind / total for step, behind in found.items()}  # `total` is the last sum
