"""Describes what this machine can run, and what it lacks to run more."""

import importlib.util
import platform
import sqlite3
from dataclasses import dataclass

import torch

import recollect
from recollect.analysis import count_text
from recollect.running.planning.memory import free_memory
from recollect.running.processes.devices import why_no_gpu
from recollect.training.environment import device_name


@dataclass(frozen=True)
class Finding:
    what: str
    found: str
    advice: str = ""


def describe_machine() -> list[Finding]:
    """Return the properties of this machine that a run's speed and numbers depend on."""
    cpu = torch.device("cpu")
    return [
        Finding("recollect", recollect.__version__),
        Finding("python", platform.python_version()),
        Finding("torch", torch.__version__),
        Finding(
            "cpu",
            f"{count_text(torch.get_num_threads(), 'thread')}, "
            f"{free_memory(cpu) / 1e9:.1f} GB of memory free",
        ),
        *_gpus(),
        _triton(),
        Finding("sqlite", sqlite3.sqlite_version),
    ]


def _gpus() -> list[Finding]:
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count:
        devices = [torch.device("cuda", number) for number in range(count)]
        return [
            Finding(
                "gpu" if count == 1 else str(device),
                f"{device_name(device)}, {free_memory(device) / 1e9:.1f} GB of memory free",
            )
            for device in devices
        ]
    return [Finding("gpu", "none that torch can use", why_no_gpu())]


def _triton() -> Finding:
    if importlib.util.find_spec("triton") is not None:
        return Finding("triton", "installed")
    return Finding(
        "triton",
        "not installed",
        "needed for fast kernels on a GPU only; the plain operations run everywhere",
    )
