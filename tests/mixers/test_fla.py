"""Layers of flash-linear-attention by name: what is missing is one line;
the adapter unpacks and rounds as said.
"""

import importlib.metadata
import sys
from types import ModuleType

import pytest
import torch
from torch import Tensor, nn

from recollect.errors import SpecError
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.fla.mixer import FlaMixer, layer_class
from recollect.mixers.fla.options import FlaSpec
from recollect.model.layers import initialise, parameter_kinds
from recollect.spec.run import RunSpec


class Layer(nn.Module):
    """In the manner of fla: hidden_size and layer_idx, a tuple as output, the rest in kwargs."""

    def __init__(
        self,
        hidden_size: int = 2048,
        num_heads: int = 4,
        layer_idx: int | None = None,
        **kwargs: object,
    ):
        super().__init__()
        if hidden_size % num_heads:
            raise AssertionError(f"hidden_size must be divisible by num_heads, got {num_heads}")
        self.proj = nn.Linear(hidden_size, hidden_size)
        self.a_log = nn.Parameter(torch.rand(num_heads))
        self.a_log._no_weight_decay = True
        self.layer_idx = layer_idx

    def forward(self, hidden_states: Tensor) -> tuple[Tensor, None, None]:
        return self.proj(hidden_states) * self.a_log.sum(), None, None


def table(**options: object) -> dict:
    return {"task": "mqar", "model": {"mixer": {"name": "fla:Layer", **options}, "width": 16}}


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stand-in for the package, on a machine that says it has a GPU."""
    layers = ModuleType("fla.layers")
    layers.Layer, layers.__all__ = Layer, ["Layer", "absent"]
    monkeypatch.setitem(sys.modules, "fla", ModuleType("fla"))
    monkeypatch.setitem(sys.modules, "fla.layers", layers)
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.9")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)


def test_a_missing_package_is_one_line(monkeypatch):
    def missing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", missing)
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(table())
    assert str(caught.value) == (
        "model.mixer: 'fla:Layer' needs the package flash-linear-attention, which is not "
        "installed; pip install 'recollect[fla]'"
    )


def test_a_missing_gpu_is_one_line(installed, monkeypatch):
    spec = RunSpec.parse(table()).model.mixer
    with pytest.raises(
        SpecError,
        match=r"fla:Layer: its kernels need an NVIDIA GPU; use --device cuda instead of cpu$",
    ):
        layer_class(spec, torch.device("cpu"))
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        SpecError,
        match="mixer fla:Layer: its kernels need an NVIDIA GPU, and torch finds none; see",
    ):
        layer_class(spec)


def test_the_version_and_the_options_are_part_of_a_runs_identity(installed, monkeypatch):
    run = RunSpec.parse(table(num_heads=2))
    assert run.model.mixer.version == "9.9"
    assert RunSpec.from_json(run.canonical_json()) == run
    assert RunSpec.parse(table(num_heads=4)).run_id != run.run_id
    assert RunSpec.parse(table(num_heads=4)).shape_id != run.shape_id
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "9.8")
    assert RunSpec.parse(table(num_heads=2)).run_id != run.run_id
    assert RunSpec.from_json(run.canonical_json()) == run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"name": "fla:No Layer"},
            "name = 'fla:No Layer': must be fla: and a class of fla.layers; ",
        ),
        ({"num_heads": [1, 2]}, "num_heads = [1, 2]: must be a number, true/false or a text"),
        ({"precision": "fp8"}, "precision = 'fp8': must be one of 'bf16' or 'fp32'; "),
    ],
)
def test_bad_options_are_refused_before_anything_is_imported(installed, options, message):
    with pytest.raises(SpecError) as caught:
        RunSpec.parse(table(**options))
    assert str(caught.value).startswith(f"model.mixer.{message}")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"name": "fla:Layr"}, "mixer fla:Layr: no layer of fla 9.9; did you mean Layer?"),
        ({"num_head": 2}, "mixer fla:Layer: unknown option num_head; did you mean num_heads?"),
    ],
)
def test_what_fla_does_not_have_is_refused(installed, options, message):
    with pytest.raises(SpecError) as caught:
        layer_class(RunSpec.parse(table(**options)).model.mixer)
    assert str(caught.value) == message


def adapter(**options: object) -> FlaMixer:
    mixer = build_mixer(
        FlaSpec(name="fla:Layer", version="9.9", **options), Site(2, 16, 8, 3, "none", layer=1)
    )
    initialise(mixer, [1, 2])
    assert isinstance(mixer, FlaMixer)
    return mixer


def test_a_layer_is_stacked_and_its_tuple_unpacked(installed):
    mixer = adapter(num_heads=2, precision="fp32")
    x_PBLD = torch.randn(2, 3, 5, 16, generator=torch.Generator().manual_seed(0))
    weights, biases, logs = (
        mixer.get_parameter(f"own/{name}") for name in ("proj/weight", "proj/bias", "a_log")
    )
    wanted = torch.stack([(x_PBLD[p] @ weights[p].T + biases[p]) * logs[p].sum() for p in range(2)])
    torch.testing.assert_close(mixer(x_PBLD), wanted)
    assert mixer._template[0].layer_idx == 1
    assert parameter_kinds(mixer) == {
        "own/a_log": "dynamics",
        "own/proj/weight": "weight",
        "own/proj/bias": "bias",
    }


def test_bf16_is_what_the_layer_computes_in(installed):
    x_PBLD = torch.randn(2, 3, 5, 16, generator=torch.Generator().manual_seed(0))
    exact, rounded = adapter(precision="fp32")(x_PBLD), adapter(precision="bf16")(x_PBLD)
    assert rounded.dtype == torch.float32
    assert 1e-4 < float((exact - rounded).detach().abs().max() / exact.detach().abs().max()) < 1e-1


def test_a_layer_that_refuses_its_options_says_why(installed):
    with pytest.raises(
        SpecError,
        match="mixer fla:Layer at width 16: AssertionError: hidden_size "
        "must be "
        "divisible by num_heads",
    ):
        adapter(num_heads=3)
