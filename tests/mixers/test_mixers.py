"""The contract of a mixer, over every mixer and option there is:
a new one is tested by being registered.

Parallel = step by step, causality, gradients, stress, independence of rows and members, state size,
effective attention.
"""

import inspect

import pytest
import torch
from torch import Tensor
from zoo import CASES, LENGTH, SINGLE, WIDTH, Case, fitting, inputs, spread

from recollect.mixers.base import Mixer
from recollect.mixers.build import mixer_class
from recollect.mixers.registry import MIXERS
from recollect.ops.layout import at_positions

DOUBLE, SINGLE_PRECISION = torch.float64, torch.float32
every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.id)
# An initialisation is no other function: what holds for all weights need not be asked again.
FUNCTIONS = [case for case in CASES if "init" not in case.options]
every_function = pytest.mark.parametrize("case", FUNCTIONS, ids=lambda case: case.id)


def by_steps(mixer: Mixer, x_PBLD: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    """The output of the recurrent form, and the state it ends with."""
    state, outputs = mixer.start(x_PBLD.shape[1]), []
    for x_PBD in x_PBLD.unbind(2):
        y_PBD, state = mixer.step(x_PBD, state)
        outputs.append(y_PBD)
    return torch.stack(outputs, 2), state


def deviation(found: Tensor, wanted: Tensor) -> float:
    """The largest difference, relative to the largest value."""
    return float(
        (found - wanted).detach().abs().max() / wanted.detach().abs().max().clamp(min=1e-30)
    )


def skip_unless_causal(mixer: Mixer) -> None:
    if not mixer.causal:
        pytest.skip("looks ahead, so there is no step-by-step form")


# ---- the registry ----


def test_every_specified_mixer_is_built_and_every_built_one_specified():
    assert {name for name, spec in MIXERS.items() if spec.architecture} == set(SINGLE)
    for name, options in MIXERS.items():
        assert options.summary
        assert options.paper
        assert options.core != "unknown"
        assert options.family != "plugin"
        assert options.model_validate({"name": name}).name == name


@pytest.mark.parametrize("name", sorted(MIXERS))
def test_every_option_is_explained_and_bounded(name):
    for option, field in MIXERS[name].model_fields.items():
        if option == "name":
            continue
        assert field.description, option
        if field.annotation in (int, float):
            kinds = {type(rule).__name__ for rule in field.metadata}
            assert kinds & {"Ge", "Gt"}, option
            assert kinds & {"Le", "Lt"}, option


@pytest.mark.parametrize("name", SINGLE)
def test_the_file_of_a_mixer_gives_its_equations_a_glossary_and_its_paper(name):
    text = (
        inspect.getdoc(inspect.getmodule(mixer_class(MIXERS[name].model_validate({"name": name}))))
        or ""
    )
    assert "Glossary:" in text
    assert " = " in text
    year = MIXERS[name].paper.split()[-1]
    assert year in text, f"the docstring does not name the paper of {year}"
    assert "nitialisation" in text
    assert "iffer" in text, "say how it differs from the official code, or that it does not"


# ---- the function ----


@every_case
@pytest.mark.parametrize("length", [1, 2, 16, LENGTH])
def test_shape_is_kept_at_every_length(case, length):
    x_PBLD = inputs(3, 2, length, WIDTH)
    y_PBLD = case.build()(x_PBLD)
    assert y_PBLD.shape == x_PBLD.shape
    assert y_PBLD.dtype == x_PBLD.dtype
    assert y_PBLD.isfinite().all()


@every_function
@pytest.mark.parametrize("length", [1, 2, 17, LENGTH])
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(DOUBLE, 1e-10), (SINGLE_PRECISION, 1e-5)], ids=["float64", "float32"]
)
def test_step_by_step_is_the_parallel_form(case, length, dtype, tolerance):
    mixer = spread(case.build(dtype=dtype))
    skip_unless_causal(mixer)
    if case.options.get("precision") == "bf16" and dtype == SINGLE_PRECISION:
        # a difference of 1e-7 before the rounding can be one of a bf16 digit after it
        tolerance = 2**-8
    x_PBLD = inputs(3, 2, length, WIDTH, dtype=dtype)
    assert deviation(by_steps(mixer, x_PBLD)[0], mixer(x_PBLD)) < tolerance


@every_function
def test_gradients_are_those_of_the_step_by_step_form(case):
    mixer = spread(case.build(dtype=DOUBLE))
    skip_unless_causal(mixer)
    x_PBLD = inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE).requires_grad_()
    weights = inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE, seed=2)
    wanted = torch.autograd.grad(
        (by_steps(mixer, x_PBLD)[0] * weights).sum(), [x_PBLD, *mixer.parameters()]
    )
    found = torch.autograd.grad((mixer(x_PBLD) * weights).sum(), [x_PBLD, *mixer.parameters()])
    largest = max(float(gradient.abs().max()) for gradient in wanted)
    for name, one, other in zip(
        ["input", *dict(mixer.named_parameters())], found, wanted, strict=True
    ):
        # A parameter without effect (a bias on all keys of a softmax) has a gradient of rounding
        # errors alone.
        scale = max(float(other.abs().max()), 1e-6 * largest)
        assert float((one - other).abs().max()) < 1e-9 * scale, name


