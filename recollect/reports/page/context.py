"""Content of a page in addition to rows and curves: specifications, claims, pictures, commands."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from recollect.rows import RunRow

if TYPE_CHECKING:
    from recollect.reports.paper.claims.coverage import Outcome


@dataclass(frozen=True)
class ShownClaim:
    """The verdict on one claim of the study by the rows of one recipe."""

    name: str
    text: str
    outcome: "Outcome"
    verdict: str  # the outcome in words: "holds in 2 of 4 cells"
    numbers: str
    figure: str
    remark: str
    reduced: str = ""  # the result on rows of a smaller scale than the study's
    recipe: str = ""
    firm: str = ""  # how much it depends on seeds and on tau
    to_train: str = ""  # the cells that would decide it


@dataclass(frozen=True)
class Source:
    """A specification that was run: a title with its name and date of planning, and its TOML."""

    title: str
    text: str


@dataclass(frozen=True)
class EmbeddedPicture:
    """A picture of the inside of a model, as a data: URL."""

    title: str
    caption: str
    source: str


@dataclass(frozen=True)
class InspectedRun:
    """The pictures that `recollect inspect` drew of one run."""

    run_id: str
    name: str
    command: str
    pictures: tuple[EmbeddedPicture, ...]


@dataclass(frozen=True)
class Context:
    """All content in addition to rows and curves. Each part may be missing."""

    sources: Sequence[Source] = ()
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()  # (topic, text) that is not in the rows: folders, dates
    insides: Sequence[InspectedRun] = ()
    claims: Sequence[ShownClaim] = ()
    verdicts: Sequence[str] = ()  # from `recollect score`, one sentence per mixer
    # The baselines of a card, and their origin in words. They are drawn and compared together with
    # the rows, but are not counted among them.
    beside: Sequence[RunRow] = ()
    beside_text: str = ""
    # By section: the commands that write its pictures or numbers to files.
    commands: dict[str, list[str]] = field(default_factory=dict)
