"""The devices that training may use, as named by `--device`, and each process's share of one."""

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
    """The device of one process and its share of it."""

    device: str  # torch's name
    processes: int = 1  # processes that share its memory, this one included
    memory_bytes: int | None = None  # the most that they may use; None: all that is free
    speed: float = 1.0  # relative to other devices; the share of the runs is proportional to it
    kind: str = ""  # the device name in rows and checkpoints; bits of results depend on it

    @property
    def room(self) -> float:
        """The most bytes that a run can have here."""
        return math.inf if self.memory_bytes is None else self.memory_bytes / self.processes


def choose_devices(name: str) -> "tuple[torch.device, ...]":
    """Return the devices that `name` stands for.

    `cuda` is every GPU, `cuda:0,2` are these two, and `auto` is `cuda` if there is a GPU, else
    `cpu`. A GPU that is named twice gets two processes, which share its memory. Devices that the
    machine does not have are refused.
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
            f"device = {name!r}: torch finds no GPU here; use cpu, or fix it:\n{why_no_gpu()}"
        )
    if not colon:
        # A single GPU is named `cuda`, without a number, as in older versions.
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
    """Return the device that `name` stands for, for work that uses only one.

    `cuda` is the first GPU. A list of several GPUs is refused.
    """
    import torch

    devices = choose_devices(name)
    if len(devices) > 1 and ":" in name:
        raise SpecError(f"device = {name!r}: this uses one device; name one, as {devices[0]}")
    return devices[0] if len(devices) == 1 else torch.device("cuda")


def as_current(device: "torch.device") -> contextlib.AbstractContextManager[None]:
    """A context in which the device is torch's current one, on which kernels are launched."""
    import torch

    if device.type == "cuda" and device.index is not None:
        return torch.cuda.device(device)
    return contextlib.nullcontext()


def why_no_gpu() -> str:
    """The reason why torch cannot use a GPU, and what to do about it."""
    import torch

    if torch.version.cuda is None:
        return "this torch is a CPU build; an NVIDIA GPU needs a CUDA build of it"
    return "torch is a CUDA build but finds no GPU; look at nvidia-smi and the driver"


def share_devices(devices: "Sequence[torch.device]") -> tuple[DeviceShare, ...]:
    """Return one share for each time a device is named."""
    named = Counter(map(str, devices))
    return tuple(replace(_share(device), processes=named[str(device)]) for device in devices)


def _share(device: "torch.device") -> DeviceShare:
    """Describe a device. Its speed is guessed from its number of multiprocessors.

    A wrong guess costs little: a process that has finished its runs takes over those of others.
    """
    import torch

    from recollect.training.environment import device_name

    share = DeviceShare(str(device), kind=device_name(device))
    if device.type != "cuda":
        return share
    about = torch.cuda.get_device_properties(device)
    return replace(share, memory_bytes=about.total_memory, speed=float(about.multi_processor_count))
