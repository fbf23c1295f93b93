"""How long it takes to draw training rows: `python bench/data.py [device]`.

Seconds per 100,000 rows of mqar and per 1,000 packed rows of copying, after one warm-up.
"""

import sys
import time

import torch

from recollect.tasks.build import build_task
from recollect.tasks.options import CopyingSpec, MqarSpec, TaskSpec

SETTINGS: dict[str, TaskSpec] = {
    **{
        f"mqar ({length}, {pairs})": MqarSpec(length=length, pairs=pairs)
        for length, pairs in ((64, 4), (256, 16), (512, 64))
    },
    "mqar (64, 4), random filler": MqarSpec(filler="random"),
    "mqar (64, 4), fresh": MqarSpec(data="fresh"),
    "copying (5..20, context 220)": CopyingSpec(),
}


def seconds(spec: TaskSpec, device: str) -> float:
    """The first batch, which draws the whole set;
    for fresh data as many steps as make 100,000 (copying: 1,000) rows.
    """
    steps = (
        1
        if spec.data != "fresh"
        else (1_000 if spec.name == "copying" else 100_000) // spec.default_batch
    )
    task = build_task(spec, 0, spec.default_batch, device)
    start = time.perf_counter()
    for step in range(steps):
        batch = task.batch("train", step)
    batch.tokens_BL[0, 0].item()  # waits for the device
    return time.perf_counter() - start


def main() -> None:
    device = sys.argv[1] if len(sys.argv) > 1 else "cpu"
    seconds(MqarSpec(train_rows=1_000), device)
    print(f"{device}, {torch.get_num_threads()} threads")
    for name, spec in SETTINGS.items():
        print(f"{name:32} {seconds(spec, device):6.2f} s")


if __name__ == "__main__":
    main()
