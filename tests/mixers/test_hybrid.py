"""Stacks of several kinds of mixers, positions around them, and the block's second half: the
specification and the model.
"""

import pytest
import torch

from recollect.errors import SpecError
from recollect.mixers.build import mixer_class
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.spec.model import ModelSpec
from recollect.spec.run import RunSpec
from recollect.spec.sweep import parse_sweep


def model_spec(**changes) -> ModelSpec:
    return ModelSpec.parse({"width": 16, **changes})


def built(spec: ModelSpec, population: int = 2) -> Model:
    model = Model(spec, population, 32, 12)
    initialise(model, list(range(population)))
    return model


# ---- written as a list ----


def test_a_list_gives_each_layer_its_mixer_round_and_round():
    spec = model_spec(mixer=["base_conv", {"name": "attention", "heads": 2}, "mamba"], depth=6)
    kinds = [type(block.mixer) for block in built(spec).layers]
    assert (
        kinds
        == [
            mixer_class(MIXERS[name].model_validate({"name": name}))
            for name in ("base_conv", "attention", "mamba")
        ]
        * 2
    )
    assert spec.mixer.name == "base_conv+attention+mamba"
    assert built(spec).layers[4].mixer.spec.heads == 2


def test_a_list_survives_the_round_trip_and_equal_lists_are_one_run():
    table = {"task": "mqar", "model": {"mixer": ["base_conv", "attention"]}}
    run = RunSpec.parse(table)
    assert RunSpec.from_json(run.canonical_json()) == run
    spelt_out = {
        "task": "mqar",
        "model": {"mixer": {"layers": [{"name": "base_conv", "kernel": 3}, {"name": "attention"}]}},
    }
    assert RunSpec.parse(spelt_out).run_id == run.run_id
    other = {"task": "mqar", "model": {"mixer": ["attention", "base_conv"]}}
    assert RunSpec.parse(other).run_id != run.run_id


def test_runs_with_equal_lists_train_together(make_run):
    def run(mixer, **changes) -> RunSpec:
        return make_run({"model.mixer": mixer, **changes})

    one = run(["base_conv", "attention"])
    assert run(["base_conv", "attention"], seed=1).shape_id == one.shape_id
    assert run(["attention", "base_conv"]).shape_id != one.shape_id
    assert run(["base_conv", {"name": "attention", "heads": 2}]).shape_id != one.shape_id


def test_a_list_can_be_one_value_of_an_axis():
    text = 'task = "mqar"\n[sweep]\nmodel.mixer = ["attention", ["base_conv", "attention"]]\n'
    assert [run.model.mixer.name for run in parse_sweep(text).runs] == [
        "attention",
        "base_conv+attention",
    ]


def test_kinds_that_agree_decide_the_block_and_others_meet_in_a_transformers():
    agreed = model_spec(mixer=["mamba", {"name": "mamba", "kernel": 0}])
    assert (agreed.block, agreed.norm, agreed.positions) == ("mixer", "rms", "none")
    mixed = model_spec(mixer=["mamba", "attention"])
    assert (mixed.block, mixed.norm, mixed.positions) == ("mixer+mlp", "layer", "none")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"mixer": ["attention"]},
            "mixer: a list of mixers must have 2 to 1000 entries, not 1; one mixer needs no list",
        ),
        (
            {"mixer": []},
            "mixer: a list of mixers must have 2 to 1000 entries, not 0; one mixer needs no list",
        ),
        (
            {"mixer": ["attention", "mambo"]},
            "mixer.layers.1: 'mambo' is no mixer here; did you mean mamba?",
        ),
        (
            {"mixer": ["attention", {"name": "mamba", "stat": 3}]},
            "mixer.layers.1.stat: unknown key; did you mean state?",
        ),
        (
            {"mixer": ["attention", ["mamba", "attention"]]},
            "mixer.layers.1: ['mamba', 'attention'] must be the name of a mixer or a table with a "
            "name; see `recollect mixers`",
        ),
        (
            {"mixer": ["attention", "mamba"], "depth": 3},
            "depth = 3: must be a multiple of the 2 mixers in the list; for example depth = 2",
        ),
        (
            {"mixer": ["attention", "mamba"], "positions": "rope"},
            'positions = "rope": mamba has no scores to put them on; '
            "use none, "
            "learned, sinusoidal or relative",
        ),
        (
            {"mixer": "based_hybrid", "depth": 1},
            "depth = 1: based_hybrid takes turns of a convolution and "
            "linear "
            "attention, so depth must be even; "
            'for one layer use mixer = "based"',
        ),
        (
            {"mixer": "mamba", "width": 15, "positions": "relative"},
            'width = 15: positions = "relative" rotates pairs of channels, so width must be even',
        ),
    ],
)
def test_what_cannot_be_stacked_says_why(changes, message):
    with pytest.raises(SpecError) as caught:
        model_spec(**changes)
    assert str(caught.value) == message


