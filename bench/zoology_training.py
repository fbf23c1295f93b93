"""Training under the recipe `zoology` against Zoology's own training code.

    python bench/zoology_training.py CHECKOUT exact
    python bench/zoology_training.py CHECKOUT seeds [--seeds 5] [--mixer attention ...]

CHECKOUT is a clone of github.com/HazyResearch/zoology; its packages einops, tqdm, opt_einsum and
pandas have to be installed. Both parts run on a CPU, at a reduced size.

exact: both programs begin with the same weights and see the same rows, without dropout. Printed is
the largest difference of the weights, relative to the largest weight of each tensor, and of test
loss and accuracy after every epoch.

seeds: each program draws its own weights, its own rows and its own dropout, and both train the same
rates with as many seeds. Printed are the mean accuracies and their standard errors.

--mlp gives every layer an MLP, as the recipe `study` has it: Zoology's default state mixer in place
of figure 2's identity. Its block of Mamba takes none.
"""

import argparse
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from zoology_on_cpu import MIXERS, Look, load_zoology, their_model, their_rows, train_theirs

from recollect.spec.recipes import RECIPES
from recollect.spec.run import RunSpec
from recollect.tasks.base import IGNORE, Batch, Task
from recollect.tasks.build import task_of
from recollect.training.early import EarlyDecisions
from recollect.training.loop import Evaluated, train_population
from recollect.training.population import Population

CPU = torch.device("cpu")
WIDTH, DEPTH = 32, 2
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
TASK = {"name": "mqar", "vocabulary": 128, "length": 16, "pairs": 2, "test_rows": 1024}


# ---- ours ----


def build_run(mixer: str, rate: float, seed: int, epochs: int, rows: int, **model: Any) -> RunSpec:
    table = {
        "task": TASK | {"train_rows": rows},
        "model": {"mixer": mixer, "width": WIDTH, "depth": DEPTH, **model},
        "train": {"batch": 64, "epochs": epochs, "evaluations": epochs, "lr": rate},
        "seed": seed,
        "data_seed": seed,
    }
    return RunSpec.parse(RECIPES["zoology"].fill(table))


def train_ours(
    population: Population, after_epoch: Callable[[], None] = lambda: None
) -> list[Look]:
    """Train one member; return its evaluations."""
    looks = []
    for event in train_population(population, EarlyDecisions()):
        if isinstance(event, Evaluated):
            looks += [Look(e.test_loss, e.accuracy) for e in event.evaluations.values()]
            after_epoch()
    return looks


# ---- the same weights and rows ----


def as_theirs(batch: Batch) -> tuple[Tensor, Tensor, list[dict[str, Any]]]:
    targets_BL = torch.full_like(batch.tokens_BL, IGNORE)
    targets_BL.scatter_(1, batch.where_BK, batch.labels_BK)
    return batch.tokens_BL, targets_BL, [{}] * batch.rows


def rows_of(task: Task, split: str, pieces: int) -> list[Any]:
    return [as_theirs(task.batch(split, piece)) for piece in range(pieces)]


Form = Callable[[Tensor], Tensor]


def same(x: Tensor) -> Tensor:
    return x


def transposed(x: Tensor) -> Tensor:
    return x.T


def taps_last(x_KE: Tensor) -> Tensor:
    return x_KE.T[:, None]


def one_more(x: Tensor) -> Tensor:
    return x[None]


