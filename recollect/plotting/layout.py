"""Where panels stand in a figure: matplotlib's constrained layout, the same at every call."""

from typing import Any

from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.transforms import Bbox

# Of the figure's size: far below what is seen, far above the solver's noise.
DIGITS = 6


class SteadyLayout(ConstrainedLayoutEngine):
    """Constrained layout with rounded positions: its solver adds up in an order that depends on
    where objects lie in memory, and the last bits would end up in PDF and SVG files.
    """

    def execute(self, fig: Figure) -> Any:
        solution = super().execute(fig)
        for ax in fig.axes:
            if ax.get_subplotspec() is not None and ax.get_in_layout():
                ax.set_position(Bbox(ax.get_position(original=True).get_points().round(DIGITS)))
                ax.set_in_layout(True)  # which set_position took it out of
        return solution
