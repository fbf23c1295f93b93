"""A run's weights at some of its steps: as initialised, as kept, or else from training it again.

Training is a function of the specification, so a run can be repeated: on a CPU bit for bit, on
another device nearly.
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
Tell = Callable[[int, int], None]  # steps done, steps to do
Consent = Callable[[int, float], None]  # steps to make, seconds they should take; raises if not
SNAPSHOTS = 24  # of a run that is trained again


@dataclass(frozen=True)
class WeightHistory:
    """The weights by step, from 0 (as initialised) to the run's last one."""

    weights: dict[int, Weights]
    source: Literal["kept", "trained again", "as initialised"]
    test_loss: float  # on all test rows at the end, as it came out with these weights; NaN: none


def weight_history(
    folder: Path,
    run: RunSpec,
    row: RunRow,
    device: torch.device,
    again: bool,
    untrained: bool,
    tell: Tell,
) -> WeightHistory:
    """What was kept of a run, else what training it again gives, which is kept then; `untrained`:
    else the first weights alone, which are a function of the seed.
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
    """Ask before a run is trained again only because nothing was kept of it; its speed is measured
    for that.
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
    """One model with these weights, ready to be looked at."""
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