# By name here: the name there, and how a tensor of one member looks there.
NORMS_OF_A_LAYER: dict[str, tuple[str, Form]] = {
    "norm_mixer.weight": ("norm1.weight", same),
    "norm_mixer.bias": ("norm1.bias", same),
    "norm_channel.weight": ("norm2.weight", same),
    "norm_channel.bias": ("norm2.bias", same),
}
LAYERS: dict[str, dict[str, tuple[str, Form]]] = {
    "attention": NORMS_OF_A_LAYER
    | {
        "mixer.qkv.weight": ("sequence_mixer.Wqkv.weight", transposed),
        "mixer.qkv.bias": ("sequence_mixer.Wqkv.bias", same),
        "mixer.out.weight": ("sequence_mixer.out_proj.weight", transposed),
        "mixer.out.bias": ("sequence_mixer.out_proj.bias", same),
    },
    "mamba": {
        "norm_mixer.weight": ("norm.weight", same),
        "mixer.a_log_PEN": ("mixer.A_log", same),
        "mixer.skip_PE": ("mixer.D", same),
        "mixer.into.weight": ("mixer.in_proj.weight", transposed),
        "mixer.conv.weight": ("mixer.conv1d.weight", taps_last),
        "mixer.conv.bias": ("mixer.conv1d.bias", same),
        "mixer.select.weight": ("mixer.x_proj.weight", transposed),
        "mixer.delta.weight": ("mixer.dt_proj.weight", transposed),
        "mixer.delta.bias": ("mixer.dt_proj.bias", same),
        "mixer.out.weight": ("mixer.out_proj.weight", transposed),
    },
    "hyena": NORMS_OF_A_LAYER
    | {
        "mixer.into.weight": ("sequence_mixer.in_proj.weight", transposed),
        "mixer.into.bias": ("sequence_mixer.in_proj.bias", same),
        "mixer.short.weight": ("sequence_mixer.short_filter.weight", taps_last),
        "mixer.short.bias": ("sequence_mixer.short_filter.bias", same),
        "mixer.skip_PD": ("sequence_mixer.filter_fn.bias", same),
        "mixer.lags_PLZ": ("sequence_mixer.filter_fn.pos_emb.z", one_more),
        "mixer.omega_PF": ("sequence_mixer.filter_fn.implicit_filter.1.freq", one_more),
        "mixer.filter_out.weight": (
            "sequence_mixer.filter_fn.implicit_filter.6.weight",
            transposed,
        ),
        "mixer.out.weight": ("sequence_mixer.out_proj.weight", transposed),
        "mixer.out.bias": ("sequence_mixer.out_proj.bias", same),
    }
    | {
        f"mixer.{here}.{part}": (f"sequence_mixer.filter_fn.implicit_filter.{there}.{part}", form)
        for here, there in (("filter_into", 0), ("filter_inner.0", 2), ("filter_inner.1", 4))
        for part, form in (("weight", transposed), ("bias", same))
    },
}


MLP: dict[str, tuple[str, Form]] = {
    "channel.up.weight": ("state_mixer.fc1.weight", transposed),
    "channel.up.bias": ("state_mixer.fc1.bias", same),
    "channel.down.weight": ("state_mixer.fc2.weight", transposed),
    "channel.down.bias": ("state_mixer.fc2.bias", same),
}


def named_pairs(run: RunSpec) -> dict[str, tuple[str, Form]]:
    """By name here: the name there, and how a tensor of one member looks there."""
    mixer = run.model.mixer.at(0).name
    of_a_layer = LAYERS[mixer] | (MLP if run.model.block == "mixer+mlp" else {})
    found: dict[str, tuple[str, Form]] = {
        "embedding.weight": ("backbone.embeddings.word_embeddings.weight", same),
        "norm.weight": ("backbone.ln_f.weight", same),
        "norm.bias": ("backbone.ln_f.bias", same),
    }
    if mixer == "attention":
        found["positions.weight"] = ("backbone.embeddings.position_embeddings.weight", same)
    for layer in range(run.model.depth):
        found |= {
            f"blocks.{layer}.{here}": (f"backbone.layers.{layer}.{there}", form)
            for here, (there, form) in of_a_layer.items()
        }
    return found