@every_function
def test_some_positions_are_those_of_the_whole_output(case):
    """What the last layer of a model is asked for, with its gradients:
    positions in any order, one of them twice.
    """
    mixer = spread(case.build(dtype=DOUBLE))
    x_PBLD = inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE).requires_grad_()
    where_BK = torch.tensor([[0, 20, 5, 36, 5], [36, 1, 2, 17, 2]])
    weights = inputs(3, 2, 5, WIDTH, dtype=DOUBLE, seed=2)
    tensors = [x_PBLD, *mixer.parameters()]
    wanted_PBKD, found_PBKD = at_positions(mixer(x_PBLD), where_BK), mixer.at(x_PBLD, where_BK)
    # A bf16 digit may fall either way after another order of sums.
    tolerance = 2**-8 if case.options.get("precision") == "bf16" else 1e-10
    assert deviation(found_PBKD, wanted_PBKD) < tolerance
    wanted = torch.autograd.grad((wanted_PBKD * weights).sum(), tensors, allow_unused=True)
    found = torch.autograd.grad((found_PBKD * weights).sum(), tensors, allow_unused=True)
    largest = max(float(gradient.abs().max()) for gradient in wanted if gradient is not None)
    for name, one, other in zip(
        ["input", *dict(mixer.named_parameters())], found, wanted, strict=True
    ):
        assert (one is None) == (other is None), name
        if one is not None and other is not None:
            scale = max(float(other.abs().max()), 1e-6 * largest)
            assert float((one - other).abs().max()) < max(tolerance, 1e-9) * scale, name


@every_function
def test_gradients_are_those_of_finite_differences(case):
    """Along one random direction of the input and of each parameter, in float64."""
    if case.options.get("precision") == "bf16":
        pytest.skip("a rounded function is a staircase")
    mixer = spread(case.build(population=2, dtype=DOUBLE))
    x_PBLD = inputs(2, 2, 9, WIDTH, dtype=DOUBLE).requires_grad_()
    weights = inputs(2, 2, 9, WIDTH, dtype=DOUBLE, seed=2)
    tensors = {"input": x_PBLD, **dict(mixer.named_parameters())}
    gradients = torch.autograd.grad((mixer(x_PBLD) * weights).sum(), list(tensors.values()))
    for (name, tensor), gradient in zip(tensors.items(), gradients, strict=True):
        direction = inputs(*tensor.shape, dtype=DOUBLE, seed=3)
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                tensor += sign * 1e-6 * direction
                values.append(float((mixer(x_PBLD) * weights).sum()))
                tensor -= sign * 1e-6 * direction
        slope, predicted = (values[0] - values[1]) / 2e-6, float((gradient * direction).sum())
        assert slope == pytest.approx(predicted, rel=2e-5, abs=2e-6), name


@every_function
@pytest.mark.parametrize("changed_from", [1, 16, LENGTH - 1])
def test_the_past_does_not_see_the_future(case, changed_from):
    """Bit for bit; and what is said to look ahead does."""
    mixer, x_PBLD = case.build(), inputs(3, 2, LENGTH, WIDTH)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, changed_from:] = inputs(3, 2, LENGTH - changed_from, WIDTH, seed=7) * 3 + 1
    y_PBLD, z_PBLD = mixer(x_PBLD), mixer(other_PBLD)
    # A softmax over one key is 1 whatever the key: looking ahead with the keys alone does not show
    # at the first position.
    if mixer.causal or changed_from > 1:
        assert torch.equal(y_PBLD[:, :, :changed_from], z_PBLD[:, :, :changed_from]) == mixer.causal
    assert not torch.equal(y_PBLD[:, :, changed_from], z_PBLD[:, :, changed_from])


@every_function
def test_the_past_reaches_the_present(case):
    """A mixer that mixes nothing would pass the test above."""
    mixer, x_PBLD = spread(case.build(dtype=DOUBLE)), inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, :, 0] += 1
    changed = (mixer(x_PBLD) - mixer(other_PBLD)).abs().amax(-1)
    assert (changed[:, :, :2] > 0).all()


@every_function
def test_effective_attention_times_values_is_the_output(case):
    mixer, x_PBLD = spread(case.build(dtype=DOUBLE)), inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE)
    effective = mixer.effective_attention(x_PBLD)
    if effective is None:
        assert MIXERS[case.name].core == "recurrence", "only a nonlinear one has no matrix"
        return
    weights = effective.weights_PBHLL
    assert weights.shape[:2] == (3, 2)
    assert weights.shape[3:] == (LENGTH, LENGTH)
    assert deviation(effective.output(), mixer(x_PBLD)) < 1e-10
    if mixer.causal:
        assert not weights.triu(1).any()


