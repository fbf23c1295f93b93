"""Errors of training: those that are no bugs (memory that ran out, a GPU that is lost), and what a
store has kept of the others.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch

from recollect.errors import DeviceLostError, lacks_memory
from recollect.mixers.plugins.remembered import resume_command
from recollect.rows import RunRow
from recollect.store import Store
from recollect.store.records import Note

# Begins the stored text of an error, before the ids of the runs that it ended.
RUNS_HEADER = "runs "


def is_out_of_memory(error: BaseException) -> bool:
    """torch says it in several ways."""
    return isinstance(error, torch.OutOfMemoryError) or lacks_memory(error)


def is_device_lost(error: BaseException) -> bool:
    """An error that stays: an illegal access, a failed assertion on the device,
    a device that fell off the bus.
    """
    return isinstance(error, torch.AcceleratorError) and not is_out_of_memory(error)


def refuse_if_lost(error: BaseException, store: Store) -> None:
    """After a kernel that crashed, a GPU refuses everything this process asks:
    other runs must not fail for that.
    """
    if is_device_lost(error):
        raise DeviceLostError(
            f"the GPU is lost to this process: {str(error).splitlines()[0]}\n"
            "the runs that are still to do are untouched; go on with "
            f"`{resume_command(store)}`"
        )


def describe(error: BaseException) -> str:
    """As a failed run says it: the kind of error and the first line of its text."""
    lines = str(error).splitlines()
    return f"error: {type(error).__name__}: {lines[0] if lines else ''}"


@dataclass(frozen=True)
class Failure:
    """Runs that failed for one reason."""

    reason: str
    rows: tuple[RunRow, ...]
    traceback: str  # empty where none was stored: memory that ran out has none


def stored_failures(rows: Iterable[RunRow], notes: Sequence[Note]) -> list[Failure]:
    """Why runs failed, each reason once, with the last traceback that was stored for it."""
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
        elif reason.removeprefix("error: ") in note.text:  # stored before notes named their runs
            return note.text
    return ""
