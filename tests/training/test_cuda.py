"""On a GPU: kernels equal the plain operations, a recording equals the steps it records, members
equal their solo runs.
"""

import math
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from torch import Tensor, nn
from zoo import table

import recollect
from recollect.mixers.registry import MIXERS
from recollect.model.layers import initialise
from recollect.model.model import Model
from recollect.running import engine
from recollect.running.events import DeviceProgress, Event
from recollect.running.processes import count
from recollect.running.results import RunSet
from recollect.running.worker import Worker
from recollect.spec.run import RunSpec
from recollect.spec.sweep import Sweep
from recollect.store import Store
from recollect.tasks.build import task_of
from recollect.training.population import AHEAD, Population

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
CUDA = torch.device("cuda") if torch.cuda.is_available() else torch.device("cpu")
PRECISIONS = ("fp32", "tf32", "bf16")


@pytest.fixture(autouse=True)
def _precision_as_before() -> Iterator[None]:
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


def run_of(mixer: str, **train: object) -> RunSpec:
    task = {
        "name": "mqar",
        "vocabulary": 512,
        "length": 64,
        "pairs": 4,
        "train_rows": 4096,
        "test_rows": 512,
    }
    recipe = {"steps": 40, "batch": 128, "lr": 1e-3, "evaluations": 4, "precision": "fp32", **train}
    return RunSpec.parse(
        {"task": task, "model": {"mixer": table(mixer, 64), "width": 64}, "train": recipe}
    )


def population_of(runs: list[RunSpec]) -> Population:
    return Population(runs, task_of(runs[0], CUDA), CUDA)


def seeds(run: RunSpec, count: int) -> list[RunSpec]:
    return [run.model_copy(update={"seed": seed}) for seed in range(count)]


# Other blocks, heads and options than the mixer's own, and rows of each member's own.
GPT_NEOX = {
    "mixer": {"name": "attention", "heads": 4, "rope_share": 0.25, "qk_norm": True},
    "positions": "rope",
    "residual": "parallel",
    "head": "untied",
    "rescale": "none",
}
MIMETIC = {"mixer": {"name": "mamba", "init": "mimetic"}, "block": "mixer+mlp"}
DROPPING = {"mixer": {"name": "attention"}, "positions": "learned", "dropout": 0.1}
WHOLE = [({"mixer": table(mixer, 64)}, None) for mixer in MIXERS] + [
    (GPT_NEOX, None),
    (MIMETIC, None),
    (DROPPING, None),
    (DROPPING, (5, 6, 7)),
    *(({"mixer": table(mixer, 64)}, (5, 6, 7)) for mixer in ("attention", "mamba", "rwkv4")),
]


@pytest.mark.parametrize(("options", "own"), WHOLE, ids=str)
def test_kernels_are_the_plain_operations(options, own, monkeypatch):
    """The loss of a whole model and the gradients of all its weights, in fp32."""
    torch.set_float32_matmul_precision("highest")
    run = RunSpec.parse(run_of("attention").model_dump(mode="json") | {"model": options})
    task = task_of(run, CUDA)
    model = Model(run.model, 3, task.vocabulary, task.length)
    initialise(model, [1, 2, 3])
    model.to(CUDA)
    found = {}
    for kernels in ("on", "off"):
        monkeypatch.setenv("RECOLLECT_KERNELS", kernels)
        loss_P = model.loss(task.batch("train", 0, own))
        found[kernels] = [
            loss_P.detach(),
            *torch.autograd.grad(loss_P.sum(), list(model.parameters())),
        ]
    largest = max(float(value.abs().max()) for value in found["off"][1:])
    names = ["loss", *(name for name, _ in model.named_parameters())]
    for name, one, other in zip(names, found["on"], found["off"], strict=True):
        # A parameter without effect has a gradient of rounding errors alone.
        scale = max(float(other.abs().max()), 1e-4 * largest)
        assert float((one - other).abs().max()) < 5e-5 * scale, name


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("mixer", MIXERS)
def test_every_mixer_trains_in_every_precision(mixer, precision):
    population = population_of(seeds(run_of(mixer, precision=precision), 2))
    for step in range(6):
        population.train_step(population.task.batch("train", step))
    assert all(math.isfinite(found.test_loss) for found in population.evaluate())
    assert population.diverged() == [0, 0]


@pytest.mark.parametrize(
    "train", [{}, {"order": "seed"}, {"last_batch": "keep", "batch": 1000}], ids=str
)
def test_a_recording_is_the_steps_it_records(train):
    runs = seeds(run_of("attention", **train), 3)
    recorded, plain = population_of(runs), population_of(runs)
    plain._recorded = None
    for _ in range(12):
        for population in (recorded, plain):
            population.train_step(population.next_rows())
    for name, value in recorded.state().tensors.items():
        torch.testing.assert_close(
            value, plain.state().tensors[name], rtol=1e-5, atol=1e-7, msg=name
        )


