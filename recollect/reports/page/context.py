"""What a page says besides rows and curves: specifications, claims, pictures, commands."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from recollect.rows import RunRow


@dataclass(frozen=True)
class ShownClaim:
    """What the rows of one recipe say about one claim of the study."""

    name: str
    text: str
    verdict: str  # "reproduced", "holds in 2 of 4 cells", "contradicted", "not enough data"
    numbers: str
    figure: str
    remark: str
    reduced: str = ""  # what rows of a smaller scale than the study's say about it
    recipe: str = ""
    firm: str = ""  # how far it depends on seeds and on tau
    to_train: str = ""  # what would decide it


@dataclass(frozen=True)
class Source:
    """A specification that was run: where it lies and when it was planned, and its TOML."""

    title: str
    text: str


@dataclass(frozen=True)
class EmbeddedPicture:
    """A picture of the inside of a model, as a data: address."""

    title: str
    caption: str
    source: str


@dataclass(frozen=True)
class InspectedRun:
    """What `recollect inspect` drew of one run."""

    run_id: str
    name: str
    command: str
    pictures: tuple[EmbeddedPicture, ...]


@dataclass(frozen=True)
class Context:
    """All that is known besides rows and curves; each part may be missing."""

    sources: Sequence[Source] = ()
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()  # (topic, text) beyond what the rows tell: folders, dates
    insides: Sequence[InspectedRun] = ()
    claims: Sequence[ShownClaim] = ()
    verdicts: Sequence[str] = ()  # of `recollect score`, a sentence a mixer
    # Drawn and compared beside the rows, but none of them: the baselines of a card, and in words
    # where they come from.
    beside: Sequence[RunRow] = ()
    beside_text: str = ""
    # By section: what makes its pictures as files.
    commands: dict[str, list[str]] = field(default_factory=dict)
