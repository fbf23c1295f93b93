"""A training step as Zoology makes it, against ours: `python bench/zoology_step.py [MIXER ...]`.

The reference is written from the description of Zoology's model, not from its code: token and
learned position embeddings with dropout .1, two pre-norm layers of one-headed attention (explicit
scores, additive mask, dropout .1) and a GELU MLP of four times the width, a final LayerNorm, the
tied head at every position, cross-entropy over all of them with the unlabelled ones ignored,
torch's AdamW. Ours is a population of two. Both at (64, 4), width 64, batch 512, vocabulary 8,192,
on one thread of a CPU; the seconds are processor time of this process, so that other programs on
the machine count little.
"""

import sys
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from recollect.running.planning.bench import SHAPES
from recollect.tasks.build import build_task
from recollect.training.population import Population

VOCABULARY = 8192
SHAPE = SHAPES["S1"]
MEMBERS, STEPS = 2, 3
CPU = torch.device("cpu")


class Attention(nn.Module):
    def __init__(self, width: int, length: int):
        super().__init__()
        self.into, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.dropout = nn.Dropout(0.1)
        self.register_buffer("mask", torch.full((length, length), -1e4).triu(1))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.into(x).chunk(3, dim=-1)
        scores = q @ k.transpose(1, 2) / x.shape[-1] ** 0.5 + self.mask
        return self.out(self.dropout(scores.softmax(-1)) @ v)


class Reference(nn.Module):
    def __init__(self, width: int, length: int, depth: int = 2):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(VOCABULARY, width), nn.Embedding(length, width)
        self.dropout = nn.Dropout(0.1)
        self.mixers = nn.ModuleList(Attention(width, length) for _ in range(depth))
        self.channels = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
            for _ in range(depth)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * depth + 1))
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.dropout(self.tokens(tokens) + self.positions.weight)
        norms = iter(self.norms)
        for mixer, channel in zip(self.mixers, self.channels, strict=True):
            x = x + mixer(next(norms)(x))
            x = x + channel(next(norms)(x))
        return next(norms)(x) @ self.tokens.weight.T


def reference_step() -> Callable[[], None]:
    model = Reference(SHAPE.width, SHAPE.length)
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    run = SHAPE.run("attention")
    batch = build_task(run.task, 0, SHAPE.batch, CPU).batch("train", 0)
    targets = torch.full_like(batch.tokens_BL, -100).scatter_(1, batch.where_BK, batch.labels_BK)

    def step() -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(batch.tokens_BL).view(-1, VOCABULARY), targets.view(-1)).backward()
        optimiser.step()

    return step


def our_step(mixer: str) -> Callable[[], None]:
    runs = [SHAPE.run(mixer).model_copy(update={"seed": seed}) for seed in range(MEMBERS)]
    task = build_task(runs[0].task, 0, SHAPE.batch, CPU)
    population = Population(runs, task, CPU)
    return lambda: population.train_step(task.batch("train", population.step))


def seconds(step: Callable[[], None]) -> float:
    step()
    start = time.process_time()
    for _ in range(STEPS):
        step()
    return (time.process_time() - start) / STEPS


def main() -> None:
    torch.set_num_threads(1)
    theirs = seconds(reference_step())
    print(f"attention as Zoology makes it: {theirs:.2f} s of processor time a step")
    for mixer in sys.argv[1:] or ("attention", "mamba"):
        ours = seconds(our_step(mixer)) / MEMBERS
        print(f"{mixer}: {ours:.2f} s a run-step, {theirs / ours:.1f}x")


if __name__ == "__main__":
    main()
