"""What a node does in the fault tests; imported once by the fork server."""

import errno
import os
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace

import run_workers
import torch
from harness import Acknowledge

from recollect.running import pack
from recollect.running.cluster import frames
from recollect.running.cluster.attempt import work_on_pack
from recollect.running.cluster.collect import collect_once
from recollect.running.cluster.plan import read_plan
from recollect.store import durable

CPU = torch.device("cpu")


def attempt(acknowledge: Acknowledge, folder: Path, index: int) -> None:
    """Train a pack, with a checkpoint after every step."""
    torch.set_num_threads(1)
    pack.SAVE_EVERY_S, pack.SAVE_SHARE = 0.0, 1.0
    work_on_pack(read_plan(folder), index, CPU)
    acknowledge("complete")


def on_full_disk(
    acknowledge: Acknowledge, prefix: Path, folder: Path, index: int, room: Sequence[int]
) -> None:
    """A task as Slurm starts it, where only so many records of spools and so many pieces of
    checkpoints find room.
    """
    left, write = list(room), os.write

    def limited(kind: int) -> SimpleNamespace:
        def write_or_refuse(handle: int, data: memoryview) -> int:
            left[kind] -= 1
            if left[kind] < 0:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return write(handle, data)

        return SimpleNamespace(**vars(os) | {"write": write_or_refuse})

    torch.set_num_threads(1)
    pack.SAVE_EVERY_S, pack.SAVE_SHARE = 0.0, 1.0
    frames.os, durable.os = limited(0), limited(1)  # type: ignore[assignment]
    run_workers.command(acknowledge, prefix, "work", folder, "--pack", index, "--device", "cpu")


def collect(acknowledge: Acknowledge, folder: Path) -> None:
    """Again and again, until killed."""
    plan = read_plan(folder)
    while True:
        collect_once(plan)
        acknowledge("collected")
