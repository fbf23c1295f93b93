"""Runs for MLflow, in the tracking store of the environment or in a SQLite file.

MLflow chooses its own ids, so a run is identified by its tag RUN_ID, and by its name. A run is
complete once it has ended. A run that an interrupted export left unfinished is deleted and written
again.
"""

import itertools
import logging
import os
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from recollect.errors import RecollectError, SpecError
from recollect.reports.exports.replay import Exported, Replay, Tell, one_by_one
from recollect.store.durable import make_folder

RUN_ID = "recollect.run_id"
MOST_METRICS, MOST_PARAMS = 1000, 100  # MLflow's limits for one batch
MOST_FOUND = 1000  # runs per page of a search


def export_runs(runs: Sequence[Replay], project: str, folder: Path | None, tell: Tell) -> Exported:
    """Write each run as a run of the experiment `project`."""
    os.environ.setdefault("MLFLOW_DISABLE_TELEMETRY", "true")  # do not report the use of MLflow
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    for talkative in ("mlflow", "alembic"):  # after the import, which sets a level itself
        logging.getLogger(talkative).setLevel(logging.WARNING)
    client = MlflowClient(tracking_uri=_sqlite_file(folder) if folder is not None else None)
    try:
        experiment = _experiment(client, project, folder)
        known = set()
        for found in _found(client, experiment):
            if found.info.status == "FINISHED":
                known.add(found.data.tags[RUN_ID])
            else:
                client.delete_run(found.info.run_id)
        missing = [run for run in runs if run.run_id not in known]
        for run in one_by_one(missing, tell):
            _write_run(client, experiment, run)
    except MlflowException as error:
        text = str(error).partition("\n")[0]
        raise RecollectError(f"{client.tracking_uri}: MLflow refused: {text}") from None
    advice = f"mlflow ui --backend-store-uri {client.tracking_uri}"
    return Exported(len(missing), len(runs) - len(missing), str(client.tracking_uri), advice)


def _sqlite_file(folder: Path) -> str:
    """The URI of a tracking store in this folder."""
    place = folder.resolve()
    if set(str(place)) & set("?#%"):
        raise SpecError(
            f"{folder}: MLflow reads ?, # and % in a path as signs; choose another name"
        )
    make_folder(folder)
    return f"sqlite:///{place}/mlflow.db"


def _experiment(client: Any, name: str, folder: Path | None) -> str:
    """The id of the experiment, which is created if it does not exist."""
    found = client.get_experiment_by_name(name)
    if found is not None:
        return str(found.experiment_id)
    artifacts = (folder.resolve() / "artifacts").as_uri() if folder is not None else None
    return str(client.create_experiment(name, artifact_location=artifacts))


def _found(client: Any, experiment: str) -> Iterator[Any]:
    """Yield the runs of earlier exports."""
    token = None
    while True:
        page = client.search_runs(
            [experiment], f"tags.`{RUN_ID}` != ''", max_results=MOST_FOUND, page_token=token
        )
        yield from page
        token = page.token
        if not token:
            return


def _write_run(client: Any, experiment: str, run: Replay) -> None:
    from mlflow.entities import Metric, Param

    start_ms = round(time.time() * 1000)
    tags = {RUN_ID: run.run_id, "recollect.group": run.group}
    made = client.create_run(experiment, start_ms, tags, f"{run.name} {run.run_id}").info.run_id
    metrics = [
        Metric(name, value, start_ms + round(1000 * moment.elapsed_s), moment.step)
        for moment in run.moments
        for name, value in moment.metrics.items()
    ]
    end_ms = start_ms + round(1000 * run.wall_s)
    metrics += [Metric(name, value, end_ms, run.last_step) for name, value in run.results.items()]
    for part in _parts(metrics, MOST_METRICS):
        client.log_batch(made, metrics=part)
    for part in _parts([Param(key, str(value)) for key, value in run.config.items()], MOST_PARAMS):
        client.log_batch(made, params=part)
    client.set_terminated(made, "FINISHED", end_ms)


def _parts(entries: Iterable[Any], most: int) -> Iterator[list[Any]]:
    pending = iter(entries)
    while part := list(itertools.islice(pending, most)):
        yield part
