"""Runs of mixers from outside: those that fail, their checkpoints, and looking at them later."""

from pathlib import Path

import pytest
import torch
from plugins_made import Running, with_mixer
from torch import Tensor, nn

import recollect
from recollect import api
from recollect.errors import ResourceError, SpecError, Stopped
from recollect.running import engine
from recollect.running.pack_queue import Selection
from recollect.running.planning.cost import cost
from recollect.running.worker import Worker
from recollect.spec.sweep import build_sweep
from recollect.store import Store, checkpoint

pytestmark = pytest.mark.usefixtures("plugins")


def is_inside_a_model(x_BLD: Tensor) -> bool:
    """Normalised; what a mixer is tried with beforehand is not."""
    return bool(x_BLD.mean(-1).abs().max() < 1e-3)


class Raising(nn.Module):
    """Passes what is tried beforehand, and fails in training."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x_BLD: Tensor) -> Tensor:
        if is_inside_a_model(x_BLD):
            raise ValueError("a bad day\nwith a second line")
        return self.layer(x_BLD)


class Looking(nn.Module):
    """Asks for a value, which the meta device cannot give."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x_BLD: Tensor) -> Tensor:
        return self.layer(x_BLD) if self.layer.weight.sum().item() < 1e9 else x_BLD


def test_a_mixer_that_fails_is_a_failed_run_with_the_reason_and_the_others_go_on(
    make_run, tmp_path: Path
):
    for name, module in (("raising", Raising), ("looking", Looking)):
        recollect.mixer(name)(module)
    base = make_run().model_dump(mode="json")
    table = {
        "task": base["task"],
        "train": base["train"],
        "model": {"width": 8, "depth": 1},
        "sweep": {
            "model": {"mixer": ["raising", "looking", "attention"]},
            "seed": [1, 2],
        },
    }
    found = {
        (row.spec["model"]["mixer"]["name"], row.spec["seed"]): row
        for row in api.run(table, tmp_path, device="cpu").rows
    }
    assert {name: found[name, 1].status for name in ("raising", "looking", "attention")} == {
        "raising": "failed",
        "looking": "done",
        "attention": "done",
    }
    for seed in (1, 2):
        assert found["raising", seed].failure == "error: ValueError: a bad day"
        assert found["looking", seed].parameters > 0


def test_the_cost_of_a_mixer_that_fails_is_refused(make_run):
    recollect.mixer("raising")(Raising)
    recollect.mixer("looking")(Looking)
    with pytest.raises(SpecError) as caught:
        cost(with_mixer(make_run, "raising"))
    assert str(caught.value) == "mixer raising fails: ValueError: a bad day; fix the plugin"
    assert cost(with_mixer(make_run, "looking")).memory_bytes > 0


def test_a_checkpoint_holds_a_foreign_mixer(make_run, make_population, tmp_path: Path):
    recollect.mixer("mine")(Running)
    state = make_population([with_mixer(make_run, "mine")]).state()
    path = checkpoint.save(
        tmp_path, checkpoint.Checkpoint(state.run_ids, state.step, state.tensors, {})
    )
    for name, value in checkpoint.load(path).tensors.items():
        assert torch.equal(value, state.tensors[name])


def test_dropout_is_off_when_a_run_is_looked_at(make_run, make_population):
    @recollect.mixer("forgetful")
    class Forgetful(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.drop = nn.Dropout(0.5)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.drop(x)

    runs = [with_mixer(make_run, "forgetful", seed=seed) for seed in (1, 2)]
    population = make_population(runs)
    assert population.evaluate() == population.evaluate()
    assert population.model.blocks[0].mixer._template[0].training  # and on again for training


def test_a_kernel_that_takes_the_gpu_down_fails_its_own_run_and_stops(make_run, tmp_path: Path):
    @recollect.mixer("crashing")
    class Crashing(nn.Module):
        def __init__(self, width: int):
            super().__init__()
            self.layer = nn.Linear(width, width)

        def forward(self, x_BLD: Tensor) -> Tensor:
            if is_inside_a_model(x_BLD):
                raise torch.AcceleratorError(
                    "CUDA error: an illegal memory access was encountered\nand much advice"
                )
            return self.layer(x_BLD)

    base = make_run().model_dump(mode="json")
    table = {
        "task": base["task"],
        "train": base["train"],
        "model": {"width": 8, "depth": 1},
        "sweep": {"model": {"mixer": ["crashing", "attention"]}},
    }
    with pytest.raises(ResourceError) as caught:
        api.run(table, tmp_path, device="cpu")
    assert str(caught.value) == (
        "the GPU is lost to this process: CUDA error: an illegal memory access was encountered\n"
        f"the runs that are still to do are untouched; continue with `recollect resume {tmp_path} "
        "--plugin tests/mixers/test_plugin_runs.py`"
    )
    assert [row.status for row in api.Results.load(tmp_path).rows] == ["failed", "todo"]
    assert [row.status for row in api.run(table, tmp_path, device="cpu").rows] == ["failed", "done"]


def test_an_error_after_a_signal_is_no_failure(make_run, tmp_path: Path):
    """Ctrl-C also ends a kernel's compiler; its complaint must not become the run's result."""
    asked: list[int] = []

    @recollect.mixer("interrupted")
    class Interrupted(Raising):
        def forward(self, x_BLD: Tensor) -> Tensor:
            asked.append(130)
            return super().forward(x_BLD)

    base = make_run().model_dump(mode="json")
    table = {
        "task": base["task"],
        "train": base["train"],
        "model": {"width": 8, "depth": 1, "mixer": "interrupted"},
    }
    with Store.create(tmp_path) as store:
        engine.plan(store, build_sweep(table))
        worker = Worker(store, tmp_path, torch.device("cpu"), stop=lambda: asked[0] if asked else 0)
        with pytest.raises(Stopped) as caught:
            worker.work(Selection(pack_size=1))
        assert caught.value.exit_code == 130
        assert isinstance(caught.value.__cause__, ValueError)
        assert [row.status for row in store.rows()] == ["todo"]
