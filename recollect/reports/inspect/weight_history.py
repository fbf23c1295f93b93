"""The weights of a run at some of its steps: as initialised, as kept, or from training it again.

Training is a function of the specification, so a run can be repeated: bit for bit on a CPU, nearly
so on another device.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.rows import RunRow
from recollect.running.planning.speed import seconds_per_step
from recollect.running.planning.threads import threads_for
from recollect.spec.run import RunSpec
from recollect.store.keep_policy import evenly_spaced
from recollect.store.weights import FOLDER, SUFFIX, WeightsHeader, kept_files, read, write
from recollect.tasks.build import task_of
from recollect.training.population import Population

Weights = dict[str, Tensor]  # of one member, without the population axis
Tell = Callable[[int, int], None]  # (steps done, steps in total)
Consent = Callable[[int, float], None]  # (steps to train, expected seconds); raises to refuse
SNAPSHOTS = 24  # steps at which the weights of a run that is trained again are kept


@dataclass(frozen=True)
class WeightHistory:
    """The weights by step, from 0 (as initialised) to the last step of the run."""

    weights: dict[int, Weights]
    source: Literal["kept", "trained again", "as initialised"]
    test_loss: float  # on all test rows with the last of these weights; NaN if not trained


def weight_history(
    folder: Path,
    run: RunSpec,
    row: RunRow,
    device: torch.device,
    again: bool,
    untrained: bool,
    tell: Tell,
) -> WeightHistory:
    """The kept weights of a run. If none were kept, train the run again and keep the weights.

    With `again` the run is trained even if weights were kept. With `untrained` it is not trained:
    without kept weights the result is only the initial weights, which are a function of the seed.
    """
    files = kept_files(folder, run.run_id)
    if untrained and not files:
        return WeightHistory({0: initial_weights(run)}, "as initialised", math.nan)
    if again or not files:
        with threads_for(run, row.threads or torch.get_num_threads()):
            found = _train(folder, run, row, device, tell)
        return WeightHistory({0: initial_weights(run), **found[0]}, "trained again", found[1])
    kept = [read(path) for path in files]
    return WeightHistory(
        {0: initial_weights(run), **{about.step: weights for about, weights in kept}},
        "kept",
        kept[-1][0].test_loss,
    )


def ask_to_train(
    folder: Path, run: RunSpec, row: RunRow, device: torch.device, consent: Consent
) -> None:
    """Call `consent` if the run has to be trained again because no weights were kept.

    The expected time comes from a measurement of its speed.
    """
    if not kept_files(folder, run.run_id):
        steps = row.steps or run.train.steps
        with threads_for(run, row.threads or torch.get_num_threads()):
            each = seconds_per_step([run], task_of(run, device), device)
        consent(steps, steps * each)


def initial_weights(run: RunSpec) -> Weights:
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    initialise(model, [run.seed])
    return {name: value[0].clone() for name, value in model.state_dict().items()}


def model_with_weights(run: RunSpec, weights: Weights, device: torch.device) -> Model:
    """A model with these weights on the device, in evaluation mode."""
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    model.load_state_dict({name: value[None] for name, value in weights.items()})
    return model.to(device).eval()


def _train(
    folder: Path, run: RunSpec, row: RunRow, device: torch.device, tell: Tell
) -> tuple[dict[int, Weights], float]:
    last = row.steps or run.train.steps
    wanted = {
        *evenly_spaced([step for step in run.train.evaluation_steps() if step < last], SNAPSHOTS),
        last,
    }
    data = task_of(run, device)
    population = Population([run], data, device)
    found: dict[int, Weights] = {}
    tell(0, last)
    for step in range(1, last + 1):
        population.train_step(population.next_rows())
        if step in wanted:
            found[step] = population.weights(run.run_id)
        if step % max(1, last // 100) == 0 or step == last:
            tell(step, last)
    outcome = population.evaluate()[0]
    score = outcome.score(run.task.score_name)
    for step, weights in found.items():
        path = (
            folder / FOLDER / run.run_id / f"{step}{SUFFIX}"
            if step < last
            else folder / FOLDER / f"{run.run_id}{SUFFIX}"
        )
        write(path, weights, WeightsHeader.of(run, step, score, outcome.test_loss, "asked"))
    return found, outcome.test_loss
