"""The place where an attempt trains, recorded in every row."""

import os
import socket

import torch

from recollect.training.environment import device_name


def describe_place(device: torch.device) -> dict[str, str]:
    """The scheduler's name of the host and the manufacturer's name of the device."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return {"host": host, "device": device_name(device)}
