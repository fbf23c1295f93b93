"""Mixers from outside: a plain module becomes one that carries a population, and what is wrong with
it is said in one line.
"""

import pytest
import torch
from plugins_made import Running, with_mixer
from torch import nn

import recollect
from recollect.errors import SpecError
from recollect.mixers.base import Mixer, Site
from recollect.mixers.build import build_mixer
from recollect.mixers.options import MixerSpec
from recollect.mixers.plugins.stack import PluginMixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise

pytestmark = pytest.mark.usefixtures("plugins")


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
