"""The place where an attempt trains, and its code; both are recorded in every row."""

import hashlib
import os
import socket
from functools import cache
from pathlib import Path

import torch

import recollect
from recollect.training.environment import device_name


def describe_place(device: torch.device) -> dict[str, str]:
    """The scheduler's name of the host and the manufacturer's name of the device."""
    host = os.environ.get("SLURMD_NODENAME") or socket.gethostname()
    return {"host": host, "device": device_name(device)}


@cache
def code_digest() -> str:
    """Digest of the package; equal on two machines if and only if every source file is."""
    package = Path(recollect.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]
