"""What a worker tells whoever listens: plain data, for a view, a log or a test."""

from dataclasses import dataclass

from recollect.rows import Evaluation
from recollect.spec.run import RunSpec


@dataclass(frozen=True)
class PackStarted:
    """Packs may train side by side: `pack` tells them apart."""

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
class Seen:
    """Evaluations came in, by run."""

    evaluations: dict[str, Evaluation]


@dataclass(frozen=True)
class RunEnded:
    run: RunSpec
    status: str
    last: Evaluation | None
    steps: int
    detail: str = ""


@dataclass(frozen=True)
class Remark:
    """Something worth a line: a split after out of memory, a damaged checkpoint."""

    text: str


Notice = PackStarted | Advanced | GivenUp | Seen | RunEnded | Remark
