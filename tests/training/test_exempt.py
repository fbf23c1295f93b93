"""What weight decay spares: by the kind of a parameter and by member, as torch.optim.AdamW with
parameter groups does it.
"""

import math
from typing import get_args

import numpy as np
import pytest
import torch
from torch import nn
from zoo import CASES, SINGLE

from recollect.errors import SpecError
from recollect.model.layers import Kind, Layer, Linear, normal, parameter_kinds
from recollect.model.model import Model
from recollect.spec.run import RunSpec
from recollect.spec.train import Exempt, TrainSpec
from recollect.training.optimiser import EXEMPT, KINDS
from recollect.training.population import Population
from recollect.training.schedule import rates

STEPS = 12
# Every kind is in it: weights, biases, norms, and Mamba's decay rates, step sizes and skips.
SHAPE = {
    "model.mixer": "mamba",
    "model.block": "mixer+mlp",
    "model.norm": "layer",
    "model.depth": 1,
}
RECIPES = [
    {"train.exempt": "none", "train.weight_decay": 0.5, "train.lr": 1e-2, "seed": 1},
    {"train.exempt": "dynamics", "train.weight_decay": 0.5, "train.lr": 1e-2, "seed": 1},
    {
        "train.exempt": "dynamics+norms+biases",
        "train.weight_decay": 2.0,
        "train.lr": 1e-3,
        "seed": 2,
    },
    {
        "train.exempt": "dynamics+norms+biases",
        "train.weight_decay": 0.0,
        "train.clip": 0.1,
        "seed": 3,
    },
]
SPARED = {
    "none": set(),
    "dynamics": {"dynamics"},
    "dynamics+norms+biases": {"dynamics", "norm", "bias"},
}


@pytest.fixture
def runs(make_run) -> list[RunSpec]:
    return [
        make_run({"train.steps": STEPS, "train.evaluations": 1, **SHAPE, **recipe})
        for recipe in RECIPES
    ]


def in_groups(
    run: RunSpec, kinds: dict[str, Kind], parameters: dict[str, nn.Parameter]
) -> torch.optim.AdamW:
    spared = SPARED[run.train.exempt]
    groups = [
        {
            "params": [x for name, x in parameters.items() if kinds[name] not in spared],
            "weight_decay": run.train.weight_decay,
        },
        {
            "params": [x for name, x in parameters.items() if kinds[name] in spared],
            "weight_decay": 0.0,
        },
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], eps=run.train.eps)


# ---- the rule ----


def test_every_choice_says_what_it_spares():
    assert set(EXEMPT) == set(get_args(Exempt)) == set(SPARED)
    assert {name: set(kinds) for name, kinds in EXEMPT.items()} == SPARED
    assert set(KINDS) == {"weight", "bias", "norm", "dynamics"}


def test_nothing_is_spared_unless_asked_for(make_run):
    assert TrainSpec.model_fields["exempt"].default == "none"
    assert make_run().train.exempt == "none"


def test_members_of_one_population_may_differ_in_it(make_run):
    one, other = make_run(), make_run({"train.exempt": "dynamics"})
    assert one.shape_id == other.shape_id
    assert one.run_id != other.run_id


def test_an_unknown_choice_is_refused(make_run):
    with pytest.raises(
        SpecError,
        match=r"train\.exempt = 'norms': must be one of 'none', 'dynamics' or "
        r"'dynamics\+norms\+biases'",
    ):
        make_run({"train.exempt": "norms"})


def test_updates_are_those_of_torchs_parameter_groups(runs, make_population):
    population: Population = make_population(runs)
    named = dict(population.model.named_parameters())
    kinds = parameter_kinds(population.model)
    assert set(kinds.values()) == set(KINDS)
    copies = [
        {name: nn.Parameter(x[p].detach().clone()) for name, x in named.items()}
        for p in range(len(runs))
    ]
    optimisers = [in_groups(run, kinds, copy) for run, copy in zip(runs, copies, strict=True)]
    generator = torch.Generator().manual_seed(0)
    for step in range(STEPS):
        for name, parameter in named.items():
            parameter.grad = torch.randn(parameter.shape, generator=generator)
            for p, copy in enumerate(copies):
                copy[name].grad = parameter.grad[p].clone()
        population._optimiser.prepare(step)
        population._optimiser.update()
        for run, copy, optimiser in zip(runs, copies, optimisers, strict=True):
            if run.train.clip:
                nn.utils.clip_grad_norm_(copy.values(), run.train.clip)
            for group in optimiser.param_groups:
                group["lr"] = float(rates(run).astype(np.float32)[step])
            optimiser.step()
    for name, parameter in named.items():
        for p, copy in enumerate(copies):
            torch.testing.assert_close(
                parameter[p], copy[name], rtol=1e-5, atol=1e-6, msg=lambda t, n=name: f"{n}: {t}"
            )


