"""Measures how fast this machine trains: run-steps per second of each mixer at given shapes,
together with the limit measured on the device.

A run-step is one optimiser step of one run. The limit is the larger of two times: the multiply-adds
of a step at the rate of a large matrix product, and the bytes that must move at the rate of a copy.
Only bytes that every step has to move are counted: all tensors kept for the backward pass, weights,
moments and gradients, each written once and read once.
"""

import statistics
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import torch

from recollect.errors import SpecError
from recollect.running.planning.cost import cost
from recollect.running.planning.memory import MEMORY_SHARE, free_memory
from recollect.running.planning.precompile import precompile
from recollect.running.planning.speed import wait, warm_steps
from recollect.running.planning.threads import threads_for
from recollect.spec.run import RunSpec
from recollect.spec.train import Precision
from recollect.tasks.build import task_of
from recollect.training.environment import versions
from recollect.training.population import Population
from recollect.training.precision import matmul_precision

TIMED_S = 0.6  # the shortest time measured
TIMED_STEPS = 5  # steps between two looks at the clock


@dataclass(frozen=True)
class Shape:
    """The sizes of a benchmark run: two layers of mixer and MLP on multi-query recall with
    vocabulary 8,192.
    """

    name: str
    width: int
    length: int
    pairs: int
    batch: int

    def run(self, mixer: Any, precision: str = "bf16") -> RunSpec:
        task = {
            "name": "mqar",
            "length": self.length,
            "pairs": self.pairs,
            "train_rows": 4 * self.batch,
            "test_rows": 64,
        }
        model = {"mixer": mixer, "width": self.width, "depth": 2, "block": "mixer+mlp"}
        train = {"batch": self.batch, "steps": 1_000, "precision": precision}
        return RunSpec.parse({"task": task, "model": model, "train": train})


SHAPES = {
    "S1": Shape("S1", width=64, length=64, pairs=4, batch=512),
    "S2": Shape("S2", width=128, length=256, pairs=16, batch=256),
    "S3": Shape("S3", width=512, length=256, pairs=16, batch=256),
}


@dataclass(frozen=True)
class Speed:
    """The speed of one mixer at one shape."""

    mixer: str
    shape: str
    population: int
    precision: str
    run_steps_per_s: float
    first_step_s: float
    memory_per_member: int  # peak bytes on a GPU; 0 on a CPU
    counted_memory: int  # bytes of a member, as counted by `cost`
    limit_run_steps_per_s: float
    problem: str = ""  # the reason if there is no measurement

    @property
    def share(self) -> float:
        return (
            self.run_steps_per_s / self.limit_run_steps_per_s if self.limit_run_steps_per_s else 0.0
        )