# ---- the population ----


@every_function
def test_rows_of_a_batch_are_independent(case):
    mixer, x_PBLD = case.build(), inputs(3, 4, LENGTH, WIDTH)
    other_PBLD = x_PBLD.clone()
    other_PBLD[:, 2] = float("nan")
    rest = [0, 1, 3]
    assert torch.equal(mixer(x_PBLD)[:, rest], mixer(other_PBLD)[:, rest])


@every_case
def test_gradients_reach_everything_and_are_finite(case):
    mixer, x_PBLD = case.build(), inputs(3, 2, LENGTH, WIDTH).requires_grad_()
    if case.spec().starts_closed:
        spread(mixer)
    mixer(x_PBLD).square().sum().backward()
    for key, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        if not tensor.requires_grad:
            continue
        assert tensor.grad is not None, key
        assert tensor.grad.isfinite().all(), key
        assert (tensor.grad.flatten(1).abs().amax(1) > 0).all(), key


@every_function
def test_a_broken_member_is_not_noticed_by_its_neighbours(case):
    mixer, x_PBLD = case.build(), inputs(3, 2, LENGTH, WIDTH)
    sound = mixer(x_PBLD)
    with torch.no_grad():
        for parameter in mixer.parameters():
            parameter[1] = float("nan")
    broken = mixer(x_PBLD)
    assert torch.equal(sound[[0, 2]], broken[[0, 2]])
    assert broken[1].isnan().all()


@every_case
def test_a_member_is_what_it_is_alone(case):
    mixer, x_PBLD = case.build(dtype=DOUBLE), inputs(3, 2, LENGTH, WIDTH, dtype=DOUBLE)
    y_PBLD = mixer(x_PBLD)
    for p in range(3):
        alone = case.build(population=1, dtype=DOUBLE)
        alone.load_state_dict({key: value[p : p + 1] for key, value in mixer.state_dict().items()})
        assert deviation(alone(x_PBLD[p : p + 1])[0], y_PBLD[p]) < 1e-12


# ---- what it states about itself ----


@every_case
def test_the_state_is_as_large_as_stated(case):
    mixer = case.build(population=2)
    if not mixer.causal:
        assert mixer.state_size() is None
        return
    _, state = by_steps(mixer, inputs(2, 3, LENGTH, WIDTH))
    floats = sum(value.numel() * (2 if value.is_complex() else 1) for value in state.values())
    assert mixer.state_size() == floats // (2 * 3)


@pytest.mark.parametrize("name", SINGLE)
def test_a_wider_mixer_states_more_of_everything(name):
    small, large = (
        Case(name, fitting(name, WIDTH)).build(),
        Case(name, fitting(name, WIDTH)).build(width=2 * WIDTH),
    )
    assert 0 < small.state_size() < large.state_size()
    assert 0 < small.operations_per_token() < large.operations_per_token()


# ---- stress ----


def hostile(kind: str, length: int) -> Tensor:
    x_PBLD = inputs(2, 2, length, WIDTH)
    if kind == "large":
        x_PBLD *= 30
    elif kind == "zeros":
        x_PBLD *= 0
    elif kind == "same token":
        x_PBLD[:, :, torch.arange(length) % 4 != 0] = x_PBLD[:, :, :1]
    return x_PBLD


@every_function
@pytest.mark.parametrize("kind", ["large", "zeros", "same token"])
@pytest.mark.parametrize("spreading", [False, True], ids=["initial", "spread"])
def test_hostile_inputs_give_finite_outputs_and_gradients(case, kind, spreading):
    length = 256
    mixer = case.build(population=2, length=length)
    if spreading:
        spread(mixer)
    x_PBLD = hostile(kind, length).requires_grad_()
    y_PBLD = mixer(x_PBLD)
    assert y_PBLD.isfinite().all()
    y_PBLD.square().mean().backward()
    for key, tensor in [("input", x_PBLD), *mixer.named_parameters()]:
        assert tensor.grad is None or tensor.grad.isfinite().all(), key


@every_function
@pytest.mark.parametrize("kind", ["large", "same token"])
def test_hostile_inputs_do_not_tell_the_two_forms_apart(case, kind):
    mixer = spread(case.build(population=2, length=256, dtype=DOUBLE))
    skip_unless_causal(mixer)
    x_PBLD = hostile(kind, 137).double()  # two whole chunks of the longest and a rest
    with torch.no_grad():
        wanted = by_steps(mixer, x_PBLD)[0]
    assert deviation(wanted, mixer(x_PBLD)) < 1e-8
