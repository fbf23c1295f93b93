"""What the bits of a number depend on besides the specification: versions, device, threads, and
which instructions the processor has.

A run that is trained under one environment from its first step to its last can be repeated; one
that goes on under another has drifted (`differences`).
"""

import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self

import torch

import recollect
from recollect.ops.dispatch import are_kernels_on

_LIBRARIES = ("numpy", "numba", "triton")  # that compute beside torch
_UNSAID = {"kernels": "on"}  # what a version that is not named is


@dataclass(frozen=True)
class Environment:
    """Empty texts, no versions and no threads: not known."""

    versions: dict[str, str]
    device: str  # "cpu", or the name of the GPU
    threads: int | None
    cpu: str  # its instructions as torch uses them: AVX2, AVX512, ...

    NAMES: ClassVar[tuple[str, ...]] = ("versions", "device", "threads", "cpu")

    @classmethod
    def here(cls, device: torch.device | None = None, threads: int | None = None) -> Self:
        """Of this process on a device, with so many threads or as many as are set."""
        return cls(
            versions(),
            device_name(device or torch.device("cpu")),
            threads or torch.get_num_threads(),
            torch.backends.cpu.get_cpu_capability(),
        )

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """From what was stored; what is missing is not known, what is none of it a ValueError."""
        versions, device = found["versions"] or {}, found["device"] or ""
        threads, cpu = found["threads"], found["cpu"] or ""
        if not isinstance(versions, dict) or not all(
            type(text) is str for text in (*versions.values(), device, cpu)
        ):
            raise ValueError("no versions")
        if threads is not None and (type(threads) is not int or threads < 1):
            raise ValueError(f"threads = {threads!r}"[:80])
        return cls(dict(versions), device, threads, cpu)


UNKNOWN = Environment({}, "", None, "")


def differences(before: Environment, now: Environment) -> tuple[str, ...]:
    """What is not the same, a text each; what either does not know is not compared. On a GPU the
    processor beside it computes nothing.
    """
    pairs = [("device", before.device, now.device)]
    if before.versions and now.versions:
        for name in before.versions | now.versions:
            unsaid = _UNSAID.get(name, "none")
            pairs.append((name, before.versions.get(name, unsaid), now.versions.get(name, unsaid)))
    if before.device == now.device == "cpu":
        pairs.append(("threads", str(before.threads or ""), str(now.threads or "")))
        pairs.append(("CPU capability", before.cpu, now.cpu))
    return tuple(
        f"{name} {then} -> {this}" for name, then, this in pairs if then and this and then != this
    )


def device_name(device: torch.device) -> str:
    """As its maker calls a GPU; rows are marked with it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def versions() -> dict[str, str]:
    """Of all that computes, and whether kernels do not."""
    return {**_installed(), **({} if are_kernels_on() else {"kernels": "off"})}


@cache
def _installed() -> dict[str, str]:
    found = {
        "recollect": recollect.__version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
    }
    for name in _LIBRARIES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
