"""The trackers to which runs can be exported. Each is an optional package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.exports import to_mlflow, to_tensorboard, to_trackio, to_wandb
from recollect.reports.exports.optional import require_package
from recollect.reports.exports.replay import Exported, Replay, Tell
from recollect.spec.base import suggest
from recollect.store.database import FILE

# (runs, project, folder or None for the tracker's default, progress callback) -> outcome
ExportRuns = Callable[[Sequence[Replay], str, Path | None, Tell], Exported]


@dataclass(frozen=True)
class Tracker:
    """A tracker. Its name is also the name of its package and of the extra that installs it."""

    name: str
    export_runs: ExportRuns


TRACKERS = {
    tracker.name: tracker
    for tracker in (
        Tracker("mlflow", to_mlflow.export_runs),
        Tracker("tensorboard", to_tensorboard.export_runs),
        Tracker("trackio", to_trackio.export_runs),
        Tracker("wandb", to_wandb.export_runs),
    )
}


def choose_tracker(name: str) -> Tracker:
    """The tracker of this name. Raises SpecError if it is unknown or its package is missing."""
    if name not in TRACKERS:
        raise SpecError(f"--to {name}: no such tracker; {suggest(name, TRACKERS)}")
    require_package(name, name, f"--to {name}")
    return TRACKERS[name]


def refuse_place(tracker: Tracker, folder: Path | None, project: str) -> None:
    """Raise SpecError if the files of a tracker would be in a folder of results, or could be
    mistaken for results.
    """
    if tracker.name == "trackio" and f"{project}.db" == FILE:
        raise SpecError(
            f"--project {project}: Trackio would call its file {FILE}, as results are called; "
            "choose another name"
        )
    if folder is not None and (folder / FILE).exists():
        raise SpecError(
            f"{folder}: is a folder of results; choose another for what {tracker.name} writes"
        )
