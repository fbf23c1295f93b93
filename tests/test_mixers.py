"""The contract of a mixer, over every mixer there is: a new one is tested by being registered."""

import pytest
import torch
from torch import Tensor

from recollect.mixers import BUILT_IN, Mixer, Site, build
from recollect.nn import initialise
from recollect.spec import MIXERS

ALL = sorted(MIXERS)
LENGTH = 37  # no multiple of anything a kernel likes
# Where a mixer is built: its own positions, and every kind of positions that lives inside it.
SITES = [
    pytest.param(name, positions, id=f"{name}-{positions}")
    for name in ALL
    for positions in ("none", *MIXERS[name].positions_inside)
]


def make(name: str, positions: str = "none", population: int = 3, width: int = 12, dtype: torch.dtype = torch.float32) -> Mixer:
    mixer = build(MIXERS[name].model_validate({"name": name}), Site(population, width, LENGTH, 2, positions))
    initialise(mixer, [11, 22, 33, 44][:population])
    return mixer.to(dtype)


def inputs(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=dtype)


def test_every_specified_mixer_is_built_and_every_built_one_specified():
    assert set(BUILT_IN) == set(ALL)
    for name in ALL:
        assert MIXERS[name].summary
        assert MIXERS[name].model_validate({"name": name}).name == name


@pytest.mark.parametrize(("name", "positions"), SITES)
@pytest.mark.parametrize("length", [1, 2, 16, LENGTH])
def test_shape_is_kept_at_every_length(name, positions, length):
    x_PBLD = inputs(3, 2, length, 12)
    y_PBLD = make(name, positions)(x_PBLD)
    assert y_PBLD.shape == x_PBLD.shape
    assert y_PBLD.dtype == x_PBLD.dtype
    assert y_PBLD.isfinite().all()


@pytest.mark.parametrize(("name", "positions"), SITES)
@pytest.mark.parametrize("changed_from", [1, 16, LENGTH - 1])
def test_the_past_does_not_see_the_future(name, positions, changed_from):
    mixer, x_PBLD = make(name, positions), inputs(3, 2, LENGTH, 12)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, changed_from:] = inputs(3, 2, LENGTH - changed_from, 12) * 3 + 1
    y_PBLD, z_PBLD = mixer(x_PBLD), mixer(other_PBLD)
    assert torch.equal(y_PBLD[:, :, :changed_from], z_PBLD[:, :, :changed_from])
    assert not torch.equal(y_PBLD[:, :, changed_from], z_PBLD[:, :, changed_from])


@pytest.mark.parametrize(("name", "positions"), SITES)
def test_the_past_reaches_the_present(name, positions):
    """A mixer that mixes nothing would pass the test above."""
    mixer, x_PBLD = make(name, positions, dtype=torch.float64), inputs(3, 2, LENGTH, 12, dtype=torch.float64)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 0] += 1
    changed = (mixer(x_PBLD) - mixer(other_PBLD)).abs().amax(-1)
    assert (changed[:, :, :2] > 0).all()


@pytest.mark.parametrize(("name", "positions"), SITES)
def test_rows_of_a_batch_are_independent(name, positions):
    mixer, x_PBLD = make(name, positions), inputs(3, 4, LENGTH, 12)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, 2] = float("nan")
    rest = [0, 1, 3]
    assert torch.equal(mixer(x_PBLD)[:, rest], mixer(other_PBLD)[:, rest])


@pytest.mark.parametrize(("name", "positions"), SITES)
def test_gradients_reach_everything_and_are_finite(name, positions):
    mixer, x_PBLD = make(name, positions), inputs(3, 2, LENGTH, 12).requires_grad_()
    mixer(x_PBLD).square().sum().backward()
    for key, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert (tensor.grad.flatten(1).abs().amax(1) > 0).all(), key


@pytest.mark.parametrize(("name", "positions"), SITES)
def test_a_broken_member_is_not_noticed_by_its_neighbours(name, positions):
    mixer, x_PBLD = make(name, positions), inputs(3, 2, LENGTH, 12)
    sound = mixer(x_PBLD)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter[1] = float("nan")
    broken = mixer(x_PBLD)
    assert torch.equal(sound[[0, 2]], broken[[0, 2]])
    assert broken[1].isnan().all()


@pytest.mark.parametrize(("name", "positions"), SITES)
def test_a_member_is_what_it_is_alone(name, positions):
    mixer, x_PBLD = make(name, positions, dtype=torch.float64), inputs(3, 2, LENGTH, 12, dtype=torch.float64)
    y_PBLD = mixer(x_PBLD)
    for p in range(3):
        alone = make(name, positions, population=1, dtype=torch.float64)
        alone.load_state_dict({key: value[p : p + 1] for key, value in mixer.state_dict().items()})
        torch.testing.assert_close(alone(x_PBLD[p : p + 1])[0], y_PBLD[p], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ALL)
def test_a_mixer_states_its_state_and_its_work(name):
    small, large = make(name, width=12), make(name, width=24)
    assert 0 < small.state_size() < large.state_size()
    assert 0 < small.operations_per_token() < large.operations_per_token()


@pytest.mark.parametrize("width", [64, 128])
def test_parameters_and_states_are_those_of_the_formulas(width):
    def count(name: str) -> tuple[int, int]:
        mixer = build(MIXERS[name].model_validate({"name": name}), Site(2, width, 64, 2, "none"))
        return sum(parameter[0].numel() for parameter in mixer.parameters()), mixer.state_size()

    rank, state = width // 16, 16
    assert count("attention") == (4 * width**2 + 4 * width, 2 * width * 64)
    mamba = 6 * width**2 + 4 * width * rank + 6 * width * state + 14 * width
    assert count("mamba") == (mamba, 2 * width * state + 6 * width)


@pytest.mark.parametrize("name", ALL)
def test_every_option_is_explained_and_bounded(name):
    for option, field in MIXERS[name].model_fields.items():
        if option != "name":
            assert field.description, option
            assert {"Ge", "Le"} <= {type(rule).__name__ for rule in field.metadata}, option
