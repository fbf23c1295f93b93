"""What one layer can and cannot learn, whatever the code: trained here in minutes, at the smallest
size that tells it apart.

Multi-query recall, one layer. Softmax attention needs the key in the keys of its neighbour: nothing
at the value's position names the key, and from the key's position a causal convolution of the
values does not reach the value. A centred one does. Mamba needs its convolution for the same
reason. Every verdict is over two learning rates: what solves does so at one of them at least, what
cannot solve fails at both.
"""

from typing import Any

import pytest
import torch

from recollect.spec.run import RunSpec
from recollect.tasks.build import build_task
from recollect.training.population import Population

SOLVED = 0.9


def best_score(
    mixer: dict[str, Any], rates: list[float], task: dict[str, Any], width: int, steps: int
) -> tuple[float, float]:
    """The best accuracy over the rates, and the accuracy of choosing among the values
    of the row at random.
    """
    runs = [
        RunSpec.parse(
            {
                "task": {"name": "mqar", "data": "fresh", "test_rows": 500, **task},
                "model": {"mixer": mixer, "width": width, "depth": 1},
                "train": {"steps": steps, "batch": 64, "lr": rate},
            }
        )
        for rate in rates
    ]
    cpu = torch.device("cpu")
    population = Population(runs, build_task(runs[0].task, 0, 64, cpu), cpu)
    for step in range(steps):
        population.train_step(population.task.batch("train", step))
    return max(evaluation.accuracy for evaluation in population.evaluate()), runs[0].task.chance


FOUR_PAIRS = {"vocabulary": 64, "pairs": 4, "length": 16}
THREE_PAIRS = {"vocabulary": 32, "pairs": 3, "length": 12}


def attention(**options: Any) -> tuple[float, float]:
    mixer = {"name": "attention", "conv_kernel": 3, **options}
    return best_score(mixer, [3e-3, 1e-2], FOUR_PAIRS, width=32, steps=800)


def mamba(**options: Any) -> tuple[float, float]:
    return best_score(
        {"name": "mamba", "state": 8, **options}, [1e-2, 2e-2], THREE_PAIRS, width=64, steps=900
    )


@pytest.mark.parametrize("conv", ["k", "qkv"])
def test_attention_with_a_causal_convolution_on_its_keys_solves(conv):
    assert attention(conv=conv)[0] >= SOLVED


@pytest.mark.parametrize("conv", ["none", "q", "v"])
def test_attention_without_stays_at_chance(conv):
    """Positions tell a little about which pair is asked for:
    choosing by them scores a little more than chance.
    """
    score, chance = attention(conv=conv)
    assert score <= chance + 0.12


def test_attention_with_four_causal_taps_on_its_values_does_not_solve():
    """But it does better than chance (docs/decisions/causal-convolution-on-values.md), so a score
    above chance is no proof of recall.
    """
    score, chance = attention(conv="v", conv_kernel=4)
    assert chance + 0.12 < score <= 0.75


@pytest.mark.parametrize("conv", ["v", "k"])
def test_attention_with_a_centred_convolution_solves(conv):
    assert attention(conv=conv, conv_padding="same")[0] >= SOLVED


def test_mamba_solves():
    assert mamba()[0] >= SOLVED


def test_mamba_without_its_convolution_stays_at_chance():
    score, chance = mamba(kernel=0)
    assert score <= chance + 0.12
