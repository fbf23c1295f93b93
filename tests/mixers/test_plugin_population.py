"""Plain modules of a population: all members at once where that equals one by one, and what they
draw is each member's own.
"""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch
from torch import Tensor, nn
from torch.autograd.graph import get_gradient_edge

import recollect
from recollect.mixers.base import Site
from recollect.mixers.build import build_mixer
from recollect.mixers.plugins import stack, trial
from recollect.mixers.plugins.stack import PluginMixer
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise

pytestmark = pytest.mark.usefixtures("plugins")


class Plain(nn.Module):
    """What many modules are made of: products, a convolution, a mask, a loop, a counter."""

    def __init__(self, width: int):
        super().__init__()
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width, bias=False)
        self.conv = nn.Conv1d(width, width, 3, padding=2, groups=width)
        self.decay = nn.Parameter(torch.zeros(width))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.seen += 1
        q, k, v = self.qkv(x).chunk(3, -1)
        v = self.conv(v.transpose(1, 2))[..., : x.shape[1]].transpose(1, 2)
        future = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        y = (q @ k.transpose(1, 2)).masked_fill(future, float("-inf")).softmax(-1) @ v
        state, states = torch.zeros_like(x[:, 0]), []
        for now in y.unbind(1):
            state = self.decay.sigmoid() * state + now
            states.append(state)
        return self.out(torch.stack(states, 1))


class Library(nn.Module):
    """vmap has no rule for a library's recurrence."""

    def __init__(self, width: int):
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


class Dropping(nn.Module):
    def __init__(self, width: int):
        super().__init__()
        self.layer, self.drop = nn.Linear(width, width), nn.Dropout(0.5)

    def forward(self, x: Tensor) -> Tensor:
        return self.drop(self.layer(x))


