"""The submitted jobs: one file per job in the folder, written once. Also the options of the last
submission, so that the user need not repeat them.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from recollect.errors import StoreError
from recollect.store.durable import make_folder, write_atomically


@dataclass(frozen=True)
class SubmittedJob:
    """An array of tasks: task i trains pack `first + i`."""

    scheduler: str
    job_id: str
    first: int
    packs: tuple[int, ...]


def record_job(folder: Path, job: SubmittedJob) -> None:
    make_folder(folder / "jobs")
    name = "".join(letter if letter.isalnum() else "_" for letter in job.job_id)
    write_atomically(folder / "jobs" / f"{name}.json", json.dumps(asdict(job)).encode())


def recorded_jobs(folder: Path) -> list[SubmittedJob]:
    """The recorded jobs, in the order of their ids."""
    jobs = []
    for path in sorted((folder / "jobs").glob("*.json")):
        try:
            table = json.loads(path.read_bytes())
            jobs.append(SubmittedJob(**{**table, "packs": tuple(table["packs"])}))
        except (ValueError, TypeError, KeyError) as error:
            raise StoreError(
                f"{path}: no record of a job ({error!r}); remove it if it was not written by "
                "`recollect submit`"
            ) from None
    return jobs


REQUEST_FILE = "request.json"


@dataclass(frozen=True)
class Request:
    """The scheduler and options of a submission, as given on the command line."""

    scheduler: str
    options: dict[str, Any]


def remember_request(folder: Path, request: Request) -> None:
    """Store a request for the next submission."""
    write_atomically(folder / REQUEST_FILE, json.dumps(asdict(request), indent=1).encode())


def read_request(folder: Path) -> Request | None:
    """The request of the last submission, or None."""
    path = folder / REQUEST_FILE
    try:
        table = json.loads(path.read_bytes())
        return Request(str(table["scheduler"]), dict(table["options"]))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, TypeError, KeyError) as error:
        raise StoreError(
            f"{path}: not as `recollect submit` writes it ({error!r}); remove it, and give the "
            "options again"
        ) from None


def ranges(numbers: Sequence[int]) -> str:
    """Format numbers as a scheduler does: 0-3,7,9-10."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][-1] + 1:
            parts[-1][1:] = [number]
        else:
            parts.append([number])
    return ",".join("-".join(map(str, part)) for part in parts)