def test_the_hybrid_of_based_has_a_convolution_first():
    model = built(model_spec(mixer={"name": "based_hybrid", "features": 4}, depth=4))
    assert [type(block.mixer).__name__ for block in model.layers] == ["BaseConv", "Based"] * 2
    assert all(block.mixer.spec.filter == "short" for block in model.layers[::2])
    assert all(block.mixer.spec.features == 4 for block in model.layers[1::2])


def test_the_state_of_a_stack_is_the_mean_of_its_layers():
    model = built(model_spec(mixer=["attention", "gru"]))
    sizes = [block.mixer.state_size() for block in model.layers]
    assert model.state_size() == round(sum(sizes) / 2)


# ---- positions ----


@pytest.mark.parametrize("mixer", ["mamba", "hyena", "rwkv4", "h3", "attention"])
@pytest.mark.parametrize("positions", ["none", "sinusoidal", "relative", "learned"])
def test_the_studys_positions_work_with_its_mixers_and_matter(mixer, positions):
    options = {"name": mixer, "state": 8} if mixer == "h3" else mixer
    spec = model_spec(mixer=options, positions=positions, block="mixer", norm="layer")
    model, plain = built(spec), built(spec.model_copy(update={"positions": "none"}))
    shared = {
        name: value for name, value in model.state_dict().items() if name in plain.state_dict()
    }
    plain.load_state_dict(shared)
    with torch.no_grad():
        if mixer == "attention" and positions == "relative":  # starts at zero
            for block in model.layers:
                block.mixer.relative_PHL += torch.arange(12.0)
    tokens_BL, where_BK = torch.arange(24).view(2, 12), torch.tensor([[3, 11], [0, 11]])
    logits = model(tokens_BL, where_BK)
    assert logits.isfinite().all()
    assert torch.equal(logits, plain(tokens_BL, where_BK)) == (positions == "none")


def test_relative_positions_without_scores_see_distances_alone():
    """Rotating both inputs by one more step changes no product of two inputs."""
    from recollect.ops.layout import rotate

    x_LD = torch.randn(2, 8, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    early = rotate(torch.cat((x_LD, torch.zeros_like(x_LD))))
    late = rotate(torch.cat((torch.zeros_like(x_LD), x_LD)))
    assert float(early[0] @ early[1]) == pytest.approx(float(late[2] @ late[3]))


# ---- the second half of a block ----


@pytest.mark.parametrize("block", ["mixer+mlp", "mixer", "mixer+identity", "mixer+channel-mix"])
def test_reading_labelled_positions_only_changes_nothing(block):
    """All positions read at once give, at each position, what reading that one alone gives."""
    model = built(model_spec(mixer="rwkv4", block=block))
    tokens_BL = torch.randint(32, (3, 12), generator=torch.Generator().manual_seed(2))
    everywhere = model(tokens_BL, torch.arange(12).expand(3, -1)).view(2, 3, 12, -1)
    for position in (0, 1, 11):
        alone = model(tokens_BL, torch.full((3, 1), position)).view(2, 3, -1)
        torch.testing.assert_close(alone, everywhere[:, :, position])


# ---- totals ----


@pytest.mark.parametrize(
    ("mixer", "at_64", "at_128"),
    [
        ("attention", 562_304, 1_190_144),
        ("hyena", 585_728, 1_219_328),
        ("rwkv4", 558_336, 1_182_208),
        ("base_conv", 534_848 - 192, 1_085_824 - 192),  # what Zoology counts but never trains
        ("h3", 587_136, 1_239_808),
        ("based_hybrid", 538_560, 1_101_696),
    ],
)
def test_whole_models_are_as_large_as_zoologys(mixer, at_64, at_128):
    for width, total in ((64, at_64), (128, at_128)):
        positions = "learned" if mixer == "attention" else "none"
        spec = ModelSpec.parse(
            {"mixer": mixer, "width": width, "block": "mixer+identity", "positions": positions}
        )
        with torch.device("meta"):
            assert Model(spec, 1, 8192, 64).parameters_per_member() == total


@pytest.mark.parametrize(("width", "total"), [(64, 589_824), (128, 1_282_048)])
def test_a_whole_mamba_is_as_large_as_zoologys(width, total):
    with torch.device("meta"):
        assert (
            Model(
                ModelSpec.parse({"mixer": "mamba", "width": width}), 1, 8192, 64
            ).parameters_per_member()
            == total
        )
