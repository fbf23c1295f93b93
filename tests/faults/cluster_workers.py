"""What a node does in the fault tests; imported once by the fork server."""

from pathlib import Path

import torch
from harness import Acknowledge

from recollect.running import pack
from recollect.running.cluster.attempt import work_on_pack
from recollect.running.cluster.collect import collect_once
from recollect.running.cluster.plan import read_plan

CPU = torch.device("cpu")


def attempt(acknowledge: Acknowledge, folder: Path, index: int) -> None:
    """Train a pack, with a checkpoint after every step."""
    torch.set_num_threads(1)
    pack.SAVE_EVERY_S, pack.SAVE_SHARE = 0.0, 1.0
    work_on_pack(read_plan(folder), index, CPU)
    acknowledge("complete")


def collect(acknowledge: Acknowledge, folder: Path) -> None:
    """Again and again, until killed."""
    plan = read_plan(folder)
    while True:
        collect_once(plan)
        acknowledge("collected")
