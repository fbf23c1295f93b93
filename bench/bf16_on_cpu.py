"""What bf16 products would gain on a CPU: `python bench/bf16_on_cpu.py [MIXER ...]`.

recollect computes in float32 on a CPU, whatever `train.precision` says. Here a step is made under
`torch.autocast` as well, as on a GPU. Printed for each mixer: processor seconds of one thread per
run-step at S1 in both precisions, and whether a member has the same bits in populations of two and
of three.
"""

import sys
import time

import torch
from torch import Tensor

from recollect.running.planning.bench import parse_shape
from recollect.spec.run import RunSpec
from recollect.tasks.build import task_of
from recollect.training.allocator import keep_freed_memory
from recollect.training.population import Population

MIXERS = ("attention", "hyena", "h3", "based", "delta_net", "rwkv4", "mamba")
WARM, STEPS, ROUNDS, COMPARED = 3, 3, 3, 4
CPU = torch.device("cpu")


def make_population(run: RunSpec, members: int) -> Population:
    seeds = [run.model_copy(update={"seed": seed}) for seed in range(members)]
    return Population(seeds, task_of(run, CPU), CPU)


def train(population: Population, steps: int, rounded: bool) -> None:
    with torch.autocast("cpu", torch.bfloat16, enabled=rounded):
        for _ in range(steps):
            population.train_step(population.next_rows())


def seconds_per_run_step(run: RunSpec, rounded: bool) -> float:
    """The least of some rounds: other programs only add to it."""
    population = make_population(run, 2)
    train(population, WARM, rounded)
    taken = []
    for _ in range(ROUNDS):
        start = time.process_time()
        train(population, STEPS, rounded)
        taken.append((time.process_time() - start) / (2 * STEPS))
    return min(taken)


def trained_weights(run: RunSpec, members: int, rounded: bool) -> list[Tensor]:
    """The first member's parameters after some steps."""
    population = make_population(run, members)
    train(population, COMPARED, rounded)
    return [values[0].detach().clone() for values in population.model.parameters()]


def has_same_bits(run: RunSpec, rounded: bool) -> bool:
    pairs = zip(*(trained_weights(run, size, rounded) for size in (2, 3)), strict=True)
    return all(torch.equal(one, other) for one, other in pairs)


def main() -> None:
    torch.set_num_threads(1)
    keep_freed_memory()
    print("bf16 in hardware:", torch.cpu._is_avx512_bf16_supported())
    for mixer in sys.argv[1:] or MIXERS:
        run = parse_shape("S1").run(mixer)
        exact = seconds_per_run_step(run, rounded=False)
        try:
            rounded = seconds_per_run_step(run, rounded=True)
        except (TypeError, RuntimeError) as error:
            print(f"{mixer:12} {exact:.3f} s, bf16: {error}")
            continue
        same = "same bits" if has_same_bits(run, rounded=True) else "other bits"
        print(f"{mixer:12} {exact:.3f} s, bf16 {rounded:.3f} s: {exact / rounded:.2f}x; {same}")


if __name__ == "__main__":
    main()
