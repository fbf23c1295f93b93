"""Errors of training that are no bugs: memory that ran out, a GPU that is lost."""

from pathlib import Path

import torch

from recollect.errors import ResourceError


def is_out_of_memory(error: BaseException) -> bool:
    """torch says it in several ways: on a CPU as a RuntimeError with one of these texts."""
    texts = ("can't allocate memory", "out of memory", "not enough memory")
    return isinstance(error, MemoryError | torch.OutOfMemoryError) or any(
        text in str(error).lower() for text in texts
    )


def is_device_lost(error: BaseException) -> bool:
    """An error that stays: an illegal access, a failed assertion on the device,
    a device that fell off the bus.
    """
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def refuse_if_lost(error: BaseException, folder: Path) -> None:
    """After a kernel that crashed, a GPU refuses everything this process asks:
    other runs must not fail for that.
    """
    if is_device_lost(error):
        raise ResourceError(
            f"the GPU is lost to this process: {str(error).splitlines()[0]}\n"
            "the runs that are still to do are untouched; go on with "
            f"`recollect resume {folder}`"
        )


def describe(error: BaseException) -> str:
    """As a failed run says it: the kind of error and the first line of its text."""
    lines = str(error).splitlines()
    return f"error: {type(error).__name__}: {lines[0] if lines else ''}"