class Leaky(nn.Module):
    """Of a plug-in: a loop over time, and a mask that is made when it is first needed."""

    def __init__(self, width: int):
        super().__init__()
        self.decay, self.out = nn.Parameter(torch.zeros(width)), nn.Linear(width, width)
        self.mask: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if self.mask is None or len(self.mask) != x.shape[1]:
            self.mask = torch.ones(x.shape[1], 1, device=x.device)
        state, states = torch.zeros_like(x[:, 0]), []
        for now in (x * self.mask).unbind(1):
            state = self.decay.sigmoid() * state + now
            states.append(state)
        return self.out(torch.stack(states, 1))


class Recurrent(nn.Module):
    """A library's recurrence, for which vmap has no rule."""

    def __init__(self, width: int):
        super().__init__()
        self.gru = nn.GRU(width, width, batch_first=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.gru(x)[0]


class Waiting(Leaky):
    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) * (1.0 if x.isfinite().all().item() else 0.0)


class Dropping(Leaky):
    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.dropout(super().forward(x), 0.1, self.training)


@pytest.mark.parametrize(
    ("module", "is_recorded"),
    [(Leaky, True), (Recurrent, True), (Waiting, False), (Dropping, False)],
)
def test_a_plugin_is_recorded_where_that_is_the_same(module, is_recorded, plugins):
    recollect.mixer("mine")(module)
    runs = seeds(run_of("mine"), 3)
    tried, plain = population_of(runs), population_of(runs)
    plain._recorded = None
    for step in range(8):
        for population in (tried, plain):
            population.train_step(population.next_rows())
        if step == 4 and module is Leaky:  # what a recording reads is replaced
            for block in tried.model.layers:
                block.mixer._template[0].mask = None
    assert [block.mixer.recordable for block in tried.model.layers] == [is_recorded] * 2
    assert (tried._recorded._graph is not None) == is_recorded
    for name, value in tried.state().tensors.items():
        torch.testing.assert_close(
            value, plain.state().tensors[name], rtol=1e-4, atol=1e-6, msg=name
        )


def test_a_state_goes_on_and_a_compaction_records_anew():
    runs = seeds(run_of("mamba"), 4)
    whole, thinned = population_of(runs), population_of(runs)
    for step in range(12):
        whole.train_step(whole.task.batch("train", step))
        thinned.train_step(thinned.task.batch("train", step))
        if step == 5:
            thinned.compact([runs[3].run_id, runs[1].run_id])
    mine, theirs = (
        population.state().select([runs[1].run_id]).tensors for population in (thinned, whole)
    )
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], rtol=2e-4, atol=2e-6, msg=name)


def test_a_population_is_ahead_while_its_steps_wait_for_the_device():
    population = population_of(seeds(run_of("attention"), 2))
    for _ in range(4):  # the last one is recorded
        population.train_step(population.next_rows())
    torch.cuda.synchronize()
    assert not population.is_ahead()
    with torch.cuda.stream(population._stream):
        torch.cuda._sleep(2_000_000_000)  # cycles: about a second
    for _ in range(AHEAD):
        assert not population.is_ahead()
        population.train_step(population.next_rows())
    assert population.is_ahead()
    torch.cuda.synchronize()
    assert not population.is_ahead()


def test_populations_stepped_in_turn_are_those_stepped_apart():
    """Each has a stream of its own; rows are shared, and drawn on another one."""
    runs = seeds(run_of("mamba"), 6)
    parts = [runs[:1], runs[1:3], runs[3:]]
    apart = [population_of(part) for part in parts]
    for population in apart:
        for step in range(12):
            population.train_step(population.task.batch("train", step))
    beside = [population_of(part) for part in parts]
    task = beside[0].task
    for round_ in range(14):
        for late, population in enumerate(beside):  # each begins a step after the one before
            if 0 <= round_ - late < 12:
                population.train_step(task.batch("train", round_ - late))
    for one, other in zip(beside, apart, strict=True):
        for name, value in one.state().tensors.items():
            torch.testing.assert_close(value, other.state().tensors[name], rtol=0, atol=0, msg=name)