class Looking(nn.Module):
    """Branches on a value, which under vmap is one of several."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x) if bool(x.sum() > 0) else -self.layer(x)


class Rank(nn.Module):
    """Asks for the number of axes, of which vmap hides one: correct in both ways."""

    def __init__(self, width: int):
        super().__init__()
        self.layer = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        assert x.dim() == 3
        return self.layer(x).flatten(0, 1).view_as(x)


def stack_of(module: type[nn.Module]) -> PluginMixer:
    recollect.mixer("mine")(module)
    spec = MIXERS["mine"].model_validate({"name": "mine"})
    mixer = build_mixer(spec, Site(3, 6, 9, 1, "none"))
    assert isinstance(mixer, PluginMixer)
    initialise(mixer, [0, 1, 2])
    return mixer


@pytest.mark.parametrize(
    ("module", "works"),
    [(Plain, True), (Rank, True), (Library, False), (Dropping, False), (Looking, False)],
)
def test_members_are_computed_at_once_where_that_equals_one_by_one(module, works):
    mixer = stack_of(module)
    before = {name: value.clone() for name, value in mixer.state_dict().items()}
    x_PBLD = torch.randn(3, 4, 9, 6, generator=torch.Generator().manual_seed(0))
    assert mixer._agrees(x_PBLD) == works
    for name, value in mixer.state_dict().items():  # looking leaves no trace
        assert torch.equal(value, before[name]), name
    if works:
        torch.testing.assert_close(mixer._at_once(x_PBLD), mixer._in_turn(x_PBLD))


def test_the_two_ways_are_compared_in_full_precision_also_under_autocast():
    mixer = stack_of(Rank)
    x_PBLD = torch.randn(3, 4, 9, 6, generator=torch.Generator().manual_seed(0))
    with torch.autocast("cpu", torch.bfloat16):
        assert mixer._agrees(x_PBLD.bfloat16())


def test_a_wrong_result_at_once_is_noticed(monkeypatch):
    mixer = stack_of(Rank)
    right = mixer._at_once
    x_PBLD = torch.randn(3, 4, 9, 6, generator=torch.Generator().manual_seed(0))
    assert mixer._agrees(x_PBLD)
    monkeypatch.setattr(mixer, "_at_once", lambda x: right(x).flip(0))
    assert not mixer._agrees(x_PBLD)


class Recording:
    """Stands in for a CUDA graph of a piece of work."""

    def __init__(self, work: Callable[[], None], is_faithful: bool):
        self.work, self.is_faithful = work, is_faithful
        work()

    def replay(self) -> None:
        if self.is_faithful:
            self.work()


def refuse(work: Callable[[], None]) -> Recording:
    raise RuntimeError("operation not permitted when stream is capturing")


@contextlib.contextmanager
def looking_at_values_fails() -> Iterator[None]:
    def fail(self: Tensor) -> bool:
        raise RuntimeError("called a synchronizing CUDA operation")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Tensor, "__bool__", fail)
        yield


@pytest.mark.parametrize(
    ("module", "record", "is_trusted"),
    [
        (Plain, lambda work: Recording(work, is_faithful=True), True),
        (Plain, lambda work: Recording(work, is_faithful=False), False),
        (Plain, refuse, False),
        (Looking, lambda work: Recording(work, is_faithful=True), False),
    ],
    ids=["faithful", "repeats itself", "refused", "looks at a value"],
)
def test_a_recording_is_trusted_only_if_it_is_the_same_function(
    module, record, is_trusted, monkeypatch
):
    monkeypatch.setattr(trial, "record", record)
    monkeypatch.setattr(stack, "refusing_to_wait", looking_at_values_fails)
    mixer = stack_of(module)
    before = {name: value.clone() for name, value in mixer.state_dict().items()}
    x_PBLD = torch.randn(3, 4, 9, 6, generator=torch.Generator().manual_seed(0))
    assert mixer._records(x_PBLD) == is_trusted
    for name, value in mixer.state_dict().items():  # a trial leaves no trace
        assert torch.equal(value, before[name]), name


def test_training_meets_no_node_of_a_trial():
    """nn.GRU keeps the weights of its last call, and these keep the nodes behind them."""
    mixer = stack_of(Library)
    parameters = list(mixer.parameters())

    def mark(x_PBLD: Tensor) -> Tensor:
        y_PBLD = mixer._in_turn(x_PBLD)
        for value in mixer.parameters():
            get_gradient_edge(value).node.metadata["of"] = "trial"
        return y_PBLD

    trial.Trial(mixer, torch.randn(3, 4, 9, 6)).observe(mark)
    for parameter, value in zip(parameters, mixer.parameters(), strict=True):
        assert parameter is value
        assert get_gradient_edge(value).node.metadata == {}


def test_what_a_module_keeps_between_calls_is_known():
    class Masking(Rank):
        def __init__(self, width: int):
            super().__init__(width)
            self.by_length: dict[int, Tensor] = {}

        def forward(self, x: Tensor) -> Tensor:
            mask = self.by_length.setdefault(x.shape[1], torch.ones(x.shape[1], 1))
            return super().forward(x * mask)

    mixer = stack_of(Masking)
    before = list(mixer.constants())
    mixer._in_turn(torch.zeros(3, 1, 9, 6))
    (mask,) = [one for one in mixer.constants() if not any(one is other for other in before)]
    assert mask.shape == (9, 1)


def test_on_a_cpu_members_are_computed_one_by_one():
    mixer = stack_of(Plain)
    assert not mixer.is_at_once(torch.zeros(3, 1, 9, 6))


def test_what_a_module_draws_is_its_members_own(make_run, make_population):
    """The same alone, in any company, in any order and after a resume; another at the next step."""
    recollect.mixer("mine")(Dropping)
    a, b, c = (make_run({"model.mixer": "mine"}, seed=seed) for seed in range(3))
    trained = []
    for company, stop in (([a, b], None), ([c, b, a], 2), ([a], 1)):
        population = make_population(company)
        for step in range(4):
            population.train_step(population.task.batch("train", step))
            if step == stop:
                state, population = population.state(), make_population(company)
                population.restore(state)
        trained.append(population.state().select([a.run_id]).tensors)
    for other in trained[1:]:
        for name, value in trained[0].items():
            assert torch.equal(value, other[name]), name


def test_members_layers_and_steps_draw_apart(make_run, make_population):
    recollect.mixer("mine")(Dropping)
    runs = [make_run({"model.mixer": "mine"}, seed=seed) for seed in range(2)]
    population = make_population(runs)
    layers = [block.mixer for block in population.model.layers]
    seeds = set()
    for step in range(3):
        population.train_step(population.task.batch("train", step))
        seeds |= {mixer._noise_seed(p) for mixer in layers for p in range(2)}
    assert len(seeds) == 3 * 2 * 2


def test_a_module_says_the_size_of_its_state():
    class Remembering(Plain):
        def state_size(self, length: int) -> int:
            return 10 * length

    assert stack_of(Plain).state_size() is None
    assert stack_of(Remembering).state_size() == 90
