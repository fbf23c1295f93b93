"""What a member needs: what is counted without computing is what is allocated."""

import pytest
import torch
from zoo import table

from recollect.mixers.registry import MIXERS
from recollect.model.model import Model
from recollect.running.planning import cost as costing
from recollect.running.planning.cost import cost, operations

CPU = torch.device("cpu")


@pytest.mark.parametrize("mixer", MIXERS)
def test_counting_without_computing_counts_no_less(make_run, mixer):
    run = make_run({"model.mixer": table(mixer, 16)})
    shapes_only, computed = costing._count(run, torch.device("meta")), costing._count(run, CPU)
    assert cost(run) == shapes_only
    assert (shapes_only.parameters, shapes_only.operations) == (
        computed.parameters,
        computed.operations,
    )
    assert computed.memory_bytes <= shapes_only.memory_bytes < 1.5 * computed.memory_bytes


@pytest.mark.parametrize("mixer", MIXERS)
def test_a_cost_counts_the_models_parameters_and_grows_with_the_batch(make_run, mixer):
    costs = [
        cost(make_run({"model.mixer": table(mixer, 16), "train.batch": batch}))
        for batch in (16, 32, 64)
    ]
    run = make_run({"model.mixer": table(mixer, 16)})
    model = Model(run.model, 1, run.task.label_vocabulary, run.task.longest)
    assert {counted.parameters for counted in costs} == {
        sum(parameter.numel() for parameter in model.parameters())
    }
    sizes = [counted.memory_bytes for counted in costs]
    assert sizes[2] - sizes[1] == 2 * (sizes[1] - sizes[0]) > 0
    assert sizes[0] > 5 * 4 * costs[0].parameters
    assert [counted.operations for counted in costs[1:]] == [
        2 * costs[0].operations,
        4 * costs[0].operations,
    ]


def test_operations_of_attention_by_hand(make_run):
    run = make_run({"model.depth": 3})
    tokens, labels, width = 32 * 16, 32 * 4, 16
    layer = 4 * width**2 + (16 + 1) * width + 2 * 4 * width**2
    assert cost(run).operations == 3 * (3 * tokens * layer + labels * width * 32)


@pytest.mark.parametrize("mixer", MIXERS)
def test_operations_are_told_without_tracing(make_run, mixer):
    run = make_run({"model.mixer": table(mixer, 16)})
    assert operations(run) == cost(run).operations