REHEARSED = """
import sys, torch, triton
from recollect.tasks.build import build_task
from recollect.training.population import Population
from recollect.running.planning.precompile import precompile
from recollect.spec.run import RunSpec
compiled = []
def listen(**about):
    compiled.append((about["src"].name, about["cache_hit"]))
triton.knobs.compilation.listener = listen
run, device = RunSpec.from_json(sys.argv[1]), torch.device("cuda")
task = build_task(run.task, 0, run.train.batch, device)
precompile(run, task, device)
before = len(compiled)
runs = [run.model_copy(update={"seed": seed}) for seed in range(int(sys.argv[2]))]
population = Population(runs, task, device)
for step in range(4):
    population.train_step(task.batch("train", step))
population.evaluate()
assert all(evaluation.test_loss < 8 for evaluation in population.evaluate())
print(before, compiled[before:])
"""


@pytest.mark.parametrize("members", [1, 16])
@pytest.mark.parametrize("mixer", ["attention", "mamba", "hyena", "delta_net", "lstm"])
def test_after_precompiling_nothing_is_left_to_compile(mixer, members, tmp_path):
    spec = run_of(mixer, precision="bf16").canonical_json()
    ended = subprocess.run(
        [sys.executable, "-c", REHEARSED, spec, str(members)],
        env=os.environ | {"TRITON_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert ended.returncode == 0, ended.stderr
    before, after = ended.stdout.split(maxsplit=1)
    assert int(before) > 5
    assert after.strip() == "[]"


@pytest.mark.parametrize("mixer", ["attention", "mamba", "hyena"])
def test_sixteen_members_have_the_curves_of_their_solo_runs(mixer):
    """To the tolerance that docs/decisions/bit-identity-on-a-gpu.md documents: the order of sums
    differs, and training amplifies it.
    """
    run = run_of(mixer, steps=200, lr=3e-3)
    company = seeds(run, 16)

    def curves(members: list[RunSpec]) -> list[list[float]]:
        population, found = population_of(members), []
        for step in range(200):
            population.train_step(population.task.batch("train", step))
            if (step + 1) % 50 == 0:
                found.append([evaluation.accuracy for evaluation in population.evaluate()])
        return found

    together = curves(company)
    for p in (0, 7, 15):
        alone = curves([company[p]])
        assert [look[p] for look in together] == pytest.approx(
            [look[0] for look in alone], abs=0.02
        )


# ---- several shapes, several processes ----


def test_shapes_side_by_side_give_what_they_give_apart(tmp_path, monkeypatch):
    # Runs of forty steps would have ended before kernels are compiled ahead.
    monkeypatch.setattr(Worker, "_is_compiled", lambda self, run: True)
    runs = tuple(
        run for mixer in ("attention", "mamba", "hyena") for run in seeds(run_of(mixer), 2)
    )
    started: dict[str, int] = {}
    for name, side_by_side in (("apart", False), ("beside", True)):
        with Store.create(tmp_path / name) as store:
            engine.plan(store, Sweep(name, "", runs))
            with Worker(store, tmp_path / name, CUDA, side_by_side=side_by_side) as worker:
                advance, seen = worker._advance, []
                worker._advance = lambda pack, advance=advance, seen=seen, worker=worker: (
                    seen.append(len(worker._packs)) or advance(pack)
                )
                worker.work()
            started[name] = max(seen)
    assert started["apart"] == 1 < started["beside"]
    apart, beside = (RunSet.load(tmp_path / name) for name in ("apart", "beside"))
    assert {row.status for row in beside.rows} == {"done"}
    assert beside.curves == apart.curves


def test_two_processes_on_one_gpu_train_what_one_does(tmp_path, monkeypatch):
    """`--device cuda:0,0`: every run once, with numbers as far from those of one process as those
    of another pack.
    """
    monkeypatch.setattr(count, "WORTHWHILE_S", 0.0)
    sweep = Sweep(
        "two", "", tuple(run for mixer in ("attention", "mamba") for run in seeds(run_of(mixer), 4))
    )
    heard: list[Event] = []
    outcomes = [
        engine.train(tmp_path / name, [sweep], device=device, listen=heard.append)
        for name, device in (("one", "cuda:0"), ("two", "cuda:0,0"))
    ]
    assert [outcome.processes for outcome in outcomes] == [1, 2]
    assert [outcome.counts["done"] for outcome in outcomes] == [8, 8]
    told = [event for event in heard if isinstance(event, DeviceProgress)][-1]
    assert (told.device, told.ended) == ("cuda:0", 8)
    one, two = (
        {row.run_id: row for row in RunSet.load(tmp_path / name).rows} for name in ("one", "two")
    )
    assert one.keys() == two.keys()
    for run_id, row in one.items():
        assert row.device == two[run_id].device == torch.cuda.get_device_name(0)
        assert row.test_loss == pytest.approx(two[run_id].test_loss, rel=1e-3)
