"""The trackers that runs can be replayed into, each an optional package."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.exports import to_mlflow, to_tensorboard, to_trackio, to_wandb
from recollect.reports.exports.optional import require_package
from recollect.reports.exports.replay import Exported, Replay, Tell
from recollect.spec.base import suggest
from recollect.store.database import FILE

# (runs, project, folder or None for the tracker's own, who hears of each) -> what became of them
ExportRuns = Callable[[Sequence[Replay], str, Path | None, Tell], Exported]


@dataclass(frozen=True)
class Tracker:
    """Its name is that of its package, and of the extra that installs it."""

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
    """Refuses a name that is none, and one whose package is not installed."""
    if name not in TRACKERS:
        raise SpecError(f"--to {name}: no such tracker; {suggest(name, TRACKERS)}")
    require_package(name, name, f"--to {name}")
    return TRACKERS[name]


def refuse_place(tracker: Tracker, folder: Path | None, project: str) -> None:
    """What a tracker writes must not lie among results, nor be taken for them."""
    if tracker.name == "trackio" and f"{project}.db" == FILE:
        raise SpecError(
            f"--project {project}: Trackio would call its file {FILE}, as results are called; "
            "choose another name"
        )
    if folder is not None and (folder / FILE).exists():
        raise SpecError(
            f"{folder}: is a folder of results; choose another for what {tracker.name} writes"
        )
