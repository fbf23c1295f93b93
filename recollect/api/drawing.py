"""Pictures as a notebook wants them: made through pyplot, which shows them."""

from collections.abc import Sequence

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recollect.plotting.settings import SCREEN_DPI
from recollect.plotting.sheet import figures_by
from recollect.reports.pictures import PictureRequest, Source


def draw(request: PictureRequest, sources: Sequence[Source]) -> list[Axes]:
    """The panels of a picture; what cannot be drawn leaves no figure behind."""
    made: list[Figure] = []

    def make(figsize: tuple[float, float]) -> Figure:
        made.append(pyplot.figure(figsize=figsize, dpi=SCREEN_DPI))
        return made[-1]

    try:
        with figures_by(make):
            return request.draw(*sources).axes
    except BaseException:
        for figure in made:
            pyplot.close(figure)
        raise
