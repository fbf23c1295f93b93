"""A stored run in the form that trackers use: an id, a name, a configuration, and metrics by step.

All of it depends only on the run itself, not on other runs in the same export. A later export of
more runs therefore finds the earlier ones under the same names.
"""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from recollect.analysis.curves import Curves
from recollect.analysis.export import results_of
from recollect.analysis.settings import flatten
from recollect.plotting.text import one_line
from recollect.rows import Evaluation, RunRow
from recollect.spec.cell import cell_id, run_name

Scalar = bool | int | float | str
Tell = Callable[[int, int], None]  # (runs written, runs in total)

# Characters that some tracker refuses in a name; MLflow allows the fewest.
_OUTSIDE_NAMES = re.compile(r"[^\w\-. /]", re.ASCII)


@dataclass(frozen=True)
class Moment:
    """The metrics of one evaluation."""

    step: int
    elapsed_s: float  # training time of this run up to this step
    metrics: dict[str, float]


@dataclass(frozen=True)
class Replay:
    """One run, ready to be written to a tracker."""

    run_id: str
    name: str  # for people: mixer, rate and seed
    group: str  # the same for all runs of a cell
    config: dict[str, Scalar]  # settings by dotted key; non-numeric results as "result.*"
    moments: tuple[Moment, ...]
    results: dict[str, float]  # numeric results as "result/*", at the last step
    last_step: int
    wall_s: float


@dataclass(frozen=True)
class Exported:
    """The outcome of an export to a tracker."""

    new: int
    known: int  # runs that the tracker already had and that were left unchanged
    place: str
    advice: str  # the command that shows them


def replays(rows: Iterable[RunRow], curves: Curves) -> list[Replay]:
    """The runs with a result, which can no longer change."""
    return [_replay(row, curves.get(row.run_id, ())) for row in rows if row.has_result]


def one_by_one(runs: Sequence[Replay], tell: Tell) -> Iterator[Replay]:
    """Yield the runs to write, and call `tell` after each: a tracker may take minutes."""
    for number, run in enumerate(runs, 1):
        yield run
        tell(number, len(runs))


def plain_name(text: str) -> str:
    """Replace every character that some tracker refuses in a name."""
    return _OUTSIDE_NAMES.sub("_", text)


def as_utf8(text: str) -> str:
    """Escape lone surrogates, which are not valid UTF-8 and which a hostile name may hold."""
    return text.encode("utf-8", "backslashreplace").decode()


def _replay(row: RunRow, curve: Sequence[Evaluation]) -> Replay:
    last_step = max([row.steps or 0, *(point.step for point in curve)])
    wall_s = row.wall_s or 0.0
    results = {name: value for name, value in results_of(row).items() if value is not None}
    numbers = {name: value for name, value in results.items() if _is_number(value)}
    texts = flatten({name: value for name, value in results.items() if name not in numbers})
    settings = flatten(row.spec) | {f"result.{key}": value for key, value in texts.items()}
    return Replay(
        row.run_id,
        one_line(run_name(row.spec)),
        plain_name(f"{row.spec['model']['mixer']['name']} {cell_id(row.spec)}"),
        {plain_name(key): _scalar(value) for key, value in settings.items() if value is not None},
        tuple(
            Moment(point.step, wall_s * point.step / max(1, last_step), _metrics(point))
            for point in curve
        ),
        {f"result/{name}": float(value) for name, value in numbers.items()},
        last_step,
        wall_s,
    )


def _metrics(point: Evaluation) -> dict[str, float]:
    metrics = {
        "train/loss": point.train_loss,
        "test/loss": point.test_loss,
        "test/accuracy": point.accuracy,
        "test/exact": point.exact,
    }
    if point.train_score is not None:
        metrics["train/score"] = point.train_score
    for split, numbers in point.slices.items():
        for name, value in numbers.items():
            metrics[plain_name(f"test/{split}/{name.removeprefix('test_')}")] = value
    return metrics


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _scalar(value: object) -> Scalar:
    if isinstance(value, str):
        return as_utf8(value)
    return value if isinstance(value, bool | int | float) else json.dumps(value)