def compare_exactly(mixer: str, rate: float, **model: Any) -> None:
    # 1,000 rows are 15 batches of 64 and one of 40.
    run = build_run(mixer, rate, seed=42, epochs=4, rows=1000, dropout=0.0, **model)
    task = task_of(run, CPU)
    population = Population([run], task, CPU)
    theirs = their_model(run)
    there, pairs = dict(theirs.named_parameters()), named_pairs(run)
    here = {name for name, _ in population.model.named_parameters()}
    assert here == set(pairs), here ^ set(pairs)
    assert set(there) == {name for name, _ in pairs.values()}
    with torch.no_grad():
        for name, value in population.weights(run.run_id).items():
            other, form = pairs[name]
            there[other].copy_(form(value))
    kept: dict[str, list[dict[str, Tensor]]] = {"ours": [], "theirs": []}

    def keep_ours() -> None:
        weights = population.weights(run.run_id)
        kept["ours"].append({pairs[name][0]: pairs[name][1](w) for name, w in weights.items()})

    def keep_theirs() -> None:
        weights = theirs.named_parameters()
        kept["theirs"].append({name: weight.detach().clone() for name, weight in weights})

    looks = {
        "ours": train_ours(population, keep_ours),
        "theirs": train_theirs(
            theirs,
            run,
            rows_of(task, "train", run.steps_per_epoch),
            rows_of(task, "test", task.pieces("test")),
            keep_theirs,
        ),
    }
    assert len(looks["ours"]) == len(looks["theirs"])
    for epoch in range(len(looks["ours"])):
        ours, others = kept["ours"][epoch], kept["theirs"][epoch]
        apart = max(
            float((ours[name] - others[name]).abs().max() / others[name].abs().max())
            for name in others
        )
        a, b = looks["ours"][epoch], looks["theirs"][epoch]
        print(
            f"{mixer} at {rate:g}, epoch {epoch + 1}: weights {apart:.1e}; "
            f"loss {a.loss:.6f}, {b.loss:.6f}; accuracy {a.accuracy:.4f}, {b.accuracy:.4f}"
        )


# ---- each with its own draws ----


def compare_seeds(
    mixer: str, rates: Sequence[float], seeds: int, epochs: int, rows: int, **model: Any
) -> None:
    print(f"{mixer}, {rows} rows, {epochs} epochs, {seeds} seeds: ours, Zoology's code")
    for rate in rates:
        scores: dict[str, list[float]] = {"ours": [], "theirs": []}
        ends: dict[str, list[float]] = {"ours": [], "theirs": []}
        for seed in range(1, seeds + 1):
            run = build_run(mixer, rate, seed, epochs, rows, **model)
            task = task_of(run, CPU)
            torch.manual_seed(seed)
            looks = {
                "ours": train_ours(Population([run], task, CPU)),
                "theirs": train_theirs(their_model(run), run, *their_rows(run)),
            }
            for name, seen in looks.items():
                scores[name].append(seen[-1].accuracy if seen else math.nan)
                ends[name].append(len(seen))
        print(f"  {rate:8.2g}: " + "; ".join(told(scores[n], ends[n]) for n in scores), flush=True)


def told(scores: list[float], epochs: list[float]) -> str:
    error = np.std(scores, ddof=1) / math.sqrt(len(scores))
    return f"{np.mean(scores):.3f} +- {error:.3f}, {np.mean(epochs):.1f} epochs"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("checkout", type=Path)
    parser.add_argument("part", choices=["exact", "seeds"])
    parser.add_argument("--mixer", nargs="+", choices=list(MIXERS))
    parser.add_argument("--rate", nargs="+", type=float)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=16)
    parser.add_argument("--rows", type=int, default=5000)
    parser.add_argument("--mlp", action="store_true")
    given = parser.parse_args()
    model = {"block": "mixer+mlp"} if given.mlp else {}
    mixers = given.mixer or [name for name in MIXERS if not (given.mlp and name == "mamba")]
    torch.set_num_threads(1)
    load_zoology(given.checkout)
    if given.part == "exact":
        torch.set_default_dtype(torch.float64)
        for mixer in mixers:
            for rate in given.rate or (1e-3, 1e-2):
                compare_exactly(mixer, rate, **model)
    else:
        for mixer in mixers:
            rates = given.rate or RATES
            compare_seeds(mixer, rates, given.seeds, given.epochs, given.rows, **model)


if __name__ == "__main__":
    main()
