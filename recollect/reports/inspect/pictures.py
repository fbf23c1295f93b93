"""The pictures of an inspection as files next to its record, with titles and captions."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

from recollect.errors import command_text
from recollect.plotting.settings import SCREEN, SCREEN_DPI, screen_style, to_bytes
from recollect.reports.inspect.figures import (
    MOST_LINES,
    MOST_MAPS,
    maps_figure,
    memory_figure,
    questions_figure,
    scores_figure,
)
from recollect.reports.inspect.record import FOLDER, Inspection, InspectionPicture
from recollect.store.durable import write_atomically

FEW_STEPS = 4
FIGURES: dict[str, Callable[[Inspection], Figure | None]] = {
    "maps": maps_figure,
    "scores": scores_figure,
    "questions": questions_figure,
    "memory": memory_figure,
}
TITLES = {
    "maps": "Attention maps",
    "scores": "Scores over training",
    "questions": "Where questions look",
    "memory": "How far back it looks",
}


def draw_pictures(found: Inspection, folder: Path) -> Inspection:
    """Draw the pictures that the data allow into DIR/inspect/RUN_ID.

    Returns the inspection with its list of pictures and its command filled in.
    """
    pictures = []
    for name, draw in FIGURES.items():
        with screen_style():
            figure = draw(found)
        if figure is not None:
            file = f"{FOLDER}/{found.run_id}/{name}.png"
            write_atomically(folder / file, to_bytes(figure, "png", SCREEN_DPI, SCREEN))
            pictures.append(InspectionPicture(file, TITLES[name], _caption(name, found)))
    untrained = ["--untrained"] if found.weights == "as initialised" else []
    command = command_text("inspect", folder, found.run_id, *untrained)
    return replace(found, pictures=pictures, command=command)


def _caption(name: str, found: Inspection) -> str:
    layers = [layer for layer in found.layers if layer is not None]
    without = any(layer.exclude_current_token for layer in layers)
    own = " A position's own share is left out." if without else ""
    maps = sum(layer.heads for layer in layers)
    shown = min(maps, MOST_MAPS if name == "maps" else MOST_LINES)
    fewer = f" {shown} of {maps} maps are shown, those with the highest scores."
    fewer = fewer if shown < maps else ""
    more_steps = (
        " The weights of few steps were kept: "
        f"`recollect inspect DIR {found.run_id} --again` has more."
    )
    more_steps = more_steps if len(found.steps) < FEW_STEPS else ""
    text = {
        "maps": (
            "What each position of a test row takes from each earlier one "
            f"(|Φ| of eq. 1, as shares of its line).{own} "
            f"Frames: a question's value and, if dotted, its key.{fewer}"
        ),
        "scores": (
            f"Shares averaged over {found.rows} test rows. "
            "Dotted: a map that takes equally from everywhere. "
            f"Shaded: sudden changes of the loss.{own}{fewer}{more_steps}"
        ),
        "questions": (
            "The share that questions take from positions around their key: "
            f"at the key duplicate_token_head, at the value induction_head.{own}{fewer}"
        ),
        "memory": (
            "Left, the mean size of the effective attention at each distance; right, the norm of "
            "the gradient of a question's loss with respect to the embedded token at each "
            f"distance.{fewer}"
        ),
    }
    return text[name]
