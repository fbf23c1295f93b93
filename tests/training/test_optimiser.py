"""AdamW with a rate, a weight decay and a clip per member:
every member as torch's own AdamW would have trained it.
"""

import numpy as np
import pytest
import torch
from torch import nn

from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.spec.run import RunSpec
from recollect.tasks.base import IGNORE
from recollect.training.population import Population
from recollect.training.schedule import rates

STEPS = 50
RECIPES = [
    {"train.lr": 1e-3, "train.weight_decay": 0.1, "seed": 1},
    {
        "train.lr": 3e-2,
        "train.weight_decay": 0.0,
        "train.clip": 0.05,
        "train.decay": "linear",
        "seed": 2,
    },
    {
        "train.lr": 1e-4,
        "train.weight_decay": 2.0,
        "train.clip": 1e6,
        "train.warmup": 0.0,
        "seed": 3,
    },
    {
        "train.lr": 1e-2,
        "train.weight_decay": 0.5,
        "train.clip": 0.5,
        "train.decay": "constant",
        "seed": 1,
    },
]


@pytest.fixture
def runs(make_run) -> list[RunSpec]:
    return [
        make_run({"train.steps": STEPS, "train.evaluations": 1, "model.depth": 1, **recipe})
        for recipe in RECIPES
    ]


class Reference:
    """One run under torch.optim.AdamW and torch's clip_grad_norm_."""

    def __init__(self, run: RunSpec, parameters: list[nn.Parameter]):
        self.run, self.parameters = run, parameters
        self.rates = rates(run).astype(np.float32)  # as the table on the device
        train = run.train
        self.optimiser = torch.optim.AdamW(
            parameters,
            lr=train.lr,
            betas=(train.beta1, train.beta2),
            eps=train.eps,
            weight_decay=train.weight_decay,
        )

    def update(self, step: int) -> None:
        if self.run.train.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.run.train.clip)
        self.optimiser.param_groups[0]["lr"] = float(self.rates[step])
        self.optimiser.step()


def test_updates_are_torchs_for_given_gradients(runs, make_population):
    """The rule alone: gradients of all sizes, zeros among them, the same for both."""
    population: Population = make_population(runs)
    ours = list(population.model.parameters())
    references = [
        Reference(run, [nn.Parameter(x[p].detach().clone()) for x in ours])
        for p, run in enumerate(runs)
    ]
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        for i, parameter in enumerate(ours):
            scale = 10.0 ** float(torch.randint(-9, 3, (), generator=generator))
            parameter.grad = (
                torch.randn(parameter.shape, generator=generator)
                * scale
                * (i % 5 != 4 or step % 3 == 0)
            )
            for p, reference in enumerate(references):
                reference.parameters[i].grad = parameter.grad[p].clone()
        population._optimiser.prepare(step)
        population._optimiser.update()
        for reference in references:
            reference.update(step)
    for i, parameter in enumerate(ours):
        for p, reference in enumerate(references):
            torch.testing.assert_close(parameter[p], reference.parameters[i], rtol=2e-5, atol=2e-6)


def test_fifty_steps_of_training_are_torchs(runs, make_population):
    """In float64: some gradients are zero but for rounding (a bias of all keys),
    and Adam blows rounding up.
    """
    population: Population = make_population(runs)
    population.model.double()
    optimiser = population._optimiser
    optimiser.start_moments()
    rates_at = optimiser.rates.at
    optimiser.rates.at = lambda step: rates_at(step).double()
    numbers = optimiser.numbers
    numbers.rate_P, numbers.step_P = numbers.rate_P.double(), numbers.step_P.double()
    task = population.task
    references = []
    for run in runs:
        model = Model(run.model, 1, task.vocabulary, task.length)
        initialise(model, [run.seed])
        model.double()
        references.append((model, Reference(run, list(model.parameters()))))
    for step in range(STEPS):
        batch = task.batch("train", step)
        population.train_step(batch)
        for model, reference in references:
            model.zero_grad()
            (model.loss(batch) / (batch.labels_BK != IGNORE).sum()).sum().backward()
            reference.update(step)
    for p, (model, _) in enumerate(references):
        for (name, ours), theirs in zip(
            population.model.named_parameters(), model.parameters(), strict=True
        ):
            torch.testing.assert_close(
                ours[p],
                theirs[0],
                rtol=1e-6,
                atol=1e-9,
                msg=lambda text, name=name: f"{name}: {text}",
            )


def test_a_neighbours_clip_does_not_touch_a_run_without_one(make_run, make_population):
    """Not even where the norm of its gradient overflows."""
    free, clipped = make_run(seed=1), make_run({"train.clip": 1.0, "seed": 2})
    beside, apart = make_population([free, clipped]), make_population([free, make_run(seed=2)])
    for population in (beside, apart):
        for parameter in population.model.parameters():
            parameter.grad = torch.full_like(parameter, 1e25)
        population._optimiser.prepare(0)
        population._optimiser.update()
    for ours, theirs in zip(beside.model.parameters(), apart.model.parameters(), strict=True):
        assert torch.equal(ours[0], theirs[0])
        assert ours[0].isfinite().all()
