"""What training tells its listener: plain data, for a view, a log or a test."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recollect.rows import Evaluation, RunRow
from recollect.spec.run import RunSpec


@dataclass(frozen=True)
class SweepPlanned:
    """A sweep stands in its folder: `known` of its runs stood there before."""

    name: str
    runs: int
    new: int
    known: int


@dataclass(frozen=True)
class FailedReopened:
    """So many failed runs will be tried again."""

    runs: int


@dataclass(frozen=True)
class TrainingStarted:
    """The folder before the first step, and how many processes will train it; seconds of a run-step
    of the shapes that were timed for what is said of the time left.
    """

    rows: tuple[RunRow, ...]
    processes: int
    step_s: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class SearchRound:
    """A search of a sweep goes into its next round: how far it is, in words."""

    sweep: str
    text: str


# ---- of the process that trains ----


@dataclass(frozen=True)
class PackStarted:
    """Packs may train side by side: `pack` is the number of this one."""

    runs: tuple[RunSpec, ...]
    from_step: int
    pack: int = 0


@dataclass(frozen=True)
class Advanced:
    """`members` runs of a pack made one step."""

    members: int
    pack: int = 0


@dataclass(frozen=True)
class GivenUp:
    """A pack did not fit into memory: its runs start again."""

    pack: int = 0


@dataclass(frozen=True)
class RunsEvaluated:
    """Evaluations came in, by run."""

    evaluations: dict[str, Evaluation]


@dataclass(frozen=True)
class Remark:
    """Something worth a line: a split after out of memory, a damaged checkpoint."""

    text: str


# ---- of a process beside this one, as the store tells it ----


@dataclass(frozen=True)
class RunProgress:
    """Where a run stands: steps to go, its last score;
    once it has ended, the steps it made and the seconds they took.
    """

    run: RunSpec
    left: int
    score: float | None = None
    made: int = 0
    seconds: float = 0.0


@dataclass(frozen=True)
class DeviceProgress:
    """What the processes of a device have done since they were started."""

    device: str
    run_steps: int
    ended: int  # runs
    shapes: int  # begun, each by each of its processes


# ---- of either ----


@dataclass(frozen=True)
class RunEnded:
    run: RunSpec
    status: str
    last: Evaluation | None
    steps: int
    detail: str = ""


Event = (
    SweepPlanned
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
