"""How a model is drawn: the same colour, marker and dashes in every figure, each of which alone
tells models apart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from recollect.reports.page.style import MARKERS, PALETTE
from recollect.reports.paper.figures.places import Place

STROKES: tuple[Any, ...] = (
    "-",
    (0, (5, 1.5)),
    (0, (6, 1.5, 1, 1.5)),
    (0, (1, 1)),
    (0, (3, 1, 1, 1, 1, 1)),
    (0, (9, 2)),
    (0, (3, 1)),
)
# The same mixer looks the same in every figure; no figure has two of one number.
OWN = {
    "attention": 0,
    "mamba": 1,
    "hyena": 2,
    "based": 3,
    "based_hybrid": 6,
    "base_conv": 6,
    "h3": 4,
    "rwkv4": 5,
    "mamba2": 4,
    "delta_net": 6,
}


@dataclass(frozen=True)
class Look:
    """How one label is drawn."""

    colour: str
    marker: str
    stroke: Any


def looks(places: Sequence[Place]) -> dict[str, Look]:
    """The look of every model, in the order they are listed: a mixer's own for its first variant,
    free ones for the others.
    """
    models = {place.model: place.mixer for place in places}
    chosen: dict[str, int] = {}
    for model, mixer in models.items():
        own = OWN.get(mixer)
        if own is not None and own not in chosen.values():
            chosen[model] = own
    free = [index for index in range(len(PALETTE)) if index not in chosen.values()]
    for number, model in enumerate(model for model in models if model not in chosen):
        chosen[model] = free[number] if number < len(free) else len(PALETTE) + number - len(free)
    return {model: _look(chosen[model]) for model in models}


def _look(index: int) -> Look:
    turn, place = divmod(index, len(PALETTE))
    return Look(
        PALETTE[place],
        MARKERS[(place + turn) % len(MARKERS)],
        STROKES[(place + 2 * turn) % len(STROKES)],
    )
