"""Zoology's models and its training loop on a CPU, for bench/zoology_training.py.

Zoology is imported as it is, except for what has no CPU form: the Triton norm, the CUDA convolution
and scan of Mamba (Zoology's own reference of the scan is used), and the device of the embedding.
Its newest commit returns embeddings in place of logits by default; the logits are asked for.
"""

import sys
import types
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from dataclasses import dataclass
from functools import partial
from io import StringIO
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.spec.run import RunSpec

# name here: (class there, its options, block there)
MIXERS: dict[str, tuple[str, dict[str, Any], str]] = {
    "attention": ("attention.MHA", {"dropout": 0.1, "num_heads": 1}, "TransformerBlock"),
    "mamba": ("mamba.Mamba", {"use_fast_path": False}, "MambaBlock"),
    "hyena": ("hyena.Hyena", {"l_max": 16}, "TransformerBlock"),
}


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
    y_BDL = F.conv1d(F.pad(x_BDL, (taps - 1, 0)), weight_DK[:, None], bias_D, groups=len(weight_DK))
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
    """The model of Zoology's figure 2 in the size of the run; with Zoology's default state mixer if
    the run has an MLP.
    """
    from zoology.config import ModelConfig, ModuleConfig
    from zoology.model import LanguageModel

    mixer = run.model.mixer.at(0).name
    name, options, block = MIXERS[mixer]
    if not run.model.dropout and "dropout" in options:
        options = options | {"dropout": 0.0}
    state_mixer = ModuleConfig(name="torch.nn.Identity", kwargs={})
    if run.model.block == "mixer+mlp":
        state_mixer = ModuleConfig(
            name="zoology.mixers.mlp.MLP", kwargs={"hidden_mult": run.model.mlp_ratio}
        )
    config = ModelConfig(
        sequence_mixer=ModuleConfig(name=f"zoology.mixers.{name}", kwargs=options),
        state_mixer=state_mixer,
        d_model=run.model.width,
        n_layers=run.model.depth,
        max_position_embeddings=run.task.length if mixer == "attention" else 0,
        vocab_size=run.task.vocabulary,
        block_type=block,
        embed_dropout=run.model.dropout,
    )
    with redirect_stdout(StringIO()):
        model = LanguageModel(config).to(torch.get_default_dtype())
    model.forward = partial(model.forward, return_embeddings=False)
    return model


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
