"""Panel positions in a figure: matplotlib's constrained layout, made reproducible."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

# Digits of a position in fractions of the figure's size: far finer than what is visible, far
# coarser than the solver's noise.
DIGITS = 6


class SteadyLayout(ConstrainedLayoutEngine):
    """Constrained layout with rounded positions. Its solver adds up in an order that depends on
    memory addresses, and the last bits would end up in PDF and SVG files.
    """

    def execute(self, fig: Figure) -> Any:
        solution = super().execute(fig)
        for ax in fig.axes:
            if ax.get_subplotspec() is not None and ax.get_in_layout():
                ax.set_position(Bbox(ax.get_position(original=True).get_points().round(DIGITS)))
                ax.set_in_layout(True)  # set_position has taken it out of the layout
        return solution
