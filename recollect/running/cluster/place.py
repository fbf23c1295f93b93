"""Where an attempt trains: recorded with every row."""

import socket

import torch


def describe_place(device: torch.device) -> dict[str, str]:
    """The host, and the device as its maker calls it."""
    kind = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    return {"host": socket.gethostname(), "device": kind}