@dataclass(frozen=True)
class Report:
    """A benchmark, with the device and versions that its numbers depend on."""

    device: str
    copy_bytes_per_s: float
    multiply_adds_per_s: float
    versions: dict[str, str]
    date: str
    speeds: list[Speed] = field(default_factory=list)

    def to_table(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_table(cls, table: dict[str, Any]) -> "Report":
        try:
            return cls(**{**table, "speeds": [Speed(**row) for row in table["speeds"]]})
        except (TypeError, KeyError) as error:
            raise SpecError(
                f"not a stored benchmark: {error}; make one with `recollect bench --json`"
            ) from None


def parse_shape(text: str) -> Shape:
    """Parse S1, S2, S3 or WIDTHxLENGTHxPAIRSxBATCH."""
    if text in SHAPES:
        return SHAPES[text]
    parts = text.split("x")
    if len(parts) != 4 or not all(part.isdecimal() and int(part) > 0 for part in parts):
        raise SpecError(
            f"--shape {text}: must be one of {', '.join(SHAPES)} or "
            "WIDTHxLENGTHxPAIRSxBATCH, e.g. 64x64x4x512"
        )
    return Shape(text, *(int(part) for part in parts))


def describe_device(device: torch.device, precision: Precision) -> Report:
    """Return a report without speeds: the device and its measured limits."""
    name = (
        torch.cuda.get_device_name(device)
        if device.type == "cuda"
        else f"CPU, {torch.get_num_threads()} threads"
    )
    absent = dict.fromkeys(("triton", "numpy"), "not installed")
    products = multiply_adds_per_s(device, precision)
    return Report(
        name,
        copy_bytes_per_s(device),
        products,
        absent | versions(),
        datetime.now(UTC).isoformat(timespec="seconds"),
    )


def measure(
    run: RunSpec, shape: str, population: int | None, report: Report, device: torch.device
) -> Speed:
    """Measure the speed of `population` members together; if it is None, of the fastest power of
    two.
    """
    counted = cost(run)
    limit_s = max(
        counted.operations / report.multiply_adds_per_s,
        2 * counted.memory_bytes / report.copy_bytes_per_s,
    )
    precision = "fp32" if device.type == "cpu" else run.train.precision
    best = Speed(
        run.model.mixer.name, shape, 0, precision, 0, 0, 0, counted.memory_bytes, 1 / limit_s
    )
    for size in [population] if population else _sizes(counted.memory_bytes, device):
        try:
            with threads_for(run, torch.get_num_threads()):
                per_s, first_s, allocated = _timed(run, size, device)
        except (RuntimeError, MemoryError) as error:
            return best if best.population else replace(best, problem=_first_line(error))
        finally:
            if device.type == "cuda":
                torch.cuda.empty_cache()
        found = replace(
            best,
            population=size,
            run_steps_per_s=per_s,
            first_step_s=first_s,
            memory_per_member=allocated,
        )
        if found.run_steps_per_s < 1.05 * best.run_steps_per_s:
            return max(best, found, key=lambda speed: speed.run_steps_per_s)
        best = found
    return best


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _sizes(memory_bytes: int, device: torch.device) -> Iterator[int]:
    size = 8 if device.type == "cuda" else 1
    fits = MEMORY_SHARE * free_memory(device) / memory_bytes
    while size <= max(1, min(fits, 128)):
        yield size
        size *= 2


def _timed(run: RunSpec, size: int, device: torch.device) -> tuple[float, float, int]:
    """Return run-steps per second, seconds of the first step and peak bytes per member."""
    members = [run.model_copy(update={"seed": seed}) for seed in range(size)]
    task = task_of(run, device)
    task.batch("train", 0)
    wait(device)
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0
    start = time.perf_counter()
    precompile(run, task, device)
    population = Population(members, task, device)
    population.train_step(population.next_rows())
    wait(device)
    first_s = time.perf_counter() - start
    for _ in range(warm_steps(device)):
        population.train_step(population.next_rows())
    wait(device)
    start, steps, elapsed = time.perf_counter(), 0, 0.0
    while not steps or elapsed < TIMED_S:
        population.restart_clock()  # a fast machine would reach the end of the run
        # As in training, do not wait for the device after every step.
        for _ in range(TIMED_STEPS):
            population.train_step(population.next_rows())
        wait(device)
        steps += TIMED_STEPS
        elapsed = time.perf_counter() - start
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else before
    return size * steps / elapsed, first_s, (peak - before) // size


def copy_bytes_per_s(device: torch.device) -> float:
    """Bytes read and written per second by a large copy."""
    size = 2**30 if device.type == "cuda" else 2**27
    source = torch.zeros(size // 4, device=device)
    target = torch.empty_like(source)
    return 2 * size / _median_seconds(lambda: target.copy_(source), device)


def multiply_adds_per_s(device: torch.device, precision: Precision) -> float:
    """Multiply-adds per second of a large square matrix product."""
    size = 8192 if device.type == "cuda" else 1024
    dtype = torch.bfloat16 if precision == "bf16" and device.type == "cuda" else torch.float32
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    with matmul_precision(device, precision):
        return size**3 / _median_seconds(lambda: a @ b, device)


def _median_seconds(work: Any, device: torch.device) -> float:
    times = []
    for _ in range(8):
        wait(device)
        start = time.perf_counter()
        work()
        wait(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def compare_speeds(now: Sequence[Speed], before: Sequence[Speed]) -> dict[tuple[str, str], float]:
    """Return speed `now` divided by speed `before`, for each mixer and shape in both."""
    stored = {(speed.mixer, speed.shape): speed.run_steps_per_s for speed in before}
    keys = [(speed.mixer, speed.shape) for speed in now]
    return {
        key: speed.run_steps_per_s / stored[key]
        for key, speed in zip(keys, now, strict=True)
        if stored.get(key, 0) > 0
    }
