"""Mixers from outside: a plain module becomes one that carries a population, and what is wrong with
it is said in one line.
"""

from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import recollect
from recollect import api
from recollect.errors import ResourceError, SpecError, Stopped
from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.stack import PluginMixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise
from recollect.running import engine
from recollect.running.pack_queue import Selection
from recollect.running.planning.cost import cost
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import build_sweep
from recollect.store import Store, checkpoint

pytestmark = pytest.mark.usefixtures("plugins")


class Running(nn.Module):
    """A causal mean of what came before, between two linear layers; its buffers and its frozen
    weight are there to be kept.
    """

    def __init__(
        self,
        width: int,
        length: int,
        depth: int = 2,
        scale: float = 1.0,
        bias: bool = True,
        kind: str = "mean",
    ):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=bias) for _ in range(depth))
        self.site = nn.Parameter(
            torch.rand(width), requires_grad=False
        )  # a name the adapter uses itself
        self.register_buffer("offsets", torch.randn(length, width))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.scale, self.kind = scale, kind

    def forward(self, x_BLD: Tensor) -> Tensor:
        self.calls += 1
        length = x_BLD.shape[1]
        for layer in self.layers:
            x_BLD = torch.tanh(layer(x_BLD))
        mean = x_BLD.cumsum(1) / torch.arange(1, length + 1, device=x_BLD.device)[:, None]
        return self.scale * self.site * mean + self.offsets[:length]


def with_mixer(make_run, name: str, **changes) -> RunSpec:
    return make_run({"model.mixer": {"name": name, **changes.pop("options", {})}, **changes})


# ---- registering ----


def test_the_decorator_gives_back_the_class_and_takes_its_options_from_the_signature():
    assert recollect.mixer("mine")(Running) is Running
    options = MIXERS["mine"]
    assert {
        name: field.default
        for name, field in options.model_fields.items()
        if name not in ("name", "source")
    } == {
        "depth": 2,
        "scale": 1.0,
        "bias": True,
        "kind": "mean",
    }
    assert (options.block, options.norm, options.positions) == ("mixer+mlp", "layer", "none")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dept": 3}, "model.mixer.dept: unknown key; did you mean depth?"),
        ({"depth": 1.5}, "model.mixer.depth = 1.5: must be a whole number; for example depth = 2"),
        ({"scale": "big"}, "model.mixer.scale = 'big': must be a number; for example scale = 1.0"),
        ({"bias": 1}, "model.mixer.bias = 1: must be true or false; for example bias = true"),
        ({"kind": 1}, 'model.mixer.kind = 1: must be a text; for example kind = "mean"'),
        ({"zzz": 8}, "model.mixer.zzz: unknown key; known: bias, depth, kind, name, scale, source"),
    ],
)
def test_options_have_the_types_of_their_defaults(make_run, options, message):
    recollect.mixer("mine")(Running)
    with pytest.raises(SpecError) as caught:
        with_mixer(make_run, "mine", options=options)
    assert str(caught.value) == message


def test_positions_inside_scores_are_refused(make_run):
    recollect.mixer("mine")(Running)
    with pytest.raises(SpecError, match='positions = "rope": mine has no scores to put them on'):
        with_mixer(make_run, "mine", **{"model.positions": "rope"})


def module_with(signature: str) -> type[nn.Module]:
    names: dict = {"nn": nn}
    exec(f"class Made(nn.Module):\n    def __init__(self, {signature}): super().__init__()", names)
    return names["Made"]


@pytest.mark.parametrize(
    ("name", "signature", "message"),
    [
        (
            "attention",
            "width",
            "mixer 'attention': the name of a built-in mixer; choose another one",
        ),
        (
            "my-mixer",
            "width",
            "mixer 'my-mixer': must be a plain name of letters, digits and _; for example my_mixer",
        ),
        (
            "mine",
            "size",
            "mixer mine: Made.__init__ must take `width`; for example def __init__(self, width)",
        ),
        (
            "mine",
            "width, heads",
            "mixer mine: option heads needs a default that is a number, true/false or a text",
        ),
        (
            "mine",
            "width, sizes=(1, 2)",
            "mixer mine: option sizes needs a default that is a number, true/false or a text",
        ),
        (
            "mine",
            "width, **rest",
            "mixer mine: option rest needs a default that is a number, true/false or a text",
        ),
        (
            "mine",
            "width, name='x'",
            "mixer mine: option name has a name that means something else here; rename it",
        ),
        (
            "mine",
            "width, norm=True",
            "mixer mine: option norm has a name that means something else here; rename it",
        ),
        (
            "mine",
            "width, source=''",
            "mixer mine: option source has a name that means something else here; rename it",
        ),
    ],
)
def test_what_cannot_be_registered_says_why(name, signature, message):
    with pytest.raises(SpecError) as caught:
        recollect.mixer(name)(module_with(signature))
    assert str(caught.value) == message
    assert "mine" not in MIXERS


