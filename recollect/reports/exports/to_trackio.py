"""Runs for Trackio, in its local database of a project.

A run is one transaction: it is there as a whole or not at all.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.exports.replay import Exported, Replay, Tell, one_by_one
from recollect.store.durable import make_folder

HOME = "TRACKIO_DIR"  # the environment variable that says where Trackio keeps its projects


def export_runs(runs: Sequence[Replay], project: str, folder: Path | None, tell: Tell) -> Exported:
    """One run of the project each; the run's id is Trackio's too."""
    home = _load(folder)
    from trackio import Api
    from trackio.sqlite_storage import SQLiteStorage

    there = SQLiteStorage.get_project_db_path(project).exists()
    known = {run.id for run in Api().runs(project)} if there else set()
    missing = [run for run in runs if run.run_id not in known]
    with _held_open(SQLiteStorage.init_db(project)):
        for run in one_by_one(missing, tell):
            lines = [(moment.step, moment.metrics) for moment in run.moments]
            if lines and lines[-1][0] == run.last_step:
                lines[-1] = (run.last_step, lines[-1][1] | run.results)
            else:
                lines.append((run.last_step, run.results))
            SQLiteStorage.bulk_log(
                project,
                run.name,
                [metrics for _, metrics in lines],
                steps=[step for step, _ in lines],
                config=run.config | {"_Group": run.group},
                log_ids=[f"{run.run_id}-{step}" for step, _ in lines],
                run_id=run.run_id,
            )
    advice = f"trackio show --project {project}"
    if folder is not None:
        advice = f"{HOME}={home} {advice}"
    return Exported(len(missing), len(runs) - len(missing), str(home), advice)


@contextlib.contextmanager
def _held_open(file: Path) -> Iterator[None]:
    """Trackio opens and closes its database for each run, and whoever closes it last has SQLite
    move its write-ahead log into the file, which waits for the disk: let that happen once.
    """
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


def _load(folder: Path | None) -> Path:
    """Where its projects are. Trackio reads the variable once, when it is imported."""
    if folder is not None:
        make_folder(folder)
        os.environ[HOME] = str(folder.resolve())
    from trackio.utils import TRACKIO_DIR

    home = Path(TRACKIO_DIR)
    if folder is not None and home != folder.resolve():
        raise SpecError(
            f"{folder}: Trackio is loaded with {home} already; set {HOME} before it is imported"
        )
    return home
