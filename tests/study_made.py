"""Invented rows that resemble the study's, for the tests of figures and tables.

No number here was measured anywhere.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec

RATES = (1e-5, 1e-4, 4.642e-4, 1e-3, 2.154e-3, 1e-2, 1e-1)
SIZES = ((64, 4), (128, 8), (256, 16), (512, 64))
SEEDS = (42, 123, 777)
# Centre and half width, in decades of the rate, of the window in which a model learns; its appetite
# for width.
HABITS = {
    "attention": (-3.0, 1.4, 0.0),
    "based": (-3.0, 0.8, 0.4),
    "based_hybrid": (-3.0, 0.8, 0.4),
    "h3": (-2.8, 0.5, 1.0),
    "hyena": (-2.7, 0.35, 1.2),
    "mamba": (-2.85, 0.2, 0.3),
    "mamba2": (-2.8, 0.4, 0.3),
    "delta_net": (-2.9, 1.2, 0.3),
    "rwkv4": (-2.8, 0.4, 1.0),
    "s6": (-2.85, 0.3, 0.3),
}


def study_row(
    mixer: str | dict[str, Any],
    size: tuple[int, int] = (64, 4),
    width: int = 64,
    depth: int = 2,
    lr: float = 1e-3,
    seed: int = 42,
    status: str | None = None,
    task: dict[str, Any] | None = None,
    train: dict[str, Any] | None = None,
    **model: Any,
) -> RunRow:
    """One finished run of the study; `task` stands in for mqar,
    `model` and `train` add to their tables.
    """
    table = mixer if isinstance(mixer, dict) else {"name": mixer}
    run = RunSpec.parse(
        {
            "task": task or {"name": "mqar", "length": size[0], "pairs": size[1]},
            "model": {"mixer": table, "width": width, "depth": depth, **model},
            "train": {"lr": lr, **(train or {})},
            "seed": seed,
        }
    )
    score = _score(run)
    lost = status or (
        "diverged" if lr >= 0.05 and table["name"] in ("mamba", "hyena") and seed % 2 else "done"
    )
    ended = lost in ("done", "diverged")
    return RunRow(
        run_id=run.run_id,
        spec=json.loads(run.canonical_json()),
        status=lost,
        score_name=run.task.score_name,
        chance=run.task.chance,
        steps=run.train.steps,
        accuracy=score if ended else None,
        exact=score if ended else None,
        diverged_step=17 if lost == "diverged" else None,
        parameters=_parameters(run),
        state_size=16 * width,
    )


def study_rows(
    mixers: Iterable[str | dict[str, Any]],
    sizes: Sequence[tuple[int, int]] = SIZES[:1],
    widths: Sequence[int] = (64,),
    depths: Sequence[int] = (2,),
    rates: Sequence[float] = RATES,
    seeds: Sequence[int] = SEEDS,
    **more: Any,
) -> list[RunRow]:
    """All combinations."""
    return [
        study_row(mixer, size, width, depth, lr, seed, **more)
        for mixer in mixers
        for size in sizes
        for width in widths
        for depth in depths
        for lr in rates
        for seed in seeds
    ]


def study_curve(row: RunRow, points: int = 60) -> list[Evaluation]:
    """A curve that ends at the row's score:
    a plateau at ln V, a fall to ln K, and (if it learns) a slide to zero.
    """
    vocabulary, pairs, steps = (
        row.spec["task"]["vocabulary"],
        row.spec["task"]["pairs"],
        row.spec["train"]["steps"],
    )
    curve = []
    for index in range(1, points + 1):
        share = index / points
        first = 1 / (1 + math.exp(-60 * (share - 0.15)))
        second = (
            1
            / (1 + math.exp(-15 * (share - 0.45)))
            * max(0.0, (row.score or 0) - row.chance)
            / (1 - row.chance)
        )
        loss = math.log(vocabulary) * (1 - first) + math.log(pairs) * first * (1 - second)
        score = row.chance * first * (1 - second) + second
        curve.append(
            Evaluation(round(share * steps), loss * 0.97, loss, min(score, 1.0), score**pairs)
        )
    return curve


def _score(run: RunSpec) -> float:
    mixer = run.model.mixer.name
    centre, reach, appetite = HABITS.get(mixer, HABITS["mamba"])
    length = getattr(run.task, "length", 64)
    ceiling = 1.0
    if (
        run.model.depth == 1
        and mixer in ("attention", "based")
        and getattr(run.model.mixer, "conv", "none") in ("none", "q")
    ):
        ceiling = run.task.chance * 1.05
    if run.model.depth == 1 and getattr(run.model.mixer, "kernel", 4) == 0:
        ceiling = run.task.chance
    if appetite:
        ceiling *= 1 / (1 + (appetite * length / run.model.width / 2) ** 2)
    off = abs(math.log10(run.train.lr) - centre) / reach
    noise = int(hashlib.sha256(run.run_id.encode()).hexdigest()[:4], 16) / 65535
    share = 1 / (1 + math.exp(7 * (off - 1))) * (1 - 0.06 * noise)
    floor = min(ceiling, run.task.chance)
    return round(min(1.0, floor + (ceiling - floor) * min(1.0, 1.03 * share)), 4)


def _parameters(run: RunSpec) -> int:
    vocabulary = run.task.label_vocabulary
    return vocabulary * run.model.width + run.model.depth * 12 * run.model.width**2