class PlainModule(nn.Module):
    def __init__(self, width: int):
        super().__init__()


class Nameless(MixerSpec):
    pass


@pytest.mark.parametrize(
    ("options", "module", "message"),
    [
        (
            Nameless,
            PlainModule,
            "mixer PlainModule: only a recollect.mixers.Mixer takes a class of "
            "options; give a plain module a name",
        ),
        (
            Nameless,
            Mixer,
            "mixer Mixer: Nameless must say its name, a plain word of letters, digits and _; "
            'for example name: Literal["my_mixer"] = "my_mixer"',
        ),
    ],
)
def test_options_and_module_must_fit_together(options, module, message):
    with pytest.raises(SpecError) as caught:
        recollect.mixer(options)(module)
    assert str(caught.value) == message


# ---- the adapter ----


def adapter(population: int = 3) -> PluginMixer:
    recollect.mixer("mine")(Running)
    mixer = build_mixer(
        MIXERS["mine"].model_validate({"name": "mine", "scale": 2.0}),
        Site(population, 6, 9, 1, "none"),
    )
    assert isinstance(mixer, PluginMixer)
    initialise(mixer, list(range(population)))
    return mixer


def test_every_member_is_one_plain_module():
    mixer = adapter()
    x_PBLD = torch.randn(3, 2, 7, 6, generator=torch.Generator().manual_seed(0), requires_grad=True)
    y_PBLD = mixer(x_PBLD)
    y_PBLD.square().sum().backward()
    for p in range(3):
        plain = Running(6, 9, scale=2.0)
        plain.load_state_dict(
            {
                name: mixer.get_parameter(f"own/{name.replace('.', '/')}")[p]
                for name, _ in plain.named_parameters()
            },
            strict=False,
        )
        plain.offsets = mixer.get_buffer("own/offsets")[p]
        x_BLD = x_PBLD[p].detach().clone().requires_grad_()
        y_BLD = plain(x_BLD)
        y_BLD.square().sum().backward()
        torch.testing.assert_close(y_PBLD[p], y_BLD)
        torch.testing.assert_close(x_PBLD.grad[p], x_BLD.grad)
        for name, parameter in plain.named_parameters():
            gradient = mixer.get_parameter(f"own/{name.replace('.', '/')}").grad
            assert (gradient is None) == (parameter.grad is None), name
            if gradient is not None:
                torch.testing.assert_close(gradient[p], parameter.grad)


def test_members_are_drawn_apart_and_from_their_seeds():
    one, other = adapter(), adapter(2)
    for name, value in one.state_dict().items():
        if name != "own/calls":
            assert not torch.equal(value[0], value[1]), name
            assert torch.equal(value[:2], other.state_dict()[name]), name


def test_buffers_are_kept_per_member():
    mixer = adapter()
    mixer(torch.zeros(3, 1, 4, 6))
    mixer(torch.zeros(3, 1, 4, 6))
    assert mixer.get_buffer("own/calls").tolist() == [2, 2, 2]
    assert mixer.get_buffer("own/offsets").shape == (3, 9, 6)


def test_the_generator_outside_is_not_touched(make_run, make_population):
    recollect.mixer("mine")(Running)
    torch.manual_seed(5)
    before = torch.random.get_rng_state()
    population = make_population(
        [with_mixer(make_run, "mine"), with_mixer(make_run, "mine", seed=1)]
    )
    population.train_step(population.task.batch("train", 0))
    assert torch.equal(before, torch.random.get_rng_state())


def test_company_and_interruption_change_nothing(make_run, make_population):
    recollect.mixer("mine")(Running)
    a, b, c = (with_mixer(make_run, "mine", seed=seed) for seed in range(3))
    trained = []
    for company in ([a, b], [c, b, a]):
        population = make_population(company)
        for step in range(4):
            population.train_step(population.task.batch("train", step))
            if step == 1:
                state, population = population.state(), make_population(company)
                population.restore(state)
        trained.append(population.state().select([a.run_id]).tensors)
    for name, value in trained[0].items():
        assert torch.equal(value, trained[1][name]), name
    frozen = [
        name for name in trained[0] if name.startswith("weight/") and name.endswith("own/site")
    ]
    assert frozen
    start = make_population([a, b]).state().tensors
    assert all(torch.equal(trained[0][name][0], start[name][0]) for name in frozen)


# ---- runs that fail ----


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
    assert str(caught.value) == "mixer raising fails: ValueError: a bad day; mend the plugin"
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
        f"the runs that are still to do are untouched; go on with `recollect resume {tmp_path} "
        "--plugin tests/mixers/test_plugin_modules.py`"
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
