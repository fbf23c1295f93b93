"""Events that training reports to its listener: plain data for a view, a log or a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec


@dataclass(frozen=True)
class SweepPlanned:
    """A sweep is stored in its folder; `known` of its runs were there before."""

    name: str
    runs: int
    new: int
    known: int


@dataclass(frozen=True)
class FailedReopened:
    """This number of failed runs will be tried again."""

    runs: int


@dataclass(frozen=True)
class OthersFollow:
    """Runs that were planned in the folder before, and are trained after the given sweeps."""

    runs: int
    is_searched: bool  # a search will choose some of them


@dataclass(frozen=True)
class TrainingStarted:
    """The folder's rows before the first step, and the number of processes that will train it.

    `step_s`: seconds of a run-step by shape, for shapes timed to estimate the time left.
    `likely`: how many todo runs should be trained of a cell that is searched, by cell id; 0 only if
    no search needs any of them.
    """

    rows: tuple[RunRow, ...]
    processes: int
    step_s: Mapping[str, float] = field(default_factory=dict)
    likely: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchRound:
    """The search of a sweep begins its next round; `text` describes its progress, and `likely` is
    as in TrainingStarted, for the sweep's cells.
    """

    sweep: str
    text: str
    likely: Mapping[str, int] = field(default_factory=dict)


# ---- from the process that trains ----


@dataclass(frozen=True)
class PackStarted:
    """A pack begins to train. `pack` is its number, since packs may train side by side."""

    runs: tuple[RunSpec, ...]
    from_step: int
    pack: int = 0


@dataclass(frozen=True)
class Advanced:
    """`members` runs of a pack have made one step."""

    members: int
    pack: int = 0


@dataclass(frozen=True)
class GivenUp:
    """A pack did not fit into memory: its runs start again."""

    pack: int = 0


@dataclass(frozen=True)
class RunsEvaluated:
    """New evaluations, by run id."""

    evaluations: dict[str, Evaluation]


@dataclass(frozen=True)
class Remark:
    """A message worth one line, such as a split after out of memory or a damaged checkpoint."""

    text: str


# ---- from another process, as read from the store ----


@dataclass(frozen=True)
class RunProgress:
    """Progress of a run: steps left and last score; after its end also steps made and seconds."""

    run: RunSpec
    left: int
    score: float | None = None
    made: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class DeviceProgress:
    """The work that the processes of one device have done since they started."""

    device: str
    run_steps: int
    ended: int  # runs
    shapes: int  # shapes begun, counted once per process that began them


# ---- from either ----


@dataclass(frozen=True)
class RunEnded:
    run: RunSpec
    status: str
    last: Evaluation | None
    steps: int
    detail: str = ""


Event = (
    SweepPlanned
    | OthersFollow
    | FailedReopened
    | TrainingStarted
    | SearchRound
    | PackStarted
    | Advanced
    | GivenUp
    | RunsEvaluated
    | Remark
    | RunProgress
    | DeviceProgress
    | RunEnded
)


def ignore(event: Event) -> None:
    """The listener that does nothing."""
