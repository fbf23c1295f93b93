"""A run's weights at some of its steps: as drawn, as kept, or, where nothing was kept, from
training it once more.

Training is a function of the specification, so a run can be had again: on a CPU bit for bit, on
another device nearly.
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.rows import RunRow
from recollect.running.planning import planner
from recollect.spec.run import RunSpec
from recollect.store.weights import FOLDER, SUFFIX, Kept, cell_id, evenly, kept_files, read, write
from recollect.tasks.build import build_task
from recollect.training.population import Population

Weights = dict[str, Tensor]  # of one member, without the population axis
Tell = Callable[[int, int], None]  # steps done, steps to do
SNAPSHOTS = 24  # of a run that is trained again


@dataclass(frozen=True)
class History:
    """The weights by step, from 0 (as drawn) to the run's last one."""

    weights: dict[int, Weights]
    source: Literal["kept", "trained again"]
    test_loss: float  # on all test rows at the end, as it came out with these weights


def history(
    folder: Path, run: RunSpec, row: RunRow, device: torch.device, again: bool, tell: Tell
) -> History:
    """What was kept of a run, else what training it again gives, which is kept then."""
    files = kept_files(folder, run.run_id)
    if again or not files:
        found = _train(folder, run, row, device, tell)
        return History({0: as_drawn(run), **found[0]}, "trained again", found[1])
    kept = [read(path) for path in files]
    return History(
        {0: as_drawn(run), **{about.step: weights for about, weights in kept}},
        "kept",
        kept[-1][0].test_loss,
    )


def as_drawn(run: RunSpec) -> Weights:
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    initialise(model, [run.seed])
    return {name: value[0].clone() for name, value in model.state_dict().items()}


def with_weights(run: RunSpec, weights: Weights, device: torch.device) -> Model:
    """One model with these weights, ready to be looked at."""
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    model.load_state_dict({name: value[None] for name, value in weights.items()})
    return model.to(device).eval()


def _train(
    folder: Path, run: RunSpec, row: RunRow, device: torch.device, tell: Tell
) -> tuple[dict[int, Weights], float]:
    last = row.steps or run.train.steps
    wanted = {
        *evenly([step for step in run.train.evaluation_steps() if step < last], SNAPSHOTS),
        last,
    }
    if device.type == "cpu":
        planner.use_threads(run, row.threads or torch.get_num_threads())
    data = build_task(run.task, run.data_seed, run.train.batch, device)
    population = Population([run], data, device)
    found: dict[int, Weights] = {}
    tell(0, last)
    for step in range(1, last + 1):
        population.train_step(data.batch("train", step - 1))
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
        write(
            path, weights, Kept(run.run_id, cell_id(run), step, score, outcome.test_loss, "asked")
        )
    return found, outcome.test_loss
