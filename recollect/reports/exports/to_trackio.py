"""Runs for Trackio, in its local database of a project.

A run is written in one transaction, so it is never incomplete.
"""

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from recollect.errors import SpecError
from recollect.reports.exports.replay import Exported, Replay, Tell, one_by_one
from recollect.store.durable import make_folder

HOME = "TRACKIO_DIR"  # the environment variable with the folder of Trackio's projects


def export_runs(runs: Sequence[Replay], project: str, folder: Path | None, tell: Tell) -> Exported:
    """Write each run as a run of the project, with the same id."""
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
    """Keep a connection to Trackio's database open.

    Trackio opens and closes the database for each run. When the last connection closes, SQLite
    moves the write-ahead log into the file and waits for the disk. With a connection held open,
    this happens only once.
    """
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        yield


def _load(folder: Path | None) -> Path:
    """Load Trackio and return the folder of its projects. Trackio reads the variable only once,
    when it is imported.
    """
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
