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

Zoology is imported as it is, except for what has no CPU form: the Triton norm, the CUDA convolution
and scan of Mamba (Zoology's own reference of the scan is used), and the device of the embedding.
Its newest commit returns embeddings in place of logits by default; the logits are asked for.
"""

import argparse
import math
import sys
import types
from collections.abc import Callable, Iterable, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.spec.recipes import RECIPES
from recollect.spec.run import RunSpec
from recollect.tasks.base import Batch, Task
from recollect.tasks.build import task_of
from recollect.training.early import EarlyDecisions
from recollect.training.loop import Evaluated, train_population
from recollect.training.population import Population

CPU = torch.device("cpu")
WIDTH, DEPTH = 32, 2
RATES = (3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1e-1)
# name here: (class there, its options, block there)
MIXERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "attention": ("attention.MHA", {"dropout": 0.1, "num_heads": 1}, "TransformerBlock"),
    "mamba": ("mamba.Mamba", {"use_fast_path": False}, "MambaBlock"),
    "hyena": ("hyena.Hyena", {"l_max": 16}, "TransformerBlock"),
}
TASK = {"name": "mqar", "vocabulary": 128, "length": 16, "pairs": 2, "test_rows": 1024}


# ---- Zoology on a CPU ----


class PlainRMSNorm(nn.Module):
    """In place of the Triton kernel of that name."""

    def __init__(self, width: int, eps: float):
        super().__init__()
        self.weight, self.bias, self.eps = nn.Parameter(torch.ones(width)), None, eps


def add_and_norm(
    x: Tensor, weight: Tensor, bias: None, residual: Tensor | None, eps: float, **_: Any
) -> tuple[Tensor, Tensor]:
    x = x if residual is None else x + residual
    return F.rms_norm(x, (x.shape[-1],), weight, eps), x


def convolve(x_BDL: Tensor, weight_DK: Tensor, bias_D: Tensor, _: None, activation: str) -> Tensor:
    assert activation == "silu"
    taps = weight_DK.shape[1]
    y_BDL = F.conv1d(
        F.pad(x_BDL, (taps - 1, 0)), weight_DK[:, None], bias_D, groups=len(weight_DK)
    )
    return F.silu(y_BDL)


def stand_in(name: str, **content: Any) -> None:
    module = types.ModuleType(name)
    vars(module).update(content)
    sys.modules[name] = module


class Passing(nn.Module):
    """Stochastic depth with a rate of 0."""

    def __init__(self, rate: float, mode: str):
        super().__init__()
        assert rate == 0

    def forward(self, x: Tensor) -> Tensor:
        return x


def load_zoology(checkout: Path) -> None:
    sys.path.insert(0, str(checkout))
    stand_in("torchvision")
    stand_in("torchvision.ops", StochasticDepth=Passing)
    stand_in("wandb")
    stand_in("causal_conv1d", causal_conv1d_fn=convolve)
    stand_in("causal_conv1d_cuda")
    stand_in("selective_scan_cuda")
    stand_in(
        "zoology.mixers.mamba_ssm.triton.layernorm",
        RMSNorm=PlainRMSNorm,
        rms_norm_fn=add_and_norm,
        layer_norm_fn=None,
    )
    import zoology.mixers.mamba
    import zoology.mixers.mamba_ssm.selective_scan_interface as scans
    import zoology.model

    zoology.mixers.mamba.selective_scan_fn = scans.selective_scan_ref
    zoology.model.TokenEmbeddings = partial(zoology.model.TokenEmbeddings, device="cpu")


def their_model(run: RunSpec) -> nn.Module:
    """The model of Zoology's figure 2, in the size of the run."""
    from zoology.config import ModelConfig, ModuleConfig
    from zoology.model import LanguageModel

    mixer = run.model.mixer.at(0).name
    name, options, block = MIXERS[mixer]
    if not run.model.dropout and "dropout" in options:
        options = options | {"dropout": 0.0}
    config = ModelConfig(
        sequence_mixer=ModuleConfig(name=f"zoology.mixers.{name}", kwargs=options),
        state_mixer=ModuleConfig(name="torch.nn.Identity", kwargs={}),
        d_model=run.model.width,
        n_layers=run.model.depth,
        max_position_embeddings=run.task.length if mixer == "attention" else 0,
        vocab_size=run.task.vocabulary,
        block_type=block,
        embed_dropout=run.model.dropout,
    )
    if isinstance(config.state_mixer, ModuleConfig):
        config.state_mixer = _Identity()
    with redirect_stdout(StringIO()):
        model = LanguageModel(config).to(torch.get_default_dtype())
    model.forward = partial(model.forward, return_embeddings=False)
    return model


class _Identity:
    """torch.nn.Identity takes any arguments, but the newest pydantic model of Zoology's does not
    pass them on."""

    def instantiate(self, **_: Any) -> nn.Module:
        return nn.Identity()


@dataclass(frozen=True)
class Look:
    """What one evaluation saw."""

    loss: float
    accuracy: float


def train_theirs(
    model: nn.Module,
    run: RunSpec,
    train_rows: Iterable[Any],
    test_rows: Iterable[Any],
    after_epoch: Callable[[], None] = lambda: None,
) -> list[Look]:
    from zoology.train import Trainer

    looks: list[Look] = []

    class Logger:
        def log(self, entry: dict[str, float]) -> None:
            if "valid/loss" in entry:
                looks.append(Look(entry["valid/loss"], entry["valid/accuracy"]))
                after_epoch()

    epochs = run.train.steps // run.steps_per_epoch
    trainer = Trainer(
        model,
        train_rows,
        test_rows,
        max_epochs=epochs,
        learning_rate=run.train.lr,
        weight_decay=run.train.weight_decay,
        early_stopping_metric="valid/accuracy",
        early_stopping_threshold=run.train.stop_solved,
        device="cpu",
        logger=Logger(),
    )
    with redirect_stdout(StringIO()):
        trainer.fit()
    return looks


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
    targets_BL = torch.full_like(batch.tokens_BL, -100)
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


def named_pairs(mixer: str, depth: int) -> dict[str, tuple[str, Form]]:
    """By name here: the name there, and how a tensor of one member looks there."""
    found: dict[str, tuple[str, Form]] = {
        "embedding.weight": ("backbone.embeddings.word_embeddings.weight", same),
        "norm.weight": ("backbone.ln_f.weight", same),
        "norm.bias": ("backbone.ln_f.bias", same),
    }
    if mixer == "attention":
        found["positions.weight"] = ("backbone.embeddings.position_embeddings.weight", same)
    for layer in range(depth):
        found |= {
            f"blocks.{layer}.{here}": (f"backbone.layers.{layer}.{there}", form)
            for here, (there, form) in LAYERS[mixer].items()
        }
    return found


def compare_exactly(mixer: str, rate: float) -> None:
    # 1,000 rows are 15 batches of 64 and one of 40.
    run = build_run(mixer, rate, seed=42, epochs=4, rows=1000, dropout=0.0)
    task = task_of(run, CPU)
    population = Population([run], task, CPU)
    theirs = their_model(run)
    there, pairs = dict(theirs.named_parameters()), named_pairs(mixer, run.model.depth)
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


def their_rows(run: RunSpec) -> tuple[list[Any], list[Any]]:
    from zoology.config import DataConfig
    from zoology.data.multiquery_ar import MQARConfig
    from zoology.data.utils import prepare_data

    task = run.task
    sizes = (task.train_rows, task.test_rows)
    train, test = (
        MQARConfig(
            vocab_size=task.vocabulary,
            input_seq_len=task.length,
            num_examples=rows,
            num_kv_pairs=task.pairs,
            random_non_queries=False,
        )
        for rows in sizes
    )
    config = DataConfig(
        train_configs=[train], test_configs=[test], batch_size=run.train.batch, seed=run.seed
    )
    with redirect_stdout(StringIO()):
        train_loader, test_loader = prepare_data(config)
        return list(train_loader), list(test_loader)


def compare_seeds(mixer: str, rates: Sequence[float], seeds: int, epochs: int, rows: int) -> None:
    print(f"{mixer}, {rows} rows, {epochs} epochs, {seeds} seeds: ours, Zoology's code")
    for rate in rates:
        scores: dict[str, list[float]] = {"ours": [], "theirs": []}
        ends: dict[str, list[float]] = {"ours": [], "theirs": []}
        for seed in range(1, seeds + 1):
            run = build_run(mixer, rate, seed, epochs, rows)
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
    given = parser.parse_args()
    torch.set_num_threads(1)
    load_zoology(given.checkout)
    if given.part == "exact":
        torch.set_default_dtype(torch.float64)
        for mixer in given.mixer or tuple(MIXERS):
            for rate in given.rate or (1e-3, 1e-2):
                compare_exactly(mixer, rate)
    else:
        for mixer in given.mixer or tuple(MIXERS):
            compare_seeds(mixer, given.rate or RATES, given.seeds, given.epochs, given.rows)


if __name__ == "__main__":
    main()
