"""Which rows answer a figure's question.

What counts is decided by the question alone: task, depth, mixers, and whether the study's ablations
belong to it. Everything else a run was made with (its recipe, its sizes) is taken as it comes, so
that a reduced sweep is drawn by the same code as a full one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType

from recollect.analysis import group_cells, value
from recollect.errors import SpecError
from recollect.mixers.registry import MIXERS
from recollect.reports.paper.figures.places import (
    DEPTH,
    MIXER,
    NAMES,
    POSITIONS,
    Curves,
    Place,
    locate,
    pool,
)
from recollect.rows import RunRow

MQAR, COPYING = "mqar", "copying"
ANY_DEPTH = (1, 1000)
# The official Based is a stack of two kinds: one layer of it is its convolution alone, or else (as
# here) its attention alone.
ALIKE = {"based_hybrid": "based", "base_conv": "based"}
WITHOUT_POSITIONS = (
    "mamba",
    "hyena",
    "rwkv4",
    "h3",
)  # the models that the study gave positions as an experiment


@dataclass(frozen=True)
class Question:
    """What a figure asks of the rows."""

    name: str  # of the preset: fig1, table2
    title: str
    mixers: tuple[str, ...]  # in the order they are shown
    task: str = MQAR
    depths: tuple[int, int] = ANY_DEPTH  # least and most layers
    ablations: bool = False  # the study's ablations belong to it

    def fits(self, row: RunRow) -> bool:
        least, most = self.depths
        return (
            value(row, "task.name") == self.task
            and value(row, MIXER) in self.mixers
            and least <= value(row, DEPTH, 0) <= most
            and (self.ablations or not is_ablated(row))
        )

    def absent(self, places: Sequence[Place]) -> list[str]:
        """The study's models that no place shows."""
        found = {ALIKE.get(place.mixer, place.mixer) for place in places}
        return [
            NAMES.get(mixer, mixer)
            for mixer in self.mixers
            if mixer not in ALIKE and mixer not in found
        ]

    def models(self, places: Sequence[Place]) -> list[str]:
        """Every model's label in the order of the question, those that were not run included."""
        named = [(self.mixers.index(place.mixer), place.model) for place in places]
        named += [
            (index, NAMES[mixer])
            for index, mixer in enumerate(self.mixers)
            if NAMES.get(mixer) in self.absent(places)
        ]
        return list(dict.fromkeys(model for _, model in sorted(named)))

    @property
    def wanted(self) -> str:
        """What it asks for, in words."""
        least, most = self.depths
        layers = (
            "" if self.depths == ANY_DEPTH else f"{least} layer" if most == 1 else f"{least} layers"
        )
        if layers and most != least:
            layers = (
                f"more than {least - 1} layers"
                if most == ANY_DEPTH[1]
                else f"{least} to {most} layers"
            )
        return ", ".join(
            filter(
                None,
                [self.task, layers, " or ".join(self.mixers), "ablated" if self.ablations else ""],
            )
        )


def is_ablated(row: RunRow) -> bool:
    """Whether it is one of the study's ablations: a part put in or taken out, or positions where
    none belong.
    """
    return is_rewired(row) or (
        value(row, MIXER) in WITHOUT_POSITIONS and value(row, POSITIONS, "none") != "none"
    )


def is_rewired(row: RunRow) -> bool:
    """Whether a convolution or a gate was put in or taken out."""
    mixer = str(value(row, MIXER))
    gate = MIXERS[mixer].model_fields.get("gate") if mixer in MIXERS else None
    return (
        value(row, "model.mixer.conv", "none") != "none"
        or value(row, "model.mixer.kernel") == 0
        or (gate is not None and value(row, "model.mixer.gate", gate.default) != gate.default)
    )


def ask(
    question: Question, rows: Sequence[RunRow], curves: Curves = MappingProxyType({})
) -> list[Place]:
    """The cells that answer, in the order of task, depth, width and mixer; SpecError if none of
    them has a result.
    """
    fitting = [row for row in rows if question.fits(row)]
    require(question, fitting, len(rows))
    places = locate(group_cells(pool(fitting, curves)))
    order = {mixer: index for index, mixer in enumerate(question.mixers)}
    return sorted(
        places, key=lambda p: (p.size, p.recipe, p.depth, p.width, order[p.mixer], p.model)
    )


def require(question: Question, fitting: Sequence[RunRow], among: int) -> None:
    """Refuse to draw nothing, and say what would have to be trained."""
    if any(row.score is not None and row.status in ("done", "diverged") for row in fitting):
        return
    found = (
        f"{len(fitting)} runs fit but none has a result yet"
        if fitting
        else f"none of {among} runs fits"
    )
    raise SpecError(
        f"{question.name}: {found} (wanted: {question.wanted});\n"
        f"run `recollect run paper:{question.name} --out DIR`, or "
        f"paper:{question.name}:small for a reduced scale"
    )
