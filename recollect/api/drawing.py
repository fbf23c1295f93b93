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
    # Made here, not where matplotlib's settings are ours for a while: with its first figure pyplot
    # may become interactive, and that has to last, or a notebook would show no second one.
    figure = pyplot.figure(dpi=SCREEN_DPI)

    def make(figsize: tuple[float, float]) -> Figure:
        figure.set_size_inches(figsize)
        return figure

    try:
        with figures_by(make):
            return request.draw(*sources).axes
    except BaseException:
        pyplot.close(figure)
        raise
