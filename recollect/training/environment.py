"""The environment that determines the bits of a result in addition to the specification.

It consists of versions, device, threads, and the instruction set of the processor. A run that is
trained in one environment from its first step to its last can be reproduced. A run that continues
in another environment has drifted (`differences`).
"""

import hashlib
import importlib.metadata
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Self

import torch

import recollect
from recollect.ops.dispatch import are_kernels_on

_LIBRARIES = ("numpy", "numba", "triton")  # libraries besides torch that compute
_UNSAID = {"kernels": "on"}  # values of versions that are not listed


@dataclass(frozen=True)
class Environment:
    """An environment. Empty texts, empty versions and threads = None mean unknown."""

    versions: dict[str, str]
    device: str  # "cpu", or the name of the GPU
    threads: int | None
    cpu: str  # instruction set that torch uses: AVX2, AVX512, ...

    NAMES: ClassVar[tuple[str, ...]] = ("versions", "device", "threads", "cpu")

    @classmethod
    def here(cls, device: torch.device | None = None, threads: int | None = None) -> Self:
        """The environment of this process on a device, with `threads` or torch's current number."""
        return cls(
            versions(),
            device_name(device or torch.device("cpu")),
            threads or torch.get_num_threads(),
            torch.backends.cpu.get_cpu_capability(),
        )

    @classmethod
    def parse(cls, found: Mapping[str, Any]) -> Self:
        """Parse stored values. Missing values are unknown; invalid ones raise ValueError."""
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
    """Describe each difference between two environments in one text.

    Values that are unknown in either are not compared. Threads and CPU capability are compared only
    for a CPU, since on a GPU the processor computes nothing.
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
    """Name of the GPU given by its vendor, or the type of another device; rows record it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def versions() -> dict[str, str]:
    """Versions of everything that computes, and "kernels": "off" if kernels are disabled."""
    return {**_installed(), **({} if are_kernels_on() else {"kernels": "off"})}


@cache
def code_digest(package: Path = Path(recollect.__file__).parent) -> str:
    """Digest of the package; equal on two machines if and only if every source file is.

    Rows record it beside the versions: it names the commit they were trained with. It is no part of
    an environment, since most changes of the code change no number.
    """
    digest = hashlib.sha256()
    for path in sorted(package.rglob("*.py")):
        digest.update(f"{path.relative_to(package).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()[:16]


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
