"""What a page says besides rows and curves: where they came from, what was made of them elsewhere,
and how to make it again.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Claim:
    """What was found about one claim of the study."""

    name: str
    text: str
    verdict: str  # "reproduced", "not reproduced", "not enough data"
    numbers: str
    figure: str
    remark: str
    reduced: str = ""  # what rows of a smaller scale than the study's say about it


@dataclass(frozen=True)
class Source:
    """A specification that was run: where it lies and when it was planned, and its TOML."""

    title: str
    text: str


@dataclass(frozen=True)
class Picture:
    """A picture of the inside of a model, as a data: address."""

    title: str
    caption: str
    source: str


@dataclass(frozen=True)
class Inside:
    """What `recollect inspect` drew of one run."""

    run_id: str
    name: str
    command: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Context:
    """All of it; each part may be missing."""

    sources: Sequence[Source] = ()
    notes: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()  # (topic, text) beyond what the rows tell: folders, dates
    insides: Sequence[Inside] = ()
    claims: Sequence[Claim] = ()
    commands: dict[str, list[str]] = field(
        default_factory=dict
    )  # by section: what makes its pictures as files
