"""Draws the README's picture, docs/headline.png, from stored rows: python docs/figures.py.

Models that a reader has heard of, at one task of the study's size, all of the same width.
"""

from pathlib import Path

from recollect.plotting.settings import SCREEN_DPI, to_bytes
from recollect.plotting.sheet import Frame
from recollect.reports.pictures import PictureRequest, Source, choose_for_picture

HERE = Path(__file__).parent
ROWS = HERE.parent / "results" / "h200" / "study-mqar64"
WHERE = (
    'model.mixer.name=["attention", "mamba", "hyena", "delta_net"]',
    *("recipe=study", "task.length=64", "model.width=64", "model.depth=2"),
)


def headline(source):
    """Score against learning rate; the README says the rest."""
    frame = Frame(6.4, 3.9, title=False, caption=False)
    shown = choose_for_picture("rates", source, WHERE).source
    return PictureRequest("rates", frame=frame).draw(shown)


if __name__ == "__main__":
    data = to_bytes(headline(Source.load([ROWS])), "png", SCREEN_DPI)
    (HERE / "headline.png").write_bytes(data)
