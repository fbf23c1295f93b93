"""Pictures for notebooks: made through pyplot, which shows them."""

from collections.abc import Sequence

from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from recollect.plotting.settings import SCREEN_DPI
from recollect.plotting.sheet import figures_by
from recollect.reports.pictures import PictureRequest, Source


def draw(request: PictureRequest, sources: Sequence[Source]) -> list[Axes]:
    """Draw a picture and return its panels; if drawing fails, no figure is left behind."""
    # The figure is made here and not inside the context with this package's matplotlib settings:
    # pyplot may become interactive with its first figure, and that has to persist, otherwise a
    # notebook would show no second one.
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
