"""The windows of the baselines and of the scored mixers, whose names are in bold."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from recollect.analysis import Curves
from recollect.plotting.settings import PRINT_DPI, to_bytes
from recollect.plotting.text import mixer_title, plain
from recollect.reports.pictures.look import Look
from recollect.reports.pictures.request import PictureRequest
from recollect.reports.pictures.shown import Source
from recollect.rows import RunRow
from recollect.store.durable import write_atomically


def draw_card(
    own: Sequence[RunRow], baselines: Sequence[RunRow], curves: Curves, names: Sequence[str]
) -> Figure:
    """Draw one panel per cell in the order of the card, the headline first.

    `names` are the names of the scored mixers. At least one row must have a result.
    """
    source = Source("card", [*own, *baselines], curves)
    drawn = PictureRequest("windows", Look(by_rows=True)).draw(source)
    bold = {plain(mixer_title(name)) for name in names}
    for ax in drawn.axes:
        for label in ax.get_yticklabels():
            if label.get_text().partition(",")[0] in bold:
                label.set_fontweight("bold")
    return drawn


def write_card(path: Path, figure: Figure) -> None:
    write_atomically(path, to_bytes(figure, path.suffix[1:], PRINT_DPI))