def test_without_a_gradient_only_decay_moves_a_weight(runs, make_population):
    """By kind and member: exactly the product of 1 - rate * decay, or nothing."""
    population: Population = make_population(runs)
    before = {name: value.detach().clone() for name, value in population.model.named_parameters()}
    for step in range(STEPS):
        for parameter in population.model.parameters():
            parameter.grad = torch.zeros_like(parameter)
        population._optimiser.prepare(step)
        population._optimiser.update()
    kinds = parameter_kinds(population.model)
    for name, parameter in population.model.named_parameters():
        for p, run in enumerate(runs):
            if kinds[name] in SPARED[run.train.exempt] or not run.train.weight_decay:
                assert torch.equal(parameter[p], before[name][p]), name
            else:
                left = math.prod(1 - rates(run) * run.train.weight_decay)
                assert left < 0.99
                torch.testing.assert_close(
                    parameter[p], before[name][p] * left, rtol=1e-5, atol=1e-7
                )


def test_a_members_choice_does_not_touch_its_neighbours(runs, make_population):
    companies = [runs[:2], runs[1::-1], runs, runs[1:2]]
    states = []
    for company in companies:
        population = make_population(company)
        for step in range(3):
            population.train_step(population.task.batch("train", step))
        states.append(population.state().select([runs[1].run_id]).tensors)
    for state in states[1:]:
        for name, value in states[0].items():
            assert torch.equal(value, state[name]), name


def test_the_choice_survives_thinning_out(runs, make_population):
    population = make_population(runs)
    population.compact([runs[2].run_id, runs[0].run_id])
    assert population._optimiser.weight_decay_P["norm"].tolist() == [0.0, 0.5]
    assert population._optimiser.weight_decay_P["weight"].tolist() == [2.0, 0.5]


class Tied(nn.Module):
    """One tensor under two names, as a plugin may have it."""

    def __init__(self):
        super().__init__()
        self.one = Linear(2, 3, 3, init=normal(1.0), bias_kind="dynamics")
        self.other = Linear(2, 3, 3, init=normal(1.0))
        self.other.weight = self.one.weight


def test_a_tensor_with_two_names_has_one_kind():
    model = Tied()
    kinds = parameter_kinds(model)
    assert {name: kinds[name] for name, _ in model.named_parameters()} == {
        "one.weight": "weight",
        "one.bias": "dynamics",
        "other.bias": "bias",
    }


# ---- the kinds of what there is ----


def test_the_model_around_a_mixer(make_run):
    run = make_run(
        {
            "model.mixer": "attention",
            "model.positions": "learned",
            "model.norm": "rms",
            "model.depth": 1,
        }
    )
    found = parameter_kinds(Model(run.model, 1, 8, 8))
    assert {name: kind for name, kind in found.items() if ".mixer." not in name} == {
        "embedding.weight": "weight",
        "positions.weight": "weight",
        "blocks.0.norm_mixer.weight": "norm",
        "blocks.0.norm_channel.weight": "norm",
        "blocks.0.channel.up.weight": "weight",
        "blocks.0.channel.up.bias": "bias",
        "blocks.0.channel.down.weight": "weight",
        "blocks.0.channel.down.bias": "bias",
        "norm.weight": "norm",
        "norm.bias": "norm",
    }


# Decay rates, step sizes and direct paths of each mixer, and its norms; what is not here is a
# weight, or a bias by name.
DYNAMICS = {
    "attention": set(),
    "base_conv": set(),
    "based": set(),
    "delta_net": set(),
    "gated_delta_net": {"a_log_PH", "forget.bias"},
    "gla": {"decay.bias"},
    "gru": set(),
    "h3": {"shift_b_PDN", "shift_skip_PD", "a_PHM", "omega_PHM", "b_PHM2", "log_dt_PH", "skip_PH"},
    "hyena": {"skip_PD", "omega_PF"},
    "linear_attention": set(),
    "lstm": set(),
    "mamba": {"a_log_PEN", "skip_PE", "delta.bias"},
    "mamba2": {"a_log_PH", "skip_PH", "delta_bias_PH"},
    "min_gru": set(),
    "mlstm": {"gates.bias", "skip_PE"},
    "retnet": set(),
    "rwkv4": {"time_decay_PD", "time_first_PD"},
    "s6": {"a_log_PEN", "skip_PE", "delta.bias"},
    "sliding_window": set(),
}
NORMS = {
    name: {"norm.weight"} for name in ("delta_net", "gated_delta_net", "gla", "mamba2", "retnet")
} | {"mlstm": {"scale_PE"}}


@pytest.mark.parametrize("name", SINGLE)
def test_every_mixer_tags_its_dynamics_and_norms(name):
    kinds = parameter_kinds(next(case for case in CASES if case.name == name).build(population=1))
    assert {key for key, kind in kinds.items() if kind == "dynamics"} == DYNAMICS[name]
    assert {key for key, kind in kinds.items() if kind == "norm"} == NORMS.get(name, set())
    biases = {key for key in kinds if key.endswith("bias")} - DYNAMICS[name]
    assert {key for key, kind in kinds.items() if kind == "bias"} == biases


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
def test_kinds_are_given_to_parameters_that_exist(case):
    """A slip in a name would leave the parameter a weight, without a word."""
    for module in case.build(population=1).modules():
        if isinstance(module, Layer):
            own = dict(module.named_parameters(recurse=False))
            for name, kind in module.kinds.items():
                assert kind in KINDS
                assert name in own or getattr(module, name, "misspelt") is None, (
                    f"{type(module).__name__}: {name}"
                )
