"""Runs as event files for TensorBoard, one folder per run.

Files are written record by record, without TensorFlow or torch. Their content does not depend on
the time of writing: TensorBoard's wall time is the run's own time, from zero.
"""

import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from recollect.reports.exports.replay import Exported, Replay, Scalar, Tell, one_by_one
from recollect.store.durable import make_folder, write_atomically

FOLDER = "runs"
VERSION = "brain.Event:2"  # the version of the format, with which a file must begin
_OUTSIDE_PATHS = re.compile(r"[^\w\-.=@ ]", re.ASCII)
LARGEST_WHOLE = 2**53  # the largest integer that a hyperparameter, a double, holds exactly


def export_runs(runs: Sequence[Replay], project: str, folder: Path | None, tell: Tell) -> Exported:
    """Write one folder per run below the project's folder, with the run's id in its name."""
    place = (folder or Path(FOLDER)) / project
    missing = [run for run in runs if not _file(place, run).exists()]
    for run in one_by_one(missing, tell):
        path = _file(place, run)
        make_folder(path.parent)
        write_atomically(path, event_file(run))
    advice = f"tensorboard --logdir {place.parent}"
    return Exported(len(missing), len(runs) - len(missing), str(place), advice)


def _file(place: Path, run: Replay) -> Path:
    own = _OUTSIDE_PATHS.sub("_", run.name)
    return place / f"{own} {run.run_id}" / f"events.out.tfevents.{run.run_id}"


def event_file(run: Replay) -> bytes:
    """The content of a run's event file."""
    from tensorboard.summary.writer.record_writer import RecordWriter

    content = io.BytesIO()
    writer = RecordWriter(content)
    for event in _events(run):
        writer.write(event.SerializeToString())
    return content.getvalue()


def _events(run: Replay) -> Iterator[Any]:
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.plugins.hparams.summary_v2 import hparams_pb

    def scalars(metrics: dict[str, float]) -> Any:
        return Summary(
            value=[Summary.Value(tag=tag, simple_value=value) for tag, value in metrics.items()]
        )

    config = {key: _hyperparameter(value) for key, value in run.config.items()}
    yield Event(wall_time=0, file_version=VERSION)
    yield Event(wall_time=0, summary=hparams_pb(config, run.run_id, start_time_secs=0))
    for moment in run.moments:
        yield Event(wall_time=moment.elapsed_s, step=moment.step, summary=scalars(moment.metrics))
    yield Event(wall_time=run.wall_s, step=run.last_step, summary=scalars(run.results))


def _hyperparameter(value: Scalar) -> Scalar:
    too_large = type(value) is int and abs(value) > LARGEST_WHOLE
    return str(value) if too_large else value
