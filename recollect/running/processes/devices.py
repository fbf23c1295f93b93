"""The devices that training may use, as `--device` names them, and what a process has of one."""

import contextlib
import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from recollect.errors import SpecError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class DeviceShare:
    """What one process trains on."""

    device: str  # as torch calls it
    processes: int = 1  # that share its memory, this one included
    memory_bytes: int | None = None  # may be used at most; None: what is free
    speed: float = 1.0  # against the others: so much larger a part of the runs
    kind: str = ""  # as rows and checkpoints name it; bits depend on it

    @property
    def room(self) -> float:
        """Bytes that a run may hope for here."""
        return math.inf if self.memory_bytes is None else self.memory_bytes / self.processes


def choose_devices(name: str) -> "tuple[torch.device, ...]":
    """Those that `name` stands for: `cuda` is every GPU, `cuda:0,2` are these two, `auto` is `cuda`
    where there is a GPU, else `cpu`. A GPU that is named twice gets two processes, which share its
    memory. What is not here is refused.
    """
    import torch

    if name == "cpu" or (name == "auto" and not torch.cuda.is_available()):
        return (torch.device("cpu"),)
    kind, colon, listed = name.partition(":")
    if kind != "cuda" and name != "auto":
        raise SpecError(
            f"device = {name!r}: unknown; use auto, cpu, cuda (every GPU), cuda:1 (one) or "
            "cuda:0,2 (some)"
        )
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if not count:
        raise SpecError(
            f"device = {name!r}: torch finds no GPU here; use cpu, or mend it:\n{why_no_gpu()}"
        )
    if not colon:
        # Without a number where there is one: the same device as of old.
        every = ["cuda"] if count == 1 else [f"cuda:{number}" for number in range(count)]
        return tuple(map(torch.device, every))
    return tuple(torch.device(f"cuda:{_number(name, text, count)}") for text in listed.split(","))


def _number(name: str, text: str, count: int) -> int:
    if not (text.isascii() and text.isdecimal()):
        raise SpecError(
            f"device = {name!r}: {text!r} is no number of a GPU; write cuda:1 for one, cuda:0,2 "
            "for some, cuda for every one"
        )
    if int(text) >= count:
        here = "1 GPU, cuda:0" if count == 1 else f"{count} GPUs, cuda:0 to cuda:{count - 1}"
        raise SpecError(f"device = {name!r}: there is no cuda:{int(text)} here, but {here}")
    return int(text)


def choose_device(name: str) -> "torch.device":
    """The one device that `name` stands for, for work that does not spread: of every GPU the first,
    of a list none.
    """
    import torch

    devices = choose_devices(name)
    if len(devices) > 1 and ":" in name:
        raise SpecError(f"device = {name!r}: this uses one device; name one, as {devices[0]}")
    return devices[0] if len(devices) == 1 else torch.device("cuda")


def as_current(device: "torch.device") -> contextlib.AbstractContextManager[None]:
    """While it lasts, the device is the current one: a kernel is launched on that."""
    import torch

    if device.type == "cuda" and device.index is not None:
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def why_no_gpu() -> str:
    """What torch lacks to use one, and what to do about it."""
    import torch

    if torch.version.cuda is None:
        return "this torch is a CPU build; with an NVIDIA GPU install a CUDA build of torch"
    return "torch is a CUDA build but finds no GPU; look at nvidia-smi and the driver"


def share_devices(devices: "Sequence[torch.device]") -> tuple[DeviceShare, ...]:
    """One process for each time a device is named."""
    named = Counter(map(str, devices))
    return tuple(replace(_share(device), processes=named[str(device)]) for device in devices)


def _share(device: "torch.device") -> DeviceShare:
    """Its speed is guessed from its size: what a process has done early, it takes from others."""
    import torch

    from recollect.training.environment import device_name

    share = DeviceShare(str(device), kind=device_name(device))
    if device.type != "cuda":
        return share
    about = torch.cuda.get_device_properties(device)
    return replace(share, memory_bytes=about.total_memory, speed=float(about.multi_processor_count))
