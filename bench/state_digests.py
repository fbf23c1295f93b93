"""Digests of the states of small populations after three steps on one CPU thread, as JSON.

    python bench/state_digests.py > digests.json

Two trees whose digests are equal compute the same bits: every mixer and some of its options, with
and without dropout, at two lengths of recall and on copying. Digests of two machines may differ.
"""

import hashlib
import json
from typing import Any

import torch

from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.spec.run import RunSpec
from recollect.tasks.build import build_task
from recollect.training.population import Population

CPU = torch.device("cpu")
SHORT = {"name": "mqar", "vocabulary": 64, "length": 20, "pairs": 4}
LONG = SHORT | {"length": 150, "vocabulary_split": "halves"}
ROWS = {"train_rows": 256, "test_rows": 64}
# Task, dropout, width, batch.
SETTINGS: list[tuple[dict[str, Any], float, int, int]] = [
    (SHORT | ROWS, 0.0, 32, 32),
    (LONG | ROWS, 0.1, 32, 32),
    ({"name": "copying"}, 0.0, 16, 4),
]
# Mixer, positions; None: the mixer's own.
VARIANTS: list[tuple[Any, str | None]] = [
    *((name, None) for name in MIXERS),
    ({"name": "mamba", "kernel": 0, "gate": False, "init": "zoology"}, None),
    ({"name": "attention", "conv": "qkv"}, None),
    *(("attention", positions) for positions in ("rope", "relative", "alibi")),
    ({"name": "sliding_window", "window": 4}, None),
    ("hyena", "relative"),
    (["base_conv", "attention"], None),
    ({"name": "delta_net", "gate": True, "negative": True, "kernel": 0}, None),
]


def digest(run: RunSpec) -> str:
    """Of three members after three steps and an evaluation."""
    members = [run.model_copy(update={"seed": seed}) for seed in (1, 2, 3)]
    task = build_task(run.task, 0, run.train.batch, CPU)
    population = Population(members, task, CPU)
    for step in range(3):
        population.train_step(task.batch("train", step))
    evaluation = population.evaluate()[0]
    found = hashlib.sha256(repr(evaluation.test_loss).encode())
    for name, tensor in sorted(population.state().tensors.items()):
        found.update(name.encode())
        found.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()[:16]


def main() -> None:
    torch.set_num_threads(1)
    digests = {}
    for mixer, positions in VARIANTS:
        for task, dropout, width, batch in SETTINGS:
            model = {"mixer": mixer, "width": width, "depth": 2, "dropout": dropout}
            model |= {"positions": positions} if positions else {}
            train = {"steps": 20, "batch": batch, "evaluations": 2, "lr": 3e-3, "clip": 1.0}
            key = f"{json.dumps(mixer)} {positions or 'own'} {json.dumps(task)}"
            try:
                digests[key] = digest(RunSpec.parse({"task": task, "model": model, "train": train}))
            except SpecError as error:  # a width that a mixer's heads do not divide
                digests[key] = str(error).partition("\n")[0]
    print(json.dumps(digests, indent=1))


if __name__ == "__main__":
    main()
