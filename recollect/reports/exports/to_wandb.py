"""Runs for Weights & Biases, written in its offline mode: nothing is sent.

A run is written to a temporary folder and then moved into place, so that every run in place is
complete. `wandb sync` sends the runs and marks those it has sent.
"""

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from recollect.reports.exports.replay import Exported, Replay, Tell, one_by_one
from recollect.store.durable import make_folder

FOLDER = "wandb"  # below the folder that the user names, by wandb's convention


def export_runs(runs: Sequence[Replay], project: str, folder: Path | None, tell: Tell) -> Exported:
    """Write one offline run for each run, under the run's id."""
    import wandb

    place = (folder or Path()) / FOLDER
    make_folder(place)
    missing = [run for run in runs if not any(place.glob(f"*run-*-{run.run_id}"))]
    try:
        for run in one_by_one(missing, tell):
            with tempfile.TemporaryDirectory(prefix=".", dir=place) as spare:
                _write_run(wandb, run, project, Path(spare))
    finally:
        wandb.teardown()  # stops wandb's service, which is a separate process
    advice = f"wandb sync {place}/offline-run-*"
    return Exported(len(missing), len(runs) - len(missing), str(place), advice)


def _write_run(wandb: Any, run: Replay, project: str, spare: Path) -> None:
    """Write the folder of a run next to `spare`, under the name that wandb gives it."""
    # Export only stored data: nothing about this machine, this process or the current code.
    settings = wandb.Settings(
        console="off",
        disable_code=True,
        disable_git=True,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
        x_save_requirements=False,
    )
    started = wandb.init(
        project=project,
        id=run.run_id,
        name=run.name,
        group=run.group,
        config=dict(run.config),
        dir=spare,
        mode="offline",
        reinit="create_new",
        settings=settings,
    )
    for moment in run.moments:
        started.log(dict(moment.metrics), step=moment.step)
    started.summary.update(run.results)
    started.finish(exit_code=0)
    (written,) = (spare / FOLDER).glob(f"offline-run-*-{run.run_id}")
    for logs_of_wandb in ("logs", "tmp"):
        shutil.rmtree(written / logs_of_wandb, ignore_errors=True)
    written.rename(spare.parent / written.name)
