"""Rows made by hand for the tests of analysis, report and export:
known scores at known rates, no training.
"""

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from recollect.analysis import Cell, group_cells
from recollect.rows import Evaluation, RunRow, Status


def make_row(
    mixer: str = "attention",
    lr: float = 1e-3,
    seed: int = 42,
    score: float | None = 1.0,
    status: Status = "done",
    model: dict[str, Any] | None = None,
    **fields: Any,
) -> RunRow:
    """A run of a small sweep; `model` overrides keys of the model's table,
    `fields` those of the row.
    """
    spec = {
        "task": {"name": "mqar", "length": 64, "pairs": 4},
        "model": {"mixer": {"name": mixer}, "width": 64, "depth": 2, **(model or {})},
        "train": {"lr": lr, "weight_decay": 0.1, "steps": 1000},
        "seed": seed,
        "data_seed": 0,
    }
    text = json.dumps(spec, sort_keys=True, separators=(",", ":"))
    run_id = hashlib.sha256(text.encode()).hexdigest()[:16]
    shown = {
        "run_id": run_id,
        "spec": spec,
        "status": status,
        "score_name": "accuracy",
        "chance": 0.25,
        "accuracy": score,
    }
    return RunRow(**{**shown, **fields})


def make_curve(scores: Sequence[float], every: int = 100, loss: float = 2.0) -> list[Evaluation]:
    """One evaluation per score, `every` steps apart."""
    return [
        Evaluation((index + 1) * every, loss, loss, score, score**4)
        for index, score in enumerate(scores)
    ]


def make_sweep(
    scores: dict[float, Sequence[float]], mixer: str = "attention", **model: Any
) -> list[RunRow]:
    """Rows for {rate: one score per seed}; seeds are 1, 2, ..."""
    return [
        make_row(mixer, lr, seed, score, model=model)
        for lr, per_seed in scores.items()
        for seed, score in enumerate(per_seed, start=1)
    ]


def only_cell(rows: Sequence[RunRow]) -> Cell:
    """The cell of rows that are all of one."""
    (cell,) = group_cells(rows)
    return cell


# Texts that a page must show as they are.
HOSTILE = [
    "</script><img src=x onerror=alert(1)>",
    "{{7*7}}{% raw %}",
    "\" onload='alert(1)'",
    "$\\frac{1}{0}$ $",
    "_hidden",
    "-->]]>&lt;",
    "<svg/onload=alert(1)>",
    "%{x} </body> \u2028 \u2029",
    "名前 \U0001f40d \x00\x1b\n\ud800",
]
