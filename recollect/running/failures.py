"""Training errors: those that are not bugs (out of memory, a lost GPU), and the failures recorded
in a store.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from recollect.errors import DeviceLostError, lacks_memory
from recollect.mixers.plugins.remembered import resume_command
from recollect.rows import RunRow
from recollect.store import Store
from recollect.store.records import Note

# Prefix of a stored error text; the ids of the runs that the error ended follow it.
RUNS_HEADER = "runs "


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory ran out, which torch reports with several kinds of error."""
    return isinstance(error, torch.OutOfMemoryError) or lacks_memory(error)


def is_device_lost(error: BaseException) -> bool:
    """Whether the device is unusable for the rest of the process: after an illegal access, a failed
    assertion on the device, or a device that fell off the bus.
    """
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def refuse_if_lost(error: BaseException, store: Store) -> None:
    """Raise DeviceLostError if the error means that the GPU is lost.

    After a crashed kernel the GPU refuses all further work of this process. Other runs must not
    fail because of that.
    """
    if is_device_lost(error):
        raise DeviceLostError(
            f"the GPU is lost to this process: {str(error).splitlines()[0]}\n"
            "the runs that are still to do are untouched; continue with "
            f"`{resume_command(store)}`"
        )


def describe(error: BaseException) -> str:
    """The failure text of a run: the kind of error and the first line of its message."""
    if _is_too_large(error):
        needed = str(error).split(". ")[0]  # before advice on tiles, for authors of kernels
        return (
            f"error: a kernel does not fit on this GPU ({needed}); set RECOLLECT_KERNELS=off to "
            "train without kernels"
        )
    lines = str(error).splitlines()
    return f"error: {type(error).__name__}: {lines[0] if lines else ''}"


def _is_too_large(error: BaseException) -> bool:
    """Whether Triton refused to load a kernel. Judged by name: Triton may be missing."""
    return type(error).__name__ == "OutOfResources"


@dataclass(frozen=True)
class Failure:
    """The runs that failed with one reason."""

    reason: str
    rows: tuple[RunRow, ...]
    traceback: str  # empty if none was stored, as for out of memory


def stored_failures(rows: Iterable[RunRow], notes: Sequence[Note]) -> list[Failure]:
    """Return one entry per failure reason, with the last traceback stored for it."""
    by_reason: dict[str, list[RunRow]] = {}
    for row in rows:
        if row.status == "failed":
            by_reason.setdefault(row.failure or "", []).append(row)
    return [
        Failure(reason, tuple(failed), _traceback(reason, {row.run_id for row in failed}, notes))
        for reason, failed in by_reason.items()
    ]


def _traceback(reason: str, run_ids: set[str], notes: Sequence[Note]) -> str:
    for note in reversed(notes):
        head, _, text = note.text.partition("\n")
        if note.kind != "error":
            continue
        if head.startswith(RUNS_HEADER):
            if run_ids & set(head.removeprefix(RUNS_HEADER).split()):
                return text
        elif reason.removeprefix("error: ") in note.text:  # notes of older versions name no runs
            return note.text
    return ""
